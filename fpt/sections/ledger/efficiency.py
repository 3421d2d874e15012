"""The claims of section 3.4 and 3.9."""

from ...analysis.arrivals import sooner, speeds_up
from ...analysis.claim import OURS, Claim, leads, where_seen
from ...paper.reader import called
from ...report.cached import cheap_epochs, printed, printed_speedup
from ...report.table import short

CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            f"{fast}-sooner-than-{slow}",
            f"{text}: {short(fast)} reaches the common accuracy in fewer steps",
            source,
            f"steps of {short(slow)} minus {short(fast)}",
            sooner(fast, slow),
            "greater",
            covers=covers,
            arms=(fast, slow),
            unit="% of the budget",
        )
        for fast, slow, text, source, covers in (
            ("fpt", "random", "Language speeds training up", "T6, section 3.4", speeds_up),
            ("fpt", "full", "Freezing speeds training up", OURS, lambda task: True),
        )
    ),
    leads(
        "fpt-over-probe",
        "The output net alone, even converged, stays below FPT",
        "T10, section 3.9",
        "fpt",
        "probe",
        where_seen("output_only", "fpt", "probe"),
    ),
    leads(
        "budget-decides",
        "The paper's two answers for the output net alone are two budgets: convergence helps",
        f"T10 against {called('T15')} (conflict E)",
        "probe",
        "output",
        lambda task: len(printed("probe", task)) > 1,
    ),
    leads(
        "language-features",
        "Features of a language body hold more than those of a random one",
        OURS,
        "probe",
        "random-probe",
    ),
    Claim(
        "cached-epochs",
        "Epochs after the first are at least as much cheaper as printed",
        "T10, section 3.9",
        f"cost of a cached epoch beyond 1/{printed_speedup()[0]:g} of the first",
        cheap_epochs("probe"),
        "less",
        covers=where_seen("output_only", "fpt", "probe"),
        arms=("probe",),
        unit=f"% of 1/{printed_speedup()[0]:g} of the first",
    ),
)
