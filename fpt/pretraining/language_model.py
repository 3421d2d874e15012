"""Causal language models around a backbone, their loss, and the tensors that are stored of them.

Input and output share the token embeddings, as in GPT-2; for recurrent models see Press and Wolf
(2017, arXiv:1608.05859).
"""

from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones import BACKBONES, FAMILIES, Backbone, build
from ..backbones.gpt2 import gpt2_config
from ..files import FptError
from .lines import VOCABULARY

ROWS = 1024  # of the matrix of logits at a time: what they need stays in the cache of a CPU


def config_of(spec: Backbone) -> dict[str, Any]:
    """config.json of a backbone alone; that of GPT-2 is for `GPT2Model.from_pretrained`."""
    if spec.family != "gpt2":
        return asdict(spec)
    config: dict[str, Any] = gpt2_config(spec, 1, architectures=["GPT2Model"]).to_diff_dict()
    return config


class GPT2Language(nn.Module):
    """GPT-2 as transformers builds and stores it, without dropout (one pass over the data does not
    overfit)."""

    def __init__(self, spec: Backbone, seed: int) -> None:
        from transformers import GPT2LMHeadModel

        super().__init__()
        config = gpt2_config(spec, VOCABULARY, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        with torch.random.fork_rng(devices=[]):  # transformers draws from the global generator
            torch.default_generator.manual_seed(seed)
            self.gpt2: Any = GPT2LMHeadModel(config)

    @property
    def token_embeddings(self) -> Tensor:
        """(VOCABULARY, width)."""
        return self.gpt2.transformer.wte.weight

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Ids and positions (B, T) -> hidden states (B, T, width)."""
        return self.gpt2.transformer(ids, position_ids=positions, use_cache=False).last_hidden_state

    def config(self) -> dict[str, Any]:
        """config.json of the whole language model."""
        made = self.gpt2.config.to_diff_dict()
        return {**made, "architectures": ["GPT2LMHeadModel"], "dtype": "bfloat16"}

    def tensors(self) -> dict[str, Tensor]:
        """The whole language model, by the names that transformers stores."""
        named = self.gpt2.state_dict()
        del named["lm_head.weight"]  # the token embeddings
        return dict(named)


class LSTMLanguage(nn.Module):
    """The standard layer-norm LSTM without dropout, with positions if the backbone has them. It
    begins every sequence with an empty memory."""

    def __init__(self, spec: Backbone, seed: int) -> None:
        super().__init__()
        self.spec = spec
        draw = torch.Generator().manual_seed(seed)
        self.backbone = build(spec).to_empty(device="cpu")
        FAMILIES[spec.family].init_(self.backbone, draw)

        def table(rows: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(rows, spec.width).normal_(0.0, 0.02, generator=draw))

        self.token_embeddings = table(VOCABULARY)
        self.positions = table(spec.positions) if spec.positions else None

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """As `GPT2Language.forward`."""
        x = F.embedding(ids, self.token_embeddings)
        return self.backbone(x if self.positions is None else x + self.positions[positions])

    def config(self) -> dict[str, Any]:
        """config.json of the backbone alone."""
        return config_of(self.spec)

    def tensors(self) -> dict[str, Tensor]:
        """The whole language model, by our own names."""
        positions = {} if self.positions is None else {"positions": self.positions}
        inside = dict(self.backbone.named_parameters())
        return {**inside, **positions, "words": self.token_embeddings}


LanguageModel = GPT2Language | LSTMLanguage


def language_model(spec: Backbone, seed: int) -> LanguageModel:
    """The untrained language model on a local backbone; FptError for one that cannot be one."""
    local = [it for it in BACKBONES.values() if it.causal and not it.hub]
    allowed = [it.name for it in local if it.family in ("gpt2", "lstm")]
    if spec.name not in allowed:
        raise FptError(
            f"The backbone {spec.name!r} is not pretrained as a language model here; "
            f"choose from {', '.join(allowed)}."
        )
    return (GPT2Language if spec.family == "gpt2" else LSTMLanguage)(spec, seed)


class _CrossEntropy(torch.autograd.Function):
    """Softmax, loss and gradients a few rows at a time: the logits of a step are many times larger
    than all else, and on a CPU moving them costs more than the matrix products."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, embeddings: Tensor, targets: Tensor, learning: bool
    ) -> Tensor:
        total = hidden.new_zeros(())
        by_hidden, by_embeddings = torch.empty_like(hidden), torch.zeros_like(embeddings)
        for start in range(0, len(hidden), ROWS):
            rows = slice(start, start + ROWS)
            answers = targets[rows, None]
            logits = (hidden[rows] @ embeddings.T).to(hidden.dtype)  # in autocast sums need more
            right = logits.gather(1, answers)
            top = logits.amax(1, keepdim=True)
            probabilities = logits.sub_(top).exp_()
            sums = probabilities.sum(1, keepdim=True)
            total += (sums.log() + top - right).sum()
            if learning:  # the gradient by the logits: probabilities less one at the answer
                probabilities.div_(sums).scatter_add_(1, answers, -torch.ones_like(sums))
                by_hidden[rows] = probabilities @ embeddings
                by_embeddings.addmm_(probabilities.T, hidden[rows])
        ctx.save_for_backward(by_hidden / len(hidden), by_embeddings / len(hidden))
        return total / len(hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        by_hidden, by_embeddings = ctx.saved_tensors
        return gradients[0] * by_hidden, gradients[0] * by_embeddings, None, None


def cross_entropy(hidden: Tensor, embeddings: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats of `targets` (N,), the tokens that follow the hidden states
    (N, width), under the softmax of their products with the token embeddings (words, width)."""
    return _CrossEntropy.apply(hidden, embeddings, targets, torch.is_grad_enabled())
