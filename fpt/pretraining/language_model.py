"""Causal language models around a backbone, their loss, and the tensors that are stored of
them.

Input and output share the token embeddings, as in GPT-2; for recurrent models see Press and
Wolf (2017, arXiv:1608.05859).
"""

from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones import BACKBONES, FAMILIES, Backbone, build
from ..backbones.gpt2 import gpt2_config
from ..errors import FptError
from .lines import VOCABULARY


def config_of(architecture: Backbone) -> dict[str, Any]:
    """config.json of a backbone alone; that of GPT-2 is for `GPT2Model.from_pretrained`."""
    if architecture.family != "gpt2":
        return asdict(architecture)
    return dict(gpt2_config(architecture, 1, architectures=["GPT2Model"]).to_diff_dict())


class GPT2Language(nn.Module):
    """GPT-2 as transformers builds and stores it, without dropout (one pass over the data
    does not overfit)."""

    def __init__(self, architecture: Backbone, seed: int) -> None:
        from transformers import GPT2LMHeadModel

        super().__init__()
        config = gpt2_config(
            architecture, VOCABULARY, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
        )
        with torch.random.fork_rng(devices=[]):
            # transformers draws from the global generator.
            torch.default_generator.manual_seed(seed)
            self.gpt2: Any = GPT2LMHeadModel(config)

    @property
    def token_embeddings(self) -> Tensor:
        """(VOCABULARY, width)."""
        return self.gpt2.transformer.wte.weight

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Ids and positions (B, T) -> hidden states (B, T, width)."""
        return self.gpt2.transformer(
            ids, position_ids=positions, use_cache=False
        ).last_hidden_state

    def config(self) -> dict[str, Any]:
        """config.json of the whole language model."""
        own = {"architectures": ["GPT2LMHeadModel"], "dtype": "bfloat16"}
        return self.gpt2.config.to_diff_dict() | own

    def tensors(self) -> dict[str, Tensor]:
        """The whole language model, by the names that transformers stores."""
        tensors = dict(self.gpt2.state_dict())
        # It is the matrix of the token embeddings once more.
        del tensors["lm_head.weight"]
        return tensors


class LSTMLanguage(nn.Module):
    """The standard layer-norm LSTM without dropout, with positions if the backbone has
    them. It begins every sequence with an empty memory."""

    def __init__(self, architecture: Backbone, seed: int) -> None:
        super().__init__()
        self.architecture = architecture
        draw = torch.Generator().manual_seed(seed)
        self.backbone = build(architecture).to_empty(device="cpu")
        FAMILIES[architecture.family].init_(self.backbone, draw)

        def table(rows: int) -> nn.Parameter:
            values = torch.empty(rows, architecture.width)
            return nn.Parameter(values.normal_(0.0, 0.02, generator=draw))

        self.token_embeddings = table(VOCABULARY)
        self.positions = table(architecture.positions) if architecture.positions else None

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """As `GPT2Language.forward`."""
        x = F.embedding(ids, self.token_embeddings)
        if self.positions is not None:
            x = x + self.positions[positions]
        return self.backbone(x)

    def config(self) -> dict[str, Any]:
        """config.json of the backbone alone."""
        return config_of(self.architecture)

    def tensors(self) -> dict[str, Tensor]:
        """The whole language model, by our own names."""
        tensors: dict[str, Tensor] = dict(self.backbone.named_parameters())
        if self.positions is not None:
            tensors["positions"] = self.positions
        return tensors | {"words": self.token_embeddings}


LanguageModel = GPT2Language | LSTMLanguage
LANGUAGE_MODELS: dict[str, type[LanguageModel]] = {
    "gpt2": GPT2Language,
    "lstm": LSTMLanguage,
}


def language_model(architecture: Backbone, seed: int) -> LanguageModel:
    """The untrained language model on a local backbone; FptError for one that cannot be
    one."""
    is_local = architecture.name in BACKBONES and not architecture.hub
    if not (is_local and architecture.causal and architecture.family in LANGUAGE_MODELS):
        raise FptError(
            f"The backbone {architecture.name!r} is not pretrained as a language model "
            "here; choose a local GPT-2 or LSTM, such as nano or lstm-nano."
        )
    return LANGUAGE_MODELS[architecture.family](architecture, seed)
