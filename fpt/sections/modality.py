"""Section 3.2, table 2: is language a better pretraining than bits or images?"""

from .comparison import Comparison, Section, minus

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "What the frozen backbone was pretrained on",
            ("fpt", "random", "fpt-bits", "fpt-vit", "random-vit"),
            (
                *minus("fpt", "random", "fpt-bits", "fpt-vit"),
                ("fpt-bits", "random"),
                ("fpt-vit", "random-vit"),
            ),
            paper=("T2",),
            rows={"fpt-bits": "bit", "fpt-vit": "vit"},
        ),
    ),
    claims=("language-over-bits", "language-over-images"),
)
