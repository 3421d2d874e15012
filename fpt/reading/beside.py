"""Ours beside the paper's: tables of cells «ours / paper (n)», in the paper's unit."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import pandas as pd

from ..errors import FptError
from ..files import read_yaml
from ..names import ARMS, MODELS, in_order
from ..paper.reader import wide as paper
from ..project import PACKAGE
from .results import check_alike, record_of, trivial_rule

TRIVIAL = "trivial rule"
ABSENT = "–"
FOOTNOTES = "¹²³⁴⁵⁶⁷⁸⁹"
AT_THRESHOLD = "*"  # of a cell whose runs ended at their threshold


@dataclass(frozen=True)
class Table:
    """A table of texts with a caption, as Markdown in a notebook and on a page."""

    frame: pd.DataFrame
    caption: str = ""

    def markdown(self) -> str:
        """The table in Markdown, its caption below it. What it says is no markup, because
        names come from an index that others may have written."""
        return repr(self).replace("<", "&lt;")

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        table = self.frame.reset_index().to_markdown(index=False, disable_numparse=True)
        return f"{table}\n\n{self.caption}" if self.caption else str(table)


@cache
def tasks() -> Mapping[str, Mapping[str, str]]:
    """The rows of tasks.yaml by the name of the task."""
    rows: Mapping[str, Mapping[str, str]] = read_yaml(PACKAGE / "tasks.yaml")
    return rows


def label_of(task: str) -> str:
    """What tables and figures call a task."""
    return tasks().get(task, {}).get("label", task)


def beside(
    printed: pd.DataFrame, runs: pd.DataFrame, measure: str = "test_accuracy"
) -> Table:
    """The paper's table with ours in it: a block for each model of `runs` (rows of
    `fpt.results`), a row for each arm that the paper or the model has, a column for each of
    the paper's tasks, cells «ours / paper (n)», and last the trivial rule.

    `printed` is a table of `fpt.paper`. `measure` is a column of `fpt.results`: accuracy in
    percent, or steps, of which the geometric mean is shown. Of several forms of a task a
    model's first one stands in the column, marked by a number that the caption explains.
    """
    if runs.empty:
        raise FptError("There are no runs to put beside the paper's numbers.")
    check_alike(runs)
    notes: dict[str, str] = {}
    blocks = {}
    for model in in_order(runs["model"], MODELS):
        of_model = runs[runs["model"] == model]
        chosen = {column: form_of(column, of_model) for column in printed.columns}
        # Rows of the paper that are models, such as ViT, are no arms of this one.
        of_paper = [arm for arm in printed.index if arm in ARMS]
        for arm in in_order([*of_paper, *of_model["arm"]], ARMS):
            of_arm = of_model[of_model["arm"] == arm]
            blocks[model, arm] = {
                label_of(column): cell(
                    of_arm[of_arm["task"] == task], printed, arm, column, measure, notes
                )
                for column, task in chosen.items()
            }
        if measure == "test_accuracy":
            blocks[model, TRIVIAL] = {
                label_of(column): rule(of_model[of_model["task"] == task])
                for column, task in chosen.items()
            }
    # An arm that neither has runs on these tasks nor stands in the paper's table is no row.
    frame = pd.DataFrame({name: row for name, row in blocks.items() if any(row.values())}).T
    frame.index.names = ["model", "arm"]
    return Table(frame, caption(printed, runs, measure, notes))


def form_of(column: str, runs: pd.DataFrame) -> str:
    """The form of a paper's task that a model has: the first of tasks.yaml; the task itself
    if it has none."""
    for task, row in tasks().items():
        if row.get("column") == column and task in {*runs["task"]}:
            return task
    return column


def cell(
    rows: pd.DataFrame,
    printed: pd.DataFrame,
    arm: str,
    column: str,
    measure: str,
    notes: dict[str, str],
) -> str:
    """«ours / paper (n)»; a dash for what was not run or printed, empty without both."""
    known = arm in printed.index and pd.notna(printed.loc[arm, column])
    theirs = f"{printed.loc[arm, column]:,g}" if known else ABSENT
    if rows.empty:
        return f"{ABSENT} / {theirs}" if known else ""
    mark = mark_of(rows, notes) if measure == "test_accuracy" else ""
    return f"**{mean_of(rows, measure)}**{mark} / {theirs} ({len(rows)})"


def mean_of(rows: pd.DataFrame, measure: str) -> str:
    """The mean accuracy in percent, or the geometric mean of steps; with «over» if a run
    never got so far, which counts as its last planned step."""
    if measure == "test_accuracy":
        return f"{rows[measure].mean():.1f}"
    steps = rows[measure].fillna(rows["planned_steps"]).astype(float)
    mean = math.exp(steps.map(math.log).mean())
    return f"{'over ' if rows[measure].isna().any() else ''}{mean:,.0f}"


def mark_of(rows: pd.DataFrame, notes: dict[str, str]) -> str:
    """The footnote of a short form, and a star if most runs ended at their threshold."""
    short = tasks().get(rows["task"].iloc[0], {}).get("short", "")
    mark = ""
    if short:
        mark = notes.setdefault(short, FOOTNOTES[len(notes)])
    ended = (rows["steps"] < rows["planned_steps"]) & (rows["status"] == "done")
    return mark + (AT_THRESHOLD if ended.mean() > 0.5 else "")


def rule(rows: pd.DataFrame) -> str:
    """The accuracy of the trivial rule of a task that a model has."""
    if rows.empty:
        return ""
    first = rows.iloc[0]
    _, accuracy = trivial_rule(record_of(first["experiment"], first["key"]).spec.data)
    return f"{accuracy:.1f}"


def caption(
    printed: pd.DataFrame, runs: pd.DataFrame, measure: str, notes: Mapping[str, str]
) -> str:
    """What the cells are, and what a reader must know of them."""
    unit = "Test accuracy in %" if measure == "test_accuracy" else "Steps (geometric mean)"
    called = printed.attrs["called"]
    # Tables of others, such as Rothermel1, go by where they stand.
    is_numbered = called[1:2].isdigit()
    source = f"the paper's Table {called[1:]}" if is_numbered else printed.attrs["section"]
    sentences = [f"{unit}, **ours** / {source} (runs)."]
    sentences += [f"{mark} {short[0].upper()}{short[1:]}." for short, mark in notes.items()]
    sentences += [*shares(runs)]
    without = [*dict.fromkeys(runs.loc[runs["positions"].eq(False), "model"])]
    if without:
        sentences.append(f"Positions were not trained in {', '.join(without)}.")
    return " ".join(sentences)


def shares(runs: pd.DataFrame) -> Iterator[str]:
    """A sentence: how many steps ours has, and the paper's FPT had."""
    steps = paper("T6").loc["language"]
    parts = []
    for column, theirs in steps.items():
        rows = runs[
            runs["task"].map(lambda task: tasks().get(task, {}).get("column")) == column
        ]
        if len(rows) and pd.notna(theirs):
            ours = sorted({*rows["planned_steps"]})
            span = f"{ours[0]:,}" if len(ours) == 1 else f"{ours[0]:,} to {ours[-1]:,}"
            parts.append(f"{label_of(column)} {span} / {theirs:,.0f}")
    if parts:
        yield f"Steps, ours / the paper's FPT: {', '.join(parts)}."
