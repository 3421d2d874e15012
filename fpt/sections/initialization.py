"""Section 3.8, table 9: is it the pretrained weights, or only their statistics?

The paper redraws GPT-2's weights with their own mean and standard deviation, and does not
say over what these are taken: each tensor, each layer and the whole backbone are tried
here. Shuffled and permuted weights, the parts of the backbone apart, and a random backbone
at the pretrained scale are controls of this project.
"""

from .comparison import Comparison, Pair, Section, minus, over

STATISTICS = ("statistics-tensor", "statistics-layer", "statistics-global")
ORDER = ("shuffled", "permuted-rows")
PARTS = tuple(
    f"{of}-{part}"
    for of in ("pretrained", "random")
    for part in ("body", "layernorm", "positions")
)
OTHERS = (*STATISTICS, *ORDER, *PARTS, "random-at-scale", "random-scaled")
# What is left of the pretrained weights, less and less of it: their singular values, their
# histograms, mean and sd of each tensor, one scale with the norms, one scale, nothing.
LADDER = (
    "spectrum", "shuffled", "statistics-tensor", "random-at-scale-norms", "random-at-scale",
    "random-own", "random",
)  # fmt: skip
SIX_LAYERS = tuple(f"{arm}@6" for arm in LADDER)
ENCODER = tuple(f"{arm}-minilm" for arm in LADDER if arm != "random-own")

ON_IMAGES = tuple(
    f"{arm}-smollm2-6"
    for arm in ("statistics-tensor", "random-at-scale", "random-own", "random")
)


def _rungs(first: str, *ladder: str) -> tuple[Pair, ...]:
    """The pretrained weights against each rung, and each rung against the next lower
    one."""
    return (*minus(first, *ladder), *zip(ladder, ladder[1:], strict=False))


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
        Comparison(
            "ladder",
            "What is left of the pretrained weights",
            ("fpt", *LADDER),
            (*_rungs("fpt", *LADDER), ("statistics-tensor", "random-at-scale")),
        ),
        Comparison(
            "ladder_of_six_layers",
            "What is left of the pretrained weights, first six layers",
            ("fpt@6", *SIX_LAYERS),
            _rungs("fpt@6", *SIX_LAYERS),
            note="The first six layers of a deeper model are a truncated network, not a "
            "model.",
        ),
        Comparison(
            "ladder_of_an_encoder",
            "What is left of the pretrained weights, MiniLM",
            ("fpt-minilm", *ENCODER),
            _rungs("fpt-minilm", *ENCODER),
        ),
        Comparison(
            "ladder_on_images",
            "What is left of the pretrained weights, first six layers, on images",
            ("fpt-smollm2-6", *ON_IMAGES),
            (
                *_rungs("fpt-smollm2-6", *ON_IMAGES),
                ("statistics-tensor-smollm2-6", "random-smollm2-6"),
            ),
            note="Two cores cannot pay for these runs; one GPU can.",
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
