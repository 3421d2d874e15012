"""Text as bytes: next bytes of books made here, GLUE of parquet files made here."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from refusals import check_said, refusal

from fpt.analysis.summary import baselines
from fpt.tasks import datasets as data
from fpt.tasks import get_task
from fpt.tasks import text as module
from fpt.tasks.datasets import Dataset, load
from fpt.tasks.text import encode

FEW = {"train": 6, "valid": 2, "test": 3}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Empty folders for prepared data, the manifest and corpora."""
    monkeypatch.setattr(data, "PREPARED", tmp_path / "prepared")
    monkeypatch.setattr(data, "DATA", tmp_path)
    monkeypatch.setattr("fpt.tasks.sources.DATA", tmp_path)
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("length", "texts", "expected"),
    [
        (10, ["naïve"], "naïve"),
        (4, ["abcdef"], "abcd"),
        (4, [""], " "),
        (9, ["a\0b", "c"], "a b\0c"),
        # of a pair, each keeps its half, or what the other leaves
        (11, ["aaa", "bbb"], "aaa\0bbb"),
        (11, ["a" * 20, "bbb"], "aaaaaaa\0bbb"),
        (11, ["aaa", "b" * 20], "aaa\0bbbbbbb"),
        (11, ["a" * 20, "b" * 20], "aaaaa\0bbbbb"),
        (11, ["aaaaaa", "bbbbbb"], "aaaaa\0bbbbb"),
    ],
)
def test_a_text_is_its_bytes(length, texts, expected):
    assert encode(length, *texts).tobytes() == expected.encode()


# --------------------------------------------------------------------------------------- next byte


@pytest.fixture
def books(folder, monkeypatch):
    """Two books in each file of the corpus, in words that no other file has; the text by split."""
    monkeypatch.setattr(module, "ENGLISH_PASSAGES", FEW)
    rng = np.random.default_rng(0)
    written = {}
    for file in (*(f"english-train-{part}.txt" for part in range(4)), "english-valid.txt"):
        letter = chr(97 + len(written))
        words = [letter * length for length in rng.integers(1, 6, 800)]
        parts = " ".join(words[:500]), "\n\n".join(words[500:])
        (folder / file).write_text("\n<|endoftext|>\n".join(parts))
        written[file] = " ".join(words[:500]) + "|" + " ".join(words[500:])
    files = ("english-train-2.txt", "english-train-3.txt", "english-valid.txt")
    return dict(zip(FEW, map(written.__getitem__, files), strict=True))


def test_the_answer_at_each_position_is_the_next_byte(books):
    """Each split is of other files of the corpus."""
    task = get_task("english")
    assert task.train_batch([0, 1], 0, 4, "cpu").inputs.shape == (2, 4, 128)
    for split, count in FEW.items():
        (batch,) = task.eval_batches(split, 10, "cpu")
        assert torch.equal(batch.inputs[..., 1:], batch.targets[..., :-1])
        rows = torch.cat([batch.inputs[0, :, :1], batch.targets[0]], 1).tolist()
        passages = {bytes(row).decode() for row in rows}
        assert len(passages) == count == task.sizes[split]
        assert all(passage in books[split] for passage in passages)
        assert passages != {books[split][129 * i : 129 * i + 129] for i in range(count)}  # drawn
        example = task.example(split, 0)
        assert f"{example.text}{example.answer}" in passages


def test_trivial_baselines_of_the_next_byte(monkeypatch):
    def passages(text):
        return np.frombuffer(text.encode(), np.uint8).reshape(-1, 129).copy()

    texts = {"train": passages(("ababac" * 22)[:129]), "test": passages("a" * 65 + "b" * 64)}
    arrays = {f"{split}_text": text for split, text in texts.items()}
    dataset = Dataset("letters-v1", {}, lambda: arrays)
    task = replace(get_task("english"), dataset=dataset, sizes={"train": 1, "test": 1})
    # Half of the training bytes are a; b is the commonest after a, and a after b and c.
    assert task.measure_floors() == {"majority": 64 / 128, "byte before": 1 / 128}


def test_too_short_a_corpus_is_refused(books, folder):
    (folder / "english-train-3.txt").write_text("short " * 30)
    said = refusal(get_task("english").digest)
    check_said(said, ["1 passages of 129 bytes", "in english-train-3.txt and", "are needed"])


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
}  # fmt: skip


DRAWN = {  # the labels of the first validation examples
    "cola": [0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1],
    "mrpc": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1],
    "rte": [1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0],
}


@pytest.fixture
def hub(folder, monkeypatch):
    """Parquet files with GLUE's columns in place of the hub's; returns their folder."""

    def download(repo, file, **where):
        assert (repo, where["repo_type"], len(where["revision"])) == ("nyu-mll/glue", "dataset", 40)
        return str(folder / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    for name, columns in TABLES.items():
        (folder / name).mkdir()
        for split, count in (("train", None), ("validation", 9)):
            rows = {key: values[:count] for key, values in columns.items()}
            rows["idx"] = list(range(len(rows["label"])))
            pq.write_table(pa.table(rows), folder / name / f"{split}-00000-of-00001.parquet")
    return folder


def glue(name):
    task = get_task("glue", subset=name)
    whole = len(TABLES[name]["label"])
    sizes = {"train": whole - task.sizes["valid"], "valid": task.sizes["valid"], "test": 9}
    return replace(task, sizes=sizes)


@pytest.mark.parametrize("name", TABLES)
def test_validation_examples_of_glue_are_drawn(hub, name):
    """And they are those that committed records were chosen on."""
    labels = load(glue(name).dataset)["valid_labels"].tolist()
    assert labels != TABLES[name]["label"][: len(labels)]
    assert labels[:24] == DRAWN[name]


@pytest.mark.parametrize("name", TABLES)
def test_glue_is_read_from_the_files_of_the_hub(hub, name):
    task, arrays = glue(name), load(glue(name).dataset)
    assert {split: len(arrays[f"{split}_labels"]) for split in task.sizes} == task.sizes
    assert arrays["test_labels"].tolist() == TABLES[name]["label"][:9]
    texts = [key for key in TABLES[name] if key != "label"]
    rows = list(zip(*(TABLES[name][key] for key in texts), strict=True))
    first = task.example("test", 4)
    assert first.text == " | ".join(map(str, rows[4]))
    assert first.answer == task.names[TABLES[name]["label"][4]]
    if name != "rte":  # whose long sentences are cut
        both = ((split, i) for split in ("train", "valid") for i in range(task.sizes[split]))
        seen = {task.example(*which).text for which in both}
        assert seen == {" | ".join(map(str, row)) for row in rows}
    (batch,) = task.eval_batches("test", 9, "cpu")
    assert torch.equal(batch.mask.sum(-1) - 1, batch.last)
    assert task.train_batch([0, 1], 0, 5, "cpu").inputs.shape[:2] == (2, 5)


def test_long_pairs_are_cut_and_keep_both_texts(hub):
    task = glue("rte")
    assert load(task.dataset)["train_starts"].diff().max() == task.length
    for index in range(task.sizes["train"]):
        tokens, _ = task.sequence("train", index)
        assert tokens.count(0) == 1
        assert bytes(tokens).startswith(b"Who is ")


@pytest.mark.parametrize(
    ("task", "options", "source", "sentence"),
    [
        ("english", {}, "a corpus", ["'english-train-2.txt'", "FPT_CORPORA"]),
        ("glue", {"subset": "mrpc"}, "the hub", ["mrpc/", "nyu-mll/glue", "HF_HUB_CACHE"]),
    ],
)
def test_without_the_data_there_is_one_sentence(task, options, source, sentence):
    """Baselines are no reason to fetch data; training is."""
    made = get_task(task, **options)
    assert (made.needs, made.here) == (source, False)
    check_said(refusal(made.floors), [f"`fpt data {task}` takes them from {source}"])
    assert baselines(made) == {}
    check_said(refusal(lambda: made.train_batch([0], 0, 4, "cpu")), sentence)
