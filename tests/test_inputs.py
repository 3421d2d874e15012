"""What users bring: containers, types, missing values, offsets, lengths."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from scipy import sparse

from fpt import own_task
from fpt.tasks.own import examples
from fpt.tasks.own.arrays import labels, targets
from fpt.tasks.own.inputs import read_inputs

DRAW = np.random.default_rng(0)
V = DRAW.normal(size=(12, 5, 3))
IDS = DRAW.integers(0, 9, (12, 5))
TABLE = pd.DataFrame(IDS)
GAPS = TABLE.astype("Int64").mask(TABLE == 3)
PADDED = np.where(np.arange(5)[:, None] < 3, V, np.nan)
RAGGED = [row[: 2 + index % 4] for index, row in enumerate(V)]
# More data of every kind are read by scikit-learn's own checks (test_estimator.py).
any_numbers = pytest.mark.filterwarnings("ignore:Most columns of X vary far less:UserWarning")


@pytest.mark.parametrize("data", [IDS, IDS.tolist(), torch.tensor(IDS), TABLE.astype("Int64")])
def test_integers_are_symbols_in_any_container(data):
    read = read_inputs(data)
    assert read.kind == "token"
    assert np.array_equal(list(read), IDS)


@pytest.mark.parametrize("data", [V > 0, TABLE.astype("Float64"), torch.tensor(V), IDS[:, :, None]])
def test_other_numbers_are_vectors_in_any_container(data):
    read = read_inputs(data)
    assert read.kind == "vector"
    np.testing.assert_array_equal(read.tokens.ravel(), np.asarray(data, float).ravel())


@pytest.mark.parametrize("data", [RAGGED, pd.Series(RAGGED), [torch.tensor(row) for row in RAGGED]])
def test_lengths_differ_in_any_list(data):
    read = read_inputs(data)
    assert read.limits == {"kind": "vector", "dim": 3, "shortest": 2, "length": 5}
    assert read.lengths.tolist() == [len(row) for row in RAGGED]
    np.testing.assert_array_equal(read.tokens, np.concatenate(RAGGED))


# Of inputs: words of the sentence, and what it is about.
UNFIT = [
    ("NaN", np.where(V > 1, np.nan, V)),
    ("without padding", PADDED),
    ("infinity", np.where(V > 1, np.inf, V)),
    ("NAType", GAPS),
    ("masked", np.ma.masked_greater(V, 1)),
    ("masked", [np.array([1, 2]), np.ma.masked_equal([2, 1, 2], 2)]),
    ("fpt.Patches", np.zeros((4, 8, 8, 3))),
    ("X.swapaxes(1, 2)", V[:, :1]),
    ("list(text.encode())", ["ab", "c"]),
    ("Complex", V + 1j),
    ("datetime64", pd.DataFrame({"a": pd.date_range("2020", periods=4)})),
    ("Sparse", sparse.eye_array(4, format="csr")),
    ("Reshape your data", np.arange(4.0)),
    ("none of them empty", [[1, 2], []]),
    ("inhomogeneous", [[[1, 2], [3]], [[1, 2], [3]]]),
    ("list of arrays", pd.DataFrame({"a": list(V), "b": list(V)})),
    ("of one D", [np.zeros((2, 3)), np.zeros((3, 4))]),
    ("requires grad", torch.tensor(V, requires_grad=True)),
    ("0 or more", IDS - 1),
    ("below 1000000", IDS * 10**12),
]


@pytest.mark.parametrize(("words", "data"), UNFIT)
def test_unfit_data_are_one_sentence(words, data):
    refuses(lambda: read_inputs(data), words)


LABELS = [
    (pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
    (pd.Series([1, 2], dtype="Int64"), [1, 2]),
    ([0.0, 1.0], [0, 1]),
]


@pytest.mark.parametrize(("y", "expected"), LABELS)
def test_labels_are_read_from_any_container(y, expected):
    assert labels(y).tolist() == expected


UNFIT_NUMBERS = [
    ("missing", [0.0, np.nan]),
    ("missing", pd.Series([1, pd.NA], dtype="Int64")),
    ("missing", np.ma.masked_equal([1, 2], 2)),
    ("infinity", [0.0, np.inf]),
    ("(N,)", np.zeros((4, 3))),
    ("(N,)", None),
]
UNFIT_LABELS = [
    ("predicts numbers", [0.5, 1.0]),
    ("Complex", [1j, 2]),
    ("bytes values", [b"a", b"b"]),
    ("mixed", ["a", 1]),
    ("missing", ["a", None]),
    ("missing", ["a", np.nan]),
    ("inhomogeneous", [[0, 1], [1]]),
]


@pytest.mark.parametrize(("words", "y"), UNFIT_NUMBERS + UNFIT_LABELS)
def test_unfit_labels_are_one_sentence(words, y):
    refuses(lambda: labels(y), words)


@pytest.mark.parametrize(("words", "y"), [*UNFIT_NUMBERS, ("to float", ["a", "b"])])
def test_unfit_targets_are_one_sentence(words, y):
    refuses(lambda: targets(y), words)


ragged_ids = st.lists(
    st.lists(st.integers(0, 999_999), min_size=1, max_size=9), min_size=2, max_size=12
)


@any_numbers
@settings(max_examples=60, deadline=None)
@given(rows=ragged_ids)
def test_a_batch_has_the_given_sequences(rows):
    """Whatever their lengths: each row of a batch is its sequence, then 0, which is masked."""
    codes = np.arange(len(rows))[:, None]
    for form in (rows, [np.array(row)[:, None] / 7 + 1e9 for row in rows]):
        read = read_inputs(form)
        moments = read.moments()
        mean, scale = moments or (0, 1)
        splits = dict.fromkeys(("train", "valid", "test"), (read.prepared(moments), codes))
        task = examples.examples_task(splits, len(rows), read.limits["dim"])
        batch = task.examples("train", torch.arange(len(rows)).flip(0)[None], "cpu")
        for place, row in enumerate(reversed(range(len(rows)))):
            length = len(rows[row])
            values = batch.inputs[0, place].numpy()
            expected = (np.asarray(form[row], float) - mean) / scale
            np.testing.assert_allclose(values[:length], expected, atol=1e-5, rtol=1e-6)
            assert not values[length:].any()
            assert batch.targets[0, place] == row
            if batch.mask is None:
                assert len(values) == length
            else:
                assert batch.mask[0, place].sum() == length == batch.last[0, place] + 1


# A rare class may be missing from a random part, and scores then mean nothing.
def test_a_division_has_every_example_once_and_each_class_in_proportion():
    codes = np.repeat([0, 1], [54, 6])
    parts = [examples.hold_out(codes, 0.5, seed) for seed in (0, 1, 0)]
    for rows, held_out in parts:
        assert sorted([*rows, *held_out]) == list(range(60))
        assert codes[rows].sum() == 3
    first, second, again = (rows.tolist() for rows, _ in parts)
    assert first == again != second
    rows, held_out = examples.hold_out(codes, [1], 0)
    assert (len(rows), held_out.tolist()) == (59, [1])


@any_numbers
def test_a_task_is_known_by_its_content():
    """Not by the container or the type of the symbols: as before, to the last digit."""
    rows = [[index % 7, *range(index % 3)] for index in range(20)]
    forms = [rows, [np.array(row, np.uint16) for row in rows], pd.Series(rows)]
    digests = {own_task("ids", form, np.arange(20) % 2).digest() for form in forms}
    series = np.arange(120.0).reshape(20, 3, 2) ** 2
    digests.add(own_task("series", series, np.arange(20) % 2).digest())
    assert {digest[:16] for digest in digests} == {"0b1d2f10c25feb64", "4a4ed0a54ef0670a"}


def test_one_long_sequence_does_not_pad_all_others():
    X = [np.zeros((4000, 10)), *np.zeros((2000, 20, 10))]
    rows = dict.fromkeys(("train", "valid", "test"), np.arange(len(X)))
    tracemalloc.start()
    try:
        read = read_inputs(X)
        examples.divided_task((read, np.arange(len(X))[:, None] % 2), rows, 2, "long")
        assert tracemalloc.get_traced_memory()[1] < 10 * read.tokens.nbytes
    finally:
        tracemalloc.stop()
