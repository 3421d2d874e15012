"""What a notebook made: shown, and written to the report if `fpt render` executes it.

tables/<section>/ (.md, .csv) and figures/<section>/ (.png). A notebook that is executed by hand
shows the same and leaves the report as it is.
"""

import base64
import io
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from ..analysis.claims import KINDS, LAB, findings
from ..analysis.compare import FEWEST_RUNS, NEITHER_LEARNED, Contrast, contrasts, left_out
from ..analysis.study import Study
from ..analysis.summary import INTERVALS
from ..files import write_atomic
from ..sections.arms import label
from ..sections.comparison import Pair
from .escape import in_html, in_markdown
from .page import RENDERS, STAGED
from .style import styled
from .table import Table

MOST_SENTENCES, MOST_NAMES = 6, 6
# Said once on each page: a page has dozens of intervals, and some miss by chance alone.
INTERVALS_OF_A_PAGE = (
    f"{INTERVALS} Each has 95% by itself: only the verdicts on registered claims are corrected for "
    "how many a page shows."
)
FORMS = {
    "steps": "×{:.2f} the steps [{:.2f}, {:.2f}]",
    "accuracy": "{:+.1f} points of accuracy [{:+.1f}, {:+.1f}]",
}
BOUNDS = {
    "≤": "at most, since runs of the second end at the budget",
    "≥": "at least, since runs of the first end at the budget",
    "?": "runs of both end at the budget",
}


@dataclass(frozen=True)
class Picture:
    """A drawn figure; its text names it and never varies."""

    name: str
    png: bytes
    alt: str

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png).decode()
        image = f'<img src="data:image/png;base64,{data}" alt="{in_html(self.alt)}">'
        return f'<div class="figure">{image}</div>'

    def __repr__(self) -> str:
        return f"<figure {self.name}: {self.alt}>"


@dataclass(frozen=True)
class Text:
    """Markdown."""

    text: str

    def __repr__(self) -> str:
        return self.text

    _repr_markdown_ = __repr__


def _report(study: Study) -> Path:
    """Where a rendered notebook writes: the report, or the folder that will take its place."""
    return Path(os.environ.get(STAGED, study.folder))


def show_table(study: Study, table: Table) -> Table:
    """Write `table` if `fpt render` executes this, and return it, to be shown."""
    if RENDERS in os.environ:
        folder = _report(study) / "tables" / study.name
        write_atomic(folder / f"{table.name}.md", table.markdown().encode())
        write_atomic(folder / f"{table.name}.csv", table.csv().encode())
    return table


def show_figure(
    study: Study,
    name: str,
    figure: Figure | None,
    alt: str,
    otherwise: str = "There is nothing to draw yet.",
) -> Picture | Text:
    """Write `figure` as PNG, equal bytes for equal results, if `fpt render` executes this; return
    it, to be shown. `alt` says what it shows to those who do not see it. If there is no figure, the
    sentence `otherwise`, which says why."""
    if figure is None:
        return Text(otherwise)
    drawn, png = io.BytesIO(), io.BytesIO()
    with styled():
        figure.savefig(drawn, format="png", facecolor="white")
    few = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(png, "PNG", optimize=True)
    if RENDERS in os.environ:
        write_atomic(_report(study) / "figures" / study.name / f"{name}.png", png.getvalue())
    return Picture(name, png.getvalue(), alt)


def conclude(study: Study) -> Text:
    """What follows from the runs: in `lab` the verdicts of the registered claims of the section;
    else, or beside, the main differences with their intervals. Then what of the section the profile
    leaves out."""
    lines = []
    if study.profile.name == LAB or study.name == "verdict":
        lines = _verdicts(study)
    if not lines:
        lines = differences_in_words(study) or ["There is nothing to conclude yet."]
        if study.profile.name == "smoke":
            count = len(study.profile.seeds)
            lines += ["", f"These {count} seeds decide nothing; `lab` tests registered claims."]
    present, declared, arms = left_out(study)
    if 2 * present < declared:
        names = [in_markdown(label(arm)) for arm in arms]
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        lines += [
            "",
            f"> The profile `{study.profile.name}` plans {present} of the {declared} comparisons "
            f"of this section. It has no runs of {'; '.join(names[:MOST_NAMES])}{more}.",
        ]
    return Text("\n".join(lines))


def _verdicts(study: Study) -> list[str]:
    """Markdown: the registered claims of a section with their verdicts."""
    lines, named = [], study.declared.claims
    for it in (it for kind in KINDS for it in findings(kind) if it.claim.name in named):
        if it.is_judged or it.claim.withdrawn:
            notes = "".join(f"; {note}" for note in it.notes)
            said = (
                f"{it.effect_text}, {it.n_text}{notes}" if it.is_judged else in_markdown(it.reason)
            )
            lines.append(f"- **{it.label.capitalize()}**: {it.claim.statement} ({said})")
    return [*lines, "", INTERVALS_OF_A_PAGE] if lines else []


def differences_in_words(study: Study) -> list[str]:
    """Markdown: a sentence for each of the first pairs of arms that the section declares, task by
    task, since effects of opposite sign have no mean that says anything; and what the intervals
    reflect."""
    pairs = [pair for it in study.declared.comparisons[:1] for pair in it.pairs]
    found = contrasts(study, pairs, study.results())
    lines = in_words(study, found)[:MOST_SENTENCES]
    if not lines:
        return []
    few = f"There is no interval of fewer than {FEWEST_RUNS} runs."
    known = any(not math.isnan(it.effect.low) for it in found)
    return [*lines, "", INTERVALS_OF_A_PAGE if known else few]


def effects(study: Study, *pairs: Pair, results: pd.DataFrame | None = None) -> Text:
    """What the recorded runs say of some pairs of arms, task by task. `results`: a part of those of
    the study."""
    results = study.results() if results is None else results
    lines = in_words(study, contrasts(study, pairs, results))
    return Text(
        "\n".join(lines or ["These arms are compared once all of their runs are recorded."])
    )


def in_words(study: Study, found: Iterable[Contrast]) -> list[str]:
    """Markdown: a sentence for each pair of arms whose runs are all recorded. A task on which no
    two arms can be compared has one for all of them."""
    known = [it for it in found if it.refused or not math.isnan(it.effect.estimate)]
    reasons: dict[str, set[str]] = {}
    for it in known:
        reasons.setdefault(it.task, set()).add(it.refused)
    low = {  # task -> the baseline that no arm exceeds
        task: why.pop() for task, why in reasons.items() if len(why) == 1 and _is_low(*why)
    }
    lines = [
        f"- On {in_markdown(study.title(task))}, these arms are not compared, since all are {why}."
        for task, why in low.items()
    ]
    said: dict[Pair, list[str]] = {}
    for it in known:
        if it.task not in low:
            text = f"on {in_markdown(study.title(it.task))}, {contrast_in_words(study, it)}"
            said.setdefault((it.first, it.second), []).append(text)
    for (first, second), contrasts_of_pair in said.items():
        arms = f"{in_markdown(label(first))} against {in_markdown(label(second))}"
        lines.append(f"- {arms}: {'; '.join(contrasts_of_pair)}.")
    return lines


def _is_low(refused: str) -> bool:
    return refused not in ("", NEITHER_LEARNED)


def contrast_in_words(study: Study, it: Contrast) -> str:
    """`0.60 times as many steps [0.46, 0.79]`, or why there is no comparison."""
    unit = study.measures(it.task)
    if it.refused == NEITHER_LEARNED and unit == "steps":
        return f"{NEITHER_LEARNED} (no run reaches the threshold)"
    if it.refused == NEITHER_LEARNED:
        return NEITHER_LEARNED
    if it.refused:
        return f"not compared, since both are {it.refused}"
    values = np.array([it.effect.estimate, it.effect.low, it.effect.high])
    text = FORMS[unit].format(*(np.exp(values) if unit == "steps" else values))
    text = re.sub(r" \[\+?nan, \+?nan\]", "", text)
    notes = [BOUNDS[it.bound]] if it.bound else []
    if it.partial:
        notes.append(f"on the {it.seeds} seeds that both have")
    if it.below:
        notes.append(it.below)
    return text + (f" ({'; '.join(notes)})" if notes else "")
