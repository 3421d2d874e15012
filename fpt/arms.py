"""Arms: what is compared, each with one name used everywhere.

An arm says which kind of body a run has, how the body starts and what is trained. Its size and its
weights come from the profile (`fpt.config`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FROZEN = ("input", "layernorm", "output", "positions")  # what the paper trains around the body
SOME = (  # a part of it: in succession, one beside the output net, all but the norms
    "output",
    "output+layernorm",
    "output+layernorm+input",
    "output+input",
    "output+positions",
    "output+input+positions",
)
MORE = (  # and parts of the body itself
    "feedforward",
    "attention",
    "feedforward+attention",
    "feedforward+last-attention",
)


@dataclass(frozen=True)
class Arm:
    """One row of a table. `trainable` None: everything the backbone has; of the groups it names, a
    body without a table of positions has no `positions`."""

    name: str
    label: str
    body: Literal["transformer", "lstm", "lstm-released"]
    init: str
    trainable: tuple[str, ...] | None


def _parts(text: str) -> tuple[str, ...]:
    return tuple(sorted(text.split("+")))


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("fpt", "FPT (frozen, language)", "transformer", "pretrained", FROZEN),
        Arm("random", "Frozen random", "transformer", "random", FROZEN),
        Arm("full", "Full, from random", "transformer", "random", None),
        Arm("full-pretrained", "Full, from language", "transformer", "pretrained", None),
        Arm("lstm", "LSTM (layer norm)", "lstm", "random", None),
        Arm("lstm-released", "LSTM (released code)", "lstm-released", "random", None),
        # How the frozen body starts (section 3.8).
        *(
            Arm(init, text, "transformer", init, FROZEN)
            for init, text in (
                ("statistics-tensor", "Statistics, per tensor"),
                ("statistics-layer", "Statistics, per layer"),
                ("statistics-global", "Statistics, whole body"),
                ("shuffled", "Shuffled weights"),
                ("permuted-rows", "Permuted inputs"),
                ("random-scaled", "Random, scaled residuals"),
                ("random-body", "Random matrices only"),
                ("pretrained-body", "Language matrices only"),
            )
        ),
        # What is trained around a frozen body, and of it (sections 3.10 to 3.13).
        *(Arm(parts, parts, "transformer", "pretrained", _parts(parts)) for parts in SOME),
        *(
            Arm(f"random-{parts}", f"random: {parts}", "transformer", "random", _parts(parts))
            for parts in SOME
        ),
        *(
            Arm(
                f"fpt+{parts}",
                f"FPT + {parts}",
                "transformer",
                "pretrained",
                (*FROZEN, *_parts(parts)),
            )
            for parts in MORE
        ),
    )
}
