"""Any decoder or encoder of transformers that takes token vectors, as a backbone.

The model is built from its configuration. Its token embeddings, its pooler and its learned table of
positions are left out: the vectors come from the input net, and the table is the group `positions`,
which is added to them before the backbone, as in every family here. If a model has no such table
(its positions are rotary or relative), the group does not exist: order is part of its attention.
A ViT, which takes images, is built by `fpt.backbones.vit`.

Norms are told by their type, those on queries and keys included; what else is inside a layer is
`attention` by its path or `feedforward`; what is outside, such as token types, is `embeddings`.
There is no dropout inside a generic backbone, only after a linear input net: the model stays in
evaluation mode. Padding is masked unless the model is causal.
"""

import inspect
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ..files import FptError
from .base import LAYER, Backbone
from .isolation import drawn_from, on_meta, one_at_a_time
from .layers import Draws, is_norm, select_positions

TABLE = re.compile(r"(^|\.)(wpe|embed_positions|positions_embed|position_embeddings)$")


class Absent(nn.Module):
    """In place of the token embeddings, which nobody asks, and of a table of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.empty(1, dtype=torch.float32)  # for code that initialises a table

    def forward(self, *args: Any, **options: Any) -> Tensor:
        return torch.zeros((), dtype=torch.float32)


class GenericBackbone(nn.Module):
    """The model of `spec.config` without its embeddings."""

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        self.causal = spec.causal
        self.model = bare(network(spec.config)).eval()
        fill(self.model)

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        seen = None if self.causal else mask  # padding follows what is read
        try:
            found = self.model(inputs_embeds=x, attention_mask=seen)
        except Exception as error:  # whatever transformers raised of the length or the settings
            if "memory" in str(error):  # a smaller pack may fit
                raise
            said = str(error).partition("\n")[0]
            raise FptError(f"The backbone does not take {x.shape[1]} vectors ({said}).") from error
        return select_positions(found.last_hidden_state, read)

    def train(self, mode: bool = True) -> "GenericBackbone":
        super().train(mode)
        self.model.eval()
        return self


@one_at_a_time()
def network(config: str) -> Any:
    """The model of a configuration (JSON) on the meta device; FptError if it does not fit."""
    from transformers import CONFIG_MAPPING, MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING

    given = json.loads(config)
    try:
        made = CONFIG_MAPPING[given["model_type"]].from_dict({**given, "use_cache": False})
        encoder = type(made) in MODEL_FOR_TEXT_ENCODING_MAPPING  # of a T5, without its decoder
        known: Any = MODEL_FOR_TEXT_ENCODING_MAPPING if encoder else MODEL_MAPPING
        with on_meta():
            model = known[type(made)](made)
        takes = inspect.signature(model.forward).parameters
        vectors = "inputs_embeds" in takes and "decoder_inputs_embeds" not in takes
        fits = vectors and not any(map(is_strange, model.modules()))
    except Exception:  # whatever transformers raised of the configuration
        fits = False
    if not fits:
        raise FptError(
            f"An architecture of type {given.get('model_type')!r} is no backbone here; what fits "
            "is a decoder or encoder of transformers that takes token vectors (inputs_embeds), "
            "such as GPT-2, Pythia, Llama, Qwen, BERT, ModernBERT or T5's encoder, and a ViT."
        )
    return model


def is_strange(part: nn.Module) -> bool:
    """Whether it is a convolution, or a norm that cannot be packed."""
    return re.search(r"[Nn]orm|Conv\dd", type(part).__name__) is not None and not is_norm(part)


def table_of(model: Any) -> tuple[str, int]:
    """The path of the learned table of positions and the row of the first token: OPT and RoBERTa
    leave two rows unused. Without a table the path is empty."""
    for path, part in model.named_modules():
        if isinstance(part, nn.Embedding) and TABLE.search(path):
            unused = 0 if part.padding_idx is None else part.padding_idx + 1
            return path, getattr(part, "offset", unused)
    return "", 0


def bare(model: Any) -> Any:
    """The model without token embeddings, table of positions and pooler."""
    path, _ = table_of(model)
    if path:
        model.set_submodule(path, Absent())
    model.set_input_embeddings(Absent())
    model.pooler = None
    return model


@torch.no_grad()
def fill(model: Any, seed: int = 0) -> None:
    """Draw the parameters as the model's own code does, and compute its buffers, such as rotary
    frequencies. Parameters on the meta device stay there."""
    with drawn_from(seed):
        for part in reversed(list(model.modules())):
            for name, buffer in part.named_buffers(recurse=False):
                setattr(part, name, torch.empty_like(buffer, device="cpu"))
            model._init_weights(part)


def init_(module: Any, draw: torch.Generator) -> None:
    """The initialisation of the model's own code."""
    fill(module.model, int(torch.randint(2**62, (), generator=draw)))


@cache
def groups(config: str) -> Mapping[str, str]:
    """The trainable group of each parameter of the backbone, by its name."""
    found: dict[str, str] = {}
    for path, part in bare(network(config)).named_modules():
        group = "feedforward" if LAYER.search(f".{path}.") else "embeddings"
        if is_norm(part):
            group = "layernorm"
        elif "att" in path.lower():
            group = "attention"
        own = part.named_parameters(prefix=f"model.{path}".rstrip("."), recurse=False)
        found |= dict.fromkeys((name for name, _ in own), group)
    return found


@cache
def facts(config: str) -> Mapping[str, Any]:
    """What a `Backbone` says of the model of a configuration, beside its name."""
    model, inside = network(config), groups(config)
    path, first = table_of(model)
    return {
        "family": "generic",
        # With weights of their own: the layers of an ALBERT share them.
        "layers": 1 + max((int(it[1]) for it in map(LAYER.search, inside) if it), default=-1),
        "width": model.get_input_embeddings().embedding_dim,
        "heads": model.config.num_attention_heads,
        "positions": model.get_submodule(path).num_embeddings - first if path else 0,
        "bidirectional": not any(getattr(part, "is_causal", False) for part in model.modules()),
        "inside": " ".join(sorted({*inside.values()})),
        "outputs": model.config.hidden_size,
    }


def load(config: str, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a checkpoint of the model, or of one with a head, whose names begin with the
    model's, by the names of the backbone, and `positions`."""
    path, first = table_of(network(config))
    known = next(iter(groups(config))).removeprefix("model.")
    prefix = next((name.removesuffix(known) for name in stored if name.endswith(known)), "")
    found = {f"model.{name.removeprefix(prefix)}": value for name, value in stored.items()}
    if f"model.{path}.weight" in found:
        found["positions"] = found[f"model.{path}.weight"][first:]
    return found
