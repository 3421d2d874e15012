"""GPT-2 through transformers: blocks and last norm, fed with vectors instead of token ids.

A `bidirectional` GPT-2 has the same weights and no causal mask.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Backbone
from .layers import Draws, Dropout, Gelu, select_positions, visible_keys

# The released code freezes by substring of the name; this is the same rule as a table. The
# `positions` belong to fpt.training.model, which adds them before the backbone.
GROUPS = (
    (r"(^|\.)ln_", "layernorm"),
    (r"\.attn\.", "attention"),
    (r"\.mlp\.", "feedforward"),
)
RENAMED = (  # with or without the language-model head
    (r"^transformer\.", ""),
    (r"^wpe\.weight$", "positions"),
    (r"^(h|ln_f)\.", r"gpt2.\1."),
)


def gpt2_config(spec: Backbone, vocabulary: int, **changes: Any) -> Any:
    """transformers' configuration of a GPT-2 of the size `spec` with a table of token embeddings
    of `vocabulary` rows."""
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=vocabulary,
        n_positions=spec.positions,
        n_embd=spec.width,
        n_layer=spec.layers,
        n_head=spec.heads,
        bos_token_id=0,
        eos_token_id=0,
        **changes,
    )


class GPT2Backbone(nn.Module):
    """GPT-2's blocks and last norm; word and position tables are left out of the computation."""

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        from transformers import GPT2Model

        super().__init__()
        # Attention dropout is 0: a named deviation from the released code.
        gpt2: Any = GPT2Model(gpt2_config(spec, 1, attn_pdrop=0.0))
        del gpt2.wte, gpt2.wpe  # positions are added before the backbone
        gpt2.drop = Dropout(dropout, draws)
        self.causal = spec.causal
        for block in gpt2.h:
            block.attn.is_causal = spec.causal
            block.attn.resid_dropout = Dropout(dropout, draws)
            block.mlp.dropout = Dropout(dropout, draws)
            block.mlp.act = Gelu()
        self.gpt2 = gpt2

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`). A causal GPT-2 ignores the mask: padding
        on the right cannot reach what is read."""
        gpt2 = self.gpt2
        visible = None if self.causal else visible_keys(mask)
        x = gpt2.drop(x)
        for block in gpt2.h[:-1]:
            x = run_block(block, x, visible, self.causal)
        causal = self.causal
        if causal and read is not None:
            places = torch.arange(x.shape[1], device=x.device)
            visible, causal = (places <= read[..., None])[:, None], False
        return gpt2.ln_f(run_block(gpt2.h[-1], x, visible, causal, read))


def run_block(
    block: Any, x: Tensor, visible: Tensor | None, causal: bool, read: Tensor | None = None
) -> Tensor:
    """The output of a block of transformers, without the overhead of calling it, which is large in
    a small step.

    `visible` (N, 1, queries or 1, T): the keys that each query sees; None: all, or with `causal`
    those up to it. With `read` (N, R), queries, output and MLP are computed there only.
    """
    attention, mlp, width = block.attn, block.mlp, x.shape[-1]
    normal = block.ln_1(x)
    weight, bias = attention.c_attn.weight, attention.c_attn.bias
    if read is None:
        query, key, value = _project(normal, weight, bias).split(width, -1)
    else:
        query = _project(select_positions(normal, read), weight[:, :width], bias[:width])
        key, value = _project(normal, weight[:, width:], bias[width:]).split(width, -1)
        x = select_positions(x, read)
    heads = (len(x), -1, attention.num_heads, attention.head_dim)
    query, key, value = (part.view(heads).transpose(1, 2) for part in (query, key, value))
    y = F.scaled_dot_product_attention(query, key, value, visible, is_causal=causal)
    y = _project(y.transpose(1, 2).flatten(2), attention.c_proj.weight, attention.c_proj.bias)
    x = attention.resid_dropout.add(x, y, read)
    y = mlp.act(_project(block.ln_2(x), mlp.c_fc.weight, mlp.c_fc.bias))
    y = _project(y, mlp.c_proj.weight, mlp.c_proj.bias)
    return mlp.dropout.add(x, y, read)


def _project(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(N, T, in) -> (N, T, out); GPT-2 keeps `weight` as (in, out)."""
    return torch.addmm(bias, x.view(-1, x.shape[-1]), weight).view(*x.shape[:2], -1)
