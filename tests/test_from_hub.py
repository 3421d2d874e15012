"""Corpora from data sets on the hub: files made here stand for what is downloaded."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fpt.__main__ import main
from fpt.pretraining.corpora import open_stream
from fpt.pretraining.ensure import make_plan
from fpt.pretraining.streams import split, text_named
from fpt.tasks.sources import documents

ROWS = [f"Story {n}.\n\nIt has two parts and  {n} words.\n" for n in range(100)]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of a data set; FPT_CORPORA is a folder that is not there yet."""
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path / "prepared")
    monkeypatch.setattr("fpt.tasks.sources.DATA", tmp_path)  # its lock file
    pq.write_table(pa.table({"story": ROWS, "n": range(100)}), tmp_path / "train.parquet")
    (tmp_path / "plain.txt").write_text("\n".join(f"line {n}" for n in range(60)))

    def download(repo: str, file: str, repo_type: str, revision: str) -> str:
        if (repo, repo_type, revision) != ("somebody/stories", "dataset", "v1"):
            raise OSError("no such data set")
        return str(tmp_path / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    return tmp_path


def take(*words: str, repo: str = "somebody/stories") -> int:
    return main(["corpus", words[0], repo, *words[1:], "--revision", "v1", "--column", "story"])


def test_rows_of_a_table_become_documents(hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert take("stories", "train.parquet") == 0
    assert capsys.readouterr().out.strip() == str(hub / "corpora" / "stories.txt")
    train, valid = split(text_named("stories"))
    found = [*train, *valid]
    assert sorted(found) == sorted(ROWS)
    stream = open_stream("stories", 10_000)
    assert stream.tokenizer is not None
    assert stream.tokenizer.decode(stream.train[:40].tolist()).startswith("Story 0.\n\nIt has")
    assert make_plan("stories@5k", "nano").name == "nano-stories@5k-0"


def test_a_corpus_of_lines_gets_lines(hub: Path) -> None:
    assert take("kannada", "train.parquet") == 0
    found = list(documents(("kannada.txt",), by_line=True))
    assert found == [" ".join(row.split()) for row in ROWS]


def test_a_text_is_taken_as_it_is(hub: Path) -> None:
    assert take("plain", "plain.txt") == 0
    assert (hub / "corpora/plain.txt").read_bytes() == (hub / "plain.txt").read_bytes()


@pytest.mark.parametrize(
    ("words", "repo", "problem"),
    [
        (("stories", "train.csv"), "somebody/stories", "train.csv is no text"),
        (("a+b", "plain.txt"), "somebody/stories", "'a+b' is no name for a corpus"),
        (("stories", "plain.txt"), "nobody/nothing", "nobody/nothing (revision v1) is neither"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(
    words: tuple[str, ...], repo: str, problem: str, hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert take(*words, repo=repo) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1
    assert not (hub / "corpora").exists()


def test_a_text_that_is_there_stays(hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert take("plain", "plain.txt") == 0
    assert take("plain", "train.parquet") == 2
    assert "is there already" in capsys.readouterr().err
    assert (hub / "corpora/plain.txt").read_bytes() == (hub / "plain.txt").read_bytes()


@pytest.mark.parametrize(
    "name", ["english", "english-bytes", "uniform", "images", "mnist", "shapes"]
)
def test_a_name_that_would_not_be_read(
    name: str, hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert take(name, "train.parquet") == 2
    assert f"{name!r} is the name of another corpus" in capsys.readouterr().err
    assert not (hub / "corpora").exists()
