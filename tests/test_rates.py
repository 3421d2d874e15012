"""«Each at its best learning rate»: what the pilot tried for each arm and task of such a claim, and
what was not so is said on the plan's page."""

import shutil
from pathlib import Path

import pytest

from fpt import config
from fpt.claims.claim import KINDS, claims
from fpt.records import Store
from lab import pilot

ROOT = Path(__file__).parents[1]
SAME = {"fpt": "fpt-english", "bit-xor-1000": "bit-xor"}  # arms and tasks of the pilot
LEAST_TRIALS = 10  # six rates with one seed, then the best two with two more
EXCEPTIONS = {
    ("fpt-unigram", "mnist-short"): "few trials",
    ("fpt", "mnist-equal"): "not searched",
    ("full", "mnist-equal"): "not searched",
}


def test_no_reported_run_has_a_seed_of_the_pilot() -> None:
    profile = config.load("lab")
    runs = [run for name in profile.sections for run in config.expand(profile, name)]
    reported = {run.spec.seed for run in runs if not run.search}
    assert reported.isdisjoint(seed for seeds in pilot.plan()["arms"].values() for seed in seeds)


def test_the_rate_of_a_claim_is_the_pilots_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.unpack_archive(ROOT / "reports/lab/records/pilot.tar.xz", tmp_path)
    monkeypatch.setattr(pilot, "store", lambda: Store(tmp_path / "pilot"))
    profile = config.load("lab")
    results = pilot.results()
    thresholds, best = pilot.settings(results)
    tasks = profile.tasks
    assert thresholds == {task: tasks[task]["threshold"] for task in pilot.plan()["battery"]}
    exceptions = {}
    places = {
        (arm, task)
        for kind in KINDS
        for claim in claims(kind)
        if "each at its best learning rate" in claim.statement
        for arm in claim.backbones
        for task in claim.tasks
    }
    assert len(places) > 20
    for arm, task in places:
        rows = results["arm"].eq(SAME.get(arm, arm)) & results["task"].eq(SAME.get(task, task))
        trials = results[rows].drop_duplicates(["lr", "seed"])
        if trials.empty:
            exceptions[arm, task] = "not searched"
            continue
        rate = config.make_spec(profile, arm, task, 0).lr
        assert rate == best[SAME.get(arm, arm)][SAME.get(task, task)], (arm, task)
        assert trials["lr"].min() < rate < trials["lr"].max(), (arm, task)
        if len(trials) < LEAST_TRIALS:
            exceptions[arm, task] = "few trials"
    assert exceptions == EXCEPTIONS
    page = (ROOT / "docs" / "plan.md").read_text()
    assert "`mnist-equal`" in page
    assert "6 of `fpt-unigram`" in page
