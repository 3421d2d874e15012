"""Claims, each as a test over records: supported | contradicted | inconclusive | not run.

A claim is tested per task, on the accuracy of the parameters chosen on validation. The p-values of
all claims of a section are adjusted together (Holm).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from .arrivals import sooner, speeds_up
from .cached import cheap_epochs, printed, printed_speedup
from .cells import best_floor, cells, section_tasks
from .claim import (
    Claim,
    Evidence,
    Measured,
    above,
    among,
    fades,
    gap,
    known_to_paper,
    leads,
    paper_says,
    versus,
    where_seen,
    wider_gap,
)
from .comparisons import ARCHITECTURES, COMPARISONS, STATISTICS
from .fit import fits, whole_task
from .masses import attends
from .origins import taught
from .section import Section
from .stats import Difference, Label, Verdict, ledger, verdict
from .table import label, short

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

# Full training is said to need more examples than the tasks have, so that freezing helps.
EXPLANATION = "the authors' explanation"


def _whole(task: str) -> bool:
    return whole_task(task) is None


def _in_table_17(task: str) -> bool:
    return COMPARISONS["architectures"].knows(task) or not known_to_paper(task)


def _alike_in_paper(comparison: str, a: str, b: str) -> Callable[[str], bool]:
    """The tasks on which the paper's own numbers differ by no more than a match."""

    def covers(task: str) -> bool:
        printed = COMPARISONS[comparison].effect(a, b, task)
        return printed is not None and abs(printed) <= 100 * MATCH

    return covers


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
    "architecture": (
        leads(
            "beats-released-lstm",
            "A frozen random transformer beats the paper's frozen random LSTM",
            "T3",
            "random",
            "random-lstm-released",
            where_seen("lstm", "random", "random-lstm-released"),
        ),
        leads(
            "beats-lstm",
            "A frozen random transformer beats a standard frozen random LSTM too",
            "T3, with another LSTM",
            "random",
            "random-lstm",
        ),
        leads(
            "beats-matched",
            "A frozen random transformer beats a random LSTM with as many frozen parameters",
            OURS,
            "random",
            "random-lstm-matched",
        ),
        leads(
            "released-is-weak",
            "Of random LSTMs, a standard one beats the paper's",
            OURS,
            "random-lstm",
            "random-lstm-released",
        ),
        *(
            leads(f"{arm.removeprefix('random-lstm-')}-helps", text, OURS, arm, before)
            for arm, before, text in (
                ("random-lstm-deep", "random-lstm", "Depth helps a random LSTM"),
                ("random-lstm-residual", "random-lstm-deep", "Residuals help a deep random LSTM"),
                ("random-lstm-positions", "random-lstm-residual", "Positions help it further"),
            )
        ),
        leads(
            "language-helps-lstm",
            "Not unique to transformers: language pretraining helps a frozen LSTM",
            OURS,
            "fpt-lstm",
            "random-lstm",
        ),
        leads(
            "leads-language-lstm",
            "A frozen language transformer beats a frozen language LSTM",
            OURS,
            "fpt",
            "fpt-lstm",
        ),
        *(
            Claim(
                f"matches-{kind}",
                f"FPT and {label(f'fpt-{kind}')} are alike, where the paper saw it "
                f"(within {100 * MATCH:.0f} points)",
                "T17",
                f"FPT minus {label(f'fpt-{kind}')}",
                versus("fpt", f"fpt-{kind}"),
                "equal",
                margin=MATCH,
                covers=_alike_in_paper("architectures", "fpt", f"fpt-{kind}"),
            )
            for kind in ("bert", "t5", "longformer")
        ),
        *(
            leads(
                f"beats-{kind}",
                f"FPT beats {label(f'fpt-{kind}')}, where the paper saw a clear lead",
                "T17",
                "fpt",
                f"fpt-{kind}",
                paper_says("architectures", "fpt", f"fpt-{kind}", LEAD),
            )
            for kind in ("t5", "longformer")
        ),
        *(
            leads(
                f"language-helps-{kind}",
                f"Pretraining helps other architectures too: {label(f'fpt-{kind}')}",
                OURS,
                f"fpt-{kind}",
                f"random-{kind}",
                _in_table_17,
            )
            for kind in ARCHITECTURES
        ),
        *(
            Claim(
                f"{arm}-causality",
                f"It does not matter whether tokens hear later ones ({body} body; within "
                f"{100 * MATCH:.0f} points)",
                OURS,
                f"{short(arm)} minus {label(f'{arm}-bidirectional')}",
                versus(arm, f"{arm}-bidirectional"),
                "equal",
                margin=MATCH,
                covers=_in_table_17,
            )
            for arm, body in (("fpt", "language"), ("random", "random"))
        ),
    ),
    "overfitting": (
        Claim(
            "no-gap",
            "FPT knows its training examples no better than others "
            f"(within {100 * MATCH:.0f} points)",
            "T7, section 3.6",
            "training minus test",
            gap("fpt"),
            "equal",
            margin=MATCH,
            covers=_whole,
        ),
        *(
            Claim(
                f"{arm}-overfits",
                f"FPT overfits less than {label(arm)}",
                source,
                f"gap of {short(arm)} minus gap of FPT",
                wider_gap(arm, "fpt"),
                "greater",
                covers=_whole,
            )
            for arm, source in (("vanilla", "T7"), ("linformer", "T7"), ("full", OURS))
        ),
        *(
            Claim(
                f"matches-{arm}",
                f"FPT comes near {label(arm)} (within {100 * MATCH:.0f} points)",
                "T7",
                f"FPT minus {short(arm)}",
                versus("fpt", arm),
                "equal",
                margin=MATCH,
                covers=_whole,
            )
            for arm in ("vanilla", "linformer")
        ),
        *(
            leads(
                f"{arm}-leads-on-few",
                f"With few examples a frozen {body} body beats the same body trained whole",
                EXPLANATION,
                arm,
                "full",
                lambda task: not _whole(task),
            )
            for arm, body in (("fpt", "language"), ("random", "random"))
        ),
        *(
            Claim(
                f"{arm}-lead-fades",
                f"A frozen {body} body is worth more over the same body trained whole with few "
                "examples than with all",
                EXPLANATION,
                f"{short(arm)} minus {short('full')}, with few minus with all",
                fades(arm, "full"),
                "greater",
                covers=lambda task: not _whole(task),
            )
            for arm, body in (("fpt", "language"), ("random", "random"))
        ),
    ),
    "modality": (
        *(
            leads(
                f"language-over-{name}",
                f"Language transfers better than {text}, where the paper saw it",
                "T2",
                "fpt",
                arm,
                where_seen("modality", "fpt", arm),
            )
            for name, text, arm in (
                ("bits", "bit memory", "fpt-bits"),
                ("images", "images", "fpt-vit"),
            )
        ),
        leads(
            "images-lead-on-images",
            "On images, images transfer better than language",
            "T2",
            "fpt-vit",
            "fpt",
            paper_says("modality", "fpt-vit", "fpt", 0.0),
        ),
        *(
            leads(
                f"{name}-help",
                f"A body pretrained on {text} beats a frozen random one, where the paper saw it",
                "T2",
                arm,
                "random",
                where_seen("modality", arm, "random"),
            )
            for name, text, arm in (
                ("bits", "bit memory", "fpt-bits"),
                ("images", "images", "fpt-vit"),
            )
        ),
        *(
            leads(
                f"{name}-hurt",
                f"A body pretrained on {text} falls below a random one, where the paper saw it",
                "T2",
                "random",
                arm,
                paper_says("modality", "random", arm, 0.0),
            )
            for name, text, arm in (
                ("bits", "bit memory", "fpt-bits"),
                ("images", "images", "fpt-vit"),
            )
        ),
        leads(
            "images-over-own-random",
            "Images help against the same body at random",
            OURS,
            "fpt-vit",
            "random-vit",
        ),
    ),
    "scaling": (
        *(
            leads(
                f"{start}-gains-with-{larger[1:]}",
                f"A larger body is better: {label(f'{start}{larger}')} over "
                f"{label(f'{start}{smaller}')}",
                "T8",
                f"{start}{larger}",
                f"{start}{smaller}",
                where_seen("scaling", f"{start}{larger}", f"{start}{smaller}"),
            )
            for start in ("fpt", "random")
            for larger, smaller in (("-larger", ""), ("-largest", "-larger"))
        ),
        *(
            leads(
                f"language-helps{size}",
                f"Language helps at every size: {label(f'fpt{size}')} over "
                f"{label(f'random{size}').lower()}",
                "T8",
                f"fpt{size}",
                f"random{size}",
                where_seen("scaling", f"fpt{size}", f"random{size}"),
            )
            for size in ("", "-larger", "-largest")
        ),
        *(
            leads(
                f"{start}-loses-when-smaller",
                f"A body smaller than the paper's smallest is worse: {label(f'{start}-smaller')}",
                OURS,
                start,
                f"{start}-smaller",
            )
            for start in ("fpt", "random")
        ),
        leads(
            "language-helps-smaller",
            "Language helps at a size below the paper's",
            OURS,
            "fpt-smaller",
            "random-smaller",
        ),
    ),
    "efficiency": (
        *(
            Claim(
                f"{fast}-sooner-than-{slow}",
                f"{text}: {short(fast)} reaches the common accuracy in fewer steps",
                source,
                f"steps of {short(slow)} minus {short(fast)}, % of the budget",
                sooner(fast, slow),
                "greater",
                covers=covers,
            )
            for fast, slow, text, source, covers in (
                ("fpt", "random", "Language speeds training up", "T6, section 3.4", speeds_up),
                ("fpt", "full", "Freezing speeds training up", OURS, lambda task: True),
            )
        ),
        leads(
            "fpt-over-probe",
            "The output net alone, even converged, stays below FPT",
            "T10, section 3.9",
            "fpt",
            "probe",
            where_seen("output_only", "fpt", "probe"),
        ),
        leads(
            "budget-decides",
            "The paper's two answers for the output net alone are two budgets: convergence helps",
            "T10 against T15 (conflict E)",
            "probe",
            "output",
            lambda task: not known_to_paper(task) or len(printed("probe", task)) > 1,
        ),
        leads(
            "language-features",
            "Features of a language body hold more than those of a random one",
            OURS,
            "probe",
            "random-probe",
        ),
        Claim(
            "cached-epochs",
            "Epochs after the first are at least as much cheaper as printed",
            "T10, section 3.9",
            f"cost of a cached epoch beyond 1/{printed_speedup()[0]:g} of the first, % of that",
            cheap_epochs("probe"),
            "less",
            covers=where_seen("output_only", "fpt", "probe"),
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
        leads(
            "two-layers-mix",
            "Two language layers mix tokens, two random ones do not (output and norms trained)",
            "T11",
            "output+layernorm@2",
            "random-output+layernorm@2",
            among("listops"),
        ),
        Claim(
            "one-layer-is-not-enough",
            "One layer is too few, language or random (output and norms trained; within "
            f"{100 * MATCH:.0f} points)",
            "T11",
            "language minus random",
            versus("output+layernorm@1", "random-output+layernorm@1"),
            "equal",
            margin=MATCH,
            covers=among("listops"),
            arms=("output+layernorm@1", "random-output+layernorm@1"),
        ),
        *(
            leads(
                f"{deeper}-over-{shallower}",
                f"More layers mix tokens better: {label(deeper)} over {label(shallower)}",
                source,
                deeper,
                shallower,
                among("listops"),
            )
            for source, deeper, shallower in (
                ("T11", "output+layernorm@2", "output+layernorm@1"),
                ("T11", "random-output+layernorm@6", "random-output+layernorm@2"),
                ("T12", "output@3", "output@1"),
                ("T12", "output@6", "output@3"),
                ("T12", "output", "output@1"),
            )
        ),
        leads(
            "language-mixes-untrained",
            "With the output net alone trained, language layers mix tokens and random ones do not",
            "T12",
            "output",
            "random-output",
            among("listops"),
        ),
        Claim(
            "random-depth-is-no-help",
            "With the output net alone trained, more random layers do not help (within "
            f"{100 * MATCH:.0f} points)",
            "T12",
            "24 random layers minus 12",
            versus("random-output@24", "random-output"),
            "equal",
            margin=MATCH,
            covers=among("listops"),
            arms=("random-output@24", "random-output"),
        ),
        *(
            leads(
                f"frozen-input-orthogonal-over-{start}",
                f"A frozen input net needs its orthogonal start: more than {start}",
                "section 3.1, released code",
                "frozen-input-orthogonal",
                f"frozen-input-{start}",
                among("digits", "mnist", "cifar10"),
            )
            for start in ("default", "normal")
        ),
        *(
            Claim(
                f"trained-input-forgets-{start}",
                f"The start of a trained input net does not matter: orthogonal or {start} (within "
                f"{100 * MATCH:.0f} points)",
                OURS,
                f"orthogonal minus {start}",
                versus("fpt", f"input-{start}"),
                "equal",
                margin=MATCH,
                covers=among("digits", "mnist", "cifar10"),
                arms=("fpt", f"input-{start}"),
            )
            for start in ("default", "normal")
        ),
    ),
    "attention": (
        Claim(
            "solves-xor",
            "FPT solves bit-xor (above 99%), for strings of up to 256 bits",
            "section 3.5, the authors' blog post",
            "FPT minus 99%",
            above("fpt", 0.99),
            "greater",
            covers=lambda task: task.startswith("bit-xor"),
        ),
        Claim(
            "attends",
            "In its first layer FPT attends to the tokens that it needs",
            "section 3.5, figures without numbers",
            "attention minus chance",
            attends("first layer", "fpt"),
            "greater",
        ),
        *(
            Claim(
                f"{part.replace(' ', '-')}-over-{other}",
                f"FPT attends to them more than {what} ({part})",
                OURS,
                f"attention, FPT minus {other}",
                attends(part, "fpt", other),
                "greater",
            )
            for part in ("first layer", "best head")
            for other, what in (("random", "a random body"), ("untrained", "before training"))
        ),
    ),
}


def evidence(section: Section) -> Evidence:
    tasks = section_tasks(section)
    floors = {name: best_floor(task) for name, task in tasks.items()}
    return Evidence(cells(section.frame()), floors, fits(section), section)


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
        )

    return [one(claim) for claim in CLAIMS[section.name]]


def section_findings(section: Section) -> list[Finding]:
    """The findings of a section's own claims."""
    tasks = list(section_tasks(section))
    return examine(applicable(section), evidence(section), tasks)


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
