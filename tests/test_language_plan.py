"""The registration of the experiment on real language models, and the plan that follows from it.

Nothing here reads a record of the experiment, so the tests are the same before and after its runs.
"""

from importlib import import_module
from pathlib import Path

import pytest

from fpt.backbones.published import PUBLISHED
from fpt.claims.model_claims import model_claims, planned_runs
from fpt.sections import registration
from fpt.sections.registration import LANGUAGE

ROOT = Path(__file__).parents[1]
CLAIMS = [
    claim
    for kind in ("primary", "secondary")
    for claim in model_claims(kind)
    if not claim.withdrawn
]


@pytest.fixture(scope="module")
def runs():
    return planned_runs()


def test_the_registration_covers_the_settings_and_the_weights():
    content = registration.registration(LANGUAGE)
    covered = content["covers"]
    is_covered = covered["settings"] == registration.settings_digest(LANGUAGE)
    assert is_covered or not content["registered"], "a draft may wait for its rates"
    assert {"code", *(run.spec.weights for run in planned_runs() if run.spec.weights)} < {*covered}
    assert all(name in PUBLISHED for name in covered if name not in ("settings", "code"))


def test_another_setting_or_line_of_code_has_another_digest(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    before = registration.code_digest(tmp_path)
    (tmp_path / "a.py").write_bytes(b"x = 1\r\n")
    assert registration.code_digest(tmp_path) == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert registration.code_digest(tmp_path) != before


def test_a_cell_is_planned_unless_the_last_deviation_about_it_withdrew_it(monkeypatch):
    withdrawn = {
        "date": "1 May",
        "withdrawn": [],
        "cells": [{"task": "a"}, {"task": "b", "arm": "x"}],
    }
    again = {"date": "2 May", "withdrawn": [], "reinstated": [{"task": "b", "arm": "x"}]}

    def is_withdrawn(*entries):
        monkeypatch.setattr(registration, "deviations", lambda profile: entries)
        return [registration.is_withdrawn(LANGUAGE, "x", task) for task in "abc"]

    assert is_withdrawn(withdrawn) == [True, True, False]
    assert is_withdrawn(withdrawn, again) == [True, False, False]
    assert is_withdrawn(withdrawn, again, withdrawn) == [True, True, False]
    about = registration.withdrawal(LANGUAGE, "claim", ["y", "x"], ["c", "b"])
    assert about.startswith("withdrawn on 1 May, ")
    is_withdrawn(withdrawn, again)
    assert registration.withdrawal(LANGUAGE, "claim", ["y", "x"], ["c", "b"]) == ""


@pytest.mark.parametrize("page", ["plan-language.md", "interpretation.md"])
def test_pages_say_how_the_experiment_was_run(page, runs):
    text = " ".join((ROOT / "docs" / page).read_text().split())
    assert import_module("lab.language").SENTENCE in text
    frozen = import_module("lab.language").frozen_pretrained(runs)
    counts = f"{len(frozen)} pairs of model and task, {min(frozen.values())} to"
    assert f"{frozen.total()} runs of frozen pretrained weights: {counts}" in text


def test_the_counts_of_that_sentence_are_those_of_the_plan(runs):
    entries = registration.deviations(LANGUAGE)
    again = [cell for entry in entries for cell in entry.get("reinstated", ())]
    cells = {(cell["arm"], cell["task"]) for cell in again}
    claims = [
        claim
        for claim in model_claims("secondary")
        if not cells.isdisjoint((arm, *claim.tasks) for arm in claim.backbones)
    ]
    sentence = import_module("lab.language").SENTENCE
    count = sum((run.arm, run.task) in cells for run in runs)
    assert f"{count} runs ({len(claims)} of {len(model_claims('secondary'))} secondary" in sentence


def test_frozen_smollm2_trains_no_positions_and_minilm_does(runs):
    trained = {
        backbone: {
            "positions" in run.spec.trainable
            for run in runs
            if run.spec.backbone.startswith(backbone) and "attention" not in run.spec.trainable
        }
        for backbone in ("smollm2", "minilm")
    }
    assert trained == {"smollm2": {False}, "minilm": {True}}
    frozen = [run for run in runs if run.spec.backbone.startswith("smollm2")]
    count = sum("attention" not in run.spec.trainable for run in frozen)
    assert f"none of the {count} frozen SmolLM2" in " ".join(
        (ROOT / "docs/interpretation.md").read_text().split()
    )
