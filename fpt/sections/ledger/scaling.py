"""The claims of section 3.7."""

from ...analysis.claim import OURS, Claim, leads, where_seen
from ...report.table import label

CLAIMS: tuple[Claim, ...] = (
    *(
        leads(
            f"{start}-gains-with-{larger[1:]}",
            f"A larger body is better: {label(f'{start}{larger}')} over "
            f"{label(f'{start}{smaller}')}",
            "T8",
            f"{start}{larger}",
            f"{start}{smaller}",
            where_seen("scaling", f"{start}{larger}", f"{start}{smaller}"),
        )
        for start in ("fpt", "random")
        for larger, smaller in (("-larger", ""), ("-largest", "-larger"))
    ),
    *(
        leads(
            f"language-helps{size}",
            f"Language helps at a larger size too: {label(f'fpt{size}')} over "
            f"{label(f'random{size}').lower()}",
            "T8",
            f"fpt{size}",
            f"random{size}",
            where_seen("scaling", f"fpt{size}", f"random{size}"),
        )
        for size in ("-larger", "-largest")
    ),
    *(
        leads(
            f"{start}-loses-when-smaller",
            f"A body smaller than the paper's smallest is worse: {label(f'{start}-smaller')}",
            OURS,
            start,
            f"{start}-smaller",
        )
        for start in ("fpt", "random")
    ),
    leads(
        "language-helps-smaller",
        "Language helps at a size below the paper's",
        OURS,
        "fpt-smaller",
        "random-smaller",
    ),
)
