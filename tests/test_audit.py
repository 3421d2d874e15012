"""`fpt.audit`: fair arms, records that are kept, a table, a figure and a page."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsClassifier

import fpt
from fpt import FptError
from fpt.auditing.data import read_examples
from fpt.auditing.runs import RATES, SEARCH_SEED, flat
from fpt.auditing.verdict import cautions
from fpt.reading.effect import NOTHING
from fpt.records import Store
from fpt.spec import canonical

# One layer of a backbone that ships with the package, for a few steps.
SMALL = {"backbone": "nano@1", "steps": 8, "draws": 3, "workers": 1, "progress": False}
rng = np.random.default_rng(0)
X = rng.normal(size=(160, 4, 2))
Y = np.where(X[:, :, 0].sum(1) > 0, "up", "down")
ARMS = {
    "language", "same mean and sd", "same scale", "N(0, 0.02)", "fully trained", "no transformer",
    "linear", "trivial rule",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("audits")


@pytest.fixture(scope="module")
def audit(folder):
    return fpt.audit(X, Y, folder=folder, **SMALL)


def records_in(folder):
    (place,) = folder.iterdir()
    store = Store(place)
    return store, store.read_all(store.keys())


def test_a_sum_needs_no_transformer(audit):
    assert audit.verdict == "linear suffices"
    assert audit.table.loc["linear", "score"] > 0.85
    assert {*audit.table.index} == ARMS
    assert audit.cuts == ()
    assert audit.verdict in repr(audit)


def test_all_arms_have_the_same_trials_and_the_search_never_holds_the_test(audit, folder):
    _, records = records_in(folder)
    examples = read_examples(X, Y)
    runs = pd.DataFrame(
        {
            "arm": (spec.backbone, spec.init, spec.trainable),
            "seed": spec.seed,
            "rate": spec.lr,
            "task": spec.data,
        }
        for spec in (record.spec for record in records.values())
    )
    is_search = runs["seed"] >= SEARCH_SEED
    assert {*runs[is_search].groupby("arm")["rate"].nunique()} == {len(RATES)}
    assert {*runs[~is_search].groupby("arm")["seed"].nunique()} == {3}
    assert {*runs[is_search]["task"]} == {canonical(examples.search.identity)}
    held = [task.splits["test"][1].tolist() for task in (examples.search, examples.task)]
    assert held[0] == examples.task.splits["valid"][1].tolist() != held[1]


def test_the_same_audit_only_reads_and_one_that_lost_a_run_trains_it_again(
    audit, folder, monkeypatch
):
    store, records = records_in(folder)
    made = []
    record = next(r for r in records.values() if r.spec.seed == 1 and r.spec.init == "random")
    monkeypatch.setattr(Store, "write", spy(made, Store.write))
    numbers = {"steps": np.int64(8), "margin": np.float32(0.02), "draws": np.int64(3)}
    again = fpt.audit(X, Y, folder=folder, **SMALL | numbers)
    pd.testing.assert_frame_equal(again.table, audit.table)
    assert not made
    scores = store.parameters_path(record.key)
    scores.write_bytes(scores.read_bytes().replace(b"\x80?", b"\x80@", 1))  # 1.0 becomes 4.0
    with pytest.warns(UserWarning, match="counts as missing"):
        again = fpt.audit(X, Y, folder=folder, **SMALL)
    assert made == [record.key]
    pd.testing.assert_frame_equal(again.table, audit.table)


def spy(made, write):
    def written(store, record, *more):
        made.append(record.key)
        return write(store, record, *more)

    return written


def test_the_deadline_says_what_it_cut(audit, folder, tmp_path, monkeypatch):
    with pytest.raises(FptError, match="before language was trained; the same call"):
        fpt.audit(X, Y, minutes=0, folder=tmp_path, **SMALL)
    (place,) = folder.iterdir()
    (tmp_path / place.name).mkdir(exist_ok=True)
    _, records = records_in(folder)
    for path in place.glob("*.*"):
        record = records.get(path.stem)
        if record and not (record.spec.init == "random-at-scale" and record.spec.seed == 2):
            (tmp_path / place.name / path.name).write_bytes(path.read_bytes())
    cut = fpt.audit(X, Y, minutes=0, folder=tmp_path, **SMALL)
    assert len(cut.cuts) == 1
    assert "same scale" in cut.cuts[0]
    assert "2 of 3 seeds" in cut.cuts[0]
    assert cut.cuts[0] in repr(cut)


def test_the_page_needs_no_other_file_and_has_no_foreign_markup(audit, tmp_path):
    named = replace(audit, facts={**audit.facts, "backbone": "<i>"}, advice="<b>")
    page = named.to_html(tmp_path / "audit.html").read_text()
    assert "<i>" not in page
    assert "<b>" not in page
    assert audit.verdict in page
    assert "http" not in page
    content = json.loads(audit.to_json(tmp_path / "audit.json").read_text())
    assert [row["arm"] for row in content["table"]] == [*audit.table.index]
    assert content["table"][0]["difference"] is None  # language has none to itself
    (axes,) = audit.plot().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [*audit.table.index[::-1]]


def test_labels_that_mean_nothing_teach_nothing(folder):
    shuffled = np.random.default_rng(1).permutation(Y)
    assert fpt.audit(X, shuffled, folder=folder, **SMALL).verdict == NOTHING


def test_a_regression_is_scored_by_r_squared(folder):
    """The linear model and a rival have that of scikit-learn, and the trivial rule has 0."""
    skewed = np.exp(2 * X[:, :, 0].mean(1) + 0.1 * rng.normal(size=len(X)))
    rivals = {"ridge": Ridge(3.0)}
    audit = fpt.audit(X, skewed, test=range(100, 160), rivals=rivals, folder=folder, **SMALL)
    task = read_examples(X, skewed, test=range(100, 160)).task
    tokens, answers = flat(task, "test")
    predicted = Ridge(3.0).fit(*flat(task, "train")).predict(tokens)
    # scikit-learn's constant is the mean of the test, here it is that of the training.
    unit = np.var(answers) / np.mean(answers**2)
    expected = 1 - (1 - r2_score(answers, predicted)) * unit
    assert audit.table.loc["ridge", "score"] == pytest.approx(expected, rel=1e-4)
    assert audit.table.loc["trivial rule", "score"] == pytest.approx(0, abs=1e-6)
    assert audit.facts["measure"] == "R²"


def test_copies_in_the_test_set_and_an_answer_in_x_are_warned_of(folder):
    """Pure noise that memory answers, and a label that is a predictor."""
    noise = np.tile(rng.normal(size=(40, 4, 2)), (4, 1, 1))
    labels = np.tile(rng.permutation(40) % 2, 4)
    rivals = {"memory": KNeighborsClassifier(1)}
    audit = fpt.audit(noise, labels, rivals=rivals, folder=folder, **SMALL)
    assert "32 of 32 test examples have the very tokens" in audit.advice
    assert "“memory” answers everything: look for the answer in X" in audit.advice
    apart = fpt.audit(noise, labels, groups=np.tile(range(40), 4), folder=folder, **SMALL)
    assert apart.facts["independent"] == 8
    assert "very tokens" not in apart.advice


def test_a_body_in_the_state_of_a_repeated_token_is_warned_of(audit):
    states = {"language": 0.6, "same scale": 0.4}
    records = {
        arm: [SimpleNamespace(metrics={"start_coordinate_share": share})]
        for arm, share in states.items()
    }
    (sentence,) = cautions(audit.table, records, read_examples(X, Y))
    assert "“language” begins in the state of a repeated token (60%" in sentence
