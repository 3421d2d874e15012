"""The lab's plan: every run in one block, primary ones first, backbones before their runs."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from fpt import config
from fpt.analysis.claims import claims
from fpt.records import Store
from fpt.sections.registration import registered_seeds
from fpt.spec import RunSpec
from lab import pilot, plan


def planned() -> set[str]:
    profile = config.load("lab")
    return {run.key for name in profile.sections for run in config.expand(profile, name)}


def test_blocks_hold_every_run_once() -> None:
    keys = [run.key for block in plan.blocks() for run in block.runs]
    assert len(keys) == len(set(keys))
    assert set(keys) == planned()


def test_the_first_block_is_what_the_primary_claims_need() -> None:
    first, *others = plan.blocks()
    assert first.name == "primary"
    arms = {arm for it in claims("primary") for arm in it.backbones}
    assert {run.spec.weights for run in first.runs if run.spec.weights} == set(first.weights)
    assert {"fpt-english", "random", "full"} < arms
    seen = set(first.weights)
    for block in others:
        assert seen.isdisjoint(block.weights)
        seen |= set(block.weights)


def test_a_launch_in_parts_trains_everything_after_its_backbones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[RunSpec] = []
    there: set[str] = set()

    def provided(weights: str, budget: float) -> bool:
        there.add(weights)
        return True

    def run(specs: Sequence[RunSpec], store: Store, **options: object) -> int:
        assert all(spec.weights is None or spec.weights in there for spec in specs)
        assert len({(spec.backbone, spec.seed) for spec in specs}) == 1
        made.extend(specs)
        return len(specs)

    monkeypatch.setattr("fpt.records.REPORTS", tmp_path)
    monkeypatch.setattr(plan, "provided", provided)
    monkeypatch.setattr(plan.sweep, "run", run)
    lines = [line for part in ("1/2", "2/2") for line in plan.launch(part, 1, math.inf)]
    assert lines[0].startswith("primary: ")
    assert len(made) == len({spec.key for spec in made})
    assert {spec.key for spec in made} == planned()


def test_seeds_that_were_drawn_first_are_trained_first() -> None:
    groups = plan.by_backbone(plan.blocks()[0].runs)
    order = [registered_seeds(20).index(group[0].spec.seed) for group in groups]
    assert order == sorted(order)


def test_a_backbone_that_the_budget_does_not_hold_ends_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpt.records.REPORTS", tmp_path)
    monkeypatch.setattr(plan, "provided", lambda weights, budget: False)
    monkeypatch.setattr(plan.sweep, "run", lambda specs, store, **options: len(specs))
    lines = list(plan.launch("1/1", 1, math.inf))
    assert len(lines) < 10


def test_the_page_counts_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpt.records.REPORTS", tmp_path)
    monkeypatch.setattr(pilot, "store", lambda: Store(tmp_path))
    monkeypatch.setattr(plan, "thresholds_table", lambda: "")  # needs the data
    text = plan.page()
    assert f"| primary | {plan.WHAT['primary']} |" in text
    assert all(it.statement in text for it in claims("primary"))


def test_no_reported_run_has_a_seed_of_the_pilot() -> None:
    reported = {run.spec.seed for run in plan.planned() if not run.search}
    assert reported.isdisjoint(seed for seeds in pilot.plan()["arms"].values() for seed in seeds)
