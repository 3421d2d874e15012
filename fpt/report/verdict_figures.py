"""Figures of the ledger: verdicts by section, and the effects behind the claims of one section."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..analysis.stats import Label
from ..sections.claims import LABELS
from ..sections.verdicts import Entry, by_claim
from .style import GRID, INK, MUTED, Look, styled

LOOK: Mapping[Label, Look] = {
    "supported": Look("#0072B2", "o", "", "-"),
    "contradicted": Look("#D55E00", "X", "////", "-"),
    "inconclusive": Look("#BBBBBB", "s", "", "-"),
    "not run": Look("#FFFFFF", "", "", "-"),
}
ROW = 0.3  # inches


def by_section(found: Sequence[Entry]) -> Figure:
    """Tests (claims on tasks) of each section by verdict."""
    sections = list(dict.fromkeys(entry.section for entry in found))
    counts = np.array(
        [
            [
                sum((it.section, it.finding.verdict.label) == (name, label) for it in found)
                for name in sections
            ]
            for label in LABELS
        ]
    )
    with styled():
        figure = Figure(figsize=(8.0, 1.1 + ROW * len(sections)))
        axes = figure.subplots()
        left = np.zeros(len(sections))
        for label, row in zip(LABELS, counts, strict=True):
            look = LOOK[label]
            axes.barh(
                range(len(sections)), row, 0.72, left=left, color=look.colour, hatch=look.hatch,
                edgecolor="white" if label == "contradicted" else MUTED, linewidth=0.6,
            )  # fmt: skip
            left = left + row
        for y, total in enumerate(left):
            parts = ", ".join(
                f"{int(n)} {label}" for label, n in zip(LABELS, counts[:, y], strict=True) if n
            )
            axes.text(total, y, f"  {parts}", va="center", fontsize=7, color=MUTED)
        axes.set_yticks(range(len(sections)), sections)
        axes.set_ylim(len(sections) - 0.4, -0.6)
        axes.set_xlim(0, 1.75 * max(left, default=1))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("tests: claims on tasks")
        figure.legend(
            handles=[
                Patch(
                    facecolor=LOOK[label].colour,
                    hatch=LOOK[label].hatch,
                    edgecolor="white" if label == "contradicted" else MUTED,
                    label=label,
                )
                for label in LABELS
            ],
            loc="outside upper left",
            ncols=len(LABELS),
        )
    return figure


def effects(found: Sequence[Entry], section: str) -> Figure:
    """The effect behind each claim of a section, a panel per claim and a row per task: 95%
    interval, the verdict's marker, and as a band what counts as no more than the claim's margin."""
    claims = [mine for (part, _), mine in by_claim(found).items() if part == section]
    tasks = list(dict.fromkeys(it.finding.task for mine in claims for it in mine))
    with styled():
        figure = Figure(figsize=(1.6 + 2.1 * len(claims), 1.6 + ROW * len(tasks)))
        panels = figure.subplots(1, len(claims), sharey=True, squeeze=False)[0]
        for axes, mine in zip(panels, claims, strict=True):
            claim = mine[0].finding.claim
            there = {entry.finding.task: entry.finding for entry in mine}
            if claim.margin:
                axes.axvspan(-100 * claim.margin, 100 * claim.margin, color=GRID, lw=0, zorder=0)
            axes.axvline(0, color=INK, lw=0.8)
            for y, task in enumerate(tasks):
                if task not in there:
                    axes.text(0, y, "  –", va="center", color=MUTED, fontsize=7)
                    continue
                label, seen = there[task].verdict.label, there[task].measured.effect
                if seen is None:
                    axes.text(0, y, "  not run", va="center", color=MUTED, fontsize=7)
                    continue
                look, ends = LOOK[label], 100 * np.array([seen.low, seen.high])
                if np.isfinite(ends).all():
                    axes.plot(ends, [y, y], color=INK, lw=1.3)
                axes.plot(
                    100 * seen.effect, y, look.marker, color=look.colour, mec=INK, ms=7, zorder=5
                )
            axes.set_title(_wrapped(claim.effect), fontsize=8)
            axes.set_yticks(range(len(tasks)), tasks)
            axes.set_ylim(len(tasks) - 0.5, -0.5)
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="y", visible=False)
            low, high = axes.get_xlim()
            axes.set_xlim(min(low, -4), max(high, 4))
        figure.supxlabel("points of test accuracy", fontsize=9)
        handles = [
            axes.plot([], [], look.marker, color=look.colour, mec=INK, ms=7, label=label)[0]
            for label, look in LOOK.items()
            if look.marker
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return figure


def _wrapped(text: str) -> str:
    return text.replace(" minus ", "\nminus ")
