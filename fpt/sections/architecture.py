"""Sections 3.3 and 3.14, tables 3 and 17: does the transformer matter, or would a frozen LSTM or
another pretrained architecture do?"""

from .comparison import Comparison, Section, minus

LSTMS = ("", "-released", "-deep", "-residual", "-positions", "-matched", "-flops")
RANDOM_LSTMS = tuple(f"random-lstm{kind}" for kind in LSTMS)
MODERN = ("pythia", "smollm2", "qwen3")  # language models of later years
OTHERS = ("bidirectional", "bert", "t5", "longformer", *MODERN)

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "Frozen random transformer against frozen LSTMs",
            ("random", *RANDOM_LSTMS, "fpt", "fpt-lstm"),
            (*minus("random", *RANDOM_LSTMS), ("fpt-lstm", "random-lstm"), ("fpt", "fpt-lstm")),
            paper=("T3",),
            rows={"random-lstm-released": "random-lstm", "random-lstm": ""},
            note="The paper's LSTM is the one of its released code; the other kinds become more "
            "like a transformer step by step.",
        ),
        Comparison(
            "architectures",
            "Other frozen architectures",
            (
                *("fpt", *(f"fpt-{kind}" for kind in OTHERS)),
                *("random", *(f"random-{kind}" for kind in OTHERS)),
            ),
            (
                *minus("fpt", *(f"fpt-{kind}" for kind in OTHERS)),
                *minus("random", *(f"random-{kind}" for kind in OTHERS)),
                *((f"fpt-{kind}", f"random-{kind}") for kind in OTHERS),
            ),
            paper=("T17",),
            rows={f"fpt-{kind}": kind for kind in OTHERS[1:]},
        ),
    ),
    claims=("transformer-over-lstm", "transformer-over-standard-lstm"),
)
