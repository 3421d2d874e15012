"""What `fpt.audit` reads, how it divides it, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest
from test_audit import X, Y

from fpt import FptError
from fpt.__main__ import main
from fpt.auditing.data import read_examples, read_file
from fpt.auditing.runs import estimated, flat


def test_groups_are_never_divided_and_evaluations_read_a_random_part():
    y = np.repeat([0, 1, 2], 1000)  # sorted, as in many files
    groups = np.repeat(np.arange(150), 20)
    symbols = np.stack([groups, np.arange(3000)], 1)  # which no task standardises
    examples = read_examples(symbols, y, groups)
    splits = examples.task.splits
    members = [{*part.tokens.reshape(-1, 2)[:, 0].tolist()} for part, _ in splits.values()]
    assert [*map(len, members)] == [96, 24, 30]
    assert len(set().union(*members)) == 150
    assert len(np.unique(examples.groups)) == 30
    assert np.bincount(splits["valid"][1][:100, 0], minlength=3).min() > 10


def test_the_rows_of_a_test_set_may_be_given():
    examples = read_examples(X, Y, test=range(120, 160))
    assert examples.task.splits["test"][1][:, 0].tolist() == (Y[120:] == "up").tolist()
    assert examples.task.sizes == {"train": 96, "valid": 24, "test": 40}


def test_flat_tokens_are_those_of_the_sequences():
    symbols = [np.array([2, 0, 1]), np.array([1])] * 20
    task = read_examples(symbols, np.arange(40) % 2).task
    expected = {1: [2, 0, 1], 0: [1, -1, -1]}
    for row, label in zip(*flat(task, "train"), strict=True):
        assert row.tolist() == expected[1 - label]


def test_a_linear_model_reads_symbols_of_a_large_vocabulary():
    symbols = np.random.default_rng(0).integers(0, 50_000, (200, 64))
    symbols[:, 0] = np.arange(200) % 2
    scores = dict(estimated(read_examples(symbols, np.arange(200) % 2), {}))
    assert scores["linear"].mean() == 1.0
    assert scores["trivial rule"].mean() < 0.8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.array(["one"] * 160)}, "y has 1 different values .* two classes or more"),
        ({"y": np.tile(Y[:, None], 4)}, "y should be a 1d array"),
        ({"y": Y[:100]}, "inconsistent numbers of samples"),
        ({"y": np.arange(160)}, "160 different values for 160 examples"),
        ({"y": np.arange(160) // 3}, "54 different values .*task='regression'"),
        ({"y": np.arange(160) // 3, "task": "regression"}, None),
        ({"y": (np.arange(160) // 8).astype(str)}, None),
        ({"y": [None, *Y[1:]]}, "missing values"),
        ({"y": np.where(np.arange(160) == 3, np.inf, 0.5), "task": "regression"}, "infinity"),
        ({"y": Y, "task": "regression"}, "could not convert"),
        ({"y": np.full(160, 0.5)}, "two answers or more"),
        ({"groups": np.arange(160) % 4}, "of whole groups, two or more"),
        ({"groups": np.arange(160) // 8, "test": range(100, 160)}, "of whole groups"),
        ({"groups": [1, 2]}, "inconsistent numbers of samples"),
        ({"groups": np.arange(160)[:, None]}, None),
        ({"test": [160]}, "out of bounds"),
        ({"task": "ranking"}, "task: 'ranking' is not known"),
    ],
)
def test_wrong_data_are_one_sentence(changes, message):
    """No message: the data are read."""
    if message is None:
        assert read_examples(**{"X": X, "y": Y, **changes})
        return
    with pytest.raises(FptError, match=message) as refusal:
        read_examples(**{"X": X, "y": Y, **changes})
    assert str(refusal.value).endswith(".")


def test_a_table_is_audited_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FPT_ROOT", str(tmp_path))
    monkeypatch.setattr("fpt.auditing.cores", lambda: 1)  # a pool takes long to begin
    table = pd.DataFrame(X[:, :, 0], columns=["north", "east", "south", "west"])
    table = (10 * table).round().astype(int)  # whole numbers would be symbols
    table.assign(answer=Y).to_csv(tmp_path / "winds.csv", index=False)
    command = ["audit", str(tmp_path / "winds.csv"), "--target", "answer", "--backbone", "nano@1"]
    page, numbers = tmp_path / "audit.html", tmp_path / "audit.json"
    command += ["--numbers", "--steps=4", "--draws=3", f"--html={page}", f"--json={numbers}"]
    assert main(command) == 0
    content = json.loads(numbers.read_text())
    assert "sequences of 4 vectors of 1 number" in content["facts"]["taken"]
    said = capsys.readouterr()
    assert content["verdict"] in said.out
    assert "X was taken for sequences of 4 vectors of 1 number, and y for 2 classes" in said.err
    assert content["verdict"] in page.read_text()
    assert main(["audit", str(tmp_path / "missing.csv")]) == 2


def test_arrays_are_read_from_a_file(tmp_path):
    path = tmp_path / "series.npz"
    np.savez(path, X=X, y=Y, groups=np.arange(len(Y)))
    inputs, answers, groups = read_file(path, "")
    assert (inputs == X).all()
    assert (answers == Y).all()
    assert len(groups) == len(Y)
    # Groups under another name would be divided between training and test.
    np.savez(path, X=X, y=Y, group=np.arange(len(Y)))
    with pytest.raises(FptError, match="holds X, y, group, not X, y and maybe groups"):
        read_file(path, "")
    path.write_bytes(b"")
    with pytest.raises(FptError, match="cannot be read"):
        read_file(path, "")
