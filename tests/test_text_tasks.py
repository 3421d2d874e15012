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
FILES = ("english-train-2.txt", "english-train-3.txt", "english-valid.txt")


@pytest.fixture(autouse=True)
def folder(corpora):
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


def test_the_answer_at_each_position_is_the_next_byte(folder, monkeypatch):
    """Each split is of other files of the corpus, here of two books in words that no other has."""
    monkeypatch.setattr("fpt.tasks.text.ENGLISH_PASSAGES", SIZES)
    rng = np.random.default_rng(0)
    task = get_task("english")
    books = {}
    for letter, split, file in zip("abc", SIZES, FILES, strict=True):
        words = [letter * length for length in rng.integers(1, 6, 800)]
        books[split] = " ".join(words)
        (folder / file).write_text(books[split])
    for split, book in books.items():
        (batch,) = task.eval_batches(split, 10, "cpu")
        assert batch.inputs.shape == (1, SIZES[split], 128)
        assert torch.equal(batch.inputs[..., 1:], batch.targets[..., :-1])
        rows = torch.cat([batch.inputs[0, :, :1], batch.targets[0]], 1).tolist()
        passages = {bytes(row).decode() for row in rows}
        assert len(passages) == SIZES[split]
        assert all(passage in book for passage in passages)
        assert passages != {book[129 * i : 129 * i + 129] for i in range(SIZES[split])}  # drawn


def test_trivial_baselines_of_the_next_byte():
    texts = {"train_text": ("ababac" * 22)[:129], "test_text": "a" * 65 + "b" * 64}
    arrays = {name: np.array([list(text.encode())], np.uint8) for name, text in texts.items()}
    dataset = Dataset("letters-v1", {}, lambda: arrays)
    task = replace(get_task("english"), dataset=dataset, sizes={"train": 1, "test": 1})
    # Half of the training bytes are a; b is the commonest after a, and a after b and c.
    assert task.measure_floors() == {"majority": 64 / 128, "byte before": 1 / 128}


# -------------------------------------------------------------------------------------------- GLUE

COMMIT = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
TABLES = {
    "cola": {"sentence": [f"Sentence {i} stand." for i in range(600)], "label": [0, 1] * 300},
    "mrpc": {
        "sentence1": [f"One {i}" for i in range(400)],
        "sentence2": [f"Another {i} ü" for i in range(400)],
        "label": [1, 1, 0, 1] * 100,
    },
}
# The labels of the first validation examples, on which committed records were chosen.
DRAWN = {"cola": "001001001110110111111011", "mrpc": "111111111110010110111111"}


@pytest.mark.parametrize("name", TABLES)
def test_glue_is_read_from_the_files_of_the_hub(name, folder, monkeypatch):
    def download(repo, file, **options):
        assert (repo, options["repo_type"]) == ("nyu-mll/glue", "dataset")
        return str(folder / "snapshots" / options["revision"] / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    for split, count in (("train", None), ("validation", 9)):
        file = f"snapshots/{COMMIT}/{name}/{split}-00000-of-00001.parquet"
        rows = {key: values[:count] for key, values in TABLES[name].items()}
        write_parquet(folder / file, rows)
    *columns, labels = TABLES[name].values()
    task = get_task("glue", subset=name)
    count = task.sizes["valid"]
    task = replace(task, sizes={"train": len(labels) - count, "valid": count, "test": 9})
    arrays = load(task.dataset)
    assert {split: len(arrays[f"{split}_labels"]) for split in task.sizes} == task.sizes
    assert "".join(map(str, arrays["valid_labels"][:24].tolist())) == DRAWN[name]
    example = task.example("test", 4)
    assert example.text == " | ".join(texts[4] for texts in columns)
    assert example.answer == task.names[labels[4]]


@pytest.mark.parametrize(
    ("name", "source", "sentence"),
    [
        ("english", "a corpus", ["'english-train-2.txt'", "FPT_CORPORA"]),
        ("glue", "the hub", ["sst2/", "nyu-mll/glue", "HF_HUB_CACHE"]),
    ],
)
def test_without_the_data_there_is_one_sentence(name, source, sentence):
    """Baselines are no reason to fetch data; training is."""
    task = get_task(name)
    assert (task.needs, task.here) == (source, False)
    refuses(task.floors, f"`fpt data {name}` takes them from {source}")
    assert baselines(task) == {}
    refuses(lambda: task.train_batch([0], 0, 4, "cpu"), *sentence)
