"""The claims of section 3.3 and 3.14."""

from ...analysis.claim import (
    LEAD,
    MATCH,
    OURS,
    Claim,
    alike_in_paper,
    known_to_paper,
    leads,
    paper_says,
    versus,
    where_seen,
)
from ...report.table import label, short
from ..comparisons import ARCHITECTURES, COMPARISONS


def _in_table_17(task: str) -> bool:
    return COMPARISONS["architectures"].knows(task) or not known_to_paper(task)


CLAIMS: tuple[Claim, ...] = (
    leads(
        "beats-released-lstm",
        "A frozen random transformer beats the paper's frozen random LSTM",
        "T3",
        "random",
        "random-lstm-released",
        where_seen("lstm", "random", "random-lstm-released"),
    ),
    leads(
        "beats-lstm",
        "A frozen random transformer beats a standard frozen random LSTM too",
        OURS,
        "random",
        "random-lstm",
    ),
    leads(
        "beats-matched",
        "A frozen random transformer beats a random LSTM with as many frozen parameters",
        OURS,
        "random",
        "random-lstm-matched",
    ),
    leads(
        "beats-as-costly",
        "A frozen random transformer beats a random LSTM that takes as many FLOPs",
        OURS,
        "random",
        "random-lstm-flops",
    ),
    leads(
        "released-is-weak",
        "Of random LSTMs, a standard one beats the paper's",
        OURS,
        "random-lstm",
        "random-lstm-released",
    ),
    *(
        leads(f"{arm.removeprefix('random-lstm-')}-helps", text, OURS, arm, before)
        for arm, before, text in (
            ("random-lstm-deep", "random-lstm", "Depth helps a random LSTM"),
            ("random-lstm-residual", "random-lstm-deep", "Residuals help a deep random LSTM"),
            ("random-lstm-positions", "random-lstm-residual", "Positions help it further"),
        )
    ),
    leads(
        "language-helps-lstm",
        "Not unique to transformers: language pretraining helps a frozen LSTM",
        OURS,
        "fpt-lstm",
        "random-lstm",
    ),
    leads(
        "leads-language-lstm",
        "A frozen language transformer beats a frozen language LSTM",
        OURS,
        "fpt",
        "fpt-lstm",
    ),
    *(
        Claim(
            f"matches-{kind}",
            f"FPT and {label(f'fpt-{kind}')} are alike, where the paper saw it "
            f"(within {100 * MATCH:.0f} points)",
            "T17",
            f"FPT minus {label(f'fpt-{kind}')}",
            versus("fpt", f"fpt-{kind}"),
            "equal",
            margin=MATCH,
            covers=alike_in_paper("architectures", "fpt", f"fpt-{kind}"),
            arms=("fpt", f"fpt-{kind}"),
        )
        for kind in ("bert", "t5", "longformer")
    ),
    *(
        leads(
            f"beats-{kind}",
            f"FPT beats {label(f'fpt-{kind}')}, where the paper saw a clear lead",
            "T17",
            "fpt",
            f"fpt-{kind}",
            paper_says("architectures", "fpt", f"fpt-{kind}", LEAD),
        )
        for kind in ("t5", "longformer")
    ),
    *(
        leads(
            f"language-helps-{kind}",
            f"Pretraining helps other architectures too: {label(f'fpt-{kind}')}",
            OURS,
            f"fpt-{kind}",
            f"random-{kind}",
            _in_table_17,
        )
        for kind in ARCHITECTURES
    ),
    *(
        Claim(
            f"{arm}-causality",
            f"It does not matter whether tokens hear later ones ({body} body; within "
            f"{100 * MATCH:.0f} points)",
            OURS,
            f"{short(arm)} minus {label(f'{arm}-bidirectional')}",
            versus(arm, f"{arm}-bidirectional"),
            "equal",
            margin=MATCH,
            covers=_in_table_17,
            arms=(arm, f"{arm}-bidirectional"),
        )
        for arm, body in (("fpt", "language"), ("random", "random"))
    ),
)
