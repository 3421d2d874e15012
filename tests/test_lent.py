"""Sections that a profile leaves empty, whose question runs of other sections answer."""

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made import PARAMS, fill, make_record

import fpt
from fpt.report import conclude, effects, progress_table
from fpt.report.index import index
from fpt.sections import NAMES, declared

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
LENT = [name for name in NAMES if declared(name).lenders]


@pytest.mark.parametrize("name", LENT)
def test_an_empty_section_has_the_runs_of_its_arms_that_others_plan(name):
    own = fpt.section(name, "smoke")
    assert own.with_lent_runs() == own
    empty = fpt.section(name, "language")
    study = empty.with_lent_runs()
    assert not empty.runs
    assert study.compared
    lenders = [fpt.section(lender, "language").runs for lender in study.declared.lenders]
    assert set(study.runs) <= set().union(*lenders)
    assert len(study.keys) == len(study.runs)
    text = conclude(study).text
    assert "runs of other sections" in text
    assert "Registered claims" not in text  # they stand where the runs are planned


@pytest.fixture
def study(planned):
    """The encoder's part of the ladder, with a record of every run on bit-xor but one
    of the lowest rung."""
    study = fpt.section("initialization", "language")
    arms = ("fpt-minilm", "spectrum-minilm", "shuffled-minilm")
    study = study.part(("bit-xor", "bit-memory-small"), arms)
    losses = dict(zip(arms, (0.1, 0.2, 0.3), strict=True))
    *written, last = sorted(
        (run for run in study.runs if run.task == "bit-xor"),
        key=lambda run: run.arm == "shuffled-minilm",
    )
    assert last.arm == "shuffled-minilm"
    for number, run in enumerate(written):
        record = make_record(run, 0.9)
        curve = [
            record.curve[-1] | {"step": step, "valid_loss": losses[run.arm] + number / 1e4}
            for step in range(10, run.spec.steps + 1, 10)
        ]
        cost = record.cost | {"process_seconds": 7.0}
        study.store.write(replace(record, curve=curve, cost=cost))
    return study


def test_each_rung_has_its_effect_or_the_runs_that_it_waits_for(study):
    arms = ("shuffled-minilm", "spectrum-minilm", "fpt-minilm")
    text = effects(study, *zip(arms[1:], arms[:-1], strict=True)).text
    waiting, complete = (line for line in text.splitlines() if line.startswith("- "))
    assert "47 of 48 runs so far" in waiting
    assert "0 of 48 runs so far" in waiting  # on bit memory
    assert "the area" in complete
    assert "0 of 28 runs so far" in complete


def test_steps_and_time_are_those_of_the_runs_that_are_recorded(study):
    numbers = progress_table(study).numbers.set_index("arm")
    assert set(numbers["task"]) == {"bit-xor"}
    assert (numbers["processor seconds"] == 7.0).all()
    assert (numbers["steps to 80%"] == 10).all()
    assert numbers["steps to 95%"].isna().all()
    assert math.isclose(numbers["accuracy"].iloc[0], 90.0)
    texts = progress_table(study).texts["runs"]
    assert sorted(texts) == ["23 of 24", "24 of 24", "4 of 4"]


def test_a_report_with_few_runs_says_what_they_say_and_links_to_pages_that_are_there(project):
    """The first section has no run, and the one that has some none of its first comparison."""
    shutil.copytree(PARAMS.parent, project.root, dirs_exist_ok=True)
    shutil.copytree(NOTEBOOKS, project.root / "notebooks")
    study = fpt.section("initialization", "paper")
    arms = ("fpt-smollm2-6", "random-smollm2-6")
    fill(study.part(("mnist",), arms), lambda run: 0.93 + 0.02 * (run.arm == arms[0]))
    page = project.reports / "paper" / "notebooks" / "07_initialization.md"
    page.parent.mkdir()
    page.write_text("# Initialisation")
    index("paper")
    front = (project.reports / "paper" / "README.md").read_text()
    assert "on mnist, +2.0 points" in front
    assert re.findall(r"\]\((notebooks/.*?)\)", front) == ["notebooks/07_initialization.md"]
    assert "+2.0 points" in conclude(study).text
