"""Section 3.5: does the frozen backbone attend to the tokens that an answer needs?"""

from .comparison import Comparison, Section

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "The arms whose attention is measured",
            ("fpt", "random"),
            (("fpt", "random"),),
            paper=("T2",),
        ),
    ),
)
