"""A token of the model's vocabulary in front of every sequence.

A decoder rests on what stands first: SmolLM2 has read `<|endoftext|>` (id 0) before every
document, and without it most tokens of a bit sequence end in one and the same state. The
token's vector is frozen, takes no row of the table of positions, and is never read by the
output net. A body that is not pretrained meets a vector that is drawn as its token
embeddings are.
"""

import torch
from torch import Tensor

from ...errors import FptError, check_names
from ...tasks.rng import generator
from ..base import STD, Backbone
from ..weights import stored_tensors
from . import drawn_token, token_embeddings, token_vectors

# Initialisations whose token embeddings are known.
INITS = ("pretrained", "statistics-tensor", "random", "random-own")


def check_prefix(architecture: Backbone, init: str, token: int) -> None:
    """FptError if this backbone has no vector of `token`, or if it is not known how the
    initialisation draws one."""
    if architecture.family != "generic":
        raise FptError(
            f"Backbone {architecture.name!r} has no token embeddings here, so no `prefix`; "
            "take a language model that transformers loads, such as SmolLM2."
        )
    check_names("initialisation with a `prefix`", [init], INITS)
    vocabulary = token_embeddings(architecture.config).num_embeddings
    if not 0 <= token < vocabulary:
        raise FptError(
            f"`prefix` is {token}, and the tokens of {architecture.name!r} are 0 to "
            f"{vocabulary - 1:,}."
        )


@torch.no_grad()
def prefix_vector(
    architecture: Backbone, init: str, weights: str | None, seed: int, token: int
) -> Tensor:
    """The vector (width,) of `token`, rounded to bfloat16 as the backbone is."""
    draw = generator("cpu", seed, "prefix")
    if weights is None:
        std = STD if init == "random" else None
        vector = drawn_token(architecture.config, draw, std)
    else:
        stored = stored_tensors(architecture, weights)
        table = token_vectors(architecture.config, stored)
        vector = table[token]
        if init == "statistics-tensor":
            values = table.double()
            noise = torch.empty_like(vector).normal_(generator=draw)
            vector = noise * values.std(correction=0).item() + values.mean().item()
    return vector.bfloat16().float()
