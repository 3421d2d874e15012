"""Pre-norm transformers: GPT-2 through transformers, and what transformers does not offer.

**GPT-2** is fed with vectors instead of token ids. A `bidirectional` one has the same
weights and no causal mask.

**`vanilla` and `linformer`** are the two small encoders of the paper's Table 7, both the
encoder of Long Range Arena (LRA); they differ in their attention alone. The Linformer (Wang
et al. 2020, arXiv:2006.04768) mixes the T keys of a layer into `rank` ones, and its values
likewise, by a learned matrix over positions; as in LRA's code, one matrix per layer serves
keys, values and heads. Table 7 quotes LRA for 3 layers, while the configurations that LRA
released for this task have one layer and differ between the two models; ours have 3 layers
of one and the same size, and are read at the last token, as every backbone here is, instead
of at a class token in front.

**`gpt2-unfused`** is GPT-2 with queries, keys and values in separate tensors, which can be
frozen one by one (Dong et al. 2025, arXiv:2506.01115). Two variants: blocks without a
feedforward layer, and `fixed` attention, whose weights do not depend on the tokens. It has
a query and a key per head and position, drawn once, in place of those that are computed
from a token; their scores are N(0, 1) before the softmax. Dong et al. draw the mixing
matrix of a head directly; ours has the rank of a head, and needs no matrix of length by
length.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Backbone, Family, normal_init_, select_positions, visible_keys
from .dropout import Draws, Dropout
from .gelu import Gelu


def gpt2_config(architecture: Backbone, vocabulary: int, **changes: Any) -> Any:
    """transformers' configuration of a GPT-2 of this size, with `vocabulary` token
    embeddings."""
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=vocabulary,
        n_positions=architecture.positions,
        n_embd=architecture.width,
        n_layer=architecture.layers,
        n_head=architecture.heads,
        bos_token_id=0,
        eos_token_id=0,
        **changes,
    )


class GPT2Backbone(nn.Module):
    """GPT-2's blocks and last norm; word and position tables are left out of the
    computation."""

    def __init__(self, architecture: Backbone, draws: Draws, dropout: float) -> None:
        from transformers import GPT2Model

        super().__init__()
        # Attention dropout is 0: a named deviation from the released code.
        gpt2: Any = GPT2Model(gpt2_config(architecture, 1, attn_pdrop=0.0))
        del gpt2.wte, gpt2.wpe  # positions are added before the backbone
        gpt2.drop = Dropout(dropout, draws)
        self.causal = architecture.causal
        for block in gpt2.h:
            block.attn.is_causal = architecture.causal
            block.attn.resid_dropout = Dropout(dropout, draws)
            block.mlp.dropout = Dropout(dropout, draws)
            block.mlp.act = Gelu()
        self.gpt2 = gpt2

    def forward(
        self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None
    ) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`). A causal GPT-2 ignores the mask:
        padding on the right cannot reach what is read."""
        gpt2 = self.gpt2
        visible = None if self.causal else visible_keys(mask)
        x = gpt2.drop(x)
        for block in gpt2.h[:-1]:
            x = run_block(block, x, visible, self.causal)
        # The last block computes only what is read, so its mask is that of the positions
        # read.
        causal = self.causal
        if causal and read is not None:
            places = torch.arange(x.shape[1], device=x.device)
            visible = (places <= read[..., None])[:, None]
            causal = False
        return gpt2.ln_f(run_block(gpt2.h[-1], x, visible, causal, read))


def run_block(
    block: Any, x: Tensor, visible: Tensor | None, causal: bool, read: Tensor | None = None
) -> Tensor:
    """The output of a block of transformers, without the overhead of calling it, which is
    large in a small step.

    `visible` (N, 1, queries or 1, T): the keys that each query sees; None: all, or with
    `causal` those up to it. With `read` (N, R), queries, output and MLP are computed there
    only.
    """
    attention = block.attn
    mlp = block.mlp
    width = x.shape[-1]
    normal = block.ln_1(x)
    weight = attention.c_attn.weight  # queries, keys and values beside each other
    bias = attention.c_attn.bias
    if read is None:
        query, key, value = project(normal, weight, bias).split(width, -1)
    else:
        # What is read asks all tokens: keys and values are needed everywhere.
        query = project(select_positions(normal, read), weight[:, :width], bias[:width])
        key, value = project(normal, weight[:, width:], bias[width:]).split(width, -1)
        x = select_positions(x, read)
    heads = (len(x), -1, attention.num_heads, attention.head_dim)
    query, key, value = (part.view(heads).transpose(1, 2) for part in (query, key, value))
    y = F.scaled_dot_product_attention(query, key, value, visible, is_causal=causal)
    y = project(
        y.transpose(1, 2).flatten(2), attention.c_proj.weight, attention.c_proj.bias
    )
    x = attention.resid_dropout.add(x, y, read)
    y = mlp.act(project(block.ln_2(x), mlp.c_fc.weight, mlp.c_fc.bias))
    y = project(y, mlp.c_proj.weight, mlp.c_proj.bias)
    return mlp.dropout.add(x, y, read)


def project(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(N, T, in) -> (N, T, out); GPT-2 keeps `weight` as (in, out)."""
    rows = x.view(-1, x.shape[-1])
    return torch.addmm(bias, rows, weight).view(*x.shape[:2], -1)


class Attention(nn.Module):
    """Attention of a family: without biases among all tokens or `rank` mixtures of
    them (encoders), or with biases among the tokens so far, perhaps `fixed` (GPT-2)."""

    def __init__(self, architecture: Backbone) -> None:
        super().__init__()

        def projection() -> nn.Linear:
            return nn.Linear(
                architecture.width, architecture.width, bias=architecture.causal
            )

        def query_or_key() -> Any:
            table = torch.empty(architecture.positions, architecture.width)
            return nn.Parameter(table) if architecture.fixed else projection()

        self.heads = architecture.heads
        self.causal = architecture.causal
        self.fixed = architecture.fixed
        self.query = query_or_key()
        self.key = query_or_key()
        self.value = projection()
        self.out = projection()
        mix = torch.empty(architecture.positions, architecture.rank)
        self.mix = nn.Parameter(mix) if architecture.rank else None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(N, T, width) -> (N, T, width). Causal attention ignores `mask` (N, T): padding
        follows the tokens."""
        length = x.shape[1]
        visible = None if self.causal else visible_keys(mask)
        value = self.value(x)
        # Fixed ones are the same for all examples, so they are one example.
        query = self.query[None, :length] if self.fixed else self.query(x)
        key = self.key[None, :length] if self.fixed else self.key(x)
        if self.mix is not None:
            if mask is not None:
                # LRA lets padding in; then a run would depend on its batch mates.
                padding = ~mask[..., None]
                key = key.masked_fill(padding, 0.0)
                value = value.masked_fill(padding, 0.0)
            mix = self.mix[:length].T  # (rank, T)
            key = mix @ key
            value = mix @ value
            visible = None
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (query, key, value)
        )
        if self.fixed:
            scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            y = scores.masked_fill(future, -torch.inf).softmax(-1) @ value
        else:
            y = F.scaled_dot_product_attention(
                query, key, value, visible, is_causal=self.causal
            )
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and, unless the architecture has none, a feedforward layer."""

    def __init__(self, architecture: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        width = architecture.width
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(architecture)
        self.attention_dropout = Dropout(dropout, draws)
        self.feedforward: nn.Module | None = None
        if architecture.feedforward:
            inner = (4 if architecture.causal else 2) * width
            self.feedforward_norm = nn.LayerNorm(width)
            self.feedforward = nn.Sequential(
                nn.Linear(width, inner), Gelu(), nn.Linear(inner, width)
            )
            self.feedforward_dropout = Dropout(dropout, draws)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.attention_dropout.add(x, self.attention(self.attention_norm(x), mask))
        if self.feedforward is None:
            return x
        return self.feedforward_dropout.add(x, self.feedforward(self.feedforward_norm(x)))


class PreNormTransformer(nn.Module):
    """The blocks and a last norm; GPT-2 drops values of its input, too."""

    def __init__(self, architecture: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout, draws) if architecture.causal else nn.Identity()
        self.layers = nn.ModuleList(
            Block(architecture, draws, dropout) for _ in range(architecture.layers)
        )
        self.last_norm = nn.LayerNorm(architecture.width)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None
    ) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, mask)
        return self.last_norm(select_positions(x, read))


def encoder_init_(module: nn.Module, draw: torch.Generator) -> None:
    """LRA's initialisation: matrices U(+-sqrt(6 / (rows + columns))), norms 1 and 0, biases
    0."""
    for name, parameter in module.named_parameters():
        if parameter.dim() == 2:
            bound = math.sqrt(6 / sum(parameter.shape))
            parameter.uniform_(-bound, bound, generator=draw)
        else:
            parameter.fill_(float(name.endswith("norm.weight")))


# The released code freezes by substring of the name; this is the same rule as a table. The
# `positions` belong to fpt.training.model, which adds them before the backbone.
GPT2 = Family(
    GPT2Backbone,
    groups=(
        (r"(^|\.)ln_", "layernorm"),
        (r"\.attn\.", "attention"),
        (r"\.mlp\.", "feedforward"),
    ),
    causal=True,
    init_=normal_init_,
    renamed=(  # with or without the language-model head
        (r"^transformer\.", ""),
        (r"^wpe\.weight$", "positions"),
        (r"^(h|ln_f)\.", r"gpt2.\1."),
    ),
)
ENCODER = Family(
    PreNormTransformer,
    groups=(
        (r"norm\.", "layernorm"),
        (r"\.attention\.", "attention"),
        (r"\.feedforward\.", "feedforward"),
    ),
    causal=False,
    init_=encoder_init_,
)
QUERY_KEY = (r"\.attention\.(query|key)(\.|$)", "query-key")
FAMILIES = {
    "gpt2": GPT2,
    "vanilla": ENCODER,
    "linformer": ENCODER,
    "gpt2-unfused": Family(
        PreNormTransformer, (QUERY_KEY, *ENCODER.groups), causal=True, init_=normal_init_
    ),
}
