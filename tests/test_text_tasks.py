"""Text as bytes: next bytes of books made here, GLUE of parquet files made here."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refuses
from samples import write_parquet

from fpt.analysis.summary import baselines
from fpt.tasks import get_task
from fpt.tasks.datasets import Dataset, load
from fpt.tasks.text import encode

SIZES = {"train": 6, "valid": 2, "test": 3}
FILES = {
    "train": "english-train-2.txt",
    "valid": "english-train-3.txt",
    "test": "english-valid.txt",
}


@pytest.fixture(autouse=True)
def folder(corpora, monkeypatch):
    monkeypatch.setattr("fpt.tasks.sources.DATA", corpora)
    return corpora


@pytest.mark.parametrize(
    ("length", "texts", "expected"),
    [
        (10, ["naïve"], "naïve"),
        (4, ["abcdef"], "abcd"),
        (4, [""], " "),
        (9, ["a\0b", "c"], "a b\0c"),
        # of a pair, each keeps its half, or what the other leaves
        (11, ["a" * 20, "bbb"], "aaaaaaa\0bbb"),
        (11, ["aaa", "b" * 20], "aaa\0bbbbbbb"),
        (11, ["a" * 20, "b" * 20], "aaaaa\0bbbbb"),
    ],
)
def test_a_text_is_its_bytes(length, texts, expected):
    assert encode(length, *texts).tobytes() == expected.encode()


# --------------------------------------------------------------------------------------- next byte


@pytest.fixture
def books(folder, monkeypatch):
    """Two books in each file, in words that no other file has; the text by split."""
    monkeypatch.setattr("fpt.tasks.text.ENGLISH_PASSAGES", SIZES)
    rng = np.random.default_rng(0)
    texts = {}
    for letter, (split, file) in zip("abc", FILES.items(), strict=True):
        words = [letter * length for length in rng.integers(1, 6, 800)]
        first, second = words[:500], words[500:]
        (folder / file).write_text(" ".join(first) + "\n<|endoftext|>\n" + "\n\n".join(second))
        texts[split] = " ".join(first) + "|" + " ".join(second)
    return texts


@pytest.mark.parametrize("split", SIZES)
def test_the_answer_at_each_position_is_the_next_byte(books, split):
    """Each split is of other files of the corpus."""
    task = get_task("english")
    (batch,) = task.eval_batches(split, 10, "cpu")
    assert batch.inputs.shape == (1, SIZES[split], 128)
    assert torch.equal(batch.inputs[..., 1:], batch.targets[..., :-1])
    rows = torch.cat([batch.inputs[0, :, :1], batch.targets[0]], 1).tolist()
    passages = {bytes(row).decode() for row in rows}
    assert len(passages) == SIZES[split] == task.sizes[split]
    assert all(passage in books[split] for passage in passages)
    first = {books[split][129 * i : 129 * i + 129] for i in range(SIZES[split])}
    assert passages != first  # they are drawn
    example = task.example(split, 0)
    assert f"{example.text}{example.answer}" in passages


def test_trivial_baselines_of_the_next_byte():
    def passage(text):
        return np.frombuffer(text.encode(), np.uint8).reshape(1, 129).copy()

    arrays = {
        "train_text": passage(("ababac" * 22)[:129]),
        "test_text": passage("a" * 65 + "b" * 64),
    }
    dataset = Dataset("letters-v1", {}, lambda: arrays)
    task = replace(get_task("english"), dataset=dataset, sizes={"train": 1, "test": 1})
    # Half of the training bytes are a; b is the commonest after a, and a after b and c.
    assert task.measure_floors() == {"majority": 64 / 128, "byte before": 1 / 128}


def test_too_short_a_corpus_is_refused(books, folder):
    (folder / FILES["valid"]).write_text("short " * 30)
    refuses(
        get_task("english").digest,
        "1 passages of 129 bytes",
        "in english-train-3.txt and",
        "are needed",
    )


# -------------------------------------------------------------------------------------------- GLUE

TABLES = {
    "cola": {"sentence": [f"Sentence {i} stand." for i in range(600)], "label": [0, 1] * 300},
    "mrpc": {
        "sentence1": [f"One {i}" for i in range(400)],
        "sentence2": [f"Another {i} ü" for i in range(400)],
        "label": [1, 1, 0, 1] * 100,
    },
    "rte": {
        "sentence1": [f"Who is {i}?" for i in range(300)],
        "sentence2": ["He is " + "x" * (i % 700) for i in range(300, 600)],
        "label": [0, 1] * 150,
    },
}
COMMIT = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
DRAWN = {  # the labels of the first validation examples, on which committed records were chosen
    "cola": "001001001110110111111011",
    "mrpc": "111111111110010110111111",
    "rte": "110010001100101011001110",
}


@pytest.fixture
def hub(folder, monkeypatch):
    """Parquet files with GLUE's columns in place of the hub's."""

    def download(repo, file, **options):
        assert (repo, options["repo_type"]) == ("nyu-mll/glue", "dataset")
        assert len(options["revision"]) == 40
        return str(folder / "snapshots" / options["revision"] / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    for name, columns in TABLES.items():
        for split, count in (("train", None), ("validation", 9)):
            rows = {key: values[:count] for key, values in columns.items()}
            file = f"{name}/{split}-00000-of-00001.parquet"
            write_parquet(folder / "snapshots" / COMMIT / file, rows)


def glue(name):
    task = get_task("glue", subset=name)
    held_out = task.sizes["valid"]
    count = len(TABLES[name]["label"])
    return replace(task, sizes={"train": count - held_out, "valid": held_out, "test": 9})


@pytest.mark.parametrize("name", TABLES)
def test_glue_is_read_from_the_files_of_the_hub(hub, name):
    task = glue(name)
    arrays = load(task.dataset)
    *columns, labels = TABLES[name].values()
    assert {split: len(arrays[f"{split}_labels"]) for split in task.sizes} == task.sizes
    assert arrays["test_labels"].tolist() == labels[:9]
    assert "".join(map(str, arrays["valid_labels"][:24].tolist())) == DRAWN[name]
    rows = [" | ".join(texts) for texts in zip(*columns, strict=True)]
    example = task.example("test", 4)
    assert (example.text, example.answer) == (rows[4], task.names[labels[4]])
    if name != "rte":  # whose long sentences are cut
        splits = [(split, i) for split in ("train", "valid") for i in range(task.sizes[split])]
        assert {task.example(*place).text for place in splits} == set(rows)


@pytest.mark.parametrize(
    ("name", "options", "source", "sentence"),
    [
        ("english", {}, "a corpus", ["'english-train-2.txt'", "FPT_CORPORA"]),
        ("glue", {"subset": "mrpc"}, "the hub", ["mrpc/", "nyu-mll/glue", "HF_HUB_CACHE"]),
    ],
)
def test_without_the_data_there_is_one_sentence(name, options, source, sentence):
    """Baselines are no reason to fetch data; training is."""
    task = get_task(name, **options)
    assert (task.needs, task.here) == (source, False)
    refuses(task.floors, f"`fpt data {name}` takes them from {source}")
    assert baselines(task) == {}
    refuses(lambda: task.train_batch([0], 0, 4, "cpu"), *sentence)
