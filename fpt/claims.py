"""Claims, each as a test over records: supported | contradicted | inconclusive | not run.

A claim is tested per task, on the accuracy of the parameters chosen on validation. The p-values of
all claims of a section are adjusted together (Holm).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import paper
from .cells import Cells, best_floor, cells, section_tasks
from .section import Section
from .stats import Difference, Direction, Label, Verdict, ledger, verdict

LEVEL = 0.05
LABELS: tuple[Label, ...] = ("supported", "contradicted", "inconclusive", "not run")


@dataclass(frozen=True)
class Evidence:
    """What a claim may look at: the cells of a section, and the best trivial floor per task."""

    cells: Cells
    floors: Mapping[str, float | None]


@dataclass(frozen=True)
class Measured:
    """An effect, None where not run, and the number of runs behind each of its sides."""

    effect: Difference | None
    runs: tuple[int, ...]


Test = Callable[[Evidence, str], Measured]


@dataclass(frozen=True)
class Claim:
    """`text` says what is claimed, `effect` what is measured; `covers` the tasks it is made for."""

    id: str
    text: str
    source: str
    effect: str
    test: Test
    direction: Direction
    margin: float = 0.0
    covers: Callable[[str], bool] = lambda task: True


@dataclass(frozen=True)
class Finding:
    """One claim on one task; the verdict's p is Holm-adjusted."""

    claim: Claim
    task: str
    verdict: Verdict
    measured: Measured


def versus(a: str, b: str) -> Test:
    """Arm `a` minus arm `b`."""

    def test(seen: Evidence, task: str) -> Measured:
        first, second = (seen.cells.get((arm, task)) for arm in (a, b))
        runs = tuple(len(cell.values) if cell else 0 for cell in (first, second))
        return Measured(first.minus(second) if first and second else None, runs)

    return test


def above(a: str, level: float | None) -> Test:
    """Arm `a` minus a fixed accuracy, or minus the task's best floor where that is None."""

    def test(seen: Evidence, task: str) -> Measured:
        cell = seen.cells.get((a, task))
        bound = seen.floors[task] if level is None else level
        effect = cell.minus(bound) if cell and bound is not None else None
        return Measured(effect, (len(cell.values) if cell else 0,))

    return test


PRINTED_AS = {"lstm-released": "lstm"}  # the paper's LSTM is the released code's


def paper_effect(a: str, b: str, task: str) -> float | None:
    """Arm `a` minus arm `b` in points as the paper printed them; None where it did not.

    Table 2 has FPT and random on one model size, Table 1 all other arms.
    """
    table = paper.table("T2" if "random" in (a, b) else "T1")
    names = [PRINTED_AS.get(arm, arm) for arm in (a, b)]
    if task not in table.columns or any(name not in table.rows for name in names):
        return None
    first, second = (table.cells[name, task].value for name in names)
    return None if first is None or second is None else first - second


def paper_says(a: str, b: str, least: float) -> Callable[[str], bool]:
    """The tasks on which the paper's own numbers differ by more than `least` points."""
    return lambda task: (paper_effect(a, b, task) or 0.0) > least


def known_to_paper(task: str) -> bool:
    return task in paper.table("T1").columns


# Within 5 points counts as a match: the paper itself calls gaps of up to 3.7 points one.
MATCH = 0.05
# The paper's cells rest on about 100 test images, so 5 points are the least it can claim.
LEAD = 5.0

CLAIMS: Mapping[str, Sequence[Claim]] = {
    "transfer": (
        Claim(
            "solves-bits",
            "FPT solves the bit tasks (above 99%)",
            "T1",
            "FPT minus 99%",
            above("fpt", 0.99),
            "greater",
            covers=lambda task: task.startswith("bit-"),
        ),
        Claim(
            "beats-random",
            "A frozen language body beats a frozen random one",
            "T2",
            "FPT minus frozen random",
            versus("fpt", "random"),
            "greater",
            # On bit-xor the paper has 100 for both.
            covers=lambda task: not known_to_paper(task) or paper_says("fpt", "random", 0.0)(task),
        ),
        Claim(
            "matches-full",
            f"FPT matches full training (within {100 * MATCH:.0f} points)",
            "T1",
            "FPT minus full",
            versus("fpt", "full"),
            "equal",
            margin=MATCH,
        ),
        Claim(
            "beats-lstm",
            "FPT beats a trained LSTM where the paper saw a clear lead",
            "T1",
            "FPT minus LSTM",
            versus("fpt", "lstm"),
            "greater",
            covers=paper_says("fpt", "lstm", LEAD),
        ),
        Claim(
            "above-floor",
            "FPT is above the best trivial predictor",
            "not claimed by the paper",
            "FPT minus best floor",
            above("fpt", None),
            "greater",
        ),
    )
}


def evidence(section: Section) -> Evidence:
    tasks = section_tasks(section)
    floors = {name: best_floor(task) for name, task in tasks.items()}
    return Evidence(cells(section.frame()), floors)


def examine(
    claims: Sequence[Claim], seen: Evidence, tasks: Sequence[str], alpha: float = LEVEL
) -> list[Finding]:
    """Every claim on every task that it covers, p-values adjusted over all of them."""
    pairs = [(claim, task) for claim in claims for task in tasks if claim.covers(task)]
    measured = [claim.test(seen, task) for claim, task in pairs]
    judged = [
        verdict(it.effect, claim.direction, claim.margin, alpha)
        for (claim, _), it in zip(pairs, measured, strict=True)
    ]
    return [
        Finding(claim, task, judgement, it)
        for (claim, task), judgement, it in zip(pairs, ledger(judged, alpha), measured, strict=True)
    ]


def section_findings(section: Section) -> list[Finding]:
    """The findings of a section's own claims."""
    tasks = list(section_tasks(section))
    return examine(CLAIMS[section.name], evidence(section), tasks)


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
        for label in LABELS:
            named = [_on_task(f) for f in mine if f.verdict.label == label]
            if named:
                lines.append(f"  - {label} on {'; '.join(named)}")
    scale = (
        "The bodies are the paper's own, so these verdicts are about its claims."
        if profile == "paper"
        else "The bodies are smaller than the paper's and pretrained on other text: these verdicts "
        "are about the analogue of each claim, not about the paper's numbers."
    )
    return "\n".join([*lines, "", scale])


def _on_task(finding: Finding) -> str:
    effect = finding.measured.effect
    if effect is None:
        return finding.task
    runs = " and ".join(map(str, finding.measured.runs))
    p = "" if math.isnan(effect.p) else f", p {p_text(finding.verdict.p)}"
    return f"{finding.task} ({finding.claim.effect} {points(effect)}, runs {runs}{p})"


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
