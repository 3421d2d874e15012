"""Every frozen transformer by one adapter over transformers, fed with token vectors.

A model of transformers is built from its configuration without weights. Its token
embeddings, pooler and learned table of positions are taken out: vectors come from the input
net, and the table is the paper's group `positions`, which is trained and added before the
model.

Dropout draws no numbers of its own: masks are handed in, one for each place in the order in
which the model comes by, so a run draws alike alone and in a pack, and a GPU can replay a
step.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..backbones import Backbone
from ..errors import FptError
from .bodies import Layers, built, state_name
from .draws import Body, Dropout

INSIDE = ("attn_dropout", "self.dropout", "DenseReluDense.dropout")  # of attention, of T5
FAR = -1e30  # added to the score of a key that is not visible


class Nothing(nn.Module):
    """In place of token embeddings, of a table of positions and of a pooler: zero."""

    def __init__(self, width: int = 0) -> None:
        super().__init__()
        self.embedding_dim = width

    def forward(self, *args: Any, **options: Any) -> Tensor:
        return torch.zeros((), dtype=torch.float32)


def fused(module: Any, *states: Any, **options: Any) -> tuple[Tensor, None]:
    """PyTorch's attention, as transformers calls it. transformers makes no mask for an
    attention that it does not know, so what arrives is ours, or None: then a causal model
    sees the past."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward(module, *states, **options)


def plain(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Scores, softmax, mean of values, (B, T, heads, width of a head): for packs on a CPU,
    whose fused attention knows no runs beside each other, and in bf16, where its backward
    pass is slower than a whole layer."""
    groups = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = query @ key.transpose(-1, -2) * scale
    if position_bias is not None:
        scores = scores + position_bias
    if mask is None and module.is_causal:
        mask = unseen(scores.shape[-1], True, None, scores)
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    return (weights @ value).transpose(1, 2).contiguous(), None


ATTENTION = {"fpt fused": fused, "fpt plain": plain}  # as transformers calls them


def unseen(
    length: int, causal: bool, real: Tensor | None, like: Tensor, reach: int = 0
) -> Tensor:
    """(B or 1, 1, T, T), 0 where a query sees a key and FAR where it does not, of the type
    of `like`: the future if `causal`, keys further away than `reach`, if there is one, and
    padding, where `real` (B, T) is False."""
    visible = torch.ones(length, length, dtype=torch.bool, device=like.device)[None, None]
    if causal:
        visible = visible.tril()
    if reach:
        visible = visible.tril(reach).triu(-reach)
    if real is not None:
        visible = visible & real[:, None, None]
    return torch.zeros_like(visible, dtype=like.dtype).masked_fill(~visible, FAR)


class Frozen(Body):
    """The blocks and norms of a model of transformers, on the meta device until it is given
    values.

    A causal model ignores padding, which follows what is read.
    """

    def __init__(self, architecture: Backbone, dropout: float) -> None:
        super().__init__(dropout)
        from transformers import AttentionInterface

        for called, attention in ATTENTION.items():
            AttentionInterface.register(called, attention)
        self.causal = architecture.causal
        self.window = architecture.window
        # In evaluation it drops nothing by itself: neither attention weights nor inside a
        # feedforward layer, which is a named deviation.
        self.model = without_tables(built(architecture)).eval()
        self.attend("fused")
        self.longest = longest_seen(self.model.config)
        for path, part in [*self.model.named_modules()]:
            # Of a model by configuration nothing is dropped but values of its input.
            is_place = isinstance(part, nn.Dropout) and not path.endswith(INSIDE)
            if is_place and architecture.family != "generic":
                self.model.set_submodule(path, Dropout(self.masks))
            if hasattr(part, "is_causal"):
                part.is_causal = self.causal
        self.family = architecture.family

    @property
    def state_names(self) -> dict[str, str]:
        names = [name for name, _ in self.named_parameters()]
        return {name: state_name(self.family, name) for name in names}

    def attend(self, how: str) -> None:
        self.model.config._attn_implementation = f"fpt {how}"

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        if x.shape[1] > self.longest:
            raise FptError(
                f"Some layers of this backbone see {self.longest} tokens, and there are "
                f"{x.shape[1]}: shorten the sequences, or take a backbone that sees all."
            )
        mask = None
        has_band = 0 < self.window // 2 + 1 < x.shape[1]
        if not self.causal and (real is not None or has_band):
            reach = self.window // 2 if has_band else x.shape[1]
            mask = unseen(x.shape[1], False, real, x, reach)
        if isinstance(self.model, Layers):
            return self.model(x, mask)
        return self.model(inputs_embeds=x, attention_mask=mask).last_hidden_state


def longest_seen(config: Any) -> float:
    """The longest sequence in which every layer sees all tokens that come before, or all:
    our masks know no sliding windows."""
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
    window = getattr(config, "sliding_window", None)
    unknown = {*kinds} - {"full_attention", "sliding_attention"}
    if unknown:
        raise FptError(
            f"A backbone with layers of {', '.join(sorted(unknown))} is not known."
        )
    return window if window and "sliding_attention" in kinds else math.inf


def without_tables(model: Any) -> Any:
    """The model without token embeddings, learned table of positions and pooler."""
    if isinstance(model, Layers):
        return model
    path, _ = table_of(model)
    if path:
        model.set_submodule(path, Nothing())
    if getattr(model, "pooler", None) is not None:
        model.pooler = Nothing()
    model.set_input_embeddings(Nothing(model.get_input_embeddings().embedding_dim))
    return model


TABLES = ("wpe", "embed_positions", "positions_embed", "position_embeddings")


def table_of(model: Any) -> tuple[str, int]:
    """The path of the learned table of positions and the row of the first token: OPT and
    RoBERTa leave two rows unused. Empty without one."""
    width = model.get_input_embeddings().embedding_dim
    for path, part in model.named_modules():
        is_table = path.rpartition(".")[2] in TABLES and isinstance(part, nn.Embedding)
        if is_table and part.embedding_dim == width:
            unused = 0 if part.padding_idx is None else part.padding_idx + 1
            return path, getattr(part, "offset", unused)
    return "", 0
