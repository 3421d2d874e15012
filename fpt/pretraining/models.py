"""Causal language models around a body, their loss, and the files of what was trained.

The table of words is shared between input and output, as in GPT-2; for recurrent models see Press
and Wolf (2017, arXiv:1608.05859).
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones import BACKBONES, FAMILIES, Backbone, build
from ..files import FptError
from ..tasks.texts import VOCABULARY
from .body import body_config

ROWS = 1024  # of the matrix of logits at a time: what they need stays in the cache of a CPU


class GPT2Language(nn.Module):
    """GPT-2 as transformers builds and stores it, without dropout (one pass over the data does not
    overfit)."""

    def __init__(self, spec: Backbone, seed: int) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=spec.positions,
            n_embd=spec.width,
            n_layer=spec.layers,
            n_head=spec.heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
        with torch.random.fork_rng(devices=[]):  # transformers draws from the global generator
            torch.default_generator.manual_seed(seed)
            self.gpt2: Any = GPT2LMHeadModel(config)

    @property
    def words(self) -> Tensor:
        """The table of words (words, width)."""
        return self.gpt2.transformer.wte.weight

    def body_parameters(self) -> dict[str, nn.Parameter]:
        """Of the body and its positions, by the names that `fpt.backbones.weights` gives them."""
        named = dict(self.gpt2.transformer.named_parameters())
        del named["wte.weight"]
        positions = {"positions": named.pop("wpe.weight")}
        return {f"gpt2.{name}": parameter for name, parameter in named.items()} | positions

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Ids and positions (B, T) -> hidden states (B, T, width)."""
        return self.gpt2.transformer(ids, position_ids=positions, use_cache=False).last_hidden_state

    def config(self) -> dict[str, Any]:
        """What config.json says of the whole language model."""
        made = self.gpt2.config.to_diff_dict()
        return {**made, "architectures": ["GPT2LMHeadModel"], "dtype": "bfloat16"}

    def tensors(self) -> dict[str, Tensor]:
        """The whole language model, by the names that transformers stores."""
        named = self.gpt2.state_dict()
        del named["lm_head.weight"]  # the table of words
        return dict(named)


class LSTMLanguage(nn.Module):
    """The standard layer-norm LSTM without dropout, with positions if the backbone has them. It
    begins every sequence with an empty memory."""

    def __init__(self, spec: Backbone, seed: int) -> None:
        super().__init__()
        self.spec = spec
        draw = torch.Generator().manual_seed(seed)
        self.body = build(spec).to_empty(device="cpu")
        FAMILIES[spec.family].init_(self.body, draw)

        def table(rows: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(rows, spec.width).normal_(0.0, 0.02, generator=draw))

        self.words = table(VOCABULARY)
        self.positions = table(spec.positions) if spec.positions else None

    def body_parameters(self) -> dict[str, nn.Parameter]:
        """As `GPT2Language.body_parameters`."""
        positions = {} if self.positions is None else {"positions": self.positions}
        return {**dict(self.body.named_parameters()), **positions}

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """As `GPT2Language.forward`."""
        x = F.embedding(ids, self.words)
        return self.body(x if self.positions is None else x + self.positions[positions])

    def config(self) -> dict[str, Any]:
        """As `GPT2Language.config`."""
        return body_config(self.spec)

    def tensors(self) -> dict[str, Tensor]:
        """As `GPT2Language.tensors`, by our own names."""
        return {**self.body_parameters(), "words": self.words}


LanguageModel = GPT2Language | LSTMLanguage
MODELS: Mapping[str, Callable[[Backbone, int], LanguageModel]] = {
    "gpt2": GPT2Language,
    "lstm": LSTMLanguage,
}


def language_model(spec: Backbone, seed: int) -> LanguageModel:
    """The untrained language model on a local body; FptError for a body that cannot be one."""
    allowed = [b.name for b in BACKBONES.values() if b.family in MODELS and b.causal and not b.hub]
    if spec.name not in allowed:
        raise FptError(
            f"The backbone {spec.name!r} is not pretrained as a language model here; "
            f"choose from {', '.join(allowed)}."
        )
    return MODELS[spec.family](spec, seed)


class _Surprise(torch.autograd.Function):
    """Softmax, loss and gradients a few rows at a time: the logits of a step are many times larger
    than all else, and on a CPU moving them costs more than the matrix products."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, words: Tensor, targets: Tensor, learning: bool) -> Tensor:
        total = hidden.new_zeros(())
        back, table = torch.empty_like(hidden), torch.zeros_like(words)
        for start in range(0, len(hidden), ROWS):
            rows = slice(start, start + ROWS)
            answers = targets[rows, None]
            logits = (hidden[rows] @ words.T).to(hidden.dtype)  # in autocast sums need more
            right = logits.gather(1, answers)
            top = logits.amax(1, keepdim=True)
            chances = logits.sub_(top).exp_()
            sums = chances.sum(1, keepdim=True)
            total += (sums.log() + top - right).sum()
            if learning:  # the gradient by the logits: chances less one at the answer
                chances.div_(sums).scatter_add_(1, answers, -torch.ones_like(sums))
                back[rows] = chances @ words
                table.addmm_(chances.T, hidden[rows])
        ctx.save_for_backward(back / len(hidden), table / len(hidden))
        return total / len(hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        back, table = ctx.saved_tensors
        return gradients[0] * back, gradients[0] * table, None, None


def surprise(hidden: Tensor, words: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats of `targets` (N,), the words that follow the hidden states
    (N, width), under the softmax of their products with the table of words (words, width)."""
    return _Surprise.apply(hidden, words, targets, torch.is_grad_enabled())
