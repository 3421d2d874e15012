"""`FrozenTransformer`: the pipeline's numbers, scikit-learn's conventions, wrong input."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from fpt import FptError, FrozenTransformer, FrozenTransformerRegressor
from fpt.records import Store
from fpt.tasks import REGISTRY
from fpt.tasks import examples as data
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
    seen = []
    made = data.examples_task
    monkeypatch.setattr(
        data, "examples_task", lambda *a, **k: seen.append(made(*a, **k)) or seen[0]
    )
    ours = FrozenTransformer(trainable=("input", "output", "layernorm"), dropout=0.1, steps=20)
    ours.fit(X, Y)
    monkeypatch.setitem(REGISTRY, "examples", lambda: seen[0])
    monkeypatch.setattr("fpt.tasks.TASKS", (*REGISTRY,))
    spec = ours.fitted_.spec
    job = Job(Store(tmp_path / "lab" / "records"), {spec.key}, "cpu", cache=tmp_path)
    (record,) = train([spec], job)
    assert job.store.parameters(record) == ours.fitted_.parameters
    assert list(ours.learning_curve_["valid_loss"]) == [it["valid_loss"] for it in record.curve]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [FrozenTransformer, FrozenTransformerRegressor])
def test_scikit_learns_checks_pass(kind: type[FrozenTransformer]) -> None:
    small = kind(backbone="pico", init="random", lr=0.01, steps=24, eval_every=12)
    found = check_estimator(small, on_fail=None, on_skip=None)
    assert len(found) > 40
    failed = {it["check_name"] for it in found if it["status"] != "passed"}
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
    monkeypatch.setattr("fpt.training.fitted.digest", lambda path: "other")
    with pytest.raises(FptError, match="are not those that"):
        FrozenTransformer.load(tmp_path)


def test_sequences_of_different_lengths_are_padded(fitted: FrozenTransformer) -> None:
    ragged = [row[: 2 + index % 4] for index, row in enumerate(X)]
    model = FrozenTransformer(**SMALL).fit(np.array(ragged, dtype=object), Y)
    alone = np.concatenate([model.predict_proba([row, row[:1]])[:1] for row in ragged[:4]])
    np.testing.assert_allclose(model.predict_proba(ragged)[:4], alone, rtol=1e-4)
    whole = fitted.predict_proba(X[:4])
    padded = fitted.predict_proba([*X[:4], X[0][:1]])[:4]
    np.testing.assert_allclose(padded, whole, rtol=1e-4)


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
        FrozenTransformer(**SMALL, class_weight=it).fit(X, rare).predict_proba(X)[:, 1].mean()
        for it in (None, "balanced", {0: 1.0, 1: 30.0})
    ]
    assert shares == sorted(shares)


def test_it_works_inside_scikit_learn() -> None:
    steps = make_pipeline(FunctionTransformer(np.abs), FrozenTransformer(**SMALL))
    search = GridSearchCV(steps, {"frozentransformer__lr": np.logspace(-3, -2, 2)}, cv=2).fit(X, Y)
    assert search.predict(X).shape == Y.shape


def test_many_are_one_by_one() -> None:
    many = FrozenTransformer(steps=20).fit_many(X, Y, [{"lr": 0.001}, {"lr": 0.01}])
    for it in many:
        alone = FrozenTransformer(steps=20, lr=it.lr).fit(X, Y)
        np.testing.assert_allclose(it.predict_proba(X), alone.predict_proba(X), atol=1e-4)


def test_a_control_is_the_random_twin() -> None:
    model = FrozenTransformer(steps=20, control=True).fit(X, Y, validation=(X[:20], Y[:20]))
    twin = FrozenTransformer(steps=20, init="random").fit(X, Y, validation=(X[:20], Y[:20]))
    found = model.control_
    assert found.score == pytest.approx(model.score(X[:20], Y[:20]))
    assert found.random == pytest.approx(twin.score(X[:20], Y[:20]))
    assert found.low <= found.score - found.random <= found.high
    assert re.fullmatch(r"[01]\.\d+, random twin 0\.\d+, difference \S+ \[\S+, \S+\]", repr(found))


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
    "symbols from 0 to 9": (IDS, Y, {"validation": (IDS + 3, Y)}),
    "at most 1024": (np.zeros((4, 2000, 1)), Y[:4], {}),
    "different lengths": ([[[1.0], [2.0, 3.0]], [[1.0]]], Y[:2], {}),
}


@pytest.mark.parametrize("said", WRONG)
def test_wrong_examples_are_one_sentence(said: str) -> None:
    examples, labels, more = WRONG[said]
    with pytest.raises((ValueError, FptError), match=said):
        FrozenTransformer(**SMALL).fit(examples, labels, **more)


def test_wrong_new_examples_are_one_sentence(fitted: FrozenTransformer) -> None:
    for given, said in (
        (X[:, :, :2], "vectors of 2"),
        (IDS, "symbols"),
        ([X[0], X[0][:2, :1]], "none empty"),
    ):
        with pytest.raises(ValueError, match=said):
            fitted.predict(given)


def test_wrong_settings_are_one_sentence() -> None:
    named = ("backbone", "nan0"), ("init", "x"), ("trainable", ("inputs",))
    for name, value in (*named, ("lr", -1), ("trainable", ()), ("random_state", None)):
        with pytest.raises(FptError, match=r"not known|no backbone|expected a"):
            FrozenTransformer(**{**SMALL, name: value}).fit(X, Y)
