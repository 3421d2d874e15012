"""The claims of section 3.10 to 3.13."""

from ...analysis.claim import MATCH, OURS, Claim, among, leads, versus, where_seen
from ...paper.reader import called
from ...report.table import label

CLAIMS: tuple[Claim, ...] = (
    *(
        leads(
            f"{start}layernorm-over-{part}",
            f"Of single parts, layer norms matter most: more than {part} ({body} body)",
            source,
            f"{start}output+layernorm",
            f"{start}output+{part}",
            where_seen(table, f"{start}output+layernorm", f"{start}output+{part}"),
        )
        for start, body, source, table in (
            ("", "language", called("T18"), "individual"),
            ("random-", "random", called("T21"), "random_individual"),
        )
        for part in ("input", "positions")
    ),
    *(
        leads(
            f"{arm}-needs-layernorm",
            f"Training the layer norms is worth it ({body} body)",
            "T16",
            arm,
            rest,
        )
        for arm, rest, body in (
            ("fpt", "output+input+positions", "language"),
            ("random", "random-output+input+positions", "random"),
        )
    ),
    leads(
        "feedforward-helps",
        "Training the feedforward layers too helps, where the paper saw it",
        "T13",
        "fpt+feedforward",
        "fpt",
        where_seen("unfreezing", "fpt+feedforward", "fpt"),
    ),
    leads(
        "attention-hurts",
        "Training the attention too hurts, where the paper saw it",
        "T13",
        "fpt",
        "fpt+attention",
        where_seen("unfreezing", "fpt", "fpt+attention"),
    ),
    leads(
        "last-attention-helps",
        "With the feedforward layers, training the last attention layer helps",
        "T14",
        "fpt+feedforward+last-attention",
        "fpt+feedforward",
        where_seen("unfreezing", "fpt+feedforward+last-attention", "fpt+feedforward"),
    ),
    leads(
        "two-layers-mix",
        "Two language layers mix tokens, two random ones do not (output and norms trained)",
        "T11",
        "output+layernorm@2",
        "random-output+layernorm@2",
        among("listops"),
    ),
    Claim(
        "one-layer-is-not-enough",
        "One layer is too few, language or random (output and norms trained; within "
        f"{100 * MATCH:.0f} points)",
        "T11",
        "language minus random",
        versus("output+layernorm@1", "random-output+layernorm@1"),
        "equal",
        margin=MATCH,
        covers=among("listops"),
        arms=("output+layernorm@1", "random-output+layernorm@1"),
    ),
    *(
        leads(
            f"{deeper}-over-{shallower}",
            f"More layers mix tokens better: {label(deeper)} over {label(shallower)}",
            source,
            deeper,
            shallower,
            among("listops"),
        )
        for source, deeper, shallower in (
            ("T11", "output+layernorm@2", "output+layernorm@1"),
            ("T11", "random-output+layernorm@6", "random-output+layernorm@2"),
            ("T12", "output@3", "output@1"),
            ("T12", "output@6", "output@3"),
            ("T12", "output", "output@1"),
        )
    ),
    leads(
        "language-mixes-untrained",
        "With the output net alone trained, language layers mix tokens and random ones do not",
        "T12",
        "output",
        "random-output",
        among("listops"),
    ),
    Claim(
        "random-depth-is-no-help",
        "With the output net alone trained, more random layers do not help (within "
        f"{100 * MATCH:.0f} points)",
        "T12",
        "24 random layers minus 12",
        versus("random-output@24", "random-output"),
        "equal",
        margin=MATCH,
        covers=among("listops"),
        arms=("random-output@24", "random-output"),
    ),
    *(
        leads(
            f"frozen-input-orthogonal-over-{start}",
            f"A frozen input net needs its orthogonal start: more than {start}",
            "section 3.1, released code",
            "frozen-input-orthogonal",
            f"frozen-input-{start}",
            among("digits", "mnist", "cifar10"),
        )
        for start in ("default", "normal")
    ),
    *(
        Claim(
            f"trained-input-forgets-{start}",
            f"The start of a trained input net does not matter: orthogonal or {start} (within "
            f"{100 * MATCH:.0f} points)",
            OURS,
            f"orthogonal minus {start}",
            versus("fpt", f"input-{start}"),
            "equal",
            margin=MATCH,
            covers=among("digits", "mnist", "cifar10"),
            arms=("fpt", f"input-{start}"),
        )
        for start in ("default", "normal")
    ),
)
