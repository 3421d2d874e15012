"""The page that answers: each claim of the paper and of its critics, what was printed, what
real language models and nano backbones show, and the verdict. The front pages of the
reports and the README are made of it, so that none can say what another does not.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .. import config
from ..analysis.compare import contrasts
from ..analysis.study import Study
from ..claims.claim import LAB, REGISTERED, Claim, claims
from ..claims.finding import Finding, listed
from ..claims.model_claims import model_claims, planned_runs
from ..claims.verdicts import findings, runs_of
from ..files import read_yaml, write_atomic
from ..paper import reader as paper
from ..project import project
from ..sections.arms import label
from ..sections.comparison import Pair
from ..sections.initialization import LADDER
from ..sections.registration import LANGUAGE
from .style import COLOURS, INK, MARKERS, legend, log_ticks, panels_of, png, styled
from .table import NONE, markdown_table

FIGURE = f"{LANGUAGE}/answers.png"  # below reports/
ROWS = ("fpt", *LADDER, "full")  # of the figure, and what follows their names in each model
# What the names of a model's arms end in -> the model.
MODELS = {"": "SmolLM2", "@6": "its first six layers", "-minilm": "MiniLM"}
NANO = "nano English (steps)"
# As the lab has them.
NANO_ARMS = {"fpt": "fpt-english", "statistics-tensor": "statistics-english"}


@cache
def prose() -> dict[str, Any]:
    """The prose and the rows of the front pages (front.yaml)."""
    content: dict[str, Any] = read_yaml(Path(__file__).with_name("front.yaml"))
    return content


def every_finding() -> dict[str, Finding]:
    """The findings of all registered claims of both registrations, by name."""
    return {
        finding.claim.name: finding
        for profile, kinds in REGISTERED.items()
        for kind in kinds
        for finding in findings(kind, profile)
    }


def block(by_name: Mapping[str, Finding], reports: str, ending: str) -> Iterator[str]:
    """The answer, its table, its figure, what it means and what it cannot say, as Markdown.
    `reports` leads from the page to the folder of the reports, `ending` is that of their
    pages."""
    yield f"**{answer(by_name)}**"
    yield markdown_table([_row(row, by_name, reports, ending) for row in prose()["rows"]])
    yield prose()["reading"]
    if (project().reports / FIGURE).exists():
        yield f"![Ratios to random weights, by task, arm and model]({reports}{FIGURE})"
    yield in_words("meaning", by_name) or "What this means is not decided yet."
    yield f"> **What this cannot say.** {prose()['cannot_say']}"


def answer(by_name: Mapping[str, Finding]) -> str:
    """The answer in at most 40 words, from the verdicts."""
    primary = [by_name[claim.name] for claim in model_claims("primary")]
    waiting = [finding for finding in primary if not finding.is_judged]
    start = f"For real language models: {not_measured(waiting)}. " if waiting else ""
    return (start + in_words("answer", by_name)).strip()


def in_words(part: str, by_name: Mapping[str, Finding]) -> str:
    """The sentences of a part of front.yaml that stand for the verdicts on claims."""
    return " ".join(
        sentences[by_name[name].label]
        for name, sentences in prose()[part].items()
        if by_name[name].is_judged and by_name[name].label in sentences
    )


def _row(
    row: Mapping[str, Any], by_name: Mapping[str, Finding], reports: str, ending: str
) -> dict[str, str]:
    """The row of one claim of the paper or of its critics."""
    of_language = [by_name[name] for name in row.get("language", ())]
    of_nano = [by_name[name] for name in row["nano"]]
    words = row.get("words", {})
    # One claim stands for the row: the first that has a verdict.
    findings = [*of_language, *of_nano]
    first = next((finding for finding in findings if finding.is_judged), findings[0])
    profile = LANGUAGE if first in of_language else LAB
    page = f"{profile}/notebooks/{row['notebook']}{ending}"
    link = row["notebook"]
    if (project().reports / page).exists():
        link = f"[{link}]({reports}{page})"
    nano = [
        f"{pair}: {_measured(finding)}"
        for pair, finding in zip(row["nano"].values(), of_nano, strict=True)
    ]
    return {
        "claim": row["claim"],
        "printed": row["printed"].format_map(printed()),
        "real language models": _of_models(of_language, row.get("ratio", "")),
        "nano backbones": "; ".join(nano),
        "verdict": verdict(of_language, of_nano, words),
        "check": f"{link}, `fpt decide {first.claim.name}`",
    }


@cache
def printed() -> Mapping[str, str]:
    """Every number of the paper's tables by table/row/column."""
    return {
        f"{name}/{row}/{column}": NONE if cell.value is None else f"{cell.value:g}"
        for name, table in paper.tables().items()
        for (row, column), cell in table.cells.items()
    }


def not_measured(waiting: Sequence[Finding]) -> str:
    """`not yet measured (3 of 42 runs)`, each run of an arm on a task counted once."""
    cells = {
        (arm, task): (finding.n.get(arm, 0), planned)
        for finding in waiting
        for arm, planned in finding.claim.backbones.items()
        for task in finding.claim.tasks
    }
    recorded, planned = map(sum, zip(*cells.values(), strict=True))
    return f"not yet measured ({recorded} of {planned} runs)"


def _measured(finding: Finding) -> str:
    if not finding.is_judged:
        return not_measured([finding])
    doubt = ", undecided" if finding.label == "undecided" else ""
    return f"{finding.brief}{doubt}"


def _of_models(of_language: Sequence[Finding], ratio: str) -> str:
    """What was measured, by model and task, and what was not. `ratio`: of which arms."""
    by_model: dict[str, list[str]] = {}
    for finding in of_language:
        if finding.is_judged:
            texts = by_model.setdefault(model_of(finding.claim), [])
            texts.append(f"{finding.claim.tasks[0]} {finding.brief}")
    parts = [f"{model}: {', '.join(texts)}" for model, texts in by_model.items()]
    if parts:
        parts[0] = f"{ratio}, {parts[0]}"
    waiting = [finding for finding in of_language if not finding.is_judged]
    if waiting:
        parts.append(not_measured(waiting))
    return "; ".join(parts) or "not part of the plan"


def model_of(claim: Claim) -> str:
    """The real language model that a claim is about."""
    first = next(iter(claim.backbones))
    suffixes = [suffix for suffix in MODELS if first.endswith(suffix)]
    return MODELS[max(suffixes, key=len)]


def verdict(
    of_language: Sequence[Finding], of_nano: Sequence[Finding], words: Mapping[str, str]
) -> str:
    """On which tasks, and in how many of the models that were tried there; until language
    models are measured, what the lab's claims say."""
    if not of_language or not all(finding.is_judged for finding in of_language):
        labels = dict.fromkeys(finding.label for finding in of_nano if finding.is_judged)
        return f"nano alone: {', '.join(labels) or 'runs missing'}"
    rows = [
        (words.get(finding.label, finding.label), finding.claim.tasks[0])
        for finding in of_language
    ]
    counts = pd.DataFrame(rows, columns=["word", "task"]).value_counts(sort=False)
    models = counts.groupby("task").sum()
    sides: dict[str, list[str]] = {}
    for (word, task), count in counts.items():
        several = f" ({count} of {models[task]} models)" if models[task] > 1 else ""
        sides.setdefault(word, []).append(f"{task}{several}")
    return "; ".join(f"{word} on {listed(places)}" for word, places in sides.items())


def ratios() -> pd.DataFrame:
    """The ratio of each arm to random weights of the same model on each task: of areas, and
    of steps in nano backbones. Three rows each, the estimate and the ends of its 95%
    interval; only arms whose runs are all recorded."""
    language = Study("answers", config.load(LANGUAGE), planned_runs())
    rows: list[tuple[Any, ...]] = []
    for suffix, model in MODELS.items():
        pairs = {(f"{row}{suffix}", f"random{suffix}"): row for row in ROWS}
        rows += _ratios_of(language, f"{model} (area)", pairs)
    nano = {(NANO_ARMS.get(row, row), "random"): row for row in ROWS}
    rows += _ratios_of(runs_of(claims("primary")), NANO, nano)
    return pd.DataFrame(rows, columns=["task", "arm", "model", "ratio"])


def _ratios_of(
    study: Study, model: str, pairs: Mapping[Pair, str]
) -> Iterator[tuple[Any, ...]]:
    for contrast in contrasts(study, pairs, study.results()):
        effect = contrast.effect
        # An arm beside itself has the ratio 1.
        if contrast.first != contrast.second and not math.isnan(effect.estimate):
            row = label(pairs[contrast.first, contrast.second])
            for value in np.exp([effect.estimate, effect.low, effect.high]):
                yield contrast.task, row, model, value


def figure(table: pd.DataFrame) -> Figure | None:
    """`ratios` as dots with intervals: a panel for each task, a row for each arm, a colour
    for each model. None if there is nothing."""
    if table.empty:
        return None
    arms = [label(row) for row in ROWS if label(row) in set(table["arm"])]
    models = list(dict.fromkeys(table["model"]))
    tasks = list(dict.fromkeys(table["task"]))
    with styled():
        drawn, panels = panels_of(len(tasks), 2.7, 0.6 + 0.4 * len(arms), sharey=True)
        for axes, task in zip(panels, tasks, strict=True):
            axes.set_xscale("log")
            # Of an estimate and the ends of its interval, the estimate is the median.
            sns.pointplot(
                table[table["task"] == task],
                x="ratio",
                y="arm",
                hue="model",
                order=arms,
                hue_order=models,
                palette=COLOURS[: len(models)],
                markers=list(MARKERS[: len(models)]),
                dodge=0.5 if len(models) > 1 else False,  # beside each other
                linestyle="none",
                estimator="median",
                errorbar=("pi", 100),
                ax=axes,
            )
            panel_legend = axes.get_legend()
            if panel_legend is not None:
                panel_legend.remove()  # one for the whole figure stands above
            axes.axvline(1, color=INK, lw=0.8)
            log_ticks(axes, "x")
            axes.set(title=task, xlabel="÷ random", ylabel="")
        legend(drawn)
    return drawn


def write_figure() -> None:
    """Write the figure, if there is anything to draw."""
    drawn = figure(ratios())
    if drawn is not None:
        write_atomic(project().reports / FIGURE, png(drawn))
