"""Section 3.8, table 9: is it the pretrained weights, or only their statistics?

The paper redraws GPT-2's weights with their own mean and standard deviation, and does not say over
what these are taken: each tensor, each layer and the whole backbone are tried here. Shuffled and
permuted weights, the parts of the backbone apart, and a random backbone at English's weight scale
are controls of this project.
"""

from .comparison import Comparison, Section, minus, over

STATISTICS = ("statistics-tensor", "statistics-layer", "statistics-global")
ORDER = ("shuffled", "permuted-rows")
PARTS = tuple(
    f"{of}-{part}" for of in ("pretrained", "random") for part in ("body", "layernorm", "positions")
)
OTHERS = (*STATISTICS, *ORDER, *PARTS, "random-at-scale", "random-scaled")

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "Initialisation of the frozen backbone",
            ("fpt", *OTHERS, "random"),
            (*minus("fpt", *OTHERS, "random"), *over("random", *OTHERS)),
            paper=("T9",),
            rows=dict.fromkeys(STATISTICS, "statistics"),
            note="The paper's one row of statistics stands beside each of ours.",
        ),
    ),
    claims=(
        "statistics-sooner",
        "weights-sooner-than-statistics",
        "scale-sooner",
        "weights-sooner-than-scale",
        "rows-matter",
        "matrices-over-norms",
    ),
)
