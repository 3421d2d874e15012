"""The claims of section 3.8."""

from ...analysis.claim import MATCH, OURS, Claim, leads, paper_says, versus, where_seen
from ...report.table import label
from ..comparisons import STATISTICS

CLAIMS: tuple[Claim, ...] = (
    *(
        leads(
            f"beats-{start}",
            f"A better start does not recover language: {label(start).lower()}",
            "T9, section 3.8",
            "fpt",
            start,
            where_seen("initialization", "fpt", start),
        )
        for start in STATISTICS
    ),
    leads(
        "statistics-help",
        "Statistics alone beat the default start, where the paper saw it",
        "T9",
        "statistics-tensor",
        "random",
        where_seen("initialization", "statistics-tensor", "random"),
    ),
    leads(
        "statistics-hurt",
        "Statistics alone fall below the default start, where the paper saw it",
        "T9",
        "random",
        "statistics-tensor",
        paper_says("initialization", "random", "statistics-tensor", 0.0),
    ),
    leads(
        "beats-shuffled",
        "It is not the distribution of the weights: FPT beats shuffled weights",
        OURS,
        "fpt",
        "shuffled",
    ),
    leads(
        "beats-permuted-rows",
        "It is how matrices fit each other: FPT beats permuted inputs",
        OURS,
        "fpt",
        "permuted-rows",
    ),
    leads(
        "matrices-help",
        "Language matrices help without language norms and positions",
        OURS,
        "pretrained-body",
        "random",
    ),
    leads(
        "ends-help",
        "Language norms and positions help without language matrices",
        OURS,
        "random-body",
        "random",
    ),
    leads("norms-help", "Language norms alone help", OURS, "pretrained-layernorm", "random"),
    leads(
        "positions-help", "Language positions alone help", OURS, "pretrained-positions", "random"
    ),
    Claim(
        "defaults-match",
        f"Both default starts of GPT-2 are alike (within {100 * MATCH:.0f} points)",
        OURS,
        "scaled minus flat",
        versus("random-scaled", "random"),
        "equal",
        margin=MATCH,
        arms=("random-scaled", "random"),
    ),
)
