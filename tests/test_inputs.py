"""What users bring: containers, types, missing values, offsets, lengths, memory."""

import tracemalloc
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refusals import refuses
from scipy import sparse

from fpt import FrozenTransformer, own_task
from fpt.tasks.own import examples
from fpt.tasks.own.arrays import labels, targets
from fpt.tasks.own.inputs import read_inputs

DRAW = np.random.default_rng(0)
V = DRAW.normal(size=(12, 5, 3))
IDS = DRAW.integers(0, 9, (12, 5))
TABLE = pd.DataFrame(IDS, columns=list("abcde"))
GAPS = TABLE.astype("Int64").mask(TABLE == 3)
FAR_GAP = np.zeros((30, 400, 300))
FAR_GAP[17, 5, 3] = np.nan
RAGGED = [row[: 2 + index % 4] for index, row in enumerate(V)]


SYMBOLS = [IDS, IDS.tolist(), torch.tensor(IDS), TABLE.astype({"a": "Int64"})]
NUMBERS = [
    V > 0,
    TABLE.astype("Float64"),
    torch.tensor(V, requires_grad=True),
    torch.ones(4, 3, 2).bfloat16(),
]


@pytest.mark.parametrize("data", SYMBOLS)
def test_integers_are_symbols_in_any_container(data):
    read = read_inputs(data)
    assert read.kind == "token"
    assert np.array_equal(list(read.prepared()), IDS)


@pytest.mark.parametrize("data", NUMBERS)
def test_other_numbers_are_vectors_in_any_container(data):
    read = read_inputs(data)
    assert read.kind == "vector"
    values = read.prepared().tokens
    plain = data.detach().float().numpy() if isinstance(data, torch.Tensor) else data
    np.testing.assert_allclose(values, np.asarray(plain).astype(np.float32).reshape(values.shape))


LENGTHS_DIFFER = [
    pd.Series(RAGGED),
    [torch.tensor(row, requires_grad=True) for row in RAGGED],
    [row.tolist() for row in RAGGED],
    [list(torch.tensor(row, requires_grad=True)) for row in RAGGED],
]


@pytest.mark.parametrize("data", LENGTHS_DIFFER)
def test_lengths_differ_in_any_container(data):
    read = read_inputs(data)
    assert read.limits == {"kind": "vector", "dim": 3, "shortest": 2, "length": 5}
    prepared = read.prepared()
    assert np.diff(prepared.starts).tolist() == [len(row) for row in RAGGED]
    np.testing.assert_allclose(prepared.tokens, np.concatenate(RAGGED), rtol=1e-6)


@pytest.mark.parametrize("rows", [list(V), list(IDS), [V[0], V[1, :2]]])
def test_a_column_of_sequences_is_read_as_their_series(rows):
    """A cell of a frame, or of an array of objects, may hold a whole sequence."""
    series = pd.Series(rows)
    expected = read_inputs(series)
    for data in (series.to_frame("x"), series.to_numpy()[:, None]):
        read = read_inputs(data)
        assert read.limits == expected.limits
        np.testing.assert_array_equal(read.tokens, expected.tokens)


def test_cells_of_an_arrow_table_are_sequences():
    """They are arrays of arrays."""
    cells = pd.Series([None] * len(V))
    for row, sequence in enumerate(V):
        cells[row] = np.array([*sequence, None], object)[:-1]
    np.testing.assert_array_equal(list(read_inputs(cells)), V)
    cells[3] = np.array([V[3, 0], V[3, 1, :2]], object)
    refuses(lambda: read_inputs(cells), "rows of different lengths")


def test_symbols_of_different_integer_types_stay_symbols():
    rows = [np.array([1, 2], np.uint64), np.array([1, 2, 3], np.int64)]
    assert read_inputs(rows).kind == "token"


# Of inputs: a word of the sentence, and what it is about.
UNFIT = [
    ("NaN", np.where(V > 1, np.nan, V)),
    ("NaN", V * 1e39),
    ("NaN", GAPS),
    ("NaN", np.ma.masked_greater(V, 1)),
    ("example 1", [[1, 2], [pd.NA, 3]]),
    ("example 2", [np.array([1, 2]), [1, 2, 3], np.ma.masked_equal([2, 1, 2], 2)]),
    ("NaN", [[np.ma.masked_equal([1, 2], 2)] * 3] * 4),
    ("example 17", FAR_GAP),
    ("fpt.Patches", np.zeros((4, 8, 8, 3))),
    ("bytes", ["ab", "c"]),
    ("two real numbers", V + 1j),
    ("should hold numbers", pd.DataFrame({"a": pd.date_range("2020", periods=4)})),
    ("Sparse", sparse.eye_array(4, format="csr")),
    ("Reshape your data", np.arange(4.0)),
    ("none empty", [[1, 2], []]),
    ("sequences in 2 columns", pd.DataFrame({"a": list(V), "b": list(V)})),
    ("one D", [np.zeros((2, 3)), np.zeros((3, 4))]),
    ("0 or more", IDS - 1),
    ("below 1000000", IDS * 10**12),
]


@pytest.mark.parametrize(("word", "data"), UNFIT)
def test_unfit_data_are_one_sentence(word, data):
    refuses(lambda: read_inputs(data), word)


LABELS = [
    (pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
    ([0.0, 1.0], [0, 1]),
    (np.array(["a", "b"], np.dtypes.StringDType()), ["a", "b"]),
    (list(torch.ones(2, requires_grad=True)), [1, 1]),
]


@pytest.mark.parametrize(("y", "expected"), LABELS)
def test_labels_are_read_from_any_container(y, expected):
    assert labels(y).tolist() == expected


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(UserWarning, match="column-vector"):
        assert labels(pd.DataFrame({"y": [1, 2]})).tolist() == [1, 2]


UNFIT_NUMBERS = [
    ("missing", [0.0, np.nan]),
    ("missing", pd.Series([1, pd.NA], dtype="Int64")),
    ("missing", np.ma.masked_equal([1, 2], 2)),
    ("missing", [np.ma.masked_equal([1, 2], 2)] * 2),  # NumPy drops these masks
    ("infinity", [0.0, np.inf]),
]
UNFIT_LABELS = [
    ("continuous", [0.5, 1.0]),
    ("Unknown label type", [1j, 2]),
    ("different lengths", [[0, 1], [1]]),
    ("one answer per token", np.zeros((2, 3, 2), int)),
    ("requires y", None),
    ("cannot tell apart", [-1, 2**63, 2**63 + 1]),
]


@pytest.mark.parametrize(("word", "y"), UNFIT_NUMBERS + UNFIT_LABELS)
def test_unfit_labels_are_one_sentence(word, y):
    refuses(lambda: labels(y), word)


@pytest.mark.parametrize(("word", "y"), UNFIT_NUMBERS)
def test_unfit_targets_are_one_sentence(word, y):
    refuses(lambda: targets(y), word)


# ------------------------------------------------------------------------------------- standardised


@pytest.mark.parametrize(
    ("dtype", "offset"),
    [
        (np.float64, -1e9),
        (np.float64, 1e30),
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
    prepared = read.prepared(read.chosen(np.arange(50)).moments())
    np.testing.assert_allclose(prepared.tokens, exact.reshape(-1, 3).astype(float), atol=1e-5)


@pytest.mark.parametrize("data", [V + 1e6, [row + 1e6 for row in RAGGED]])
def test_moments_are_those_of_all_tokens(data):
    """Padding does not count."""
    tokens = np.concatenate(list(data))
    mean, scale = read_inputs(data).chosen(np.arange(12)).moments()
    np.testing.assert_allclose(mean, tokens.mean(0), rtol=1e-12)
    np.testing.assert_allclose(scale, tokens.std(0))


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 + 0.1])
def test_a_constant_column_becomes_zero(constant):
    X = np.stack([DRAW.normal(size=(3000, 40)), np.full((3000, 40), constant)], 2)
    X[::2, 0, 1] = np.nextafter(constant, np.inf)  # within the rounding
    read = read_inputs(X)
    moments = read.moments()
    assert moments[1][1] == 1
    column = read.prepared(moments).tokens[..., 1]
    assert np.abs(column).max() <= 1e-11 * max(1.0, abs(constant))


ragged_ids = st.lists(
    st.lists(st.integers(0, 999_999), min_size=1, max_size=9), min_size=2, max_size=12
)


@pytest.mark.filterwarnings("ignore:Most columns of X vary far less:UserWarning")  # any numbers
@settings(max_examples=60, deadline=None)
@given(rows=ragged_ids, offset=st.sampled_from([0.0, 1e9]), data=st.data())
def test_a_batch_has_the_given_sequences(rows, offset, data):
    """Whatever their lengths: each row of a batch is its sequence, then 0, which is masked."""
    for form in (rows, [np.array(row)[:, None] / 7 + offset for row in rows]):
        read = read_inputs(form)
        every_row = np.arange(len(rows))
        mean, scale = read.moments() if read.kind == "vector" else (0, 1)
        prepared = read.prepared((mean, scale) if read.kind == "vector" else None)
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


@pytest.mark.filterwarnings("ignore:Most columns of X vary far less:UserWarning")  # any numbers
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
    assert symbols == {*division.symbols.tolist()} == {*sequences.tokens.ravel().tolist()}


@pytest.mark.filterwarnings("ignore:Most columns of X vary far less:UserWarning")  # any numbers
@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=9), min_size=12))
def test_a_task_is_known_by_its_content(rows):
    """Not by the container or the type of the symbols."""
    y = np.arange(len(rows)) % 2
    forms = [rows, [np.array(row, np.uint16) for row in rows], pd.Series(rows)]
    assert len({own_task("ids", form, y).digest() for form in forms}) == 1


@contextmanager
def traced_memory():
    """A function of the most bytes so far. Tracing ends with the block, also if it fails."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_one_long_sequence_does_not_pad_all_others():
    X = [np.zeros((4000, 10)), *np.zeros((2000, 20, 10))]
    codes = np.arange(len(X))[:, None] % 2
    with traced_memory() as peak:
        division = examples.divided((read_inputs(X), codes), 0.1, 0)
        splits = {"train": division.train, "valid": division.valid, "test": division.valid}
        examples.examples_task(splits, 2, division.dim)
        assert peak() < 10 * sum(part.nbytes for part in X)


@pytest.mark.parametrize("lengths", [(20, 20), (4, 20)], ids=["equal", "different"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_standardising_all_sequences_needs_one_copy_of_them(lengths, dtype):
    data = [np.ones((lengths[index % 2], 50), dtype) for index in range(2000)]
    sequences = read_inputs(data)
    moments = sequences.moments()
    in_float64 = 8 * sequences.tokens.size
    with traced_memory() as peak:
        prepared = sequences.prepared(moments)
        assert peak() < 1.7 * in_float64  # one copy in float64, and the result in float32
    assert np.array_equal(
        prepared.tokens, sequences.chosen(np.arange(2000)).prepared(moments).tokens
    )


def test_columns_of_an_arrow_table_have_their_order():
    pa = pytest.importorskip("pyarrow")
    columns = dict(zip("abc", np.random.default_rng(0).normal(size=(3, 40)), strict=True))
    table = pa.table(columns)
    small = {"backbone": "pico", "init": "random", "steps": 2, "eval_every": 2}
    model = FrozenTransformer(**small).fit(table, np.arange(40) % 2)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    for names in (["c", "b", "a"], ["a", "b"]):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(table.select(names))


def test_tensors_are_read_or_refused_by_name():
    parts = [torch.ones(2, 3), torch.zeros(4, 3)]
    nested = read_inputs(torch.nested.nested_tensor(parts, layout=torch.jagged))
    assert [part.shape for part in nested] == [(2, 3), (4, 3)]
    negative = torch.complex(torch.zeros(4, 2, 3), torch.ones(4, 2, 3)).conj().imag
    assert (read_inputs(negative).tokens == -1).all()
    assert (read_inputs(torch.ones(4, 2, 3).to(torch.float8_e4m3fn)).tokens == 1).all()
    for tensor in (torch.ones(4, 2, 3).to_sparse(), torch.ones(4, 2, 3, device="meta")):
        refuses(lambda tensor=tensor: read_inputs(tensor), "give a dense tensor")


def test_a_masked_value_in_a_list_is_missing():
    refuses(lambda: read_inputs([[1, 2], [np.ma.masked, 3]]), "contains NaN")
