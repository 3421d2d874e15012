"""What a notebook made: shown, and written to the report if `fpt render` executes it.

tables/<section>/ (.md, .csv) and figures/<section>/ (.png). A notebook that is executed by
hand shows the same and leaves the report as it is.
"""

import base64
import math
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from ..analysis.compare import NEITHER_LEARNED, Contrast, contrasts, left_out
from ..analysis.study import Study
from ..analysis.summary import FEW_RUNS, FEWEST_RUNS, INTERVALS, RATIOS
from ..claims.claim import KINDS, LAB, REGISTERED, Claim
from ..claims.finding import Finding
from ..claims.verdicts import findings
from ..files import write_atomic
from ..sections.arms import label
from ..sections.comparison import Pair
from ..sections.registration import LANGUAGE
from .escape import in_html, in_markdown
from .figures.style import png
from .page import STAGED
from .table import Table, effect_text

MOST_SENTENCES = 6  # of a conclusion
MOST_NAMES = 6  # of arms, in a sentence
# Said once on each page: a page has dozens of intervals, and some miss by chance alone.
INTERVALS_OF_A_PAGE = (
    f"{INTERVALS} Each is a 95% interval by itself; only the verdicts on registered claims "
    "are corrected, for the number of claims."
)
BOUNDS = {
    "≤": "at most, since runs of the second end at the budget",
    "≥": "at least, since runs of the first end at the budget",
    "?": "runs of both end at the budget",
}


@dataclass(frozen=True)
class Picture:
    """A drawn figure; its text names it and never varies. `source` is where a page finds
    it."""

    name: str
    source: str
    alt: str

    def _repr_html_(self) -> str:
        image = f'<img src="{self.source}" alt="{in_html(self.alt)}">'
        return f'<div class="figure">{image}</div>'

    def _repr_markdown_(self) -> str:
        return f"![{in_markdown(self.alt)}]({self.source})"

    def __repr__(self) -> str:
        return f"<figure {self.name}: {self.alt}>"


@dataclass(frozen=True)
class Text:
    """Markdown."""

    text: str

    def __repr__(self) -> str:
        return self.text

    _repr_markdown_ = __repr__


def _write(path: str, content: bytes) -> bool:
    """Write a file of the report if `fpt render` executes this; returns whether it does."""
    # A reader who executes a notebook by hand must not change the committed report.
    if STAGED not in os.environ:
        return False
    write_atomic(Path(os.environ[STAGED], path), content)
    return True


def show_table(study: Study, table: Table) -> Table | Text:
    """Write `table` if `fpt render` executes this, and return it, to be shown. Nothing of a
    table without columns: the profile plans no runs that it could show."""
    if table.texts.empty:
        return Text("")
    path = f"tables/{study.name}/{table.name}"
    _write(f"{path}.md", table.markdown().encode())
    _write(f"{path}.csv", table.csv().encode())
    return table


def show_figure(
    study: Study,
    name: str,
    figure: Figure | None,
    alt: str,
    otherwise: str = "There is no figure: none of its runs has a number to show.",
) -> Picture | Text:
    """Write `figure` as PNG if `fpt render` executes this; return it, to be shown. `alt`
    says what it shows to those who do not see it. If there is no figure, the sentence
    `otherwise`, which says why."""
    if figure is None:
        # A section that the profile leaves empty says so once, in its conclusion.
        return Text(otherwise if study.runs or study.declared.is_summary else "")
    content = png(figure)
    path = f"figures/{study.name}/{name}.png"
    # A page links to the file beside it: with a copy in each page, pages would be
    # megabytes.
    if _write(path, content):
        return Picture(name, f"../{path}", alt)
    data = base64.b64encode(content).decode()
    return Picture(name, f"data:image/png;base64,{data}", alt)


def conclude(study: Study) -> Text:
    """What follows from the runs: the verdicts of the registered claims of the section if
    the profile has any, else the main differences with their intervals. Then how much of
    the section the profile leaves out."""
    if study.declared.comparisons and not study.runs:
        return Text(f"The profile `{study.profile.name}` plans no runs of this section.")
    registered = _findings_of(study)
    lines = _verdicts(registered)
    if not lines:
        missing = len(study.missing())
        waiting = (
            f"There is nothing to conclude yet: {missing} of {len(study.keys)} runs "
            "are missing."
        )
        lines = differences_in_words(study) or [waiting]
        if study.profile.name == "smoke":
            count = len(study.profile.seeds)
            lines += [
                "",
                f"These {count} seeds decide nothing; `lab` tests registered claims.",
            ]
    lines += _without_verdict(registered)
    if not study.profile.sections.get(study.name) and study.runs:
        lenders = " and ".join(study.declared.lenders)
        where = f"runs of other sections, whose pages have the verdicts: {lenders}"
        lines += ["", f"> These are {where}."]
    return Text("\n".join([*lines, *_left_out(study)]))


def _left_out(study: Study) -> list[str]:
    """Markdown: what a profile that plans less than half of the main comparison of a
    section leaves out of it. It must not look as if it had tested the whole."""
    present, declared, arms = left_out(study)
    if 2 * present >= declared:
        return []
    main = study.declared.comparisons[0]
    names = "; ".join(in_markdown(label(arm)) for arm in arms[:MOST_NAMES])
    more = f" and {len(arms) - MOST_NAMES} more" if len(arms) > MOST_NAMES else ""
    text = (
        f'Of the main comparison, "{in_markdown(main.title)}", the profile '
        f"`{study.profile.name}` plans {present} of {declared} pairs in this section, "
        f"which has no runs of its own of {names}{more}."
    )
    titles = [in_markdown(other.title) for other in study.compared if other != main]
    if titles:
        text += f" It compares these instead: {'; '.join(titles)}."
    return ["", f"> {text}"]


def _findings_of(study: Study) -> list[Finding]:
    """The findings of the registered claims that a section reports; none of one whose runs
    are lent, since they stand on the pages of the lenders."""
    is_own = study.declared.is_summary or study.profile.sections.get(study.name)
    if not is_own or (study.profile.name not in REGISTERED and study.name != "verdict"):
        return []
    profile = LANGUAGE if study.profile.name == LANGUAGE else LAB
    every = [finding for kind in KINDS for finding in findings(kind, profile)]
    return [finding for finding in every if _belongs(finding.claim, study)]


def _verdicts(registered: Iterable[Finding]) -> list[str]:
    """Markdown: the verdict of each claim that has one."""
    lines = []
    for finding in registered:
        if finding.is_judged:
            text = "; ".join([f"{finding.effect_text}, {finding.n_text}", *finding.notes])
            verdict = finding.label.capitalize()
            lines.append(f"- **{verdict}**: {finding.claim.statement} ({text})")
    return [*lines, "", INTERVALS_OF_A_PAGE] if lines else []


def _without_verdict(registered: Iterable[Finding]) -> list[str]:
    """Markdown: how many of the claims wait for runs, and how many were withdrawn."""
    reasons = Counter(
        finding.claim.withdrawn or "waiting for runs"
        for finding in registered
        if not finding.is_judged
    )
    if not reasons:
        return []
    counts = "; ".join(
        f"{count} {in_markdown(reason)}" for reason, count in reasons.items()
    )
    return ["", f"Registered claims of this section without a verdict: {counts}."]


def _belongs(claim: Claim, study: Study) -> bool:
    """Whether a section reports a claim: it names it, or compares its two arms."""
    pairs = {frozenset(pair) for part in study.declared.comparisons for pair in part.pairs}
    if claim.measure == "area":
        return frozenset(claim.backbones) in pairs or study.declared.is_summary
    return claim.name in study.declared.claims


def differences_in_words(study: Study) -> list[str]:
    """Markdown: a sentence for each of the first pairs of arms that the section declares
    and that have runs, task by task, since effects of opposite sign have no mean that says
    anything; and what the intervals reflect."""
    results = study.results()
    # The main pairs may be of a comparison that the profile plans a small part of.
    candidates = [study.main_pairs, *(comparison.pairs for comparison in study.compared)]
    for pairs in candidates:
        compared = contrasts(study, pairs, results)
        if not all(contrast.waiting for contrast in compared):
            break
    else:
        return []
    lines = in_words(study, compared)[:MOST_SENTENCES]
    if any(not math.isnan(contrast.effect.low) for contrast in compared):
        return [*lines, "", INTERVALS_OF_A_PAGE]
    # Arms that are not compared have a reason of their own.
    few = any(
        0 < contrast.seeds < FEWEST_RUNS and not math.isnan(contrast.effect.estimate)
        for contrast in compared
    )
    return [*lines, "", FEW_RUNS] if few else lines


def effects(study: Study, *pairs: Pair, results: pd.DataFrame | None = None) -> Text:
    """What the runs say of some pairs of arms, task by task, or how many are recorded.
    `results`: a part of those of the study."""
    results = study.results() if results is None else results
    lines = in_words(study, contrasts(study, pairs, results))
    return Text("\n".join(lines or ["The profile plans no task for both of these arms."]))


def in_words(study: Study, compared: Iterable[Contrast]) -> list[str]:
    """Markdown: a sentence for each pair of arms. A task on which no two arms can be
    compared has one for all of them."""
    compared = [
        contrast
        for contrast in compared
        if contrast.waiting or contrast.refused or not math.isnan(contrast.effect.estimate)
    ]
    # Where nobody exceeds the baseline, every pair has the same reason: it is said once.
    refusals: dict[str, set[str]] = {}
    for contrast in compared:
        refusals.setdefault(contrast.task, set()).add(contrast.refused)
    lines = []
    phrases: dict[Pair, list[str]] = {}
    for task, reasons in refusals.items():
        if len(reasons) == 1 and reasons.isdisjoint({"", NEITHER_LEARNED}):
            title = in_markdown(study.title(task))
            (reason,) = reasons
            lines.append(
                f"- On {title}, these arms are not compared, since all are {reason}."
            )
            compared = [contrast for contrast in compared if contrast.task != task]
    for contrast in compared:
        title = in_markdown(study.title(contrast.task))
        phrase = f"on {title}, {contrast_in_words(study, contrast)}"
        phrases.setdefault((contrast.first, contrast.second), []).append(phrase)
    for (first, second), on_tasks in phrases.items():
        arms = f"{in_markdown(label(first))} against {in_markdown(label(second))}"
        lines.append(f"- {arms}: {'; '.join(on_tasks)}.")
    return lines


def contrast_in_words(study: Study, contrast: Contrast) -> str:
    """`×0.60 the steps [0.46, 0.79]`, or why there is no comparison yet, or at all."""
    measure = study.measures(contrast.task)
    if contrast.waiting:
        return contrast.waiting
    if contrast.refused == NEITHER_LEARNED:
        reason = " (no run reaches the threshold)" if measure == "steps" else ""
        return NEITHER_LEARNED + reason
    if contrast.refused:
        return f"not compared, since both are {contrast.refused}"
    unit = f" the {measure}" if measure in RATIOS else " points of accuracy"
    notes = [BOUNDS[contrast.bound]] if contrast.bound else []
    if contrast.partial:
        notes.append(f"on the {contrast.seeds} seeds that both have")
    if contrast.below:
        notes.append(contrast.below)
    text = effect_text(vars(contrast.effect), measure in RATIOS, unit)
    return f"{text} ({'; '.join(notes)})" if notes else text
