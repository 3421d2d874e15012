"""What bodies bring to English: bits per byte of a held-out text, and what a start saves."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from ..sections.claims import points
from ..sections.lessons import Lesson, Taught, planned, taught
from ..sections.section import Section
from .savings import saving
from .style import INK, LOOKS, MUTED, styled
from .table import NONE, Table, counted, label, si

BESIDE = {True: "random", False: "full"}  # by whether the body is frozen: what a start is held to
TRAINED = {True: "words, positions, norms", False: "everything"}


def english_table(section: Section) -> Table:
    """A row per arm: bits per byte of the held-out text with their interval over seeds, and what is
    saved of those that a random start needs with the same parts trained."""
    plans = _by_arm(section)
    found = taught(section.profile, section.name)
    shown, numbers = {}, []
    for arm, mine in plans.items():
        frozen, it = mine[0].plan.frozen, found[arm]
        saved = saving(found, arm, BESIDE[frozen]) if arm != BESIDE[frozen] else None
        weights = dict.fromkeys(lesson.plan.weights or "random" for lesson in mine)
        shown[label(arm)] = {
            "body": ", ".join(weights),
            "trained": TRAINED[frozen],
            "bits per byte": _bits(it),
            "saved, %": NONE if saved is None else points(saved),
            "seeds": f"{len(it.values)} of {it.expected}",
        }
        for one in it.records:
            kept = ("bits_per_byte", "valid_loss", "tokens", "weights_digest")
            row = {"arm": arm, "seed": one["plan"]["seed"], "weights": one["plan"]["weights"]}
            numbers.append(row | {name: one[name] for name in kept})
    notes = [
        f"Each body learns English from {_tokens(plans)} tokens. Bits per byte of books by authors "
        "that are not in training: nats per token × tokens / bytes / ln 2.",
        "Saved: of the bits that a random body needs with the same parts trained, seed by seed. "
        f"{label('full')} is training from scratch.",
        "Every body has words of its own to begin with. One pretrained on English has read the "
        "training text before, not the held-out one.",
    ]
    devices = Counter(one["device"] for it in found.values() for one in it.records)
    if devices:
        notes.append(f"Lessons by device: {counted(devices)}.")
    frame = pd.DataFrame.from_dict(shown, orient="index")
    return Table("english", "English as a language", frame, pd.DataFrame(numbers), tuple(notes))


def english_figure(section: Section) -> Figure:
    """Bits per byte against tokens of English, means over seeds: body frozen, and trained."""
    plans = _by_arm(section)
    found = taught(section.profile, section.name)
    with styled():
        figure = Figure(figsize=(9.6, 4.0))
        panels = figure.subplots(1, 2, sharey=True)
        for axes, frozen in zip(panels, (True, False), strict=True):
            mine = [arm for arm, these in plans.items() if these[0].plan.frozen is frozen]
            axes.set_title(f"trained: {TRAINED[frozen]}")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda tokens, _: si(tokens).strip()))
            _curves(axes, [found[arm] for arm in mine])
            axes.legend(handles=[_handle(arm) for arm in mine], loc="upper right", fontsize=8)
        panels[0].set_ylabel("held-out bits per byte")
        figure.supxlabel("tokens of English", fontsize=9)
    return figure


def _curves(axes: Axes, arms: list[Taught]) -> None:
    absent = []
    for it in arms:
        if it.interval is None:
            absent.append(label(it.arm))
            continue
        look = LOOKS[it.arm]
        tokens = [point["tokens"] for point in it.records[0]["curve"]]
        bits = [[point["bits_per_byte"] for point in one["curve"]] for one in it.records]
        axes.plot(
            tokens, np.mean(bits, 0), color=look.colour, ls=look.line, lw=1.6, marker=look.marker,
            ms=6, mfc=look.face, mec=INK,
        )  # fmt: skip
    if absent:
        text = "not run: " + "\n".join(absent)
        axes.text(0.02, 0.02, text, transform=axes.transAxes, color=MUTED, fontsize=7)


def _handle(arm: str) -> Line2D:
    look = LOOKS[arm]
    return Line2D(
        [], [], color=look.colour, ls=look.line, marker=look.marker, mfc=look.face, mec=INK,
        label=label(arm),
    )  # fmt: skip


def _by_arm(section: Section) -> dict[str, list[Lesson]]:
    found: dict[str, list[Lesson]] = {}
    for lesson in planned(section.profile, section.name):
        found.setdefault(lesson.arm, []).append(lesson)
    return found


def _tokens(plans: Mapping[str, list[Lesson]]) -> str:
    return " or ".join(dict.fromkeys(si(mine[0].plan.tokens).strip() for mine in plans.values()))


def _bits(it: Taught) -> str:
    if it.interval is None:
        return "not run"
    low, high = it.interval.low, it.interval.high
    ends = f" [{low:.3f}, {high:.3f}]" if np.isfinite(low) else ""
    return f"{it.interval.mean:.3f}{ends}"
