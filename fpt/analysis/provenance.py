"""What the bodies of a section were pretrained on, and which of its columns that gives away.

A body that was trained with the labels of a data set has an advantage on the tasks of that data set
which is not transfer. Such cells are shown with a mark, and no claim is judged on them.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from ..backbones import backbone
from ..files import FptError
from ..pretraining import metadata as notes
from ..pretraining.ensure import Plan, plan_of
from ..pretraining.on_corpus import Pretraining
from ..pretraining.on_task import TaskPretraining
from ..report.style import INK
from ..report.table import NONE, Table, label, percent, short, si
from ..sections.comparisons import COMPARISONS
from ..sections.section import Section
from ..spec import RunSpec
from ..tasks import Task, get_task
from ..tasks.base import FiniteTask
from .cells import section_arms, section_tasks, titles

MARK = "†"
LEAST = 0.1  # nats per token that are to be learned beyond frequencies; below, there is nothing
PUBLISHED = {  # what their authors say of them: data, what is predicted
    "openai-community/gpt2": ("WebText: 8 million pages linked from Reddit", "next token"),
    "google/vit-base-patch16-224-in21k": ("ImageNet-21k: 14 million images", "labels"),
}


def plan_behind(weights: str | None) -> Plan | None:
    """How weights were made, where it was here."""
    try:
        return None if weights is None or weights.startswith("hub:") else plan_of(weights)
    except FptError:
        return None


def gives_away(plan: Plan | None, task: Task) -> bool:
    """Whether a body was pretrained on the task, or with the labels of its data set."""
    if not isinstance(plan, TaskPretraining):
        return False
    source = get_task(plan.task)
    shared = isinstance(source, FiniteTask) and isinstance(task, FiniteTask)
    return source.name == task.name or (shared and source.dataset.key == task.dataset.key)  # type: ignore[attr-defined]


def taught(section: Section) -> set[tuple[str, str]]:
    """The cells (arm, task) whose body was pretrained on the task or with its labels."""
    tasks = section_tasks(section)
    return {
        (run.arm, run.task)
        for run in section.runs
        if gives_away(plan_behind(run.spec.weights), tasks[run.task])
    }


def unlearned(section: Section) -> set[str]:
    """The arms with a body that predicts held-out tokens of its corpus no better than their
    frequencies do, though there was more to learn. What follows for them is not of the corpus."""
    weights = dict.fromkeys(run.spec.weights for run in section.runs)
    failed = {name for name in weights if _failed(pretraining(section, name))}
    return {run.arm for run in section.runs if run.spec.weights in failed}


def _failed(found: dict[str, Any]) -> bool:
    if "valid_loss" not in found or found["valid_loss"] < found["unigram_entropy"]:
        return False
    return found.get("entropy") is None or found["unigram_entropy"] - found["entropy"] > LEAST


def origins_table(section: Section) -> Table:
    """A row per arm: its body, and where the weights of that come from."""
    given = taught(section)
    specs = {run.arm: run.spec for run in reversed(section.runs)}
    shown: dict[str, dict[str, str]] = {}
    numbers: list[dict[str, object]] = []
    for arm in section_arms(section):
        found = pretraining(section, specs[arm].weights)
        columns = [task for name, task in sorted(given) if name == arm]
        shown[label(arm)] = {
            "body": specs[arm].backbone,
            "attends": "causal" if backbone(specs[arm].backbone).causal else "all to all",
            **_words(specs[arm], found),
            "labels of": ", ".join(columns) or NONE,
        }
        numbers.append({"arm": arm, "weights": specs[arm].weights, "columns": "; ".join(columns)})
        names = ("tokens", "valid_loss", "bits_per_byte", "test_accuracy", "positions_seen")
        numbers[-1] |= {name: found.get(name) for name in names}
    notes = (
        "Tokens are those seen in pretraining; for published weights they are not known.",
        "Held out: loss in nats per token (of the frequencies of words alone), or test accuracy "
        "(best trivial floor).",
        "A body with columns under `labels of` was pretrained with answers to that task, or to "
        "another one on the same data: these cells are marked and not judged.",
    )
    frame = pd.DataFrame.from_dict(shown, orient="index")
    title = "What the frozen bodies were pretrained on"
    return Table("origins", title, frame, pd.DataFrame(numbers), notes)


def pretraining(section: Section, weights: str | None) -> dict[str, Any]:
    """What was written when local weights were made; empty where nothing of it is here."""
    if weights is None or plan_behind(weights) is None:
        return {}
    return notes.read(section.store.folder, weights)


def _words(spec: RunSpec, found: dict[str, Any]) -> dict[str, str]:
    plan, names = plan_behind(spec.weights), ("data", "predicted", "tokens", "held out")
    if spec.weights is None:
        values = ("none: drawn for each seed", NONE, NONE, NONE)
    elif plan is None:
        repository = spec.weights.removeprefix("hub:").partition("@")[0]
        data, predicted = PUBLISHED.get(repository, (NONE, NONE))
        values = (data, predicted, NONE, NONE)
    else:
        tokens = si(found["tokens"]) if found else f"{si(plan.tokens)} planned"
        if isinstance(plan, Pretraining):
            values = (plan.corpus, "next token", tokens, _loss(found))
        else:
            predicted = "its answers" if plan.task.startswith("bit-") else "labels"
            values = (plan.task, predicted, tokens, _accuracy(found))
    return {"weights": spec.weights or NONE, **dict(zip(names, values, strict=True))}


def _loss(found: dict[str, Any]) -> str:
    if not found:
        return "weights not here"
    return f"{found['valid_loss']:.2f} ({found['unigram_entropy']:.2f})"


def _accuracy(found: dict[str, Any]) -> str:
    if not found:
        return "weights not here"
    floors = [value for name, value in found["floors"].items() if ": " not in name]
    best = f" ({percent(max(floors))})" if floors else ""
    return f"{percent(found['test_accuracy'])}%{best}"


def marked(section: Section, table: Table) -> Table:
    """`table`, arms or differences by tasks, with a mark on every cell that is given away."""
    given, rows = taught(section), _arms_by_row(section)
    shown, names = table.shown.copy(), titles(section_tasks(section))
    for name in shown.index.intersection(list(rows)):
        for task, title in names.items():
            if title in shown and any((arm, task) in given for arm in rows[str(name)]):
                shown.loc[name, title] += f" {MARK}"
    note = f"{MARK} The body was pretrained on this task, or with the labels of its data."
    return replace(table, shown=shown, notes=(*table.notes, *([note] if given else [])))


def marked_figure(section: Section, figure: Figure) -> Figure:
    """A dot plot (`fpt.report.dots`) with the same mark."""
    given, rows = taught(section), _arms_by_row(section)
    names = [text.get_text().replace("\n", " ") for text in figure.axes[0].get_yticklabels()]
    for axes in figure.axes:
        for y, arms in enumerate(rows.get(name, ()) for name in names):
            if any((arm, axes.get_title(loc="left")) in given for arm in arms):
                text = axes.text(0.985, y, MARK, ha="right", va="center", color=INK, zorder=7)
                text.set_transform(axes.get_yaxis_transform())
    if given:
        what = f"{figure.get_supxlabel()}   ({MARK} pretrained on this task, or with its labels)"
        figure.supxlabel(what, fontsize=9)
    return figure


def _arms_by_row(section: Section) -> dict[str, Collection[str]]:
    """What the rows of tables and figures are called, and the arms in them."""
    rows: dict[str, Collection[str]] = {label(arm): (arm,) for arm in section_arms(section)}
    for a, b in COMPARISONS["modality"].pairs:
        rows[f"{short(a)} minus {short(b)}"] = (a, b)
    return rows
