"""`FrozenTransformer`: the pipeline's numbers, scikit-learn's conventions, wrong input."""

import numpy as np
import pandas as pd
import pytest
from refusals import refuses
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from fpt import FptError, FrozenTransformer, Patches
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
SUM = X[:, :, 0].sum(1)
IDS = DRAW.integers(0, 7, (60, 5))


@pytest.fixture(scope="module")
def fitted():
    return FrozenTransformer(**SMALL).fit(X, Y)


def test_a_fit_is_the_pipelines_run_to_the_bit(tmp_path, monkeypatch):
    tasks = []
    divided_task = data.divided_task
    monkeypatch.setattr(
        data, "divided_task", lambda *parts: tasks.append(divided_task(*parts)) or tasks[0]
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
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_scikit_learns_checks_pass(task):
    small = FrozenTransformer("pico", init="random", lr=0.01, steps=24, eval_every=12, task=task)
    checks = check_estimator(small, on_fail=None, on_skip=None)
    assert len(checks) > 40
    failed = {check["check_name"] for check in checks if check["status"] != "passed"}
    assert failed <= {
        "check_array_api_input",  # only if SciPy is told to use other array libraries
        "check_regressors_train",  # needs more steps, as below
        "check_methods_subset_invariance",  # to 1e-7; sums in float32 depend on the batch
    }


@pytest.mark.parametrize("answers", [Y, np.arange(60) % 3, SUM > 0, SUM])
def test_what_is_saved_is_loaded(answers, tmp_path):
    task = "regression" if answers is SUM else "classification"
    model = FrozenTransformer(**QUICK, task=task).fit(pd.DataFrame(X[:, :, 0]), answers)
    model.save(tmp_path)
    again = FrozenTransformer.load(tmp_path)
    frame = pd.DataFrame(X[:, :, 1])
    assert (again.predict(frame) == model.predict(frame)).all()
    assert again.score(frame, answers) == model.score(frame, answers)
    assert again.task == task
    pd.testing.assert_frame_equal(again.learning_curve_, model.learning_curve_)
    with pytest.raises(ValueError, match="6 features"):
        again.predict(np.zeros((2, 6)))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 300_000


def test_a_damaged_estimator_is_not_loaded(fitted, tmp_path):
    fitted.save(tmp_path)
    # A digest that leaves the parameters out would look the same.
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        path.write_bytes(content.replace(b"weight", b"height"))
        refuses(lambda: FrozenTransformer.load(tmp_path), "holds no complete estimator")
        path.write_bytes(content)


@pytest.mark.parametrize("length", [4, 6])
def test_sequences_have_a_length_of_the_fit(fitted, length):
    """Whatever holds them."""
    table = FrozenTransformer(**QUICK).fit(X[:, :, 0], Y)
    new = np.zeros((2, length, 3))
    refuses(lambda: fitted.predict(new), f"{length} vectors", "the fit had")
    rows = new[:, :, 0]
    for form in (rows, list(rows), new[..., :1], pd.DataFrame(rows)):
        with pytest.raises(ValueError, match=f"{length} (features|vectors).* 5"):
            table.predict(form)
    rows = X[:, :, 0]
    assert (table.predict_proba(list(rows)) == table.predict_proba(rows)).all()


def test_nothing_of_an_earlier_fit_is_left(fitted):
    frame = pd.DataFrame(X[:, :, 0], columns=list("abcde"))
    model = FrozenTransformer(**SMALL).fit(frame, Y).fit(X, Y)
    assert vars(model).keys() == vars(fitted).keys()
    refuses(lambda: model.fit(X, Y[:1]), "y has")
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_symbols_that_the_fit_has_not_seen_are_refused():
    """Between its symbols, or beyond them."""
    model = FrozenTransformer(**QUICK).fit(IDS * 2, Y)
    for symbol in (3, 13, 999_999):
        refuses(lambda new=IDS * 0 + symbol: model.predict(new), f"symbol {symbol}, ")


def test_a_prediction_does_not_depend_on_the_padding():
    rows = [row[: 1 + index % 5] for index, row in enumerate(IDS)]
    model = FrozenTransformer(**SMALL).fit(rows, Y)
    alone = np.concatenate([model.predict_proba([row]) for row in rows[:5]])
    np.testing.assert_allclose(model.predict_proba(rows)[:5], alone, rtol=1e-3, atol=1e-5)


def test_whole_numbers_are_numbers_where_the_fit_had_numbers():
    model = FrozenTransformer(**QUICK, random_state=2**63 - 1).fit(X[:, :, 0], Y)
    signs = np.sign(X[:, :, 0])
    assert (model.predict_proba(signs.astype(int)) == model.predict_proba(signs)).all()


# Statistics of the held-out examples would leak into training.
def test_held_out_examples_set_no_unit():
    held_out = np.arange(50, 60)
    tokens, numbers = X.copy(), SUM.copy()
    tokens[held_out] += 1000
    numbers[held_out] *= 1e3
    model = FrozenTransformer(**QUICK, task="regression")
    model.fit(tokens, numbers, validation=held_out)
    np.testing.assert_allclose(model.moments_[0], X[:50].mean((0, 1)), rtol=1e-5)
    assert model.target_ == pytest.approx((SUM[:50].mean(), SUM[:50].std()))


def test_a_regression_learns_a_sum_in_any_unit():
    y = 1e6 + 1e4 * SUM
    model = FrozenTransformer("pico", init="random", steps=200, lr=0.01, task="regression")
    assert model.fit(X, y).score(X, y) > 0.5
    assert not hasattr(model, "predict_proba")
    refuses(lambda: model.score(X, np.ma.masked_less(y, 1e6)), "missing")


WRONG = {
    "NaN": (np.where(X > 2, np.nan, X), Y, {}),
    "has one class": (X, np.zeros(60, int), {}),
    "X has 60 examples and y has 59": (X, Y[:59], {}),
    "a share between 0 and 1": (X, Y, {"validation": 1.5}),
    "rows to hold out": (X, Y, {"validation": (X, Y)}),
    "out of bounds": (X, Y, {"validation": [60]}),
    "at most 1024": (np.zeros((4, 2000, 1)), Y[:4], {}),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_examples_are_one_sentence(sentence):
    examples, labels, more = WRONG[sentence]
    refuses(lambda: FrozenTransformer(**QUICK).fit(examples, labels, **more), sentence)


@pytest.mark.parametrize("new", [X[:, :, :2], IDS[:, :, None], X * 1e37])
def test_wrong_new_examples_are_refused(fitted, new):
    with pytest.raises(InputError, match="vectors of [12]|not finite"):
        fitted.predict(new)


NO_GROUPS = {"backbone": "last-token-pico", "trainable": ("positions", "layernorm")}


@pytest.mark.parametrize(
    "setting", [{"backbone": "nan0"}, {"trainable": ()}, {"lr": -1}, {"task": "rank"}, NO_GROUPS]
)
def test_wrong_settings_are_refused(setting):
    with pytest.raises(FptError, match=r"no backbone|expected a|'(layernorm|rank)' is not known"):
        FrozenTransformer(**SMALL | setting).fit(X, Y)


def test_the_last_attention_is_a_row_of_its_own():
    """Of two layers."""
    trained = FrozenTransformer(**QUICK, trainable=("last-attention",)).fit(X, Y)
    table = trained.trainable_parameters()
    assert list(table.index[table["trained"]]) == ["last-attention"]
    assert table.loc["last-attention", "parameters"] == table.loc["attention", "parameters"]


def test_images_are_cut_into_squares_row_by_row():
    pixels = np.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    corners = [(y, x) for y in (0, 2) for x in (0, 2, 4)]
    squares = [pixels[:, y : y + 2, x : x + 2].reshape(2, 12) for y, x in corners]
    assert (Patches(2).transform(pixels) == np.stack(squares, 1)).all()
    refuses(lambda: Patches(4).transform(pixels), "multiples of 4")
