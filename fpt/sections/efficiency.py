"""Sections 3.4 and 3.9, tables 6 and 10: how much sooner does a frozen language model learn,
and how far does its output net come alone?"""

from .comparison import Comparison, Section, minus

SECTION = Section(
    comparisons=(
        Comparison(
            "results",
            "Frozen and fully trained",
            ("fpt", "random", "full"),
            minus("fpt", "random", "full"),
            paper=("T1", "T2"),
        ),
        Comparison(
            "output_only",
            "The output net alone, for a number of steps and to convergence",
            ("output", "probe", "fpt", "full", "random-output", "random-probe", "random"),
            (
                ("probe", "output"),
                *minus("fpt", "probe", "output"),
                ("random-probe", "random-output"),
                ("probe", "random-probe"),
            ),
            paper=("T10", "T15"),
            rows={"probe": "output"},
        ),
    ),
    claims=("english-sooner", "english-sooner-at-one-rate", "fpt-over-probe"),
)
