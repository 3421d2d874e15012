"""What a body was pretrained on and how well that was learned, beside how well it transfers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ..analysis.cells import Cells, best_floor, cells, ran, section_arms, section_tasks
from ..analysis.provenance import LEAST, plan_behind, pretraining
from ..pretraining.on_corpus import Pretraining, positions_seen
from ..sections.arms import AMOUNTS, CORPORA
from ..sections.section import Section
from .panels import Layout, draw_floor, floor_handle
from .style import INK, LOOKS, MUTED, styled, unrun
from .table import NONE, Table, counted, label, percent, si
from .trends import Series, trends

LEAST_REACH = 5.0  # points around the values of a panel, so that small differences look small


def bodies(section: Section) -> dict[str, list[str]]:
    """The weights of each arm that keeps a pretrained body, one per body."""
    found: dict[str, dict[str, None]] = {}
    for run in section.runs:
        if run.spec.weights is not None and run.spec.init == "pretrained":
            found.setdefault(run.arm, {})[run.spec.weights] = None
    return {arm: list(names) for arm, names in found.items()}


def learned(section: Section) -> dict[str, dict[str, dict[str, Any]]]:
    """What was written when the bodies of each arm were pretrained, by weights, where it is
    here."""
    return {
        arm: {name: said for name in names if "valid_loss" in (said := pretraining(section, name))}
        for arm, names in bodies(section).items()
    }


def corpora_table(section: Section) -> Table:
    """A row per corpus: held-out loss between the entropy of the generator, which nothing can be
    below, and that of single tokens, which needs no body."""
    said = learned(section)
    arms: dict[tuple[str, ...], str] = {}  # the first on these bodies
    for arm, names in bodies(section).items():
        arms.setdefault(tuple(names), arm)
    shown: dict[str, dict[str, str]] = {}
    numbers: list[dict[str, Any]] = []
    for weights, arm in arms.items():
        there, plan = list(said[arm].values()), plan_behind(weights[0])
        assert isinstance(plan, Pretraining), f"{weights[0]} did not learn from a corpus"
        shown[label(arm)] = {
            "weights": ", ".join(weights),
            "here": f"{len(there)} of {len(weights)}",
            "tokens": si(there[0]["tokens"]) if there else f"{si(plan.tokens)} planned",
            "positions": str(positions_seen(plan)) if there else NONE,
            "one token": _mean(there, "unigram_entropy"),
            "held out": _mean(there, "valid_loss"),
            "generator": _bound(there),
            "learned": _share(there),
            "bits per byte": _mean(there, "bits_per_byte"),
        }
        for name, one in said[arm].items():
            kept = ("tokens", "corpus_tokens", "valid_loss", "unigram_entropy", "entropy")
            numbers.append({"arm": arm, "weights": name} | {key: one.get(key) for key in kept})
    here = {name: one for there in said.values() for name, one in there.items()}
    judged = {name: one for name, one in here.items() if one.get("entropy") is not None}
    below = [name for name, one in judged.items() if one.get("below_entropy")]
    missing = len({name for names in arms for name in names} - set(here))
    notes = [
        "One token: entropy of the held-out tokens alone. Generator: what no loss can be below; at "
        "least that where a bound is known. Learned: the share of the way from the one to the "
        "other. All in nats per token, a mean over the bodies that are here.",
    ]
    if judged:
        notes.append(
            "Below the generator's entropy by more than chance on the held-out tokens: "
            + (f"{', '.join(below)}, which is an error" if below else "none")
            + f", of {len(judged)} that have one."
        )
    devices = Counter(one.get("device", "not recorded") for one in here.values())
    if devices:
        notes.append(f"Bodies by the device they were pretrained on: {counted(devices)}.")
    if missing:
        notes.append(f"Of {missing} further bodies there is neither a record nor a file here.")
    frame = pd.DataFrame.from_dict(shown, orient="index")
    title = "What the bodies learned from their corpora"
    return Table("held_out", title, frame, pd.DataFrame(numbers), tuple(notes))


def _values(there: list[dict[str, Any]], name: str) -> list[float]:
    return [one[name] for one in there if one.get(name) is not None]


def _mean(there: list[dict[str, Any]], name: str) -> str:
    values = _values(there, name)
    return f"{np.mean(values):.3f}" if values else NONE


def _bound(there: list[dict[str, Any]]) -> str:
    exact = all(one.get("entropy_exact") for one in there)
    text = _mean(there, "entropy")
    return text if exact or text == NONE else f"≥ {text}"


def _share(there: list[dict[str, Any]]) -> str:
    """Of what can be learned beyond the frequencies; meaningless where there is next to nothing."""
    shares = [
        (one["unigram_entropy"] - one["valid_loss"]) / (one["unigram_entropy"] - one["entropy"])
        for one in there
        if one.get("entropy") is not None and one["unigram_entropy"] - one["entropy"] > LEAST
    ]
    return f"{percent(float(np.mean(shares)))}%".replace("-", "−") if shares else NONE


def transfer_figure(section: Section) -> Figure:
    """Test accuracy against what a body learned beyond the frequencies of tokens, a panel per task
    that has any; a band and a line: the random body."""
    found, planned, said = cells(section.frame()), section_tasks(section), learned(section)
    arms = [arm for arm in section_arms(section) if arm.removeprefix("fpt-") in CORPORA]
    filled = {task for task in planned if any(ran(found, arm, task) for arm in arms)}
    tasks = {task: it for task, it in planned.items() if task in filled} or planned
    empty = [task for task in planned if task not in tasks]
    layout = Layout(len(tasks), 2)
    with styled():
        figure = Figure(figsize=(10.5, 0.6 + 3.3 * layout.rows))
        for axes, (task, definition) in zip(layout.on(figure), tasks.items(), strict=True):
            axes.set_title(task)
            _panel(axes, found, said, arms, task)
            draw_floor(axes, best_floor(definition))
            axes.yaxis.set_major_locator(MaxNLocator(6, prune="both"))
            low, high = axes.get_ylim()
            axes.set_ylim(low - LEAST_REACH, high + LEAST_REACH)
        what = "entropy of single tokens minus held-out loss, nats"
        figure.supxlabel(what + unrun(empty), fontsize=9)
        figure.supylabel("test accuracy, %", fontsize=9)
        handles = [_handle(arm) for arm in arms]
        look = LOOKS["random"]
        handles += [
            Line2D([], [], color=look.colour, ls=look.line, label=label("random")),
            floor_handle(),
        ]
        figure.legend(handles=handles, loc="outside right upper")
    return figure


def _handle(arm: str) -> Line2D:
    look = LOOKS[arm]
    return Line2D([], [], ls="", marker=look.marker, color=look.colour, mec=INK, label=label(arm))


def _panel(
    axes: Axes,
    found: Cells,
    said: Mapping[str, Mapping[str, dict[str, Any]]],
    arms: list[str],
    task: str,
) -> None:
    random = found.get(("random", task))
    if random is not None and random.interval is not None:
        look, it = LOOKS["random"], random.interval
        if np.isfinite(it.low):
            axes.axhspan(100 * it.low, 100 * it.high, color=look.colour, alpha=0.15, lw=0)
        axes.axhline(100 * it.mean, color=look.colour, ls=look.line)
    absent, planned = [], [arm for arm in arms if (arm, task) in found]
    for arm in planned:
        cell, there = found[arm, task], said.get(arm, {}).values()
        if cell.interval is None or not there:
            absent.append(arm)
            continue
        gains = [one["unigram_entropy"] - one["valid_loss"] for one in there]
        look, it = LOOKS[arm], cell.interval
        axes.plot([np.mean(gains)] * 2, [100 * it.low, 100 * it.high], color=look.colour, lw=1.5)
        axes.plot(np.mean(gains), 100 * it.mean, look.marker, color=look.colour, mec=INK, zorder=5)
    if absent:
        text = f"not run or not here: {len(absent)} of {len(planned)}"
        axes.text(0.98, 0.02, text, transform=axes.transAxes, ha="right", color=MUTED, fontsize=7)


def tokens_seen(section: Section) -> list[tuple[float, str]]:
    """The arms of English at several numbers of tokens, few tokens first."""
    plans = {arm: plan_behind(names[0]) for arm, names in bodies(section).items() if arm in AMOUNTS}
    return sorted((float(plan.tokens), arm) for arm, plan in plans.items() if plan is not None)


def tokens_figure(section: Section) -> Figure | None:
    """Test accuracy against the tokens of English that a body has seen, a panel per task that has
    two such bodies to compare; None where no task has."""
    found, tasks = cells(section.frame()), section_tasks(section)
    there = tokens_seen(section)
    look = replace(LOOKS["fpt-english"], marker="")
    panels = {
        task: [Series("English", look, [(n, found.get((a, task))) for n, a in there], [])]
        for task in tasks
        if sum((arm, task) in found for _, arm in there) > 1
    }
    if not panels:
        return None
    floors = {name: best_floor(tasks[name]) for name in panels}
    return trends(panels, floors, "tokens of pretraining", [(n, si(n)) for n, _ in there])
