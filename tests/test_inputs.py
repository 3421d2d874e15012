"""What users bring: containers, types, missing values, offsets, lengths, memory."""

import decimal
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
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
TABLE = pd.DataFrame(IDS, columns=list("abcde"))
GAPS = TABLE.astype("Int64").mask(TABLE == 3)
RAGGED = [row[: 2 + index % 4] for index, row in enumerate(V)]


def cases(table):
    """One case for each entry of a table, called by its name."""
    values = [case if isinstance(case, tuple) else (case,) for case in table.values()]
    return [pytest.param(*value, id=name) for name, value in zip(table, values, strict=True)]


SYMBOLS = {
    "array": IDS,
    "objects": IDS.astype(object),
    "one nullable column": TABLE.astype({"a": "Int64"}),
    "lists": IDS.tolist(),
    "tensor": torch.tensor(IDS),
    "masked": np.ma.masked_less(IDS, -1),
}
NUMBERS = {
    "float16": V.astype(np.float16),
    "Booleans": V > 0,
    "table": TABLE.astype(float),
    "nullable table": TABLE.astype("Float64"),
    "decimals": np.array([[decimal.Decimal(1)] * 3] * 4),
    "a gradient": torch.tensor(V, requires_grad=True),
    "bfloat16": torch.ones(4, 3, 2).bfloat16(),
}


@pytest.mark.parametrize("data", cases(SYMBOLS))
def test_integers_are_symbols_in_any_container(data):
    read = read_inputs(data)
    assert read.kind == "token"
    assert np.array_equal(read.prepared().values, IDS)


@pytest.mark.parametrize("data", cases(NUMBERS))
def test_other_numbers_are_vectors_in_any_container(data):
    read = read_inputs(data)
    assert read.kind == "vector"
    values = read.prepared().values
    plain = data.detach().float().numpy() if isinstance(data, torch.Tensor) else data
    np.testing.assert_allclose(values, np.asarray(plain).astype(np.float32).reshape(values.shape))


@pytest.mark.parametrize(
    "data",
    [
        tuple(RAGGED),
        pd.Series(RAGGED),
        [torch.tensor(row, requires_grad=True) for row in RAGGED],
        [pd.DataFrame(row) for row in RAGGED],
        [row.tolist() for row in RAGGED],
    ],
)
def test_lengths_differ_in_any_container(data):
    read = read_inputs(data)
    assert read.limits == {"kind": "vector", "dim": 3, "shortest": 2, "length": 5}
    prepared = read.prepared()
    assert np.diff(prepared.starts).tolist() == [len(row) for row in RAGGED]
    np.testing.assert_allclose(prepared.values, np.concatenate(RAGGED), rtol=1e-6)


MISSING = {
    "NaN": np.where(V > 1, np.nan, V),
    "infinity": np.where(V > 1, np.inf, V),
    "too large": V * 1e39,
    "None": np.where(V > 1, None, V.astype(object)),
    "nullable": GAPS,
    "masked": np.ma.masked_greater(V, 1),
    "NA in a list": [[1, 2], [3, pd.NA]],
    "NaN in a list": [V[0], V[1][:2] * np.nan],
}


@pytest.mark.parametrize("data", cases(MISSING))
def test_missing_values_are_one_sentence(data):
    refuses(lambda: read_inputs(data), "X contains NaN", "example")


def test_the_first_example_with_a_gap_is_named():
    gaps = np.zeros((30, 400, 300))
    gaps[17, 5, 3] = np.nan
    for data in (gaps, np.ma.masked_invalid(gaps)):
        refuses(lambda data=data: read_inputs(data), "example 17")


UNFIT = {
    "images": (np.zeros((4, 8, 8, 3)), "fpt.Patches"),
    "a list of images": ([np.zeros((8, 8, 3))] * 3, "fpt.Patches"),
    "text": (["ab", "c"], "bytes"),
    "a column of text": (pd.DataFrame({"a": ["x", "y"]}), "bytes"),
    "complex": (V + 1j, "two real numbers"),
    "dates": (pd.DataFrame({"a": pd.date_range("2020", periods=4)}), "should hold numbers"),
    "text among numbers": (np.array([["a", 1]] * 3, object), "mixes text"),
    "an object": (np.array([[{}, 1.0]] * 3, object), "neither a number nor text"),
    "sparse": (sparse.eye_array(4, format="csr"), "Sparse"),
    "records": (np.zeros(3, [("a", int)]), "should hold numbers"),
    "None": (None, "Reshape your data"),
    "one axis": (np.arange(4.0), "Reshape your data"),
    "nothing": ([], "Reshape your data"),
    "an empty sequence": ([[1, 2], []], "none empty"),
    "two widths": ([np.zeros((2, 3)), np.zeros((3, 4))], "one D"),
    "negative": (IDS - 1, "0 or more"),
    "huge": (IDS * 10**12, "below 1000000"),
}


@pytest.mark.parametrize(("data", "sentence"), cases(UNFIT))
def test_unfit_data_are_one_sentence(data, sentence):
    refuses(lambda: read_inputs(data), sentence)


LABELS = {
    "text": (["a", "b"], ["a", "b"]),
    "nullable text": (pd.Series(["a", "b"], dtype="string"), ["a", "b"]),
    "categories": (pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
    "Booleans": (pd.Series([True, False], dtype="boolean"), [True, False]),
    "integers as floats": ([0.0, 1.0], [0, 1]),
    "tensor": (torch.tensor([0, 1]), [0, 1]),
    "rows of text": ([np.array(["a", "b"]), np.array(["b", "c"])], [["a", "b"], ["b", "c"]]),
    "per token": ([[0, 1], [1, 0]], [[0, 1], [1, 0]]),
}


@pytest.mark.parametrize(("y", "expected"), cases(LABELS))
def test_labels_are_read_from_any_container(y, expected):
    assert labels(y).tolist() == expected


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(UserWarning, match="column-vector"):
        assert labels(pd.DataFrame({"y": [1, 2]})).tolist() == [1, 2]


UNFIT_NUMBERS = {
    "NaN": ([0.0, np.nan], "missing"),
    "None": (np.array(["a", None], object), "missing"),
    "nullable": (pd.Series([1, pd.NA], dtype="Int64"), "missing"),
    "nullable text": (pd.Series(["a", None], dtype="string"), "missing"),
    "masked": (np.ma.masked_equal([1, 2], 2), "missing"),
    "infinity": ([0.0, np.inf], "infinity"),
    "text among numbers": (["a", 1], "mixes text"),
}
UNFIT_LABELS = UNFIT_NUMBERS | {
    "continuous": ([0.5, 1.0], "continuous"),
    "continuous per token": ([[0.5, 1.0], [1.0, 2.0]], "continuous"),
    "dates": (pd.date_range("2020", periods=2), "Unknown label type"),
    "complex": ([1j, 2], "Unknown label type"),
    "lengths": ([[0, 1], [1]], "different lengths"),
    "three axes": (np.zeros((2, 3, 2), int), "one answer per token"),
    "nothing": (None, "requires y"),
}


@pytest.mark.parametrize(("y", "sentence"), cases(UNFIT_LABELS))
def test_unfit_labels_are_one_sentence(y, sentence):
    refuses(lambda: labels(y), sentence)


@pytest.mark.parametrize(("y", "sentence"), cases(UNFIT_NUMBERS))
def test_unfit_targets_are_one_sentence(y, sentence):
    refuses(lambda: targets(y), sentence)


# ------------------------------------------------------------------------------------- standardised


@pytest.mark.parametrize(
    ("dtype", "offset"),
    [
        (np.float64, 0),
        (np.float64, -1e9),
        (np.float64, 1e30),
        (np.float32, 0),
        (np.float16, 0),
        (np.int64, 1e9),
    ],
)
def test_an_offset_is_taken_away_in_float64(dtype, offset):
    size = max(1.0, abs(offset) / 1e12) * 100
    X = (DRAW.normal(size=(50, 4, 3)) * size + offset).astype(dtype)
    exact = X.astype(np.longdouble)
    exact = (exact - exact.mean((0, 1))) / exact.std((0, 1))
    read = read_inputs(X)
    prepared = read.prepared(None, read.moments(np.arange(50)))
    np.testing.assert_allclose(prepared.values, exact.astype(float), atol=1e-5)


@pytest.mark.parametrize("data", [V + 1e6, [row + 1e6 for row in RAGGED]])
def test_moments_are_those_of_all_tokens(data):
    """Padding does not count."""
    tokens = np.concatenate(list(data))
    mean, scale = read_inputs(data).moments(np.arange(12))
    np.testing.assert_allclose(mean, tokens.mean(0), rtol=1e-12)
    np.testing.assert_allclose(scale, tokens.std(0))


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 + 0.1])
def test_a_constant_column_becomes_zero(constant):
    X = np.stack([DRAW.normal(size=(3000, 40)), np.full((3000, 40), constant)], 2)
    X[::2, 0, 1] = np.nextafter(constant, np.inf)  # within the rounding
    read = read_inputs(X)
    moments = read.moments(np.arange(3000))
    assert moments[1][1] == 1
    column = read.prepared(None, moments).values[..., 1]
    assert np.abs(column).max() <= 1e-11 * max(1.0, abs(constant))


ragged_ids = st.lists(
    st.lists(st.integers(0, 999_999), min_size=1, max_size=9), min_size=2, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(rows=ragged_ids, offset=st.sampled_from([0.0, 1e9]), data=st.data())
def test_a_batch_has_the_given_sequences(rows, offset, data):
    """Whatever their lengths: each row of a batch is its sequence, then 0, which is masked."""
    for form in (rows, [np.array(row)[:, None] / 7 + offset for row in rows]):
        read = read_inputs(form)
        every_row = np.arange(len(rows))
        mean, scale = read.moments(every_row) if read.kind == "vector" else (0, 1)
        prepared = read.prepared(None, (mean, scale) if read.kind == "vector" else None)
        splits = dict.fromkeys(("train", "valid", "test"), (prepared, every_row[:, None]))
        task = examples.examples_task(splits, len(rows), read.limits["dim"])
        chosen = data.draw(st.lists(st.sampled_from(range(len(rows))), min_size=1, max_size=5))
        batch = task.examples("train", torch.tensor([chosen]), "cpu")
        assert batch.targets[0, :, 0].tolist() == chosen
        for place, row in enumerate(chosen):
            length = len(rows[row])
            values = batch.inputs[0, place].numpy()
            expected = (np.asarray(form[row], float) - mean) / scale
            np.testing.assert_allclose(values[:length], expected, atol=1e-5, rtol=1e-6)
            assert not values[length:].any()
            if batch.mask is None:
                assert len(values) == length
            else:
                assert batch.mask[0, place].sum() == length == batch.last[0, place] + 1


@settings(max_examples=60, deadline=None)
@given(rows=ragged_ids, seed=st.integers(0, 99), share=st.floats(0.1, 0.9))
def test_a_division_has_every_example_once(rows, seed, share):
    """And the symbols that training has seen are those of the training examples."""
    assume(round(share * len(rows)) < len(rows))
    codes = np.arange(len(rows))[:, None]
    division = examples.divided((read_inputs(rows), codes), share, seed)
    (sequences, trained), (_, held_out) = division.train, division.valid
    assert sorted([*trained[:, 0], *held_out[:, 0]]) == list(range(len(rows)))
    symbols = {symbol for row in trained[:, 0] for symbol in rows[row]}
    assert symbols == {*division.symbols.tolist()} == {*sequences.values.ravel().tolist()}


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=9), min_size=12))
def test_a_task_is_known_by_its_content(rows):
    """Not by the container or the type of the symbols."""
    y = np.arange(len(rows)) % 2
    forms = [rows, [np.array(row, np.uint16) for row in rows], pd.Series(rows)]
    assert len({own_task("ids", form, y).digest() for form in forms}) == 1


def test_one_long_sequence_does_not_pad_all_others():
    X = [np.zeros((4000, 10)), *np.zeros((2000, 20, 10))]
    codes = np.arange(len(X))[:, None] % 2
    tracemalloc.start()
    division = examples.divided((read_inputs(X), codes), 0.1, 0)
    splits = {"train": division.train, "valid": division.valid, "test": division.valid}
    examples.examples_task(splits, 2, division.limits["dim"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * sum(part.nbytes for part in X)


def test_no_array_is_changed_or_warned_of():
    X = V.copy()
    X.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = read_inputs(X)
        read.prepared(None, read.moments(np.arange(12)))
    assert np.array_equal(X, V)
