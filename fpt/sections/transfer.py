"""Section 3.1, tables 1 and 2: does a frozen language model do as well as a fully trained
one, and better than a frozen random one?"""

from .comparison import Comparison, Section, minus

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "Frozen language model, frozen random model, fully trained models",
            ("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released"),
            minus("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released"),
            paper=("T1", "T2"),
            rows={"lstm-released": "lstm", "lstm": ""},
            note="The paper's LSTM is the one of its released code.",
        ),
        Comparison(
            "six_layers",
            "The first six layers, frozen and fully trained, and no transformer",
            ("fpt@6", "full@6", "no-transformer-last", "no-transformer-mean"),
            minus("fpt@6", "full@6", "no-transformer-last", "no-transformer-mean"),
        ),
        Comparison(
            "cifar10_cells",
            "What two cells of the paper's Table 1 are",
            ("fpt", "fpt-largest", "full", "full@3"),
            (("fpt-largest", "fpt"), ("full@3", "full"), ("fpt-largest", "full@3")),
            paper=("T1",),
            rows={"fpt-largest": "fpt", "full@3": "full"},
            task="cifar10",
            columns={"fpt-largest": "cifar10", "full@3": "cifar10"},
            note="The paper's FPT on CIFAR-10 has 36 layers (conflict A), its fully trained "
            "transformer 3 (conflict B).",
        ),
    ),
    claims=(
        "english-sooner",
        "english-sooner-on-bit-xor",
        "english-sooner-on-images",
        "random-sooner-on-memory",
        "full-sooner",
        "frozen-sooner-on-images",
        "frozen-more-accurate-on-images",
        "fpt-over-trained-lstm",
    ),
)
