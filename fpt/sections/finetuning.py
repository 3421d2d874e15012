"""Sections 3.10 to 3.13, tables 11 to 16, 18, 20 and 21: which parts must be trained, and
how many frozen layers are needed?"""

from .comparison import Comparison, Section, in_turn, over

SUCCESSIVE = ("output", "output+layernorm", "output+layernorm+input")
SINGLE = ("output+input", "output+positions", "output+layernorm")
WITHOUT = "output+input+positions"
# The whole recipe, as the paper's tables call it.
WHOLE = "output+layernorm+input+positions"
UNFROZEN = tuple(
    f"fpt+{parts}"
    for parts in (
        "feedforward",
        "attention",
        "feedforward+attention",
        "feedforward+last-attention",
    )
)
FROZEN_INPUT = tuple(f"frozen-input-{how}" for how in ("orthogonal", "default", "normal"))


def parts(
    name: str, title: str, start: str, recipe: str, tables: tuple[str, ...]
) -> Comparison:
    """Trained parts of a pretrained or, with `start` `random-`, of a random backbone."""
    steps = (*(start + arm for arm in SUCCESSIVE), recipe)
    single = tuple(start + arm for arm in SINGLE)
    pairs = (*in_turn(*steps), *over(start + "output", *single), (recipe, start + WITHOUT))
    return Comparison(
        name,
        title,
        (*dict.fromkeys((*steps[:-1], *single, start + WITHOUT)), recipe),
        tuple(dict.fromkeys(pairs)),
        paper=tables,
        rows={arm: arm.removeprefix(start) for arm in (*steps, *single)} | {recipe: WHOLE},
    )


def depth(name: str, trained: str, table: str, depths: tuple[int, ...]) -> Comparison:
    """Layers of the backbone with few parts trained, pretrained and random, on ListOps."""
    columns = {f"{trained}@{depth}": f"layers-{depth}" for depth in depths} | {
        trained: "layers-12"
    }
    both = columns | {f"random-{arm}": column for arm, column in columns.items()}
    return Comparison(
        name,
        f"Number of frozen layers, {trained} trained",
        tuple(both),
        tuple((arm, f"random-{arm}") for arm in columns),
        paper=(table,),
        rows={arm: "random" if arm.startswith("random-") else "fpt" for arm in both},
        task="listops",
        columns=both,
    )


SECTION = Section(
    comparisons=(
        parts("results", "Trained parts of a language backbone", "", "fpt", ("T15", "T18")),
        parts(
            "random",
            "Trained parts of a random backbone",
            "random-",
            "random",
            ("T20", "T21"),
        ),
        Comparison(
            "layernorm",
            "Layer norms trained or frozen",
            ("fpt", WITHOUT, "random", f"random-{WITHOUT}"),
            paper=("T16",),
            rows={WITHOUT: "fpt", f"random-{WITHOUT}": "random"},
            task="cifar10",
            columns={
                "fpt": "trained-layernorm",
                WITHOUT: "frozen-layernorm",
                "random": "trained-layernorm",
                f"random-{WITHOUT}": "frozen-layernorm",
            },
            note="The caption has no positions; the numbers fit only with positions "
            "trained.",
        ),
        Comparison(
            "unfreezing",
            "Training parts of the backbone too",
            ("fpt", *UNFROZEN),
            over("fpt", *UNFROZEN),
            paper=("T13", "T14"),
        ),
        depth("depth", "output+layernorm", "T11", (1, 2, 3, 6)),
        depth("depth_output", "output", "T12", (1, 2, 3, 6, 24)),
        Comparison(
            "input",
            "Initialisation of the input net, trained and frozen",
            ("fpt", "input-default", "input-normal", *FROZEN_INPUT),
            (("fpt", FROZEN_INPUT[0]), *over("fpt", "input-default", "input-normal")),
        ),
        Comparison(
            "six_layers",
            "Norms and nets trained around six layers, or everything",
            ("fpt@6", "random@6", "full@6"),
            (("random@6", "full@6"), ("fpt@6", "full@6")),
            note="Full training starts from random weights.",
        ),
    ),
    claims=(
        "norms-over-input",
        "norms-are-needed",
        "more-than-the-output",
        "feedforward-helps",
        "attention-hurts",
        "deeper-is-sooner",
        "language-at-two-layers",
        "input-is-trained",
    ),
    lenders=("initialization", "transfer"),
)
