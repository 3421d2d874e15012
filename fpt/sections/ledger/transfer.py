"""The claims of section 3.1 and 3.2."""

from ...analysis.claim import LEAD, MATCH, OURS, Claim, above, known_to_paper, paper_says, versus

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "solves-bits",
        "FPT solves the bit tasks (above 99%)",
        "T1",
        "FPT minus 99%",
        above("fpt", 0.99),
        "greater",
        covers=lambda task: task.startswith("bit-"),
        arms=("fpt",),
    ),
    Claim(
        "beats-random",
        "A frozen language body beats a frozen random one",
        "T2",
        "FPT minus frozen random",
        versus("fpt", "random"),
        "greater",
        # On bit-xor the paper has 100 for both.
        covers=lambda task: (
            not known_to_paper(task) or paper_says("transfer", "fpt", "random", 0.0)(task)
        ),
        arms=("fpt", "random"),
    ),
    Claim(
        "matches-full",
        f"FPT matches full training (within {100 * MATCH:.0f} points)",
        "T1",
        "FPT minus full",
        versus("fpt", "full"),
        "equal",
        margin=MATCH,
        arms=("fpt", "full"),
    ),
    Claim(
        "beats-lstm",
        "FPT beats the trained LSTM of the released code, if the paper saw a clear lead",
        "T1",
        "FPT minus released LSTM",
        versus("fpt", "lstm-released"),
        "greater",
        covers=paper_says("transfer", "fpt", "lstm-released", LEAD),
        arms=("fpt", "lstm-released"),
    ),
    Claim(
        "above-floor",
        "FPT is above the best trivial predictor",
        OURS,
        "FPT minus best floor",
        above("fpt", None),
        "greater",
        arms=("fpt",),
    ),
)
