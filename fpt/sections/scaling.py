"""Section 3.7, table 8: does a larger frozen backbone do better?"""

from .comparison import Comparison, Section, in_turn

SIZES = {"-smaller": "", "": "small", "-larger": "medium", "-largest": "large"}
FPT = tuple(f"fpt{size}" for size in SIZES)
RANDOM = tuple(f"random{size}" for size in SIZES)

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "Size of the frozen backbone",
            tuple(f"{start}{size}" for size in SIZES for start in ("fpt", "random")),
            (*zip(FPT, RANDOM, strict=True), *in_turn(*FPT), *in_turn(*RANDOM)),
            paper=("T8",),
            rows={
                f"{start}{size}": row for size, row in SIZES.items() for start in ("fpt", "random")
            },
            task="cifar10",
            columns={f"{start}{size}": start for size in SIZES for start in ("fpt", "random")},
        ),
    ),
    claims=("larger-english-is-sooner",),
)
