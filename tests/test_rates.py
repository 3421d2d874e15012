"""“Each at its best learning rate”: claims of the lab are judged at the thresholds and rates that
the pilot set, which docs/plan.md prints."""

import re
from pathlib import Path

from fpt import config
from fpt.claims.claim import KINDS, claims

PLAN = Path(__file__).parents[1] / "docs" / "plan.md"
SEEDS = {0, 1, 2}  # of the pilot's runs
SAME = {"fpt": "fpt-english", "bit-xor-1000": "bit-xor"}  # arms and tasks of the pilot
LEAST_SEEDS = 2  # of a rate that was chosen
EXCEPTIONS = {
    ("fpt-unigram", "mnist-short"): "one seed",
    ("fpt", "mnist-equal"): "not searched",
    ("full", "mnist-equal"): "not searched",
}


def table(header):
    """The cells of the table in docs/plan.md whose first line begins with `header`, by the names of
    row and column."""
    (text,) = re.findall(rf"^\| {header} \|.*?(?=\n\n)", PLAN.read_text(), re.M | re.S)
    (_, *columns), _, *rows = ([*line.strip("| ").split(" | ")] for line in text.splitlines())
    return {
        (name.removesuffix(" (fitting)"), column): cell
        for name, *cells in rows
        for column, cell in zip(columns, cells, strict=True)
    }


def test_no_reported_run_has_a_seed_of_the_pilot():
    profile = config.load("lab")
    runs = [run for name in profile.sections for run in config.expand(profile, name)]
    assert SEEDS.isdisjoint(run.spec.seed for run in runs if not run.search)


def test_the_thresholds_are_those_of_the_plan():
    tasks = config.load("lab").tasks
    cells = table("task")
    battery = {task: cell for (task, column), cell in cells.items() if column == "threshold"}
    assert len(battery) == 4
    assert battery == {task: f"{100 * tasks[task]['threshold']:g}%" for task in battery}


def test_the_rate_of_a_claim_is_the_pilots_best():
    profile = config.load("lab")
    best = {
        place: re.fullmatch(r"[\d,]+ at ([\d.]+) \(\d/(\d)\)", cell).groups()
        for place, cell in table("arm [|] bit-xor").items()
        if cell != "–"
    }
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
        searched = (SAME.get(arm, arm), SAME.get(task, task))
        if searched not in best:
            exceptions[arm, task] = "not searched"
            continue
        rate, seeds = best[searched]
        assert config.make_spec(profile, arm, task, 0).lr == float(rate), (arm, task)
        if int(seeds) < LEAST_SEEDS:
            exceptions[arm, task] = "one seed"
    assert exceptions == EXCEPTIONS
