"""The claims of section 3.5."""

from ...analysis.claim import OURS, Claim, above
from ...analysis.masses import attends

ATTENTION = "points of attention"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "solves-xor",
        "FPT solves bit-xor (above 99%), for strings of 20 to 256 bits",
        "section 3.5, the authors' blog post",
        "FPT minus 99%",
        above("fpt", 0.99),
        "greater",
        covers=lambda task: task.startswith("bit-xor-"),
        arms=("fpt",),
    ),
    Claim(
        "attends",
        "In its first layer FPT attends to the tokens that it needs",
        "section 3.5, figures without numbers",
        "attention minus chance",
        attends("first layer", "fpt"),
        "greater",
        arms=("fpt",),
        unit=ATTENTION,
    ),
    *(
        Claim(
            f"{part.replace(' ', '-')}-over-{other}",
            f"FPT attends to them more than {what} ({part})",
            OURS,
            f"attention, FPT minus {other}",
            attends(part, "fpt", other),
            "greater",
            arms=("fpt", "random") if other == "random" else ("fpt",),
            unit=ATTENTION,
        )
        for part in ("first layer", "best head")
        for other, what in (("random", "a random body"), ("untrained", "before training"))
    ),
)
