"""The page that answers: each claim of the paper and of its critics, what was printed, what
real language models and nano backbones show, and the verdict. The front pages of the
reports and the README are made of it, so that none can say what another does not.
"""

import itertools
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
from ..claims.claim import KINDS, LAB, REGISTERED, claims
from ..claims.finding import Finding, listed
from ..claims.model_claims import MODELS, model_claims, model_of, planned_runs
from ..claims.verdicts import findings, runs_of
from ..files import read_yaml, write_atomic
from ..paper import reader as paper
from ..project import project
from ..sections.arms import label
from ..sections.comparison import Pair
from ..sections.initialization import LADDER
from ..sections.registration import LANGUAGE
from .figures.style import COLOURS, INK, MARKERS, legend, log_ticks, panels_of, png, styled
from .table import markdown_table

FIGURE = f"{LANGUAGE}/answers.png"  # below reports/
ROWS = ("fpt", *LADDER, "full")  # of the figure, and what follows their names in each model
LINE = "<br>"  # between the models in a cell of the table
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
        for profile in REGISTERED
        for kind in KINDS
        for finding in findings(kind, profile)
    }


def block(by_name: Mapping[str, Finding], reports: str, ending: str) -> Iterator[str]:
    """The answer, its table, its figure, what it means and what it cannot say, as Markdown.
    `reports` leads from the page to the folder of the reports, `ending` is that of their
    pages."""
    table = [_row(row, by_name, reports, ending) for row in prose()["rows"]]
    yield f"**{answer(by_name)}**"
    yield markdown_table(table)
    yield f"{prose()['ratios']} {prose()['reading']}"
    if (project().reports / FIGURE).exists():
        yield f"![Ratios to random]({reports}{FIGURE})"
        yield prose()["figure"]
    meaning = " ".join(sentences("meaning", by_name))
    yield meaning or "What this means is not decided yet."
    yield f"> **What this cannot say.** {prose()['cannot_say']}"


def answer(by_name: Mapping[str, Finding]) -> str:
    """The answer in at most 40 words, from the verdicts."""
    primary = [by_name[claim.name] for claim in model_claims("primary")]
    waiting = [finding for finding in primary if not finding.is_judged]
    parts = sentences("answer", by_name)
    if len(waiting) == len(primary):
        count = progress(waiting)
        parts = [f"For real language models: not yet measured ({count}).", *parts]
    elif waiting:
        counts = f"{len(waiting)} of {len(primary)}"
        parts = [f"Real language models: {counts} comparisons lack runs.", *parts]
    return " ".join(parts)


def sentences(part: str, by_name: Mapping[str, Finding]) -> list[str]:
    """The sentences of a part of front.yaml that stand for the verdicts on claims."""
    return [
        by_label[by_name[name].label]
        for name, by_label in prose()[part].items()
        if by_name[name].is_judged and by_name[name].label in by_label
    ]


def _row(
    row: Mapping[str, Any],
    by_name: Mapping[str, Finding],
    reports: str,
    ending: str,
) -> dict[str, str]:
    """The row of one claim of the paper or of its critics."""
    of_language = [by_name[name] for name in row.get("language", ())]
    inverted = {name: by_name[name].inverted() for name in row.get("inverted", ())}
    of_nano = [inverted.get(name, by_name[name]) for name in row["nano"]]
    # One claim stands for the row: the first that has a verdict.
    findings = [*of_language, *of_nano]
    first = next((finding for finding in findings if finding.is_judged), findings[0])
    profile = LANGUAGE if first in of_language else LAB
    page = f"{profile}/notebooks/{row['notebook']}{ending}"
    claim = row["claim"]
    if (project().reports / page).exists():
        claim = f"[{claim}]({reports}{page})"
    nano = [
        f"{pair}: {_measured(finding)}"
        for pair, finding in zip(row["nano"].values(), of_nano, strict=True)
    ]
    ratios = _of_models(of_language, row.get("ratio", ""))
    # Claim and verdict come first: a narrow screen shows no more without scrolling.
    cells = {
        "claim": claim,
        "verdict": verdict(row, of_language, of_nano),
        "the paper prints": row["printed"].format_map(paper.printed()),
        "real language models": ratios,
        "nano backbones": LINE.join(nano),
    }
    cells["check"] = f"`fpt decide {first.claim.name}`"
    return cells


def progress(waiting: Sequence[Finding]) -> str:
    """`3 of 42 runs`, each run of an arm on a task counted once."""
    recorded = {}
    planned = {}
    for finding in waiting:
        claim = finding.claim
        for arm, task in itertools.product(claim.backbones, claim.tasks):
            recorded[arm, task] = finding.n.get(arm, 0)
            planned[arm, task] = claim.backbones[arm]
    return f"{sum(recorded.values())} of {sum(planned.values())} runs"


def _measured(finding: Finding) -> str:
    if not finding.is_judged:
        return f"{progress([finding])} so far"
    doubt = ", undecided" if finding.label == "undecided" else ""
    return f"{finding.brief(interval=True)}{doubt}"


def _of_models(of_language: Sequence[Finding], ratio: str) -> str:
    """What was measured, by model and task, and what was not. `ratio`: of which arms."""
    by_model: dict[str, list[str]] = {}
    for finding in of_language:
        if finding.is_judged:
            texts = by_model.setdefault(model_of(finding.claim), [])
            text = finding.brief(interval=True)
            texts.append(f"{finding.claim.tasks[0]} {text}")
    parts = [f"{model}: {', '.join(texts)}" for model, texts in by_model.items()]
    if parts:
        parts[0] = f"{ratio}, {parts[0]}"
    waiting = [finding for finding in of_language if not finding.is_judged]
    if waiting:
        parts.append(f"{progress(waiting)} so far")
    return LINE.join(parts) or "not planned"


def verdict(
    row: Mapping[str, Any], of_language: Sequence[Finding], of_nano: Sequence[Finding]
) -> str:
    """In the words of a row of front.yaml: on which tasks, and in which models, if the row
    has several; until a language model is measured, what the lab's claims say."""
    judged = [finding for finding in of_language if finding.is_judged]
    if not judged:
        # A registered claim may be another one than the row's, or its opposite.
        words = row.get("supported", {})
        labels = [
            words.get(finding.claim.name, "supported")
            if finding.label == "supported"
            else finding.label
            for finding in of_nano
            if finding.is_judged
        ]
        return f"nano: {', '.join(dict.fromkeys(labels)) or 'runs missing'}"
    words = prose()["words"] | row.get("words", {})
    verdicts = pd.DataFrame(
        {
            "word": [words.get(finding.label, finding.label) for finding in judged],
            "task": [finding.claim.tasks[0] for finding in judged],
            "model": [model_of(finding.claim) for finding in judged],
        }
    )
    by_model = verdicts.groupby("model", sort=False)
    lines = [_on_tasks(of_model) for _, of_model in by_model]
    if len(lines) > 1:
        lines = [f"{model}: {_on_tasks(of_model)}" for model, of_model in by_model]
    text = LINE.join(lines)
    return text if len(judged) == len(of_language) else f"{text}, so far"


def _on_tasks(verdicts: pd.DataFrame) -> str:
    """`helps on bit-xor, hurts on listops`, or `helps` if all of them agree."""
    tasks = verdicts.groupby("word", sort=False)["task"].agg(list)
    if len(tasks) == 1:
        return str(tasks.index[0])
    return ", ".join(f"{word} on {listed(names)}" for word, names in tasks.items())


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
            axes.set(title=task, xlabel="÷ random (left is better)", ylabel="")
        legend(drawn)
    return drawn


def write_figure() -> None:
    """Write the figure, if there is anything to draw."""
    drawn = figure(ratios())
    if drawn is not None:
        write_atomic(project().reports / FIGURE, png(drawn))
