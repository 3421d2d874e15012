"""`FrozenTransformer`: the pipeline's numbers, scikit-learn's conventions, wrong input."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator

from fpt import FptError, FrozenTransformer, FrozenTransformerRegressor, Patches
from fpt.records import Store
from fpt.tasks import REGISTRY
from fpt.tasks.own import examples as data
from fpt.tasks.own.arrays import InputError
from fpt.training.train import Job, train

SMALL = {"backbone": "pico", "init": "random", "steps": 20, "eval_every": 10}
QUICK = SMALL | {"steps": 2, "eval_every": 2}
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(60, 5, 3)).astype(np.float32)
Y = np.where(X[:, :, 0].mean(1) > 0, "up", "down")
IDS = DRAW.integers(0, 7, (60, 5))


@pytest.fixture(scope="module")
def fitted():
    return FrozenTransformer(**SMALL).fit(X, Y)


def test_a_fit_is_the_pipelines_run_to_the_bit(tmp_path, monkeypatch):
    tasks = []
    examples_task = data.examples_task
    monkeypatch.setattr(
        data, "examples_task", lambda *a, **k: tasks.append(examples_task(*a, **k)) or tasks[0]
    )
    ours = FrozenTransformer(trainable=("input", "output", "layernorm"), dropout=0.1, steps=20)
    ours.fit(X, Y)
    monkeypatch.setitem(REGISTRY, "examples", lambda: tasks[0])
    monkeypatch.setattr("fpt.tasks.TASKS", (*REGISTRY,))
    spec = ours.fitted_.spec
    job = Job(Store(tmp_path / "lab" / "records"), {spec.key}, "cpu", cache=tmp_path)
    (record,) = train([spec], job)
    assert job.store.parameters(record) == ours.fitted_.parameters
    assert list(ours.learning_curve_["valid_loss"]) == [
        point["valid_loss"] for point in record.curve
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [FrozenTransformer, FrozenTransformerRegressor])
def test_scikit_learns_checks_pass(kind):
    small = kind(backbone="pico", init="random", lr=0.01, steps=24, eval_every=12)
    checks = check_estimator(small, on_fail=None, on_skip=None)
    assert len(checks) > 40
    failed = {check["check_name"] for check in checks if check["status"] != "passed"}
    assert failed <= {
        "check_array_api_input",  # only if SciPy is told to use other array libraries
        "check_regressors_train",  # needs more steps, as below
        "check_methods_subset_invariance",  # to 1e-7; sums in float32 depend on the batch
    }


def test_what_is_saved_is_loaded(fitted, tmp_path):
    fitted.save(tmp_path)
    with pytest.raises(FptError, match="load it with the class that saved it"):
        FrozenTransformerRegressor.load(tmp_path)
    again = FrozenTransformer.load(tmp_path)
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    assert again.get_params() == fitted.get_params()
    pd.testing.assert_frame_equal(again.learning_curve_, fitted.learning_curve_)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 300_000
    # A seal that leaves the parameters out would look the same.
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        path.write_bytes(content.replace(b"weight", b"height"))
        with pytest.raises(FptError, match="holds no complete estimator"):
            FrozenTransformer.load(tmp_path)
        path.write_bytes(content)


@pytest.mark.parametrize(
    "names",
    [
        [b"up", b"d\xffwn"],
        [3, 5],
        [False, True],
        ["up", "dówn"],
        [0.0, 1.0],
        np.array([5, 2**63 + 11], np.uint64),
        np.array([1, 2], np.int8),
    ],
)
def test_labels_of_every_type_are_saved(names, tmp_path):
    y = np.asarray(names)[np.arange(60) % 2]
    model = FrozenTransformer(**QUICK).fit(X, y)
    model.save(tmp_path)
    again = FrozenTransformer.load(tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    assert (again.predict(X) == model.predict(X)).all()
    assert again.score(X, y) == model.score(X, y)


def test_labels_that_cannot_be_equal_have_no_score(fitted):
    with pytest.raises(InputError, match="as in the fit"):
        fitted.score(X, np.arange(len(X)) % 2)


def test_any_seed_that_is_allowed_fits():
    for seed in (2**40, 2**63 - 1):
        model = FrozenTransformer(**QUICK, random_state=seed)
        assert model.fit(X, Y).predict(X).shape == Y.shape


def test_a_frame_of_sequences_is_fitted_and_predicted():
    frame = pd.DataFrame({"series": list(X[:, :, 0])})
    model = FrozenTransformer(**QUICK).fit(frame, Y)
    as_series = FrozenTransformer(**QUICK).fit(frame["series"], Y)
    assert (model.predict_proba(frame) == as_series.predict_proba(frame["series"])).all()


def test_other_weights_are_noticed(tmp_path, monkeypatch):
    FrozenTransformer(steps=2).fit(X, Y).save(tmp_path)
    monkeypatch.setattr("fpt.estimator.fitted.digest", lambda path: "other")
    with pytest.raises(FptError, match="was trained on are missing .* holds others"):
        FrozenTransformer.load(tmp_path)


def test_new_sequences_may_be_longer_up_to_the_backbones_positions(fitted):
    """The answer is at the last token, so a longer sequence is read to its end."""
    long = np.concatenate([X[:6]] * 3, 1)
    predicted = fitted.predict_proba(long)
    last = long.copy()
    last[:, -1] += 1
    assert not np.allclose(fitted.predict_proba(last), predicted)
    assert fitted.predict(np.zeros((2, 1024, 3))).shape == (2,)
    with pytest.raises(InputError, match="1025 tokens.* at most 1024"):
        fitted.predict(np.zeros((2, 1025, 3)))


# Else a prediction for a longer sequence depends on which validation set a fit had.
def test_a_position_that_no_example_trained_is_the_backbones_own():
    """A longer validation set makes those rows part of the run; a prediction fills them in."""
    groups = ("input", "output", "positions")
    long = np.concatenate([X, X], 1)
    runs = []
    for held_out in (X, long):
        model = FrozenTransformer(**{**SMALL, "eval_every": 20}, trainable=groups, dropout=0.0)
        runs.append(model.fit(X, Y, validation=(held_out, Y)))
        assert model.inputs_ == "sequences of 5 vectors of 3 numbers"  # X, whatever is held out
    assert len(runs[0].fitted_.parameters) < len(runs[1].fitted_.parameters)
    assert (runs[0].predict_proba(long) == runs[1].predict_proba(long)).all()


def test_unknown_symbols_are_alike():
    """Between, above, or beyond those of the training examples: all are the mean of the known."""
    model = FrozenTransformer(**SMALL).fit(IDS * 2, Y, validation=(IDS * 2 + 1, Y))
    assert model.symbols_.tolist() == [0, 2, 4, 6, 8, 10, 12]
    predicted = []
    for symbol in (3, 13, 999_999):
        new = IDS * 2
        new[:, 2] = symbol
        predicted.append(model.predict_proba(new))
    assert np.ptp(predicted, axis=0).max() == 0
    assert not np.allclose(predicted[0], model.predict_proba(IDS * 2))


@pytest.mark.filterwarnings("ignore:Most columns of X vary far less:UserWarning")  # any numbers
@settings(max_examples=10, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.integers(0, 999_999), min_size=1, max_size=30), min_size=1, max_size=4
    )
)
def test_any_sequences_of_symbols_are_predicted(rows):
    predicted = symbolic().predict_proba(rows)
    np.testing.assert_allclose(predicted.sum(1), 1, rtol=1e-5)
    assert len(predicted) == len(rows)
    alone = np.concatenate([symbolic().predict_proba([row]) for row in rows])
    np.testing.assert_allclose(predicted, alone, rtol=1e-3, atol=1e-5)


@cache
def symbolic():
    return FrozenTransformer(**SMALL).fit(
        [row[: 1 + index % 5] for index, row in enumerate(IDS)], Y
    )


@pytest.mark.parametrize("fitted_on", [np.asarray, list, np.ndarray.tolist])
def test_a_table_and_a_list_of_its_rows_are_treated_alike(fitted_on):
    """Whichever was fitted, the number of columns stays."""
    rows = X[:, :, 0]
    model = FrozenTransformer(**SMALL).fit(fitted_on(rows), Y)
    for columns in (4, 6):
        new = np.zeros((2, columns))
        for form in (new, list(new), new.tolist(), new[..., None], pd.DataFrame(new)):
            with pytest.raises(ValueError, match=f"{columns} (features|vectors).* 5"):
                model.predict(form)
    for form in (rows, list(rows), rows.tolist(), rows[..., None]):
        assert (model.predict_proba(form) == model.predict_proba(rows)).all()


@pytest.mark.parametrize("fitted_on", [np.asarray, list, np.ndarray.tolist])
def test_series_of_one_number_a_token_may_be_longer(fitted_on):
    model = FrozenTransformer(**SMALL).fit(fitted_on(X[:, :, :1]), Y)
    new = np.zeros((2, 6, 1))
    for form in (new, list(new), new.tolist()):
        assert model.predict(form).shape == (2,)


def test_whole_numbers_are_numbers_where_the_fit_had_numbers():
    model = FrozenTransformer(**SMALL).fit(X[:, :, 0], Y)
    signs = np.sign(X[:, :, 0])
    assert (model.predict_proba(signs.astype(int)) == model.predict_proba(signs)).all()


# A rare class may be missing from a random part, and scores then mean nothing.
def test_classes_are_held_out_in_proportion_by_the_random_state():
    """The training examples are known by `moments_`, the mean of a column."""
    rare = np.where(np.arange(60) < 6, 1.0, 0.0)
    columns = np.stack([rare, np.arange(60.0) ** 2], 1)
    tokens = np.repeat(columns[:, None], 2, axis=1)
    shares, places = [], []
    for seed in (0, 1, 2, 0):
        model = FrozenTransformer(**QUICK, random_state=seed)
        mean, _ = model.fit(tokens, rare.astype(int), validation=0.5).moments_
        shares.append(mean[0])
        places.append(mean[1])
    assert shares == pytest.approx([0.1] * 4)
    assert len({*places}) == 3
    assert places[0] == places[3]


# Statistics of the held-out examples would leak into training.
def test_held_out_examples_do_not_standardise():
    tokens = np.repeat(2.0 ** np.arange(40)[:, None, None], 2, axis=1)
    model = FrozenTransformer(**QUICK).fit(tokens, np.arange(40) % 2)
    total = round(model.moments_[0][0] * 36)
    assert total.bit_count() == 36  # a power of 2 for each of 36 training examples, and no other
    with_own_validation = FrozenTransformer(**QUICK)
    with_own_validation.fit(X, Y, validation=(X + 1000, Y))
    np.testing.assert_allclose(with_own_validation.moments_[0], X.mean((0, 1)), rtol=1e-5)


def test_there_may_be_an_answer_per_token():
    """Of a sequence of any length; causal, so an answer depends on what came before."""
    pairs = IDS[:, :2]
    before = np.roll(pairs, 1, axis=1) % 2
    model = FrozenTransformer(**SMALL).fit(pairs, before)
    right = (model.predict(pairs) == before).mean()
    assert model.score(pairs, before) == pytest.approx(right)
    unpadded = model.predict_proba(pairs)
    for new, length in ((pairs[:, :1], 1), (np.concatenate([pairs, pairs], 1), 2)):
        predicted = model.predict_proba(new)[:, :length]
        np.testing.assert_allclose(predicted, unpadded[:, :length], rtol=1e-4)
    with pytest.raises(InputError, match="equal length"):
        model.predict([[1], [1, 2]])


def test_a_regression_learns_a_sum_in_any_unit():
    y = 1e6 + 1e4 * X[:, :, 0].sum(1)
    model = FrozenTransformerRegressor(backbone="pico", init="random", steps=200, lr=0.01)
    assert model.fit(X, y).score(X, y) > 0.5


def test_held_out_targets_do_not_set_the_unit_of_a_regression():
    y = X[:, :, 0].sum(1)
    model = FrozenTransformerRegressor(backbone="pico", init="random", steps=1)
    model.fit(X[:50], y[:50], validation=(X[50:], 1e3 * y[50:]))
    assert model.target_ == pytest.approx((y[:50].mean(), y[:50].std()))


WRONG = {
    "NaN": (np.where(X > 2, np.nan, X), Y, {}),
    "has one class": (X, np.zeros(60, int), {}),
    "X has 60 examples and y has 59": (X, Y[:59], {}),
    "cannot be held out": (X[:2], Y[[0, 1]], {"validation": 0.9}),
    "a pair": (X, Y, {"validation": (X, Y, Y)}),
    "label 'left'": (X, Y, {"validation": (X[:2], np.array(["up", "left"]))}),
    "the fit had sequences of 5 symbols": (IDS, Y, {"validation": (X, Y)}),
    "5 answers each, but 1": (IDS, IDS % 2, {"validation": (IDS, IDS[:, 0] % 2)}),
    "at most 1024": (np.zeros((4, 2000, 1)), Y[:4], {}),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_examples_are_one_sentence(sentence):
    examples, labels, more = WRONG[sentence]
    with pytest.raises((ValueError, FptError), match=sentence):
        FrozenTransformer(**SMALL).fit(examples, labels, **more)


@pytest.mark.parametrize("new", [X[:, :, :2], IDS, X * 1e37])
def test_wrong_new_examples_are_refused(fitted, new):
    with pytest.raises(ValueError, match="vectors of 2|symbols|not finite"):
        fitted.predict(new)


NO_GROUPS = {"backbone": "last-token-pico", "trainable": ("positions", "layernorm")}


@pytest.mark.parametrize(
    "setting", [{"backbone": "nan0"}, {"trainable": ()}, {"lr": -1}, NO_GROUPS]
)
def test_wrong_settings_are_refused(setting):
    with pytest.raises(FptError, match=r"no backbone|expected a|'layernorm' is not known"):
        FrozenTransformer(**SMALL | setting).fit(X, Y)


QUICK = {**SMALL, "steps": 2, "eval_every": 2}


def test_a_regressor_reads_numbers_alike_in_fit_and_score():
    numbers = X[:, :, 0].mean(1)
    model = FrozenTransformerRegressor(**QUICK).fit(X, numbers)
    assert model.score(X, torch.tensor(numbers, requires_grad=True)) == model.score(X, numbers)
    with pytest.raises(InputError, match="missing value"):
        model.score(X, np.ma.masked_less(numbers, 0.0))


def test_large_labels_of_another_integer_type_stay_apart():
    """As floats, in which NumPy compares both types, they are equal."""
    labels = np.array([2**60, 2**60 + 1], np.uint64)[np.arange(60) % 2]
    one_type, two_types = (
        FrozenTransformer(**QUICK).fit(X, labels, validation=(X, labels.astype(kind)))
        for kind in (np.uint64, np.int64)
    )
    pd.testing.assert_frame_equal(one_type.learning_curve_, two_types.learning_curve_)


def test_the_last_attention_is_a_row_of_its_own(tmp_path):
    """Of two layers."""
    trained = FrozenTransformer(**QUICK, trainable=("last-attention",)).fit(X, Y)
    table = trained.trainable_parameters()
    assert list(table.index[table["trained"]]) == ["last-attention"]
    assert table.loc["last-attention", "parameters"] == table.loc["attention", "parameters"]


class OneRate(FrozenTransformer):
    def __init__(self, lr=0.01):
        super().__init__(**QUICK, lr=lr)


def test_a_subclass_may_fix_parameters(tmp_path):
    model = OneRate().fit(X, Y)
    model.save(tmp_path)
    assert (OneRate.load(tmp_path).predict_proba(X) == model.predict_proba(X)).all()


def test_images_are_cut_into_squares_row_by_row():
    pixels = np.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    corners = [(y, x) for y in (0, 2) for x in (0, 2, 4)]
    squares = [pixels[:, y : y + 2, x : x + 2].reshape(2, 12) for y, x in corners]
    assert (Patches(2).transform(pixels) == np.stack(squares, 1)).all()
    # No images have no patches.
    assert Patches(4).transform(np.empty((0, 8, 8, 3))).shape == (0, 4, 48)
