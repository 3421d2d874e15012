"""Claims, each as a test over records: supported | contradicted | inconclusive | not run.

A claim is tested per task, on the accuracy of the parameters chosen on validation. The p-values of
all claims of a section are adjusted together (Holm).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .cells import best_floor, cells, section_tasks
from .claim import (
    Claim,
    Evidence,
    Measured,
    above,
    known_to_paper,
    leads,
    paper_says,
    versus,
    where_seen,
)
from .comparisons import STATISTICS
from .section import Section
from .stats import Difference, Label, Verdict, ledger, verdict
from .table import label

LEVEL = 0.05
LABELS: tuple[Label, ...] = ("supported", "contradicted", "inconclusive", "not run")


@dataclass(frozen=True)
class Finding:
    """One claim on one task; the verdict's p is Holm-adjusted."""

    claim: Claim
    task: str
    verdict: Verdict
    measured: Measured


OURS = "not claimed by the paper"
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
            covers=lambda task: (
                not known_to_paper(task) or paper_says("transfer", "fpt", "random", 0.0)(task)
            ),
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
            covers=paper_says("transfer", "fpt", "lstm", LEAD),
        ),
        Claim(
            "above-floor",
            "FPT is above the best trivial predictor",
            OURS,
            "FPT minus best floor",
            above("fpt", None),
            "greater",
        ),
    ),
    "initialization": (
        *(
            leads(
                f"beats-{start}",
                f"A better start does not recover language: {label(start).lower()}",
                "T9, section 3.8",
                "fpt",
                start,
                where_seen("initialization", "fpt", start),
            )
            for start in STATISTICS
        ),
        leads(
            "statistics-help",
            "Statistics alone beat the default start, where the paper saw it",
            "T9",
            "statistics-tensor",
            "random",
            where_seen("initialization", "statistics-tensor", "random"),
        ),
        leads(
            "statistics-hurt",
            "Statistics alone fall below the default start, where the paper saw it",
            "T9",
            "random",
            "statistics-tensor",
            paper_says("initialization", "random", "statistics-tensor", 0.0),
        ),
        leads(
            "beats-shuffled",
            "It is not the distribution of the weights: FPT beats shuffled weights",
            OURS,
            "fpt",
            "shuffled",
        ),
        leads(
            "beats-permuted-rows",
            "It is how matrices fit each other: FPT beats permuted inputs",
            OURS,
            "fpt",
            "permuted-rows",
        ),
        leads(
            "matrices-help",
            "Language matrices help without language norms and positions",
            OURS,
            "pretrained-body",
            "random",
        ),
        leads(
            "ends-help",
            "Language norms and positions help without language matrices",
            OURS,
            "random-body",
            "random",
        ),
        Claim(
            "defaults-match",
            f"Both default starts of GPT-2 are alike (within {100 * MATCH:.0f} points)",
            OURS,
            "scaled minus flat",
            versus("random-scaled", "random"),
            "equal",
            margin=MATCH,
        ),
    ),
    "finetuning": (
        *(
            leads(
                f"{start}layernorm-over-{part}",
                f"Of single parts, layer norms matter most: more than {part} ({body} body)",
                source,
                f"{start}output+layernorm",
                f"{start}output+{part}",
                where_seen(table, f"{start}output+layernorm", f"{start}output+{part}"),
            )
            for start, body, source, table in (
                ("", "language", "T18", "individual"),
                ("random-", "random", "T21", "random_individual"),
            )
            for part in ("input", "positions")
        ),
        *(
            leads(
                f"{arm}-needs-layernorm",
                f"Training the layer norms is worth it ({body} body)",
                "T16",
                arm,
                rest,
            )
            for arm, rest, body in (
                ("fpt", "output+input+positions", "language"),
                ("random", "random-output+input+positions", "random"),
            )
        ),
        leads(
            "feedforward-helps",
            "Training the feedforward layers too helps, where the paper saw it",
            "T13",
            "fpt+feedforward",
            "fpt",
            where_seen("unfreezing", "fpt+feedforward", "fpt"),
        ),
        leads(
            "attention-hurts",
            "Training the attention too hurts, where the paper saw it",
            "T13",
            "fpt",
            "fpt+attention",
            where_seen("unfreezing", "fpt", "fpt+attention"),
        ),
        leads(
            "last-attention-helps",
            "With the feedforward layers, training the last attention layer helps",
            "T14",
            "fpt+feedforward+last-attention",
            "fpt+feedforward",
            where_seen("unfreezing", "fpt+feedforward+last-attention", "fpt+feedforward"),
        ),
    ),
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
        for verdict_ in LABELS:
            named = [_on_task(f) for f in mine if f.verdict.label == verdict_]
            if named:
                lines.append(f"  - {verdict_} on {'; '.join(named)}")
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
