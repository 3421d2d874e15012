"""«Each at its best learning rate»: what the pilot tried for each arm and task of such a claim, and
what was not so is said on the plan's page."""

import shutil
from pathlib import Path

import pytest

from fpt import config
from fpt.analysis.claims import KINDS, claims
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


def test_the_rate_of_a_claim_is_the_pilots_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.unpack_archive(ROOT / "reports/lab/records/pilot.tar.xz", tmp_path)
    monkeypatch.setattr(pilot, "store", lambda: Store(tmp_path / "pilot"))
    found = pilot.results()
    _, best = pilot.settings(found)
    profile = config.load("lab")
    exceptions = {}
    places = {
        (arm, task)
        for kind in KINDS
        for it in claims(kind)
        if "each at its best learning rate" in it.statement
        for arm in it.backbones
        for task in it.tasks
    }
    assert len(places) > 20
    for arm, task in places:
        mine = found[
            (found["arm"] == SAME.get(arm, arm)) & (found["task"] == SAME.get(task, task))
        ].drop_duplicates(["lr", "seed"])
        if mine.empty:
            exceptions[arm, task] = "not searched"
            continue
        rate = config.make_spec(profile, arm, task, 0).lr
        assert rate == best[SAME.get(arm, arm)][SAME.get(task, task)], (arm, task)
        assert mine["lr"].min() < rate < mine["lr"].max(), (arm, task)
        if len(mine) < LEAST_TRIALS:
            exceptions[arm, task] = "few trials"
    assert exceptions == EXCEPTIONS
    page = (ROOT / "docs" / "plan.md").read_text()
    assert "`mnist-equal`" in page
    assert "6 of `fpt-unigram`" in page
