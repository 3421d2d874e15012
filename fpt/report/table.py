"""Tables: what is shown, the numbers behind it, and one caption."""

import math
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..analysis.claims import corpora, not_learned
from ..analysis.compare import (
    FEWEST_RUNS,
    NEITHER_LEARNED,
    Contrast,
    best_baseline,
    contrasts,
    low_threshold,
    summary_with_intervals,
    threshold,
)
from ..analysis.study import Study
from ..analysis.summary import INTERVALS, baselines
from ..paper import reader as paper
from ..sections.arms import label
from ..sections.comparison import Comparison
from .escape import in_html, in_markdown, prose_in_html, prose_in_markdown

NONE, TAUGHT, UNLEARNED, LOW = "–", "†", "‡", "↓"  # marks of cells


@dataclass(frozen=True, eq=False)
class Table:
    """`shown` has texts, `numbers` one tidy row per number; both are written to files."""

    name: str
    title: str
    shown: pd.DataFrame
    numbers: pd.DataFrame
    caption: str = ""
    notes: str = ""  # folded on a page

    def _rows(self) -> Iterable[tuple[object, Sequence[object]]]:
        return zip(self.shown.index, self.shown.to_numpy().tolist(), strict=True)

    def markdown(self) -> str:
        """The table as Markdown, with its title above and its caption and notes below."""
        head = ["", *map(str, self.shown.columns)]
        rows = [[str(name), *map(str, row)] for name, row in self._rows()]
        lines = [head, ["---", *["---:"] * len(self.shown.columns)], *rows]
        body = ["| " + " | ".join(map(in_markdown, row)) + " |" for row in lines]
        title, caption, notes = map(prose_in_markdown, (self.title, self.caption, self.notes))
        below = [caption, "", notes] if notes else [caption]
        return "\n".join([f"**{title}**", "", *body, "", *below]).rstrip() + "\n"

    def csv(self) -> str:
        """The numbers as comma-separated values, with twelve digits: those beyond are the rounding
        of this machine's sums."""
        return str(self.numbers.to_csv(index=False, float_format="%.12g"))

    def _repr_html_(self) -> str:
        """Plain HTML, the same on every call (a pandas Styler would draw random ids)."""

        def row(cells: Iterable[object], tag: str) -> str:
            first, *rest = map(in_html, cells)
            texts = "".join(f"<{tag}>{cell}</{tag}>" for cell in rest)
            return f'<tr><th scope="row">{first}</th>{texts}</tr>'

        body = "\n".join(row([name, *values], "td") for name, values in self._rows())
        title, caption, notes = map(prose_in_html, (self.title, self.caption, self.notes))
        return (
            '<div class="table"><table class="numbers">\n'
            f"<caption><span>{title}</span></caption>\n<thead>"
            f"{row(['', *self.shown.columns], 'th')}</thead>\n<tbody>\n{body}\n</tbody>\n"
            f'</table></div>\n<p class="note">{caption}</p>\n'
            + (f"<details><summary>notes and sources</summary>{notes}</details>\n" if notes else "")
        )

    def __repr__(self) -> str:
        return self.markdown()

    def __str__(self) -> str:
        """For a terminal."""
        width = shutil.get_terminal_size((1000, 24)).columns  # a file or a pipe is not wrapped
        below = textwrap.fill(self.caption, width)
        return f"{self.title}\n{self.shown.to_string(line_width=width)}\n{below}"


def main_table(study: Study) -> Table:
    """Every arm of a study by its tasks, and the differences that the section declares first."""
    first = (*study.declared.comparisons, Comparison("results", study.name, ()))[0]
    return results_table(study, replace(first, arms=tuple(study.arms)))


def results_table(study: Study, comparison: Comparison) -> Table:
    """Arms by tasks, then trivial baselines, then the differences of interest; beside each, in
    percent or points, what the paper printed."""
    results = study.results().query("arm in @comparison.arms")
    tasks = list(dict.fromkeys(results["task"]))
    steps = {task for task in tasks if study.measures(task) == "steps"}
    best = {task: best_baseline(study.tasks[task]) for task in tasks}
    shown: dict[str, dict[str, str]] = {}
    numbers: list[dict[str, object]] = []

    unlearned = not_learned(comparison.arms, corpora(results, study.profile.name))
    marks = dict.fromkeys(unlearned, f" {UNLEARNED}")
    names = {arm: label(arm) + marks.get(arm, "") for arm in comparison.arms}

    def add(
        kind: str, row: str, text: str, it: Mapping[str, object], unit: str, printed: float | None
    ) -> None:
        task = str(it["task"])
        if task in steps:
            printed = None
        beside = ""
        if printed is not None:
            beside = f"; paper {printed:{'+' if kind == 'difference' else ''}.3g}"
        given = study.taught & {(it.get("arm"), task), (it.get("minus"), task)}
        mark = f" {TAUGHT}" if given else ""
        shown.setdefault(row, dict.fromkeys(tasks, ""))[task] = text + beside + mark
        more = {"unit": unit, "fitting": study.tasks[task].fitting, "paper": printed}
        numbers.append({"kind": kind, "row": row, **it, **more})

    means = summary_with_intervals(results)
    for arm in comparison.arms:
        for it in means[means["arm"] == arm].to_dict("records"):
            task = str(it["task"])
            baseline = best[task]
            text = cell_text(it, task in steps)
            if task not in steps and baseline is not None and it["mean"] <= baseline.accuracy:
                text += f" {LOW}"
            unit = "ln(steps)" if task in steps else "percent"
            add("arm", names[arm], text, it, unit, comparison.printed(arm, task))
    for task in tasks:
        for name, value in baselines(study.tasks[task]).items():
            text = f"{value:.1f}%" if task in steps else f"{value:.1f}"
            add(
                "baseline",
                f"baseline: {name}",
                text,
                {"task": task, "mean": value},
                "percent",
                None,
            )
    for it in contrasts(study, comparison.pairs, results):
        sign = "÷" if it.task in steps else "−"
        row = f"{names[it.first]} {sign} {names[it.second]}"
        text = contrast_text(it, it.task in steps)
        unit = "ln(steps)" if it.task in steps else "points"
        printed = comparison.effect(it.first, it.second, it.task)
        add("difference", row, text, contrast_numbers(it), unit, printed)
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=tasks).rename(columns=study.title)
    caption = " ".join(_caption(study, comparison, numbers))
    if any(LOW in text for row in shown.values() for text in row.values()):
        caption += f" {LOW} At or below the best trivial baseline; two such arms are not compared."
    if unlearned:
        caption += f" {UNLEARNED} Not learned: the held-out loss is not below the unigram entropy."
    return Table(comparison.name, comparison.title, frame, pd.DataFrame(numbers), caption)


def contrast_numbers(it: Contrast) -> dict[str, object]:
    """The row of a contrast in a tidy file."""
    effect = it.effect
    p = 2 * min(effect.p, effect.against)
    row = {"task": it.task, "arm": it.first, "minus": it.second, "estimate": effect.estimate}
    row |= {"low": effect.low, "high": effect.high, "p": p, "seeds": it.seeds}
    return row | {"partial": it.partial, "refused": it.refused}


def _caption(
    study: Study, comparison: Comparison, numbers: Sequence[Mapping[str, object]]
) -> Iterator[str]:
    """What a reader of the table must know, in sentences."""
    rows = pd.DataFrame(numbers).reindex(columns=["task", "kind", "low", "paper", "partial"])
    tasks = list(dict.fromkeys(rows["task"]))
    steps = [task for task in tasks if study.measures(task) == "steps"]
    if steps:
        yield (
            "Geometric mean of the steps to the task's threshold of validation accuracy [95% "
            "interval] (runs); ÷ is a ratio of steps, and ≤ or ≥ a bound on it, since runs of one "
            "arm end at the budget."
        )
        yield f"Thresholds: {', '.join(threshold_text(study, task) for task in steps)}."
    if len(steps) < len(tasks):
        yield "Test accuracy in percent ± half of its 95% interval (runs); − is in points."
    if rows["low"].notna().any():
        yield INTERVALS
    if (rows["low"].isna() & (rows["kind"] != "baseline")).any():
        yield f"There is no interval of fewer than {FEWEST_RUNS} runs."
    if rows["partial"].eq(True).any():
        yield "Two arms are compared on the seeds that both have."
    if any(study.tasks[task].fitting for task in tasks):
        yield "Fitting: training sees every input of the test set."
    if unknown := [task for task in tasks if best_baseline(study.tasks[task]) is None]:
        yield f"No trivial baseline is known here for {', '.join(unknown)}."
    tested = {run.task: run.spec.test_items for run in study.runs if run.task in tasks}
    for task, items in tested.items():
        if items:
            whole = study.tasks[task].sizes["test"]
            yield f"{task} is tested on {items:,} of {whole:,} examples."
    if study.profile.name != "paper" and rows["paper"].notna().any():
        yield f"The paper's backbone is GPT-2 (124M), the one here `{study.profile.backbone}`."
    if comparison.note:
        yield comparison.note
    if {arm for arm, _ in study.taught} & set(comparison.arms):
        yield f"{TAUGHT} A backbone was pretrained on this task or with the labels of its data."


def threshold_text(study: Study, task: str) -> str:
    """`mnist-short 80% (at or below linear classifier, 92.5%)`."""
    baseline = low_threshold(study, task)
    low = "" if baseline is None else f" (at or below {baseline.name}, {baseline.accuracy:.1f}%)"
    return f"{task} {100 * threshold(study, task):.3g}%{low}"


def cell_text(it: Mapping[str, object], steps: bool) -> str:
    """`97.1 ± 0.8 (5)` of percent or `412 [350, 480] (12)` of logarithms of steps."""
    runs, expected = int(it["runs"]), int(it["expected"])  # type: ignore[call-overload]
    count = str(runs) if runs == expected else f"{runs} of {expected}"
    for name, said in (("diverged", "diverged"), ("censored", "at the budget")):
        if it[name]:
            count += f", {it[name]} {said}"
    mean, low, high = (float(it[name]) for name in ("mean", "low", "high"))  # type: ignore[arg-type]
    if math.isnan(mean):
        return f"{NONE} ({count})"
    if steps:
        interval = "" if math.isnan(low) else f" [{np.exp(low):,.0f}, {np.exp(high):,.0f}]"
        return f"{np.exp(mean):,.0f}{interval} ({count})"
    return f"{mean:.1f}" + ("" if math.isnan(low) else f" ± {high - mean:.1f}") + f" ({count})"


def contrast_text(it: Contrast, steps: bool) -> str:
    """`×0.55 [0.40, 0.76]`, `+3.2 (3 shared seeds)`, or why there is no comparison."""
    if it.refused:
        return it.refused if it.refused == NEITHER_LEARNED else f"not compared {LOW}"
    bound = f"{it.bound} " if it.bound else ""
    effect = {"estimate": it.effect.estimate, "low": it.effect.low, "high": it.effect.high}
    shared = f" ({it.seeds} shared seed{'s' * (it.seeds != 1)})" if it.partial else ""
    return bound + effect_text(effect, steps) + shared


def effect_text(it: Mapping[str, object], steps: bool) -> str:
    """`+3.2 [1.0, 5.4]` in points or `×0.55 [0.40, 0.76]` as a ratio of steps."""
    values = [float(it[name]) for name in ("estimate", "low", "high")]  # type: ignore[arg-type]
    if math.isnan(values[0]):
        return NONE
    form = "×{:.2f} [{:.2f}, {:.2f}]" if steps else "{:+.1f} [{:+.1f}, {:+.1f}]"
    text = form.format(*(np.exp(values) if steps else values))
    return text.partition(" [")[0] if math.isnan(values[1]) else text


def paper_table(name: str) -> Table:
    """A table of the paper as it was printed, with its source and notes explained."""
    table, tags = paper.table(name), paper.sources()
    frame = paper.frame(name)
    cells = [[table.cells[row, column] for column in table.columns] for row in table.rows]
    texts = [[_printed(it.value, it.error) for it in row] for row in cells]
    notes = [f"{row}, {column}: {it.note}." for (row, column), it in table.cells.items() if it.note]
    used = dict.fromkeys(tag for it in table.cells.values() for tag in it.source.split(", "))
    notes.append("Source: " + "; ".join(f"{tag} is {tags[tag]}" for tag in used) + ".")
    caption = f"{table.unit[:1].upper()}{table.unit[1:]}"
    caption += f"; ±: {table.error_is}" if table.error_is else ""
    caption += f"; {table.note}." if table.note else "."
    title = f"{table.title} ({table.section})"
    if table.section[0].isdigit():  # a section of the paper, not another source
        title = f"The paper's {table.called}: {table.title} (section {table.section})"
    shown = pd.DataFrame(texts, index=list(table.rows), columns=list(table.columns))
    said = [re.sub(r"\bT(\d+)", r"Table \1", it) for it in (title, caption, " ".join(notes))]
    return Table(f"paper-{name}", said[0], shown, frame, *said[1:])


def _printed(value: float | None, error: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.12g}" if error is None else f"{value:,.12g} ± {error:g}"


def si(value: float) -> str:
    """Three digits and a prefix: `1.23 M`."""
    prefixes = ("", "k", "M", "G", "T", "P", "E", "Z")
    power = 0
    while abs(value) >= 999.5 and power < len(prefixes) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.3g} {prefixes[power]}".rstrip()
