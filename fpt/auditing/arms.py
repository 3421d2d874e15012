"""The arms of an audit: a pretrained backbone, controls that are drawn, and nets without
one."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..backbones import Backbone
from ..backbones.initialisations import INITS

PRETRAINED = "pretrained"
# In the order of what they keep of the weights, so the first that suffices is the simplest.
CONTROLS = ("random", "random-at-scale", "statistics-tensor", "shuffled")
# The input and output nets without anything between (Tan et al. 2024, arXiv:2406.16964).
NETS = ("mean-token", "last-token")
LINEAR, CONVOLUTIONS, PROBE = "linear", "convolutions", "probe"
NO_TRANSFORMER = (*NETS, LINEAR, CONVOLUTIONS)
TRAINED = (PRETRAINED, *CONTROLS, *NETS)

# As tables and figures call them.
LABELS = {
    PRETRAINED: "pretrained",
    "random": "random, N(0, 0.02)",
    "random-at-scale": "random at its scale",
    "statistics-tensor": "draws of its statistics",
    "shuffled": "its entries shuffled",
    PROBE: "linear probe of its features",
    "mean-token": "no transformer, mean token",
    "last-token": "no transformer, last token",
    LINEAR: "linear model of the tokens",
    CONVOLUTIONS: "random convolutions",
}


@dataclass(frozen=True)
class Body:
    """What an arm trains nets around: an architecture, its initialisation and its
    weights."""

    architecture: Backbone
    init: str
    weights: str | None


def body_of(arm: str, architecture: Backbone, weights: str | None) -> Body:
    """The body of a trained arm of an audit of `architecture` with the pretrained
    `weights`."""
    if arm in NETS:
        # Of the same width, so that the output net reads as many numbers.
        bare = Backbone(f"{arm}-{architecture.width}", arm, 0, architecture.width)
        return Body(bare, "random", None)
    reads_weights = INITS[arm].reads_weights
    return Body(architecture, arm, weights if reads_weights else None)


@dataclass(frozen=True)
class Sizes:
    """How many runs an audit has: `steps` of each, `draws` of each control, `seeds` of the
    nets that every draw is trained with, and `repeats`, the seeds of an arm that is not
    drawn."""

    steps: int
    draws: int
    seeds: int
    repeats: int


def units_of(arm: str, sizes: Sizes) -> Sequence[tuple[int | None, tuple[int, ...]]]:
    """The packs of an arm's runs: a draw (None: it has none) and the seeds that are trained
    together."""
    if arm in CONTROLS:
        seeds = tuple(range(sizes.seeds))
        return [(draw, seeds) for draw in range(sizes.draws)]
    # Packs no larger than those of the draws, or other workers would wait for them.
    seeds = tuple(range(sizes.repeats))
    starts = range(0, sizes.repeats, sizes.seeds)
    return [(None, seeds[start : start + sizes.seeds]) for start in starts]
