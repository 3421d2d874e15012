"""A plan: what is missing of it, which experiment each run belongs to, and what is written."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from made import LANGUAGE, NANO, RANDOM, block_of, fill, make_plan, make_record, write_params
from refusals import refuses
from tiny import swept

import fpt
from fpt.errors import FptError
from fpt.names import ARMS, Arm
from fpt.plan import Plan, left, plan
from fpt.project import OWN, TIERS, Project
from fpt.reading.made import made_here, sections, write_outputs
from fpt.records import INDEX, Store

ROOT = Path(__file__).parents[1]
TWO = {"arms": [LANGUAGE, RANDOM], "tasks": ["bit-xor"], "seeds": 2}


def index_of(project, experiment):
    path = project.records(experiment) / INDEX
    return json.loads(path.read_text()) if path.exists() else None


def experiments_of(whole):
    return {whole.experiment_of(run) for run in whole.runs}


@pytest.mark.parametrize("tier", TIERS)
def test_the_index_of_a_tier_is_its_plan(tier):
    """As `make notebooks` writes it; without it, each edit would move records."""
    checkout = Project(ROOT)
    with checkout.in_force():
        rows = plan(tier).rows()
        if tier in ("none", OWN):
            assert rows.keys() <= {OWN}
        else:
            assert rows[tier] == index_of(checkout, tier), "run `make notebooks`"


def test_a_larger_tier_has_the_runs_of_a_smaller_one_and_leaves_them_its_experiment():
    with Project(ROOT).in_force():
        tiers = [plan(name) for name in ("hour", "day", "weekend")]
        keys = [{run.key for run in tier.runs} for tier in tiers]
        assert keys[0] < keys[1] < keys[2]
        homes = [{tier.experiment_of(run) for run in tier.runs} for tier in tiers]
        assert homes == [{"hour"}, {"hour", "day"}, {"hour", "day", "weekend"}]
        assert {tiers[2].experiment_of(run) for run in tiers[0].runs} == {"hour"}


def test_what_has_no_record_is_missing(project):
    whole = make_plan(project.root, **TWO)
    assert whole.missing() == [*whole.runs]
    assert "missing: 4 of 4 runs" in left(whole)
    first, *others = whole.runs
    whole.store_of(first).write(make_record(first, 0.5))
    assert whole.missing() == others
    assert whole.only([first.key]).missing() == []
    fill(whole)
    assert (whole.missing(), left(whole)) == ([], "")
    # Without its parameters, what is to be kept is missing.
    kept = {"transfer": (replace(first, keep=True), *others)}
    assert replace(whole, sections=kept).missing() == [kept["transfer"][0]]


def test_what_no_tier_plans_belongs_to_own(project, monkeypatch):
    assert experiments_of(make_plan(project.root, **TWO)) == {"smoke"}
    plan().write_index()
    assert experiments_of(plan()) == {"smoke"}
    assert experiments_of(plan(None, "transfer", lr=0.5)) == {OWN}
    monkeypatch.setitem(ARMS, "mine", Arm("mine", trainable=("output", "layernorm")))
    changed = make_plan(project.root, **TWO | {"arms": [LANGUAGE, "mine"]})
    assert {run.arm: changed.experiment_of(run) for run in changed.runs} == {
        LANGUAGE: "smoke", "mine": OWN
    }  # fmt: skip
    # The committed index does not have the third seed.
    more = make_plan(project.root, **TWO | {"seeds": 3})
    assert {run.spec.seed: more.experiment_of(run) for run in more.runs} == {
        0: "smoke", 1: "smoke", 2: OWN
    }  # fmt: skip
    before = index_of(project, "smoke")
    more.write_index()
    assert index_of(project, "smoke") == before
    assert {row["key"] for row in index_of(project, OWN)} == {
        run.key for run in more.runs if run.spec.seed == 2
    }
    changed.write_index()
    more.write_index()
    rows = index_of(project, OWN)
    assert [row["arm"] for row in rows] == [LANGUAGE, RANDOM, "mine", "mine"]
    assert rows[0] == {
        "key": rows[0]["key"], "section": "transfer", "model": NANO, "arm": LANGUAGE,
        "task": "bit-xor", "role": "reported",
    }  # fmt: skip


# It once listed what was trained first alone, and all others became the reader's own.
def test_the_first_index_of_a_tier_has_all_its_runs(project):
    whole = make_plan(project.root, **TWO)
    whole.only([whole.runs[0].key]).write_index()
    assert [row["key"] for row in index_of(project, "smoke")] == [run.key for run in whole.runs]
    assert experiments_of(plan()) == {"smoke"}


def test_each_record_is_written_to_its_experiment(tiny_nano, monkeypatch):
    monkeypatch.setitem(ARMS, "mine", Arm("mine", trainable=("output",)))
    block = TWO | {"arms": [LANGUAGE, "mine"], "seeds": 1}
    whole = make_plan(tiny_nano, **block, steps=2, eval_every=1)
    whole.train(device="cpu", workers=1)
    assert whole.missing() == []
    trained = {run.arm: whole.store_of(run).keys() for run in whole.runs}
    assert trained == {run.arm: {run.key} for run in whole.runs}
    whole.write_index()
    runs = fpt.results()
    assert {*zip(runs["experiment"], runs["arm"], strict=True)} == {
        ("smoke", LANGUAGE), (OWN, "mine")
    }  # fmt: skip
    assert swept([run.spec for run in whole.runs], Store(tiny_nano / "other")) == 2


def test_what_one_experiment_lacks_stops_no_other_and_a_budget_is_of_all(project, monkeypatch):
    whole = make_plan(project.root, **TWO)
    homes = {run.key: OWN if run.arm == RANDOM else "smoke" for run in whole.runs}
    monkeypatch.setattr(Plan, "experiment_of", lambda self, run: homes[run.key])
    budgets = []

    def sweep(specs, store, *, budget, **options):
        budgets.append(budget)
        if store.folder.name == "smoke":
            raise FptError("Its weights are not here; fetch them.")

    monkeypatch.setattr("fpt.plan.sweep.run", sweep)
    refuses(lambda: whole.train(budget=60.0), "Its weights")
    assert len(budgets) == 2
    assert budgets[1] <= budgets[0] <= 60


def test_runs_that_only_check_the_code_are_on_no_page(project):
    write_params(project.root, block_of(**TWO) | {"shown": False})
    fill(plan())
    plan().write_index()
    assert {row["role"] for row in index_of(project, "smoke")} == {"unshown"}
    assert fpt.results().empty
    refuses(made_here, "no runs that were trained here")


# -------------------------------------------------------------------------------------- outputs


def outputs(project):
    metrics = json.loads((project.reports / "metrics.json").read_text())
    return metrics, pd.read_csv(project.reports / "curves.csv")


@pytest.fixture
def recorded(project):
    """A plan that searches a rate, with a record of each run."""
    block = block_of(**TWO)
    block["sections"]["learning_rate"] = [
        {**block["sections"]["transfer"][0], "lrs": [0.1], "search": [7]}
    ]
    write_params(project.root, block)
    whole = plan()
    for run in whole.runs:
        accuracy = 0.9 if run.arm == LANGUAGE else 0.6
        record = make_record(run, accuracy + 0.01 * run.spec.seed)
        whole.store_of(run).write(record)
    whole.write_index()
    return whole


def test_metrics_and_curves_are_of_each_section_model_arm_and_task(recorded, project):
    write_outputs(recorded)
    metrics, curves = outputs(project)
    cells = {NANO: {LANGUAGE: {"bit-xor": 90.5}, RANDOM: {"bit-xor": 60.5}}}
    assert metrics == {"transfer": cells}  # without what only searched
    assert [*curves.columns] == ["panel", "arm", "step", "accuracy"]
    panel = curves[curves["panel"].str.startswith("transfer") & (curves["arm"] == LANGUAGE)]
    assert panel["step"].tolist() == list(range(10, 130, 10))
    assert panel["accuracy"].iloc[-1] == pytest.approx(0.905)


def test_without_a_plan_metrics_are_of_all_experiments(recorded, project):
    write_outputs(recorded)
    of_plan, _ = outputs(project)
    write_outputs(replace(recorded, sections={}))
    metrics, curves = outputs(project)
    assert metrics == of_plan
    assert curves.empty


def test_a_section_s_digests_change_with_its_records_alone(recorded, project):
    def digests():
        write_outputs(recorded)
        paths = {name: project.reports / "index" / f"{name}.json" for name in sections()}
        return {name: json.loads(path.read_text()) for name, path in paths.items()}

    before = digests()
    assert {name for name, found in before.items() if found} == {"transfer", "learning_rate"}
    run = recorded.sections["transfer"][0]
    recorded.store_of(run).write(make_record(run, 0.1))
    after = digests()
    assert {name for name in after if after[name] != before[name]} == {"transfer"}
