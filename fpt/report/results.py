"""The table of a comparison: tidy cells of arms, baselines and differences, and their
texts."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..analysis.compare import (
    NEITHER_LEARNED,
    Contrast,
    best_baseline,
    contrasts,
    low_threshold,
)
from ..analysis.study import Study
from ..analysis.summary import (
    FEW_RUNS,
    FEWEST_RUNS,
    INTERVALS,
    RATIOS,
    baselines,
    summary,
)
from ..claims.gates import not_learned
from ..claims.verdicts import corpora
from ..sections.arms import label
from ..sections.comparison import Comparison
from .table import NONE, Table, effect_text

TAUGHT, UNLEARNED, LOW = "†", "‡", "↓"  # marks of cells and arms
Cell = dict[str, Any]  # a tidy row of numbers, and `text`, which the table shows


def main_table(study: Study) -> Table:
    """Every arm of a study by its tasks, and the differences of the section's first
    comparison, if it declares any."""
    comparisons = study.declared.comparisons
    first = comparisons[0] if comparisons else Comparison("results", study.name, ())
    return results_table(study, replace(first, arms=tuple(study.arms)))


def results_table(study: Study, comparison: Comparison) -> Table:
    """Arms by tasks, then trivial baselines, then the differences of interest; beside each,
    in percent or points, what the paper printed."""
    results = study.results()
    results = results[results["arm"].isin(comparison.arms)]
    # A backbone that learned nothing of its corpus says nothing of this corpus.
    unlearned = not_learned(comparison.arms, corpora(results, study.profile.name))
    names = {
        arm: f"{label(arm)} {UNLEARNED}" if arm in unlearned else label(arm)
        for arm in comparison.arms
    }
    cells = [
        *_arm_cells(study, comparison, results, names),
        *_baseline_cells(study, results),
        *_difference_cells(study, comparison, results, names),
    ]
    tasks = list(dict.fromkeys(results["task"]))
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        row = rows.setdefault(cell["row"], dict.fromkeys(tasks, ""))
        row[cell["task"]] = cell.pop("text")
    texts = pd.DataFrame.from_dict(rows, orient="index", columns=tasks)
    numbers = pd.DataFrame(cells)
    caption = list(_caption(study, comparison, numbers))
    if any(LOW in text for row in rows.values() for text in row.values()):
        caption.append(
            f"{LOW} At or below the best trivial baseline; two such arms are not compared."
        )
    if unlearned:
        caption.append(
            f"{UNLEARNED} Not learned: the held-out loss is not below the unigram entropy."
        )
    return Table(
        name=comparison.name,
        title=comparison.title,
        texts=texts.rename(columns=study.title),
        numbers=numbers,
        caption=" ".join(caption),
    )


def _arm_cells(
    study: Study, comparison: Comparison, results: pd.DataFrame, names: Mapping[str, str]
) -> Iterator[Cell]:
    # An arm that is not above the best trivial baseline has learned nothing that counts.
    means = summary(results)
    for arm in comparison.arms:
        for numbers in means[means["arm"] == arm].to_dict("records"):
            task = numbers["task"]
            measure = study.measures(task)
            text = cell_text(numbers, measure)
            best = best_baseline(study.tasks[task])
            runs = results[(results["arm"] == arm) & (results["task"] == task)]
            if (
                measure != "steps"
                and best is not None
                and runs["accuracy"].mean() <= best.accuracy
            ):
                text += f" {LOW}"
            printed = comparison.printed(arm, task)
            yield _cell(study, "arm", names[arm], numbers, text, printed)


def _baseline_cells(study: Study, results: pd.DataFrame) -> Iterator[Cell]:
    for task in dict.fromkeys(results["task"]):
        percent = "" if study.measures(task) == "accuracy" else "%"
        for name, accuracy in baselines(study.tasks[task]).items():
            numbers = {"task": task, "mean": accuracy}
            text = f"{accuracy:.1f}{percent}"
            yield _cell(study, "baseline", f"baseline: {name}", numbers, text)


def _difference_cells(
    study: Study, comparison: Comparison, results: pd.DataFrame, names: Mapping[str, str]
) -> Iterator[Cell]:
    for contrast in contrasts(study, comparison.pairs, results):
        effect = contrast.effect
        numbers = {
            "task": contrast.task,
            "arm": contrast.first,
            "minus": contrast.second,
            "estimate": effect.estimate,
            "low": effect.low,
            "high": effect.high,
            "p": 2 * min(effect.p, effect.against),
            "seeds": contrast.seeds,
            "partial": contrast.partial,
            "refused": contrast.refused,
        }
        is_ratio = study.measures(contrast.task) in RATIOS
        row = f"{names[contrast.first]} {'÷' if is_ratio else '−'} {names[contrast.second]}"
        printed = comparison.effect(contrast.first, contrast.second, contrast.task)
        text = contrast_text(contrast, is_ratio)
        yield _cell(study, "difference", row, numbers, text, printed)


def _cell(
    study: Study,
    kind: str,
    row: str,
    numbers: Cell,
    text: str,
    printed: float | None = None,
) -> Cell:
    """A cell with its unit and marks. The paper prints neither steps nor areas, so its
    accuracy has no place beside them."""
    task = numbers["task"]
    unit = "points" if kind == "difference" else "percent"
    measure = study.measures(task)
    if kind != "baseline" and measure in RATIOS:
        unit = "ln(steps)" if measure == "steps" else "ln(nats)"
        printed = None
    if printed is not None:
        text += f"; paper {printed:+.3g}" if unit == "points" else f"; paper {printed:.3g}"
    # An advantage that is not transfer has to be seen where it is.
    if study.taught & {(numbers.get("arm"), task), (numbers.get("minus"), task)}:
        text += f" {TAUGHT}"
    fitting = study.tasks[task].fitting
    more = {"unit": unit, "fitting": fitting, "paper": printed, "text": text}
    return {"kind": kind, "row": row, **numbers, **more}


def _caption(study: Study, comparison: Comparison, numbers: pd.DataFrame) -> Iterator[str]:
    """What a reader of the table must know, in sentences."""
    columns = ["task", "low", "runs", "seeds", "paper", "partial"]
    numbers = numbers.reindex(columns=columns)
    tasks = list(dict.fromkeys(numbers["task"]))
    steps = [task for task in tasks if study.measures(task) == "steps"]
    # A sentence stands only where the table has what it explains.
    if steps:
        yield (
            "Geometric mean of the steps to the task's threshold of validation accuracy "
            "[95% interval] (runs); ÷ is a ratio of steps, and ≤ or ≥ a bound on it, "
            "since runs of one arm end at the budget."
        )
        yield f"Thresholds: {', '.join(threshold_text(study, task) for task in steps)}."
    if any(study.measures(task) == "area" for task in tasks):
        yield (
            "Geometric mean of the area under the validation loss, in nats per answer "
            "[95% interval over seeds and draws] (runs); ÷ is a ratio of areas, and below "
            "1 the first arm learns sooner or better."
        )
    if any(study.measures(task) == "accuracy" for task in tasks):
        yield "Test accuracy in percent ± half of its 95% interval (runs); − is in points."
    if numbers["low"].notna().any():
        yield INTERVALS
    # Where there are enough runs, the cell says why it has no interval: one diverged, say.
    few_runs = numbers["runs"].between(1, FEWEST_RUNS - 1)
    few_shared = numbers["partial"].eq(True) & (numbers["seeds"] < FEWEST_RUNS)
    if (numbers["low"].isna() & (few_runs | few_shared)).any():
        yield FEW_RUNS
    if numbers["partial"].eq(True).any():
        yield "Two arms are compared on the seeds that both have."
    if any(study.tasks[task].fitting for task in tasks):
        yield "Fitting: training sees every input of the test set."
    unknown = [task for task in tasks if best_baseline(study.tasks[task]) is None]
    if unknown:
        yield f"No trivial baseline is known here for {', '.join(unknown)}."
    # A test on a part of the set is not the paper's test.
    tested = {run.task: run.spec.test_items for run in study.runs if run.task in tasks}
    for task, items in tested.items():
        if items:
            size = study.tasks[task].sizes["test"]
            yield f"{task} is tested on {items:,} of {size:,} examples."
    if study.profile.name != "paper" and numbers["paper"].notna().any():
        backbone = study.profile.backbone
        yield f"The paper's backbone is GPT-2 (124M), the one here `{backbone}`."
    if comparison.note:
        yield comparison.note
    if {arm for arm, _ in study.taught} & set(comparison.arms):
        reason = "A backbone was pretrained on this task or with the labels of its data."
        yield f"{TAUGHT} {reason}"


def threshold_text(study: Study, task: str) -> str:
    """`mnist-short 80% (at or below linear classifier, 92.5%)`."""
    text = f"{task} {100 * study.threshold(task):.3g}%"
    baseline = low_threshold(study, task)
    if baseline is None:
        return text
    return f"{text} (at or below {baseline.name}, {baseline.accuracy:.1f}%)"


def cell_text(numbers: Mapping[Any, Any], measure: str) -> str:
    """`97.1 ± 0.8 (5)` of percent or `412 [350, 480] (12)` of logarithms of a ratio, from a
    row of `fpt.analysis.summary.summary`."""
    runs, expected = numbers["runs"], numbers["expected"]
    count = f"{runs}" if runs == expected else f"{runs} of {expected}"
    if numbers["diverged"]:
        count += f", {numbers['diverged']} diverged"
    if numbers["censored"]:
        count += f", {numbers['censored']} at the budget"
    mean, low, high = numbers["mean"], numbers["low"], numbers["high"]
    if math.isnan(mean):
        return f"{NONE} ({count})"
    if measure in RATIOS:
        form = ",.0f" if measure == "steps" else ".3f"
        interval = (
            "" if math.isnan(low) else f" [{np.exp(low):{form}}, {np.exp(high):{form}}]"
        )
        return f"{np.exp(mean):{form}}{interval} ({count})"
    half = "" if math.isnan(low) else f" ± {high - mean:.1f}"
    return f"{mean:.1f}{half} ({count})"


def contrast_text(contrast: Contrast, is_ratio: bool) -> str:
    """`×0.55 [0.40, 0.76]`, `+3.2 (3 shared seeds)`, or why there is no comparison."""
    if contrast.refused == NEITHER_LEARNED:
        return NEITHER_LEARNED
    if contrast.refused:
        return f"not compared {LOW}"
    text = effect_text(vars(contrast.effect), is_ratio)
    if contrast.bound:
        text = f"{contrast.bound} {text}"
    # Arms of other seeds are compared on those that both have, and the reader has to know.
    if contrast.partial:
        seeds = "seed" if contrast.seeds == 1 else "seeds"
        text += f" ({contrast.seeds} shared {seeds})"
    return text
