"""`FrozenTransformer`: the pipeline's numbers, scikit-learn's conventions, wrong input."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from fpt import FptError, FrozenTransformer, FrozenTransformerRegressor
from fpt.records import Store
from fpt.tasks import REGISTRY
from fpt.tasks.own import examples as data
from fpt.tasks.own.arrays import InputError
from fpt.training.train import Job, train

SMALL: dict[str, Any] = {"backbone": "pico", "init": "random", "steps": 20, "eval_every": 10}
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(60, 5, 3)).astype(np.float32)
Y = np.where(X[:, :, 0].mean(1) > 0, "up", "down")
IDS = DRAW.integers(0, 7, (60, 5))


@pytest.fixture(scope="module")
def fitted() -> FrozenTransformer:
    return FrozenTransformer(**SMALL).fit(X, Y)


def test_a_fit_is_the_pipelines_run_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_scikit_learns_checks_pass(kind: type[FrozenTransformer]) -> None:
    small = kind(backbone="pico", init="random", lr=0.01, steps=24, eval_every=12)
    checks = check_estimator(small, on_fail=None, on_skip=None)
    assert len(checks) > 40
    failed = {check["check_name"] for check in checks if check["status"] != "passed"}
    assert failed <= {
        "check_array_api_input",  # only if SciPy is told to use other array libraries
        "check_regressors_train",  # needs more steps: see test_a_regression_learns_a_sum
        "check_methods_subset_invariance",  # to 1e-7; sums in float32 depend on the batch
    }


def test_what_is_saved_is_loaded(fitted: FrozenTransformer, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    again = FrozenTransformer.load(tmp_path)
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    assert again.get_params() == fitted.get_params()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 300_000
    described = tmp_path / "estimator.json"
    described.write_text(described.read_text().replace("down", "left"))
    with pytest.raises(FptError, match="holds no whole estimator"):
        FrozenTransformer.load(tmp_path)


def test_other_weights_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FrozenTransformer(steps=2).fit(X, Y).save(tmp_path)
    monkeypatch.setattr("fpt.estimator.fitted.digest", lambda path: "other")
    with pytest.raises(FptError, match="are not those that"):
        FrozenTransformer.load(tmp_path)


def test_sequences_of_different_lengths_are_padded(fitted: FrozenTransformer) -> None:
    ragged = [row[: 2 + index % 4] for index, row in enumerate(X)]
    model = FrozenTransformer(**SMALL).fit(np.array(ragged, dtype=object), Y)
    alone = np.concatenate([model.predict_proba([row, row[:1]])[:1] for row in ragged[:4]])
    np.testing.assert_allclose(model.predict_proba(ragged)[:4], alone, rtol=1e-4)
    unpadded = fitted.predict_proba(X[:4])
    padded = fitted.predict_proba([*X[:4], X[0][:1]])[:4]
    np.testing.assert_allclose(padded, unpadded, rtol=1e-4)


def test_new_sequences_may_be_longer_up_to_the_backbones_positions(
    fitted: FrozenTransformer,
) -> None:
    """The answer is at the last token, so a longer sequence is read to its end."""
    long = np.concatenate([X[:6]] * 3, 1)
    predicted = fitted.predict_proba(long)
    assert np.isfinite(predicted).all()
    ragged = fitted.predict_proba(
        [row[:length] for row, length in zip(long, range(10, 16), strict=True)]
    )
    np.testing.assert_allclose(ragged[-1], predicted[-1], rtol=1e-4)
    last = long.copy()
    last[:, -1] += 1
    assert not np.allclose(fitted.predict_proba(last), predicted)
    assert fitted.predict(np.zeros((2, 1024, 3))).shape == (2,)
    with pytest.raises(InputError, match="1025 tokens.* at most 1024"):
        fitted.predict(np.zeros((2, 1025, 3)))


def test_a_position_that_no_example_trained_is_the_backbones_own() -> None:
    """A longer validation set makes those rows part of the run; a prediction fills them in."""
    groups = ("input", "output", "positions")
    long = np.concatenate([X, X], 1)
    runs = []
    for held_out in (X, long):
        model = FrozenTransformer(**{**SMALL, "eval_every": 20}, trainable=groups, dropout=0.0)
        runs.append(model.fit(X, Y, validation=(held_out, Y)))
    assert len(runs[0].fitted_.parameters) < len(runs[1].fitted_.parameters)
    assert (runs[0].predict_proba(long) == runs[1].predict_proba(long)).all()


def test_unknown_symbols_are_alike() -> None:
    """Between, above, or beyond those of the training examples: all are the mean of the known."""
    model = FrozenTransformer(**SMALL).fit(IDS * 2, Y, validation=(IDS * 2 + 1, Y))
    assert model.symbols_.tolist() == [0, 2, 4, 6, 8, 10, 12]
    predicted = []
    for symbol in (3, 13, 999_999):
        new = IDS * 2
        new[:, 2] = symbol
        predicted.append(model.predict_proba(new))
    assert (predicted[0] == predicted[1]).all()
    assert (predicted[0] == predicted[2]).all()
    assert not np.allclose(predicted[0], model.predict_proba(IDS * 2))
    small = FrozenTransformer(**SMALL)
    small.fit((IDS * 2).astype(np.uint8), Y, validation=((IDS * 2 + 1).astype(np.uint8), Y))
    assert (small.predict_proba(new) == predicted[0]).all()
    with pytest.raises(InputError, match="below 1000000"):
        model.predict(IDS - 1)


@settings(max_examples=10, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.integers(0, 999_999), min_size=1, max_size=30), min_size=1, max_size=4
    )
)
def test_any_sequences_of_symbols_are_predicted(rows: list[list[int]]) -> None:
    predicted = symbolic().predict_proba(rows)
    np.testing.assert_allclose(predicted.sum(1), 1, rtol=1e-5)
    assert len(predicted) == len(rows)
    alone = np.concatenate([symbolic().predict_proba([row]) for row in rows])
    np.testing.assert_allclose(predicted, alone, rtol=1e-3, atol=1e-5)


@cache
def symbolic() -> FrozenTransformer:
    return FrozenTransformer(**SMALL).fit(
        [row[: 1 + index % 5] for index, row in enumerate(IDS)], Y
    )


def test_folds_of_rare_symbols_and_lengths_have_scores() -> None:
    ids = [row[: 1 + index % 5].copy() for index, row in enumerate(IDS)]
    ids[7] = np.array([70, 3, 1, 2, 2, 70, 5, 5, 1])
    scores = cross_val_score(FrozenTransformer(**SMALL), ids, Y, cv=3, error_score="raise")
    assert np.isfinite(scores).all()


def test_what_is_unknown_or_longer_is_saved(tmp_path: Path) -> None:
    symbolic().save(tmp_path)
    again = FrozenTransformer.load(tmp_path)
    new = [[3, 999, 4], [1] * 12]
    assert (again.predict_proba(new) == symbolic().predict_proba(new)).all()
    assert again.inputs_ == symbolic().inputs_


def test_it_is_said_what_X_was_taken_for(
    fitted: FrozenTransformer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fitted.inputs_ == "sequences of 5 vectors of 3 numbers"
    assert symbolic().inputs_ == "sequences of 1 to 5 symbols, whole numbers from 0 to 6"
    assert capsys.readouterr().err == ""
    FrozenTransformer(**SMALL, progress=True).fit(X, Y)
    assert fitted.inputs_ in capsys.readouterr().err


@pytest.mark.parametrize("offset", [1e9, -1e9])
def test_an_offset_changes_nothing(offset: float) -> None:
    ragged = [row[: 2 + index % 4].astype(float) for index, row in enumerate(X)]
    predicted = []
    for moved in (0.0, offset):
        new = [row + moved for row in ragged]
        predicted.append(FrozenTransformer(**SMALL).fit(new, Y).predict_proba(new))
    np.testing.assert_allclose(predicted[0], predicted[1], atol=1e-5)


def test_numbers_far_from_those_of_the_fit_have_no_prediction(fitted: FrozenTransformer) -> None:
    with pytest.raises(InputError, match="not finite"):
        fitted.predict(X * 1e37)


def test_whole_numbers_are_numbers_where_the_fit_had_numbers() -> None:
    model = FrozenTransformer(**SMALL).fit(X[:, :, 0], Y)
    signs = np.sign(X[:, :, 0])
    assert (model.predict_proba(signs.astype(int)) == model.predict_proba(signs)).all()
    assert model.predict([[1, 2, 3, 4, 5, 6, 7], [1]]).shape == (2,)
    with pytest.raises(InputError, match="3 features.*as a list"):
        model.predict(signs[:, :3])


# The training examples are known by `moments_`: the mean of a column that has one value an example.


def test_classes_are_held_out_in_proportion_by_the_random_state() -> None:
    rare = np.where(np.arange(60) < 6, 1.0, 0.0)
    columns = np.stack([rare, np.arange(60.0) ** 2], 1)
    tokens = np.repeat(columns[:, None], 2, axis=1)
    shares, places = [], []
    for seed in (0, 1, 2, 0):
        model = FrozenTransformer(**{**SMALL, "steps": 1}, random_state=seed)
        mean, _ = model.fit(tokens, rare.astype(int), validation=0.5).moments_
        shares.append(mean[0])
        places.append(mean[1])
    assert shares == pytest.approx([0.1] * 4)
    assert len({*places}) == 3
    assert places[0] == places[3]


def test_held_out_examples_do_not_standardise() -> None:
    tokens = np.repeat(2.0 ** np.arange(40)[:, None, None], 2, axis=1)
    model = FrozenTransformer(**{**SMALL, "steps": 1}).fit(tokens, np.arange(40) % 2)
    total = round(model.moments_[0][0] * 36)
    assert total.bit_count() == 36  # a power of 2 for each of 36 training examples, and no other
    with_own_validation = FrozenTransformer(**{**SMALL, "steps": 1})
    with_own_validation.fit(X, Y, validation=(X + 1000, Y))
    np.testing.assert_allclose(with_own_validation.moments_[0], X.mean((0, 1)), rtol=1e-5)


def test_padding_does_not_standardise() -> None:
    ragged = [row[: 1 + index % 5] + 5 for index, row in enumerate(X)]
    model = FrozenTransformer(**{**SMALL, "steps": 1}).fit(ragged, Y, validation=(ragged, Y))
    np.testing.assert_allclose(model.moments_[0], np.concatenate(ragged).mean(0), rtol=1e-5)
    np.testing.assert_allclose(model.moments_[1], np.concatenate(ragged).std(0), rtol=1e-5)


def test_there_may_be_an_answer_per_token_of_sequences_of_any_length() -> None:
    before = np.roll(IDS, 1, axis=1) % 2
    model = FrozenTransformer(**SMALL).fit(IDS, np.where(before, "odd", "even"))
    unpadded = model.predict_proba(IDS)
    for length in (1, 3):  # causal: an answer depends on what came before
        np.testing.assert_allclose(
            model.predict_proba(IDS[:, :length]), unpadded[:, :length], rtol=1e-4
        )
    long = model.predict_proba(np.concatenate([IDS, IDS], 1))
    assert long.shape == (60, 10, 2)
    np.testing.assert_allclose(long[:, :5], unpadded, rtol=1e-4)
    with pytest.raises(InputError, match="equal length"):
        model.predict([[1], [1, 2]])
    numbers = FrozenTransformerRegressor(**SMALL).fit(IDS, before)
    assert numbers.predict(IDS[:, :2]).shape == (60, 2)


def test_there_may_be_an_answer_per_token() -> None:
    before = np.roll(IDS, 1, axis=1) % 2
    model = FrozenTransformer(**SMALL).fit(IDS, before)
    assert model.predict_proba(IDS).shape == (60, 5, 2)
    right = (model.predict(IDS) == before).mean()
    assert model.score(IDS, before) == pytest.approx(right)


def test_a_regression_learns_a_sum() -> None:
    y = 100 + 10 * X[:, :, 0].sum(1)
    model = FrozenTransformerRegressor(backbone="pico", init="random", steps=200, lr=0.01)
    assert model.fit(X, y).score(X, y) > 0.5


def test_classes_have_weights() -> None:
    rare = np.where(np.arange(60) < 6, 1, 0)
    shares = [
        FrozenTransformer(**SMALL, class_weight=weight).fit(X, rare).predict_proba(X)[:, 1].mean()
        for weight in (None, "balanced", {0: 1.0, 1: 30.0})
    ]
    assert shares == sorted(shares)


def test_it_works_inside_scikit_learn() -> None:
    steps = make_pipeline(FunctionTransformer(np.abs), FrozenTransformer(**SMALL))
    search = GridSearchCV(steps, {"frozentransformer__lr": np.logspace(-3, -2, 2)}, cv=2).fit(X, Y)
    assert search.predict(X).shape == Y.shape


def test_groups_are_counted(fitted: FrozenTransformer) -> None:
    counts = fitted.trainable_parameters()
    kept = counts[counts["trained"]]["parameters"].sum()
    assert kept * 4 < len(fitted.fitted_.parameters) < kept * 4 + 2000
    assert not counts.loc["attention", "trained"]


WRONG = {
    "NaN": (np.where(X > 2, np.nan, X), Y, {}),
    "has one class": (X, np.zeros(60, int), {}),
    "X has 60 examples and y has 59": (X, Y[:59], {}),
    "inconsistent|4 answers": (X, np.zeros((60, 4), int) + np.arange(4), {}),
    "should be 0 or more": (IDS - 1, Y, {}),
    "cannot be held out": (X[:2], Y[[0, 1]], {"validation": 0.9}),
    "label 'left'": (X, Y, {"validation": (X[:2], np.array(["up", "left"]))}),
    "the fit had sequences of 5 symbols": (IDS, Y, {"validation": (X, Y)}),
    "5 answers each, but 1": (IDS, IDS % 2, {"validation": (IDS, IDS[:, 0] % 2)}),
    "y contains NaN": (X, np.ma.masked_equal(np.arange(60) % 3, 2), {}),
    "continuous": (X, X[:, 0, 0], {}),
    "at most 1024": (np.zeros((4, 2000, 1)), Y[:4], {}),
    "different lengths": ([[[1.0], [2.0, 3.0]], [[1.0]]], Y[:2], {}),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_examples_are_one_sentence(sentence: str) -> None:
    examples, labels, more = WRONG[sentence]
    with pytest.raises((ValueError, FptError), match=sentence):
        FrozenTransformer(**SMALL).fit(examples, labels, **more)


def test_wrong_new_examples_are_one_sentence(fitted: FrozenTransformer) -> None:
    for new, sentence in (
        (X[:, :, :2], "vectors of 2"),
        (IDS, "symbols"),
        ([X[0], X[0][:2, :1]], "none empty"),
    ):
        with pytest.raises(ValueError, match=sentence):
            fitted.predict(new)


def test_wrong_settings_are_one_sentence() -> None:
    named = ("backbone", "nan0"), ("init", "x"), ("trainable", ("inputs",))
    for name, value in (*named, ("lr", -1), ("trainable", ()), ("random_state", None)):
        with pytest.raises(FptError, match=r"not known|no backbone|expected a"):
            FrozenTransformer(**{**SMALL, name: value}).fit(X, Y)
