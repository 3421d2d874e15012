"""The claims of section 3.6."""

from ...analysis.claim import MATCH, OURS, Claim, fades, gap, leads, versus, wider_gap
from ...analysis.fit import whole_task
from ...report.table import label, short

# Full training is said to need more examples than the tasks have, so that freezing helps.
EXPLANATION = "the authors' explanation"


def _whole(task: str) -> bool:
    return whole_task(task) is None


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "no-gap",
        f"FPT knows its training examples no better than others (within {100 * MATCH:.0f} points)",
        "T7, section 3.6",
        "training minus test",
        gap("fpt"),
        "equal",
        margin=MATCH,
        covers=_whole,
        arms=("fpt",),
    ),
    *(
        Claim(
            f"{arm}-overfits",
            f"FPT overfits less than {label(arm)}",
            source,
            f"gap of {short(arm)} minus gap of FPT",
            wider_gap(arm, "fpt"),
            "greater",
            covers=_whole,
            arms=(arm, "fpt"),
        )
        for arm, source in (("vanilla", "T7"), ("linformer", "T7"), ("full", OURS))
    ),
    *(
        Claim(
            f"matches-{arm}",
            f"FPT comes near {label(arm)} (within {100 * MATCH:.0f} points)",
            "T7",
            f"FPT minus {short(arm)}",
            versus("fpt", arm),
            "equal",
            margin=MATCH,
            covers=_whole,
            arms=("fpt", arm),
        )
        for arm in ("vanilla", "linformer")
    ),
    *(
        leads(
            f"{arm}-leads-on-few",
            f"With few examples a frozen {body} body beats the same body trained whole",
            EXPLANATION,
            arm,
            "full",
            lambda task: not _whole(task),
        )
        for arm, body in (("fpt", "language"), ("random", "random"))
    ),
    *(
        Claim(
            f"{arm}-lead-fades",
            f"A frozen {body} body is worth more over the same body trained whole with few "
            "examples than with all",
            EXPLANATION,
            f"{short(arm)} minus {short('full')}, with few minus with all",
            fades(arm, "full"),
            "greater",
            covers=lambda task: not _whole(task),
            arms=(arm, "full"),
        )
        for arm, body in (("fpt", "language"), ("random", "random"))
    ),
)
