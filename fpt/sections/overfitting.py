"""Section 3.6, table 7: does a frozen transformer overfit less than a fully trained one?"""

from .comparison import Comparison, Section, minus

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "Frozen and fully trained, with few and with all training examples",
            ("fpt", "random", "full", "vanilla", "linformer"),
            minus("fpt", "random", "full", "vanilla", "linformer"),
            paper=("T7",),
            rows={"vanilla": "vanilla-transformer"},
            task="cifar10-lra",
            columns=dict.fromkeys(("fpt", "vanilla", "linformer"), "test"),
        ),
    ),
    claims=("smaller-gap", "frozen-with-few-examples"),
)
