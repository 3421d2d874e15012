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

An architecture is tried before it is taken (`fpt.backbones.trial`), and a checkpoint is loaded by
transformers itself, so that hidden states are those of transformers.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ..files import FptError
from .base import LAYER, Backbone
from .isolation import drawn_from
from .layers import STD, Draws, is_norm, select_positions
from .skeleton import (
    bare,
    class_of,
    first_line,
    hidden_states,
    network,
    table_of,
    unfit,
)
from .trial import tried

EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


class GenericBackbone(nn.Module):
    """The model of `spec.config` without its embeddings."""

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        self.causal, self.config = spec.causal, spec.config
        self.model = bare(network(spec.config))
        self.longest_padded = longest_padded(self.model.config)
        for part in self.model.modules():
            if is_norm(part):
                part.time_major = spec.time_major  # for `fpt.training.packing.packed`

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        if mask is not None and x.shape[1] > self.longest_padded:
            raise FptError(
                f"This backbone scales its rotary positions by the longest of the sequences beside "
                f"each other if that has more than {self.longest_padded} tokens, so padding would "
                f"change the shorter ones: cut sequences of different lengths to that."
            )
        seen = None if self.causal else mask  # padding follows what is read
        try:
            hidden = hidden_states(self.model, x, seen)
        except Exception as error:  # whatever transformers raised of the length or the settings
            if "memory" in str(error):  # a smaller pack may fit
                raise
            raise FptError(
                f"The backbone does not take {x.shape[1]} vectors ({first_line(error)})."
            ) from error
        return select_positions(hidden, read)

    def train(self, mode: bool = True) -> "GenericBackbone":
        super().train(mode)
        self.model.eval()
        return self


def longest_padded(config: Any) -> float:
    """The longest batch in which the length of one sequence changes no other: some models scale
    their rotary positions by the length of the whole batch."""
    settings = getattr(config, "rope_parameters", None) or {}
    # One scaling, or one for each type of layer.
    scalings = [it for it in settings.values() if isinstance(it, Mapping)] or [settings]
    return min(
        scaling.get("original_max_position_embeddings", config.max_position_embeddings)
        if scaling.get("rope_type") in ("dynamic", "longrope")
        else math.inf
        for scaling in scalings
    )


def init_(module: Any, draw: torch.Generator, std: float | None = STD) -> None:
    """The initialisation of the model's own code, with matrices of the standard deviation `std`;
    None: that of the model's own configuration."""
    seed = int(torch.randint(2**62, (), generator=draw))
    with drawn_from(seed), torch.no_grad(), initializer_range(module.model, std):
        for part in reversed(list(module.model.modules())):
            module.model._init_weights(part)
    copy_buffers(bare(network(module.config)), module.model)


@contextmanager
def initializer_range(model: Any, std: float | None) -> Iterator[None]:
    """Within the block, the configuration of `model` says `std`, unless that is None or it has no
    such setting: what a T5 draws follows from its widths."""
    known = [name for name in ("initializer_range", "init_std") if hasattr(model.config, name)]
    before = {name: getattr(model.config, name) for name in known if std is not None}
    try:
        for name in before:
            setattr(model.config, name, std)
        yield
    finally:
        for name, value in before.items():
            setattr(model.config, name, value)


def copy_buffers(source: Any, target: Any, without: Collection[str] = ()) -> None:
    """Give `target` every buffer of `source`, a model of the same configuration, but those named in
    `without`."""
    for path, part in source.named_modules():
        for name, buffer in part.named_buffers(recurse=False):
            if f"{path}.{name}".lstrip(".") not in without:
                setattr(target.get_submodule(path), name, buffer)


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
    """What a `Backbone` says of the model of a configuration, beside its name. FptError if its
    architecture is no backbone."""
    trial, model, inside = tried(config), network(config), groups(config)
    path, first = table_of(model)
    unused = {f"model.{name}" for name in trial.unused}
    used = {group for name, group in inside.items() if name not in unused}
    known = {
        "family": "generic",
        # With weights of their own: the layers of an ALBERT share them.
        "layers": 1 + max((int(it[1]) for it in map(LAYER.search, inside) if it), default=-1),
        "width": model.get_input_embeddings().embedding_dim,
        "heads": getattr(model.config, "num_attention_heads", 0),
        "positions": model.get_submodule(path).num_embeddings - first if path else 0,
        "bidirectional": not trial.causal,
        "inside": " ".join(sorted(used)),
        "outputs": trial.outputs,
    }
    return {**known, "time_major": True} if trial.time_major else known


def load(module: Any, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of a checkpoint of the model, or of one with a head, by the names of the
    backbone, and `positions`, all as transformers loads them: renamed, merged or split where the
    checkpoint is older or newer than the modules. What is missing in the checkpoint is missing
    here. `module` gets the model's buffers. FptError if transformers cannot load it."""
    model, report = loaded(module.config, stored)
    path, first = table_of(model)
    tensors = {}
    if path:
        tensors["positions"] = model.get_submodule(path).weight.detach()[first:]
    absent = {*report["missing_keys"]}
    if f"{path}.weight" in absent:
        del tensors["positions"]
    codes = [name for name, tensor in stored.items() if not tensor.is_floating_point()]
    for name, parameter in bare(model).named_parameters():
        # transformers casts integers, which are codes of quantised weights.
        code = next((it for it in codes if f".{it}".endswith(f".{name}")), None)
        if code is not None:
            tensors[f"model.{name}"] = stored[code]
        elif name not in absent:
            tensors[f"model.{name}"] = parameter.detach()
    for name, shape, _ in report["mismatched_keys"]:
        own = "positions" if name == f"{path}.weight" else f"model.{name}"
        tensors[own] = torch.empty(shape, device="meta")  # its shape is what the refusal names
    # transformers leaves a stored buffer that is missing without a value; `module` has computed it.
    copy_buffers(model, module.model, without=absent)
    return tensors


def loaded(config: str, stored: Mapping[str, Tensor]) -> tuple[Any, Mapping[str, Any]]:
    """transformers' model of a checkpoint in float32, and its report of what is missing."""
    parsed, model_class = class_of(json.loads(config))
    try:
        with quiet(), drawn_from(0):  # what a checkpoint lacks is drawn, and refused here
            model, report = model_class.from_pretrained(
                None,
                config=parsed,
                state_dict=dict(stored),
                dtype=torch.float32,
                ignore_mismatched_sizes=True,  # they are in the report
                output_loading_info=True,
            )
    except Exception as error:  # whatever transformers raised of the names and shapes
        raise unfit(config, first_line(error)) from error
    scales = sorted(name for name in report["unexpected_keys"] if "scale" in name)
    if scales and any(tensor.dtype in EIGHT_BITS for tensor in stored.values()):
        raise unfit(config, f"its weights are scaled 8-bit floats, {scales[0]} is not applied")
    return model, report


@contextmanager
def quiet() -> Iterator[None]:
    """transformers reports no head that a checkpoint has besides, and shows no progress."""
    from transformers.utils import logging

    verbosity, shows_progress = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shows_progress:
            logging.enable_progress_bar()
