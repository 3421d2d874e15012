"""Chiang and Lee 2020 and 2022: with the same architecture and as many tokens, which data
make a backbone that transfers?"""

from .comparison import Comparison, Section, minus, over

CORPORA = (
    "english", "kannada", "javascript", "amino-acids", "images",
    "uniform", "unigram", "bigram", "bigram-16", "copies", "flat-2", "flat-128",
    "nesting", "shuffle-64", "dyck", "rule-110", "english+nesting",
)  # fmt: skip
PRETRAINED = tuple(f"fpt-{corpus}" for corpus in CORPORA)
BOTH = tuple((f"fpt-{corpus}", f"statistics-{corpus}") for corpus in CORPORA)
VARIANTS = tuple(
    f"fpt-english-{variant}" for variant in ("1M", "21M", "bytes", "512", "last")
)
WHOLE = tuple(f"full-{corpus}" for corpus in ("english", "nesting", "dyck", "uniform"))

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "What the frozen backbone was pretrained on",
            ("random", *PRETRAINED, *VARIANTS),
            (*over("random", *PRETRAINED), *minus("fpt-english", *VARIANTS)),
            note="Seeds differ in their backbone too if the profile pretrains one for "
            "each.",
        ),
        Comparison(
            "statistics",
            "Pretrained weights against their statistics alone",
            tuple(arm for pair in BOTH for arm in pair),
            BOTH,
            note="Statistics: the mean and standard deviation of each tensor.",
        ),
        Comparison(
            "whole",
            "Fully trained, from what the backbone was pretrained on",
            ("full", *WHOLE),
            over("full", *WHOLE),
        ),
    ),
    claims=(
        "statistics-sooner",
        "weights-sooner-than-statistics",
        "distance-sooner",
        "context-predicts",
        "memoryless-slower",
        "blocks-over-nesting",
        "structure-brings-english",
        "frozen-structure-brings-english",
    ),
)
