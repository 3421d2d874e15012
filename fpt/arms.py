"""Arms: what is compared, each with one name used everywhere.

An arm says which kind of body a run has, how the body starts and what is trained. Its size and its
weights come from the profile (`fpt.config`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FROZEN = ("input", "layernorm", "output", "positions")  # what the paper trains around the body


@dataclass(frozen=True)
class Arm:
    """One row of a table. `trainable` None: everything the backbone has."""

    name: str
    label: str
    body: Literal["transformer", "lstm", "lstm-released"]
    init: str
    trainable: tuple[str, ...] | None


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("fpt", "FPT (frozen, language)", "transformer", "pretrained", FROZEN),
        Arm("random", "Frozen random", "transformer", "random", FROZEN),
        Arm("full", "Full, from random", "transformer", "random", None),
        Arm("full-pretrained", "Full, from language", "transformer", "pretrained", None),
        Arm("lstm", "LSTM (layer norm)", "lstm", "random", None),
        Arm("lstm-released", "LSTM (released code)", "lstm-released", "random", None),
    )
}
