"""Claims, each as a test over records: supported | contradicted | inconclusive | not run.

A claim is tested per task, on the accuracy of the parameters chosen on validation. The p-values of
all claims of a section are adjusted together (Holm).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..analysis.cells import best_floor, cells, section_tasks, titles
from ..analysis.claim import Claim, Evidence, Measured
from ..analysis.fit import fits
from ..analysis.provenance import taught, unlearned
from ..analysis.stats import Difference, Label, Verdict, ledger, verdict
from ..analysis.tuning import by_rate, tuned
from .ledger import CLAIMS
from .section import Section

LEVEL = 0.05
LABELS: tuple[Label, ...] = ("supported", "contradicted", "inconclusive", "not run")


@dataclass(frozen=True)
class Finding:
    """One claim on one task; `title` is what tables call the task."""

    claim: Claim
    task: str
    title: str
    verdict: Verdict
    measured: Measured


def evidence(section: Section) -> Evidence:
    tasks = section_tasks(section)
    floors = {name: best_floor(task) for name, task in tasks.items()}
    shown = tuned(section)
    return Evidence(
        cells(shown.frame()),
        floors,
        fits(shown),
        by_rate(section),
        section,
        unlearned(section),
        titles(tasks),
    )


def examine(claims: Sequence[Claim], seen: Evidence, tasks: Sequence[str]) -> list[Finding]:
    """Every claim on every task that it covers, each judged as if it were the only one."""
    found = []
    for claim in claims:
        for task in filter(claim.covers, tasks):
            measured = claim.test(seen, task)
            if measured.ran and any(arm in seen.unlearned for arm in claim.arms):
                measured = Measured(None, measured.runs, "a body did not learn its corpus")
            judged = verdict(measured.effect, claim.direction, claim.margin, LEVEL)
            if measured.barred:
                judged = Verdict("inconclusive", 1.0)
            found.append(Finding(claim, task, seen.titles.get(task, task), judged, measured))
    return found


def adjust(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with their p-values adjusted over all that the profile has runs for."""
    tests = sum(finding.claim.asked for finding in findings)
    judged = ledger([finding.verdict for finding in findings], tests, LEVEL)
    return [replace(it, verdict=new) for it, new in zip(findings, judged, strict=True)]


def applicable(section: Section) -> list[Claim]:
    """The section's claims, each on the tasks that its arms are trained on (on all, where there is
    none: it is not run), but for those whose answers one of their bodies was taught."""
    expected = {(run.arm, run.task) for run in section.runs}
    given = taught(section)

    def one(claim: Claim) -> Claim:
        there = {task for _, task in expected if all((arm, task) in expected for arm in claim.arms)}
        hidden = {task for arm, task in given if arm in claim.arms}
        return replace(
            claim,
            covers=lambda task: (
                claim.covers(task) and (task in there or not there) and task not in hidden
            ),
            asked=bool(there),
        )

    return [one(claim) for claim in CLAIMS[section.name]]


def unadjusted(section: Section) -> list[Finding]:
    """The findings of a section's own claims, each judged as if it were the only one."""
    return examine(applicable(section), evidence(section), list(section_tasks(section)))


def section_findings(section: Section) -> list[Finding]:
    """The findings of a section's own claims, adjusted over the section."""
    return adjust(unadjusted(section))


def overall(findings: Sequence[Finding]) -> Label:
    """A claim over several tasks stands if it stands on each, and falls if it falls on one."""
    labels = {finding.verdict.label for finding in findings}
    if "contradicted" in labels:
        return "contradicted"
    return labels.pop() if len(labels) == 1 else "inconclusive"


def in_words(findings: Sequence[Finding], profile: str) -> str:
    """The findings as Markdown, one item per claim; every number is computed."""
    lines = []
    for claim in dict.fromkeys(finding.claim for finding in findings):
        mine = [finding for finding in findings if finding.claim == claim]
        lines.append(f"- **{claim.text}**: {overall(mine)}.")
        for verdict_ in LABELS:
            named = [_on_task(f) for f in mine if f.verdict.label == verdict_]
            if named:
                lines.append(f"  - {verdict_} on {'; '.join(named)}")
    return "\n".join([*lines, "", scale(profile)])


def scale(profile: str) -> str:
    """What the verdicts of a profile are about."""
    if profile == "paper":
        return "The bodies are the paper's own, so these verdicts are about its claims."
    return (
        "The bodies are smaller than the paper's and pretrained on other text: these verdicts "
        "are about the analogue of each claim, not about the paper's numbers."
    )


def _on_task(finding: Finding) -> str:
    it = finding.measured
    if not it.ran:
        return finding.title
    runs = " and ".join(map(str, it.runs))
    p = f", p {p_text(finding.verdict.p)}" if it.effect and not math.isnan(it.effect.p) else ""
    return (
        f"{finding.title} ({finding.claim.effect} {effect_text(it)}, {finding.claim.unit}, "
        f"runs {runs}{p})"
    )


def effect_text(it: Measured) -> str:
    """`+1.2 [−0.3, +2.7]`, and what bars it from a verdict; or `not run`."""
    parts = [] if it.effect is None else [points(it.effect)]
    return "; ".join([*parts, *filter(None, [it.barred])]) or "not run"


def p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def points(effect: Difference) -> str:
    """`+1.2 [−0.3, +2.7]`: an effect in points with its 95% interval, where it has one."""
    if math.isnan(effect.low):
        return signed(effect.effect)
    return f"{signed(effect.effect)} [{signed(effect.low)}, {signed(effect.high)}]"


def signed(fraction: float) -> str:
    text = f"{100 * fraction:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")
