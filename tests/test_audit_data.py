"""What `fpt.audit` reads, how it divides it, and what it refuses."""

import json
import math
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, LeaveOneGroupOut, ShuffleSplit, TimeSeriesSplit
from test_audit import SMALL, X, Y, rng

import fpt
from fpt import FptError
from fpt.__main__ import main
from fpt.auditing import baselines, data, engine, folds, plan


def test_groups_and_given_folds_are_kept():
    groups = np.repeat(np.arange(40), 4)
    examples = data.read_examples(X, Y, groups, "auto")
    for cv in (4, np.int64(4)):
        for fold in folds.folds_of(examples, cv, 0.2, 0):
            members = [set(groups[rows]) for rows in fold.rows.values()]
            assert len(set().union(*members)) == sum(map(len, members))
    training, test = np.arange(120), np.arange(120, 160)
    is_test = np.arange(160) >= 120
    rare = np.where(np.arange(160) == 3, "once", Y)  # which cannot be in every part
    examples = data.read_examples(X, rare, None, "auto")
    for pair in (
        (training, test),
        (training.tolist(), tuple(test)),
        (range(120), pd.Series(test)),
        (~is_test, is_test.tolist()),
    ):
        (fold,) = folds.folds_of(examples, [pair], 0.2, 0)
        assert (fold.rows["test"] == test).all()
        assert set(fold.rows["train"]) | set(fold.rows["valid"]) == set(training)


def test_sorted_groups_give_validation_examples_of_all_classes():
    y = np.repeat([0, 1, 2], 1000)
    examples = data.read_examples(np.zeros((3000, 2, 1)), y, np.repeat(np.arange(150), 20), "auto")
    (fold,) = folds.folds_of(examples, None, 0.15, 0)
    first = fold.targets("valid")[: plan.EVALUATED]
    assert np.bincount(first, minlength=3).min() > 50


def test_a_splitter_without_a_seed_gives_the_same_folds_again():
    examples = data.read_examples(X, Y, None, "auto")
    splitter = ShuffleSplit(2)
    first, again = (folds.folds_of(examples, splitter, 0.2, 7) for _ in range(2))
    for fold, same in zip(first, again, strict=True):
        assert (fold.rows["test"] == same.rows["test"]).all()
    assert splitter.random_state is None


def test_folds_of_unequal_sizes_have_one_mean(tmp_path):
    """The score, its interval and the page are over all test examples."""
    sites = np.repeat([0, 1, 2], [100, 56, 4])
    inputs = X.copy()
    inputs[sites == 2] *= -1
    audit = fpt.audit(inputs, Y, groups=sites, cv=LeaveOneGroupOut(), folder=tmp_path, **SMALL)
    assert (audit.table["low"] <= audit.table["score"]).all()
    assert (audit.table["score"] <= audit.table["high"]).all()
    rates = set(audit.facts["rates"])
    assert set(audit.table["lr"].dropna()) <= rates
    assert (audit.facts["test"], audit.facts["independent"]) == (160, 3)
    page = audit.to_html(tmp_path / "audit.html").read_text()
    assert "160 test examples in 3 groups" in page


def test_a_regression_is_scored_by_r_squared(tmp_path):
    """A constant answer has 0 and a ridge model that of scikit-learn, for skewed targets."""
    skewed = np.exp(2 * X[:, :, 0].mean(1) + 0.1 * rng.normal(size=len(X)))
    split = [(np.arange(100), np.arange(100, 160))]
    audit = fpt.audit(X, skewed, cv=split, folder=tmp_path, **SMALL)
    assert audit.facts["guess"] == 0.0
    examples = data.read_examples(X, skewed, None, "auto")
    (fold,) = folds.folds_of(examples, split, folds.VALIDATION_SHARE, 0)
    train = fold.rows["train"]
    errors = 1 - np.array(baselines.linear(fold, math.inf)["correct"])
    constant = (skewed[100:] - skewed[train].mean()) ** 2 / skewed[train].var()
    expected = 1 - errors.mean() / constant.mean()
    assert audit.table.loc["linear", "score"] == pytest.approx(expected, rel=1e-4)
    assert "R²" in audit.to_html(tmp_path / "audit.html").read_text()


def test_a_large_vocabulary_costs_a_linear_model_only_what_the_data_have():
    symbols = np.random.default_rng(0).integers(0, 50_000, (200, 64))
    symbols[:, 0] = np.arange(200) % 2
    examples = data.read_examples(symbols, np.arange(200) % 2, None, "auto")
    (fold,) = folds.folds_of(examples, None, 0.15, 0)
    assert np.mean(baselines.linear(fold, math.inf)["correct"]) == 1.0


def test_a_linear_model_that_is_late_tries_no_further_penalty(monkeypatch):
    examples = data.read_examples(X, Y, None, "auto")
    (fold,) = folds.folds_of(examples, None, 0.15, 0)
    tried = []
    fit = baselines.LogisticRegression.fit
    monkeypatch.setattr(
        baselines.LogisticRegression,
        "fit",
        lambda model, *data: tried.append(model) or fit(model, *data),
    )
    baselines.linear(fold, time.monotonic())
    assert len(tried) == 1


def test_flat_tokens_are_those_of_the_sequences():
    symbols = [np.array([2, 0, 1]), np.array([1])] * 20
    examples = data.read_examples(symbols, np.arange(40) % 2, None, "auto")
    (fold,) = folds.folds_of(examples, None, 0.2, 0)
    flat = fold.flat("train").toarray()
    for row, number in zip(flat, fold.rows["train"], strict=True):
        expected = np.zeros((3, 3))
        expected[np.arange(len(symbols[number])), symbols[number]] = 1
        assert (row == expected.ravel()).all()


def test_random_convolutions_are_fitted_if_a_library_is_there(tmp_path, monkeypatch):
    """By a stand-in for aeon, whose MiniRocket gives the mean of each channel."""
    package = tmp_path / "aeon" / "transformations" / "collection"
    package.mkdir(parents=True)
    (package / "convolution_based.py").write_text(
        "class MiniRocket:\n"
        "    def __init__(self, n_kernels, random_state): pass\n"
        "    def fit_transform(self, X): return X.mean(2)\n"
        "    transform = fit_transform\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    series = np.random.default_rng(0).normal(size=(200, 12, 2))
    examples = data.read_examples(series, series[:, :, 1].sum(1) > 0, None, "auto")
    (fold,) = folds.folds_of(examples, None, 0.2, 0)
    assert baselines.has_convolutions(fold)
    assert np.mean(baselines.convolutions(fold, math.inf)["correct"]) > 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.array(["one"] * 160)}, "one class"),
        ({"y": np.tile(Y[:, None], 4)}, r"y should be \(N,\)"),
        ({"groups": np.arange(160) % 4}, "All test examples are of one group"),
        ({"cv": [([*range(80)] * 2, [*range(80, 160)])]}, "trains on a row twice"),
        ({"groups": [1, 2]}, r"groups should be \(160,\)"),
        ({"cv": "many"}, "folds cannot be made"),
        ({"cv": [(range(100), [160])]}, "folds cannot be made: index 160 is out of bounds"),
        ({"cv": [(range(100), [0.5])]}, "folds cannot be made"),
        ({"draws": 2}, "audit.draws: expected a whole number from 3 to 6, found 2"),
        ({"steps": 0}, "audit.steps: expected a whole number"),
        ({"minutes": "ten"}, "audit.minutes: expected a number"),
        ({"task": "ranking"}, "task: 'ranking' is not known"),
        ({"X": X[:10], "y": Y[:10]}, "at least 20 examples"),
        ({"y": np.arange(160)}, "160 classes for 160 examples"),
        ({"y": np.arange(160) // 3}, "54 different whole numbers.*task='regression'"),
        ({"y": (np.arange(160) // 3).astype(str)}, None),
        ({"y": np.arange(160) // 3, "task": "classification"}, None),
        ({"groups": [math.nan, *range(159)]}, "groups contains NaN"),
        ({"groups": np.repeat(np.arange(40), 4), "cv": KFold(3)}, "a group among its training"),
        ({"groups": np.arange(160)[:, None]}, None),
        ({"cv": [(range(160), range(120, 160))]}, "tests rows that it trains on"),
        ({"cv": []}, "cv gives no folds"),
        ({"cv": [(range(150), [])]}, "no test examples"),
        ({"cv": [([], range(150))]}, "no training examples"),
        ({"y": np.arange(160) >= 120, "cv": TimeSeriesSplit(3)}, "fold 1 have one answer"),
        ({"y": np.full(160, 0.5)}, "fold 1 have one answer"),
        (
            {"y": np.repeat([0.5, 1.5, 2.5], [130, 15, 15]), "cv": [(range(130, 160), range(130))]},
            "test examples",
        ),
        ({"y": np.where(np.arange(160) == 3, np.inf, 0.5)}, "NaN, infinity"),
        ({"workers": -1}, "audit.workers: expected a whole number from 1"),
        ({"random_state": 2**32}, "audit.random_state: expected a whole number"),
    ],
)
def test_wrong_data_are_one_sentence(changes, message, monkeypatch):
    """No message: the data are read."""

    class Read(Exception):
        """The audit would train now."""

    def begin(*_):
        raise Read

    monkeypatch.setattr(engine, "planned_sizes", begin)
    with pytest.raises(FptError if message else Read, match=message):
        fpt.audit(**{"X": X, "y": Y, **SMALL, **changes})


def test_a_table_is_audited_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FPT_ROOT", str(tmp_path))
    table = pd.DataFrame(X[:, :, 0], columns=["north", "east", "south", "west"])
    table = (10 * table).round().astype(int)  # whole numbers would be symbols
    table.assign(answer=Y).to_csv(tmp_path / "winds.csv", index=False)
    command = ["audit", str(tmp_path / "winds.csv"), "--target", "answer", "--backbone", "nano@1"]
    page, numbers = tmp_path / "audit.html", tmp_path / "audit.json"
    command += ["--numbers", "--steps=4", "--draws=3", f"--html={page}", f"--json={numbers}"]
    assert main(command) == 0
    content = json.loads(numbers.read_text())
    assert content["facts"]["examples"] == len(Y)
    assert content["facts"]["inputs"] == "sequences of 4 vectors of 1 number"
    said = capsys.readouterr()
    assert content["verdict"] in said.out
    assert "X was taken for sequences of 4 vectors of 1 number" in said.err
    assert f"y for {len(set(Y))} classes" in said.err
    assert content["verdict"].capitalize() in page.read_text()
    assert main(["audit", str(tmp_path / "missing.csv")]) == 2


def test_arrays_are_read_from_a_file(tmp_path):
    path = tmp_path / "series.npz"
    np.savez(path, X=X, y=Y, groups=np.arange(len(Y)))
    inputs, answers, groups = data.read_file(path, "")
    assert (inputs == X).all()
    assert (answers == Y).all()
    assert len(groups) == len(Y)
    # Groups under another name would be divided between training and test.
    np.savez(path, X=X, y=Y, group=np.arange(len(Y)))
    with pytest.raises(FptError, match=r"it holds X, y, group\."):
        data.read_file(path, "")
    np.savez(path, X=X, labels=Y)
    np.savez_compressed(tmp_path / "damaged.npz", X=X, y=Y)
    content = bytearray((tmp_path / "damaged.npz").read_bytes())
    content[200:400] = bytes(200)
    one_array = tmp_path / "one.npy"
    np.save(one_array, X)
    for bad, bytes_of, words in (
        (tmp_path / "damaged.NPZ", content, "cannot be read"),
        (tmp_path / "empty.npz", b"", "cannot be read"),
        (tmp_path / "renamed.npz", one_array.read_bytes(), "cannot be read"),
        (one_array, one_array.read_bytes(), "np.savez"),
    ):
        bad.write_bytes(bytes_of)
        with pytest.raises(FptError, match=words):
            data.read_file(bad, "")
    with pytest.raises(FptError, match=r"series.npz should hold .* it holds X, labels\."):
        data.read_file(path, "")


def test_a_table_with_its_index_is_refused(tmp_path):
    """The order of the rows would be a predictor."""
    path = tmp_path / "table.csv"
    pd.DataFrame({"north": X[:, 0, 0], "answer": Y}).to_csv(path)
    with pytest.raises(FptError, match="index=False"):
        data.read_file(path, "answer")
    with pytest.raises(FptError, match="'target' is not known.*Unnamed: 0, north, answer"):
        data.read_file(path, "target")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age;target\n1;up\n2;down\n", "separate columns by commas"),
        ("age,city,target\n1,Bonn,up\n2,Ulm,down\n", "column 'city' .* string values"),
        ("age,size,target\n1,2,up\n,3,down\n", "column 'age' .* first in example 1"),
    ],
)
def test_what_is_wrong_with_a_table_names_the_column(text, words, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(text)
    with pytest.raises(FptError, match=words):
        data.read_file(path, "target")


def test_a_date_is_no_number():
    frame = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=20), "age": 1.5, "y": Y[0]})
    with pytest.raises(FptError, match="column 'day' .* datetime64 values"):
        fpt.own_task("days", frame, "y")


@pytest.mark.parametrize(
    ("units", "is_warned"), [((1, 10_000, 3), True), ((1, 5, 3), False), ((1, 0, 0), False)]
)
def test_a_table_of_columns_in_very_different_units_is_warned_of(units, is_warned):
    """All numbers of a sequence share one mean and deviation."""
    table = rng.normal(size=(30, 3)) * units
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data.read_examples(table, np.arange(30) % 2, None, "auto")
        # A vector's numbers have a mean and deviation each.
        data.read_examples(np.stack([table] * 2, 1), np.arange(30) % 2, None, "auto")
    assert len(caught) == is_warned


def test_a_name_of_a_column_stands_once(tmp_path):
    """pandas would call the second one target.1, and the label would be a predictor."""
    path = tmp_path / "joined.csv"
    path.write_text("target,north,target\n" + "up,1,up\ndown,2,down\n" * 20)
    with pytest.raises(FptError, match="two columns 'target'"):
        data.read_file(path, "target")
    frame = pd.DataFrame([["up", 1, "up"]] * 20, columns=["target", "north", "target"])
    with pytest.raises(FptError, match="two columns 'target'"):
        fpt.own_task("joined", frame, "target")
