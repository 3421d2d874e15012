"""Rothermel et al. 2021 and other critics: does one learning rate decide the paper's
comparison, and would less than a transformer do?"""

from .comparison import Comparison, Section, minus

CONTROLS = ("no-transformer-last", "no-transformer-mean", "random-attention", "random-output+input")

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "Frozen and fully trained, from language and from random, at the best rate of each",
            ("fpt", "random", "full-pretrained", "full"),
            (
                *minus("fpt", "random", "full-pretrained", "full"),
                ("full-pretrained", "full"),
                ("full", "random"),
            ),
            paper=("Rothermel1",),
        ),
        Comparison(
            "controls",
            "Without a transformer, with less of one, with its attention fixed",
            ("fpt", "random", *CONTROLS, "fpt-shuffled", "full", "full-frozen-qk", "full-fixed"),
            (
                *minus("fpt", *CONTROLS[:3], "fpt-shuffled"),
                *minus("random", *CONTROLS),
                *minus("full", "full-frozen-qk", "full-fixed"),
            ),
            note="A random attention layer has no feedforward layer; fixed attention is drawn at "
            "random for each position and head.",
        ),
    ),
    claims=(
        "english-sooner-at-one-rate",
        "language-over-random-when-trained-whole",
        "whole-english-over-frozen",
        "more-than-a-mean",
        "order-matters",
        "queries-and-keys-matter",
    ),
)
