"""What the lab's findings mean for a reader of the paper: `python -m lab.interpretation` writes
docs/interpretation.md from the records. The text is interpretation.md beside this file; it was
written for certain verdicts, and the page is refused if the records give others."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from fpt.analysis.claims import Finding, claims, enough, findings, results_of, runs_of
from fpt.config import Run, expand, load
from fpt.files import ROOT, FptError, write_atomic
from fpt.training.sweep import packs

from . import gpu

PAGE = ROOT / "docs" / "interpretation.md"
TEXT = Path(__file__).with_name("interpretation.md")


@cache
def found() -> Mapping[str, Finding]:
    """Every registered claim by name."""
    return {it.claim.name: it for kind in ("primary", "secondary") for it in findings(kind)}


def said(name: str, label: str) -> str:
    """Effect, n and verdict of a claim; FptError if its verdict is not `label`."""
    it = found()[name]
    if it.label != label:
        raise FptError(
            f"{TEXT.name} was written for {name} {label}, but the records say {it.label}."
        )
    return f"{it.effect_text} ({it.n_text}; {it.label})"


def reached() -> str:
    """How many runs of frozen English reach the threshold, over the tasks of `english-sooner`."""
    frame = results_of([it for it in claims("primary") if it.name == "english-sooner"])
    ends = ~frame.loc[frame["arm"] == "fpt-english", "censored"].astype(bool)
    return f"{ends.sum()} of {len(ends)}"


def hours(some: list[Run], backbones: int = 1) -> float:
    """Of one GPU, by the assumptions of docs/gpu.md: of training `some` runs on each of `backbones`
    backbones, and of pretraining those that nobody publishes."""
    specs = {run.key: run.spec for run in some}.values()
    weights = {it.weights for it in specs if it.weights and not it.weights.startswith("hub:")}
    trained = sum(gpu.cost(pack)[1] for pack in packs(specs, apart={}))
    return backbones * (trained + sum(map(gpu.pretraining_hours, weights)))


def of_claim(name: str) -> str:
    """What would decide a claim, and its hours: how many backbones, each with all tasks."""
    it = found()[name]
    need = enough(it.effect, it.n)
    one = replace(it.claim, backbones=dict.fromkeys(it.claim.backbones, 1))
    some = list(runs_of([one]).runs)
    return f"{need} | {hours(some, int(re.sub(r'[^0-9]', '', need))):,.1f}"


def of_paper(section: str, tasks: str, arms: str) -> str:
    """The hours of some arms of a section of the profile `paper`."""
    runs = expand(load("paper"), section)
    mine = [it for it in runs if it.task in tasks.split() and it.arm in arms.split()]
    return f"{hours(mine):,.0f}"


def page() -> str:
    """docs/interpretation.md: `{claim: verdict}` in the text becomes what the claim's runs say, and
    `{function(argument; ...)}` what a function of this module returns."""
    known = {it.__name__: it for it in (reached, of_claim, of_paper)}

    def filled(place: re.Match[str]) -> str:
        if call := re.fullmatch(r"(\w+)\((.*)\)", place[1]):
            return known[call[1]](*call[2].split("; ")) if call[2] else known[call[1]]()
        return said(*place[1].split(": "))

    return re.sub(r"\{(.+?)\}", filled, TEXT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    write_atomic(PAGE, page().encode())
