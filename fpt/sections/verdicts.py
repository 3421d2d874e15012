"""The whole ledger: every claim of every section of a profile, adjusted together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from .. import config
from ..analysis.cells import section_tasks, titles
from ..report.table import NONE, Table
from .claims import (
    LABELS,
    Finding,
    adjust,
    applicable,
    effect_text,
    overall,
    p_text,
    scale,
    unadjusted,
)
from .ledger import CLAIMS
from .section import Section, section


@dataclass(frozen=True)
class Entry:
    """A finding, the section whose runs it rests on, and the bodies of those runs."""

    section: str
    finding: Finding
    bodies: str


def entries(profile: str) -> list[Entry]:
    """The findings of all sections of a profile, p-values adjusted over all of them (Holm)."""
    sections = [section(name, profile) for name in config.load(profile).sections if name in CLAIMS]
    found = [(part, finding) for part in sections for finding in unadjusted(part)]
    adjusted = adjust([finding for _, finding in found])
    return [
        Entry(part.name, finding, bodies(part, finding))
        for (part, _), finding in zip(found, adjusted, strict=True)
    ]


def claims_table(profile: str) -> Table:
    """Every claim with its source, what is measured, and on which tasks; reads no record."""
    rows: dict[str, dict[str, str]] = {}
    for name in filter(CLAIMS.__contains__, config.load(profile).sections):
        part = section(name, profile)
        tasks = section_tasks(part)
        names = titles(tasks)
        for claim in applicable(part):
            covered = [names.get(task, task) for task in tasks if claim.covers(task)]
            rows[f"{name}: {claim.text}"] = {
                "measured": claim.effect,
                "claimed": DIRECTIONS[claim.direction].format(100 * claim.margin),
                "unit": claim.unit,
                "tasks": ", ".join(covered) or NONE,
                "source": claim.source,
            }
    frame = pd.DataFrame.from_dict(rows, orient="index")
    notes = (f"{len(rows)} claims. A claim without a task here is about other tasks.",)
    return Table("claims", "The claims", frame, frame, notes)


def bodies(part: Section, finding: Finding) -> str:
    """`nano (nano-english-0)`: the bodies that a finding is about, and their weights."""
    runs = [run for run in part.runs if run.task == finding.task]
    specs = [run.spec for run in runs if run.arm in finding.claim.arms]
    weights = dict.fromkeys(spec.weights for spec in specs if spec.weights is not None)
    names = ", ".join(dict.fromkeys(spec.backbone for spec in specs))
    if not specs:
        return "no runs in this profile"
    return f"{names} ({', '.join(weights) or 'no weights'})"


def by_claim(found: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """The entries of each claim, by section and id: one per task."""
    grouped: dict[tuple[str, str], list[Entry]] = {}
    for entry in found:
        grouped.setdefault((entry.section, entry.finding.claim.id), []).append(entry)
    return grouped


def overall_of(mine: Sequence[Entry]) -> str:
    """The verdict on a claim from those of its tasks."""
    return overall([entry.finding for entry in mine])


def ledger_table(found: Sequence[Entry], profile: str) -> Table:
    """A row per claim: its verdict over all tasks, and the tasks behind it."""
    rows: dict[str, dict[str, str]] = {}
    for (part, _), mine in by_claim(found).items():
        claim = mine[0].finding.claim
        on = {name: _tasks(mine, name) for name in LABELS}
        rows[f"{part}: {claim.text}"] = {
            "verdict": overall_of(mine),
            **{f"{name} on": on[name] for name in LABELS},
            "tested on": "; ".join(dict.fromkeys(entry.bodies for entry in mine)),
            "source": claim.source,
        }
    counts = ", ".join(f"{number} {name}" for name, number in count_claims(found).items())
    asked = sum(entry.finding.claim.asked for entry in found)
    judged = sum(not math.isnan(entry.finding.verdict.p) for entry in found)
    whole = sum(
        all(entry.finding.measured.ran for entry in mine) for mine in by_claim(found).values()
    )
    notes = (
        f"Profile {profile}; {len(rows)} claims: {counts}. {whole} have all the runs that they "
        "need.",
        f"Verdicts at 5% after Holm's adjustment over all {asked} tests that the profile has runs "
        f"for; {judged} have a p-value yet, and one that has none counts as if it showed nothing. "
        "With every test that is asked for, each has to show more. On a section's own page the "
        "adjustment is over that section.",
        "A claim is supported if it is on each of its tasks, contradicted if on one.",
        scale(profile),
    )
    shown = pd.DataFrame.from_dict(rows, orient="index")
    return Table("ledger", "The ledger of claims", shown, numbers(found), notes)


DIRECTIONS = {"greater": "above {:g}", "less": "below −{:g}", "equal": "within {:g}"}


def _tasks(mine: Sequence[Entry], name: str) -> str:
    named = [it.finding.title for it in mine if it.finding.verdict.label == name]
    return ", ".join(named) or NONE


def count_claims(found: Sequence[Entry]) -> dict[str, int]:
    """How many claims have each verdict."""
    verdicts = [overall_of(mine) for mine in by_claim(found).values()]
    return {name: verdicts.count(name) for name in LABELS}


def numbers(found: Sequence[Entry]) -> pd.DataFrame:
    """One row per claim and task: verdict, effect with interval, runs, p."""
    rows = []
    for entry in found:
        it, seen = entry.finding, entry.finding.measured.effect
        row: dict[str, object] = {
            "section": entry.section,
            "claim": it.claim.id,
            "text": it.claim.text,
            "source": it.claim.source,
            "task": it.task,
            "fitting": it.title != it.task,
            "bodies": entry.bodies,
            "verdict": it.verdict.label,
            "measured": it.claim.effect,
            "unit": it.claim.unit,
            "barred": it.measured.barred,
            "direction": it.claim.direction,
            "margin": it.claim.margin,
            "runs": " and ".join(map(str, it.measured.runs)),
            "p_holm": it.verdict.p,
        }
        if seen is not None:
            row |= {name: getattr(seen, name) for name in ("effect", "low", "high", "p")}
        rows.append(row)
    return pd.DataFrame(rows)


def tests_table(found: Sequence[Entry]) -> Table:
    """A row per claim and task that was run: effect, interval, n, p."""
    rows, names = [], []
    for entry in found:
        it = entry.finding
        if not it.measured.ran:
            continue
        names.append(f"{entry.section}: {it.claim.text}")
        rows.append(
            {
                "task": it.title,
                "verdict": it.verdict.label,
                "measured": it.claim.effect,
                "effect": effect_text(it.measured),
                "unit": it.claim.unit,
                "runs": " and ".join(map(str, it.measured.runs)),
                "p (Holm)": p_text(it.verdict.p).removeprefix("= "),
            }
        )
    notes = (
        f"{len(rows)} of {len(found)} tests have all the runs that they need.",
        "Effects with their 95% interval, which is not adjusted over the tests.",
    )
    frame = pd.DataFrame(rows, index=names)
    return Table("tests", "What was measured", frame, frame, notes)
