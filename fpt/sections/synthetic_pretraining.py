"""Chiang and Lee 2020 and 2022: with the same architecture and as many tokens, which data
make a backbone that transfers?"""

from .comparison import Comparison, Section, minus, over

CORPORA = (
    "english", "kannada", "javascript", "amino-acids", "images",
    "uniform", "unigram", "bigram", "bigram-16", "copies", "flat-2", "flat-128",
    "nesting", "shuffle-64", "dyck", "rule-110", "english+nesting",
)  # fmt: skip
VARIANTS = tuple(
    f"fpt-english-{variant}" for variant in ("1M", "21M", "bytes", "512", "last")
)
WHOLE = tuple(f"full-{corpus}" for corpus in ("english", "nesting", "dyck", "uniform"))

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "What the frozen backbone was pretrained on",
            ("random", *(f"fpt-{corpus}" for corpus in CORPORA), *VARIANTS),
            (
                *over("random", *(f"fpt-{corpus}" for corpus in CORPORA)),
                *minus("fpt-english", *VARIANTS),
            ),
            note="Seeds differ in their backbone too if the profile pretrains one for "
            "each.",
        ),
        Comparison(
            "statistics",
            "Pretrained weights against their statistics alone",
            tuple(
                f"{start}-{corpus}" for corpus in CORPORA for start in ("fpt", "statistics")
            ),
            tuple((f"fpt-{corpus}", f"statistics-{corpus}") for corpus in CORPORA),
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
