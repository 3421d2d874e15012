"""What critics claim: that one learning rate decided the paper's comparison, and that less than a
frozen transformer would do."""

from collections.abc import Callable
from dataclasses import replace

from ...analysis.claim import (
    LEAD,
    MATCH,
    Claim,
    Evidence,
    Measured,
    Test,
    above,
    alike_in_paper,
    among,
    between,
    compared,
    known_to_paper,
    leads,
    paper_says,
    versus,
    where_seen,
    wider_gap,
)
from ...analysis.stats import Difference
from ...analysis.tuning import published_rate
from ...paper.reader import table
from ...report.table import label, short

NAME = "learning_rate"
ROTHERMEL = "Rothermel et al. 2021"
ZHONG, TAN, DONG = "Zhong and Andreas 2024", "Tan et al. 2024", "Dong et al. 2025"
TRIED = table("Rothermel1").columns


def tried(task: str) -> bool:
    """Whether Rothermel et al. have the task; a task that the paper has not either counts too."""
    return task in TRIED or not known_to_paper(task)


def at_published(a: str, b: str) -> Test:
    """Arm `a` minus arm `b`, both at the paper's rate."""

    def test(seen: Evidence, task: str) -> Measured:
        rate = published_rate(task)
        return compared(*(seen.rates.get((arm, task), {}).get(rate) for arm in (a, b)))

    return test


def gain(seen: Evidence, arm: str, task: str) -> Measured:
    """What the best rate gives an arm over the paper's: nothing, where they are one."""
    tuned = seen.cells.get((arm, task))
    plain = seen.rates.get((arm, task), {}).get(published_rate(task))
    found = compared(tuned, plain)
    if found.effect is not None and tuned == plain:
        return replace(found, effect=Difference(0.0, 0.0, 0.0, 1.0, 0.0, float("inf")))
    return found


def gains_more(a: str, b: str) -> Test:
    """What the best rate gives arm `a`, minus what it gives arm `b`."""

    def test(seen: Evidence, task: str) -> Measured:
        first, second = gain(seen, a, task), gain(seen, b, task)
        return between(first, second)

    return test


def falls_above(a: str) -> Test:
    """Arm `a` at the paper's rate, minus the same at the next higher one."""

    def test(seen: Evidence, task: str) -> Measured:
        each = seen.rates.get((a, task), {})
        here, higher = published_rate(task), [lr for lr in each if lr > published_rate(task)]
        if here not in each or not higher:
            return Measured(None, ())
        return compared(each[here], each[min(higher)])

    return test


def matches(
    id: str, text: str, source: str, a: str, b: str, covers: Callable[[str], bool]
) -> Claim:
    """Arms `a` and `b` are equal within the margin of a match."""
    text, effect = f"{text} (within {100 * MATCH:.0f} points)", f"{short(a)} minus {short(b)}"
    return Claim(id, text, source, effect, versus(a, b), "equal", MATCH, covers, (a, b))


CLAIMS: tuple[Claim, ...] = (
    *(
        leads(id, text, f"{ROTHERMEL}, Table 1", a, b, where_seen(NAME, a, b))
        for id, text, a, b in (
            ("frozen-language-over-random", "Tuned and frozen, language beats random",
             "fpt", "random"),
            ("whole-over-frozen-language", "Tuned, a language body trained whole beats a frozen "
             "one", "full-pretrained", "fpt"),
            ("whole-over-frozen-random", "Tuned, a random body trained whole beats a frozen one",
             "full", "random"),
            ("scratch-over-frozen-language", "Tuned, training from scratch beats FPT",
             "full", "fpt"),
        )
    ),
    leads(
        "whole-language-over-scratch",
        "Tuned and trained whole, language beats random, where they saw a clear lead",
        f"{ROTHERMEL}, Table 1",
        "full-pretrained",
        "full",
        paper_says(NAME, "full-pretrained", "full", LEAD),
    ),
    matches(
        "whole-language-matches-scratch",
        "Tuned and trained whole, language matches random elsewhere",
        f"{ROTHERMEL}, Table 1",
        "full-pretrained",
        "full",
        alike_in_paper(NAME, "full-pretrained", "full"),
    ),
    *(
        Claim(
            f"frozen-ahead-of-{arm}-as-published",
            f"At the paper's rate FPT is ahead: of {label(arm)}",
            f"{ROTHERMEL}, Figure 1",
            f"FPT minus {short(arm)}, at the paper's rate",
            at_published("fpt", arm),
            "greater",
            covers=lambda task: task == "cifar10-lra" or not known_to_paper(task),
            arms=("fpt", arm),
        )
        for arm in ("full-pretrained", "full")
    ),
    *(
        Claim(
            f"{arm}-gains-more",
            f"Tuning the rate gives more to {label(arm)} than to FPT",
            f"{ROTHERMEL}, abstract",
            f"gain of {short(arm)} minus gain of FPT",
            gains_more(arm, "fpt"),
            "greater",
            covers=tried,
            arms=(arm, "fpt"),
        )
        for arm in ("full-pretrained", "full")
    ),
    *(
        Claim(
            f"{arm}-falls-above",
            f"Just above the paper's rate accuracy falls: {label(arm)}",
            f"{ROTHERMEL}, text",
            "at the paper's rate minus at the next",
            falls_above(arm),
            "greater",
            covers=tried,
            arms=(arm,),
        )
        for arm in ("full-pretrained", "full")
    ),
    *(
        Claim(
            f"fpt-overfits-more-than-{arm}",
            f"On ListOps FPT overfits most: more than {label(arm)}",
            f"{ROTHERMEL}, text",
            f"gap of FPT minus gap of {short(arm)}",
            wider_gap("fpt", arm),
            "greater",
            covers=among("listops"),
            arms=("fpt", arm),
        )
        for arm in ("random", "full-pretrained", "full")
    ),
    Claim(
        "random-nets-learn",
        "A random body learns with its input and output nets alone trained: above the best floor",
        f"{ZHONG}, on other tasks",
        "random: output+input minus best floor",
        above("random-output+input", None),
        "greater",
        covers=lambda task: (
            task.startswith("bit-") or task == "listops" or not known_to_paper(task)
        ),
        arms=("random-output+input",),
    ),
    *(
        matches(
            f"{arm}-is-enough",
            f"Less does as well as FPT: {label(arm).lower()}",
            f"{TAN}, on time series",
            arm,
            "fpt",
            lambda task: True,
        )
        for arm in ("no-transformer-last", "no-transformer-mean", "random-attention")
    ),
    matches(
        "order-does-not-matter",
        "FPT does as well with its tokens shuffled",
        f"{TAN}, on time series",
        "fpt-shuffled",
        "fpt",
        lambda task: True,
    ),
    matches(
        "queries-and-keys-need-no-training",
        "Random queries and keys can stay frozen",
        DONG,
        "full-frozen-qk",
        "full",
        lambda task: True,
    ),
    matches(
        "fixed-attention-is-enough",
        "Fixed random attention does as well, where nothing is to be retrieved",
        DONG,
        "full-fixed",
        "full",
        lambda task: task != "bit-memory",
    ),
    leads(
        "retrieval-needs-attention",
        "To retrieve, attention has to depend on the tokens",
        DONG,
        "full",
        "full-fixed",
        among("bit-memory"),
    ),
)  # fmt: skip
