"""What the lab's findings mean for a reader of the paper: `python -m lab.interpretation` writes
docs/interpretation.md from the records. The text is interpretation.md beside this file; it was
written for certain verdicts, and the page is refused if the records give others."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from fpt.analysis import contrasts
from fpt.analysis.claims import LAB, Finding, claims, findings, results_of
from fpt.analysis.study import section
from fpt.analysis.summary import summary
from fpt.config import Run, expand, load
from fpt.files import ROOT, FptError, write_atomic
from fpt.report.table import cell_text
from fpt.report.unregistered import ratio_text
from fpt.training.sweep import packs

from . import gpu

PAGE = ROOT / "docs" / "interpretation.md"
TEXT = Path(__file__).with_name("interpretation.md")


@cache
def found() -> Mapping[str, Finding]:
    """Every registered claim by name."""
    return {it.claim.name: it for kind in ("primary", "secondary") for it in findings(kind)}


def said(name: str, label: str = "") -> str:
    """Effect, n and verdict of a claim, or with `NAME verdict` the verdict alone; FptError if the
    text needs the verdict `label` and it is another."""
    if name.endswith(" verdict"):
        return found()[name.removesuffix(" verdict")].label
    it = found()[name]
    if label and it.label != label:
        raise FptError(
            f"{TEXT.name} was written for {name} {label}, but the records say {it.label}."
        )
    usual = set(it.n.values()) == {12} or it.claim.measure == "predicts"
    n = "" if usual else "n = " + " and ".join(map(str, it.n.values())) + "; "
    return f"{it.effect_text} ({n}{it.label})"


def reached(arm: str) -> str:
    """How many runs of an arm reach the threshold, over the tasks of `english-sooner`."""
    frame = results_of([it for it in claims("primary") if it.name == "english-sooner"])
    ends = ~frame.loc[frame["arm"] == arm, "censored"].astype(bool)
    return f"{ends.sum()} of {len(ends)}"


def of_contrast(name: str, task: str) -> str:
    """The ratio of steps of an unregistered contrast on a task."""
    effect = next(it for it in contrasts.contrasts() if it.name == name).by_task[task]
    return ratio_text(*np.exp([effect.estimate, effect.low, effect.high]))


def at_threshold(task: str, threshold: str) -> str:
    """The ratio of the steps of English to those of random up to a threshold."""
    frame = contrasts.by_threshold(contrasts.PAIRS["English / random"])
    rows = frame[(frame["task"] == task) & (frame["threshold"] == float(threshold))]
    return ratio_text(*rows[["ratio", "low", "high"]].iloc[0])


def quotient() -> str:
    """The ratio of English to random at one rate, divided by that at the rate of each."""
    effect = contrasts.interaction()
    assert effect is not None
    return ratio_text(*np.exp([effect.estimate, effect.low, effect.high]), sign="")


def cell(section_name: str, arm: str, task: str) -> str:
    """The cell of a section's table: steps with their interval, and the number of runs."""
    study = section(section_name, LAB).part([task], [arm])
    return cell_text(summary(study.results()).to_dict("records")[0], steps=True)


def hours(some: list[Run], backbones: int = 1) -> float:
    """Of one GPU, by the assumptions of docs/gpu.md: of training `some` runs on each of `backbones`
    backbones, and of pretraining those that nobody publishes."""
    specs = {run.key: run.spec for run in some}.values()
    weights = {it.weights for it in specs if it.weights and not it.weights.startswith("hub:")}
    trained = sum(gpu.cost(pack)[1] for pack in packs(specs, apart={}))
    return backbones * (trained + sum(map(gpu.pretraining_hours, weights)))


def of_paper(section: str, tasks: str, arms: str) -> str:
    """The hours of some arms of a section of the profile `paper`."""
    runs = expand(load("paper"), section)
    mine = [it for it in runs if it.task in tasks.split() and it.arm in arms.split()]
    return f"{hours(mine):,.0f}"


def page() -> str:
    """docs/interpretation.md: `{claim: verdict}` in the text becomes what the claim's runs say, and
    `{function(argument; ...)}` what a function of this module returns."""
    functions = (reached, of_paper, of_contrast, at_threshold, quotient, cell)
    known = {it.__name__: it for it in functions}

    def filled(place: re.Match[str]) -> str:
        if call := re.fullmatch(r"(\w+)\((.*)\)", place[1]):
            return known[call[1]](*call[2].split("; ")) if call[2] else known[call[1]]()
        return said(*place[1].split(": "))

    return re.sub(r"\{(.+?)\}", filled, TEXT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    write_atomic(PAGE, page().encode())
