"""The claims of section 3.2."""

from ...analysis.claim import OURS, Claim, leads, paper_says, where_seen

CLAIMS: tuple[Claim, ...] = (
    *(
        leads(
            f"language-over-{name}",
            f"Language transfers better than {text}, where the paper saw it",
            "T2",
            "fpt",
            arm,
            where_seen("modality", "fpt", arm),
        )
        for name, text, arm in (
            ("bits", "bit memory", "fpt-bits"),
            ("images", "images", "fpt-vit"),
        )
    ),
    leads(
        "images-lead-on-images",
        "On images, images transfer better than language",
        "T2",
        "fpt-vit",
        "fpt",
        paper_says("modality", "fpt-vit", "fpt", 0.0),
    ),
    *(
        leads(
            f"{name}-help",
            f"A body pretrained on {text} beats a frozen random one, where the paper saw it",
            "T2",
            arm,
            "random",
            where_seen("modality", arm, "random"),
        )
        for name, text, arm in (
            ("bits", "bit memory", "fpt-bits"),
            ("images", "images", "fpt-vit"),
        )
    ),
    *(
        leads(
            f"{name}-hurt",
            f"A body pretrained on {text} falls below a random one, where the paper saw it",
            "T2",
            "random",
            arm,
            paper_says("modality", "random", arm, 0.0),
        )
        for name, text, arm in (
            ("bits", "bit memory", "fpt-bits"),
            ("images", "images", "fpt-vit"),
        )
    ),
    leads(
        "images-over-own-random",
        "Images help against the same body at random",
        OURS,
        "fpt-vit",
        "random-vit",
    ),
)
