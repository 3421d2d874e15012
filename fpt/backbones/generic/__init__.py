"""Any decoder or encoder of transformers that takes token vectors, as a backbone.

The model is built from its configuration. Its token embeddings, its pooler and its learned
table of positions are left out: the vectors come from the input net, and the table is the
group `positions`, which is added to them before the backbone, as in every family here. If a
model has no such table (its positions are rotary or relative), the group does not exist:
order is part of its attention. A ViT, which takes images, is built by
`fpt.backbones.encoders`.

Norms are recognised by type, those on queries and keys included; what else is inside a
layer is `attention` by its path or `feedforward`; what is outside, such as token types, is
`embeddings`. There is no dropout inside a generic backbone, only after a linear input net:
the model stays in evaluation mode. Padding is masked unless the model is causal.

An architecture is tried before it is taken (`fpt.backbones.generic.trial`), and a
checkpoint is loaded by transformers itself, so that hidden states are those of
transformers. A GGUF file, the format of llama.cpp, is converted by transformers into a
folder that is read like any other.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import FptError
from ...isolation import drawn_from
from ..base import LAYER, STD, Backbone, Family, State, is_norm, select_positions
from ..dropout import Draws
from .skeleton import (
    Misfit,
    bare,
    class_of,
    first_line,
    hidden_states,
    judged,
    network,
    quiet,
    table_of,
)
from .trial import tried

EIGHT_BITS = (
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
)


class GenericBackbone(nn.Module):
    """The model of `architecture.config` without its embeddings."""

    def __init__(self, architecture: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        self.causal = architecture.causal
        self.config = architecture.config
        self.model = bare(network(architecture.config))
        self.longest_padded = longest_padded(self.model.config)
        for part in self.model.modules():
            if is_norm(part):
                part.time_major = architecture.time_major  # for `fpt.training.packing`

    def forward(
        self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None
    ) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        if mask is not None and x.shape[1] > self.longest_padded:
            raise FptError(
                "This backbone scales its rotary positions by the longest of the "
                f"sequences beside each other if that has more than {self.longest_padded} "
                "tokens, so padding would change the shorter ones: cut sequences of "
                "different lengths to that."
            )
        if self.causal:  # padding follows what is read
            mask = None
        try:
            hidden = hidden_states(self.model, x, mask)
        except Exception as error:
            # Whatever transformers raised of the length or the settings.
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
    """The longest batch in which the length of one sequence changes no other: some models
    scale their rotary positions by the length of the whole batch."""
    rope = getattr(config, "rope_parameters", None) or {}
    # One scaling, or one for each type of layer.
    by_type = [scaling for scaling in rope.values() if isinstance(scaling, Mapping)]
    longest = math.inf
    for scaling in by_type or [rope]:
        if scaling.get("rope_type") in ("dynamic", "longrope"):
            original = scaling.get("original_max_position_embeddings")
            longest = min(longest, original or config.max_position_embeddings)
    return longest


def init_(module: Any, draw: torch.Generator, std: float | None = STD) -> None:
    """The initialisation of the model's own code, with matrices of the standard deviation
    `std`; None: that of the model's own configuration, which has no such setting if what is
    drawn follows from the widths, as in a T5."""
    model = module.model
    seed = seed_from(draw)
    with standard_deviation(model.config, std):
        with drawn_from(seed), torch.no_grad():
            # Memory that was allocated holds anything; NaN shows what is not drawn.
            for parameter in model.parameters():
                parameter.fill_(math.nan)
            for part in reversed(list(model.modules())):
                model._init_weights(part)
        draw_rest(model, seed)
    copy_buffers(bare(network(module.config)), model)


def seed_from(draw: torch.Generator) -> int:
    """A seed for the code of transformers, which draws from the global generator."""
    return int(torch.randint(2**62, (), generator=draw))


@contextmanager
def standard_deviation(config: Any, std: float | None) -> Iterator[None]:
    """The configuration's standard deviations are `std` within the block; None: its own."""
    own = {}
    for name in ("initializer_range", "init_std") if std is not None else ():
        if hasattr(config, name):
            own[name] = getattr(config, name)
    try:
        for name in own:
            setattr(config, name, std)
        yield
    finally:
        for name, value in own.items():
            setattr(config, name, value)


def draw_rest(model: Any, seed: int) -> None:
    """Draw the parameters that are NaN as the constructor of the model does: openai-gpt
    draws its matrices there and nowhere else. FptError if it does not either."""
    undrawn = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.isnan().any()
    }
    if not undrawn:
        return
    with drawn_from(seed), torch.no_grad():
        constructed = type(model)(model.config)
        for name, parameter in undrawn.items():
            parameter.copy_(constructed.get_parameter(name))
            if not parameter.isfinite().all():
                raise FptError(f"The model's own code gives {name} no initial values.")


def copy_buffers(source: Any, target: Any, without: Collection[str] = ()) -> None:
    """Give `target` every buffer of `source`, a model of the same configuration, but those
    named in `without`."""
    for path, part in source.named_modules():
        for name, buffer in part.named_buffers(recurse=False):
            if f"{path}.{name}".lstrip(".") not in without:
                setattr(target.get_submodule(path), name, buffer)


@cache
def groups(config: str) -> Mapping[str, str]:
    """The trainable group of each parameter of the backbone, by its name."""
    group_of: dict[str, str] = {}
    for path, part in bare(network(config)).named_modules():
        group = "feedforward" if LAYER.search(f".{path}.") else "embeddings"
        if is_norm(part):
            group = "layernorm"
        elif "att" in path.lower():
            group = "attention"
        for name, _ in part.named_parameters(
            prefix=f"model.{path}".rstrip("."), recurse=False
        ):
            group_of[name] = group
    return group_of


@cache
def facts(config: str) -> Mapping[str, Any]:
    """The fields of `Backbone` in the configuration of a model. FptError if its
    architecture is no backbone."""
    trial = tried(config)
    model = network(config)
    path, first = table_of(model)
    unused = {f"model.{name}" for name in trial.unused}
    used = {group for name, group in groups(config).items() if name not in unused}
    # Of layers with weights of their own: those of an ALBERT share theirs.
    numbers = [int(match[1]) for match in map(LAYER.search, groups(config)) if match]
    depth = getattr(model.config, "num_hidden_layers", len(numbers))
    fields = {
        "family": "generic",
        # Embeddings may be numbered too, as MarkupLM's are.
        "layers": min(1 + max(numbers, default=-1), depth),
        "width": model.get_input_embeddings().embedding_dim,
        "heads": getattr(model.config, "num_attention_heads", 0),
        "positions": model.get_submodule(path).num_embeddings - first if path else 0,
        "bidirectional": not trial.causal,
        "inside": " ".join(sorted(used)),
        "outputs": trial.outputs,
    }
    # Left out if it is False, as in published.yaml.
    return fields | ({"time_major": True} if trial.time_major else {})


def load(module: Any, stored: State) -> State:
    """The parameters of a checkpoint of the model, or of one with a head, by the names of
    the backbone, and `positions`, all as transformers loads them: renamed, merged or split
    where the checkpoint is older or newer than the modules. What is missing in the
    checkpoint is missing here. `module` gets the model's buffers. FptError if transformers
    cannot load it."""
    model, report = loaded(module.config, stored)
    absent = {*report["missing_keys"]}
    path, first = table_of(model)
    table = f"{path}.weight"
    tensors = {}
    if path and table not in absent:
        tensors["positions"] = model.get_submodule(path).weight.detach()[first:]
    for name, parameter in bare(model).named_parameters():
        if name not in absent:
            tensors[f"model.{name}"] = parameter.detach()
        # transformers casts integers, which are codes of quantised weights; the check of
        # the types is to see them as they are.
        for code, tensor in stored.items():
            if f".{code}".endswith(f".{name}") and not tensor.is_floating_point():
                tensors[f"model.{name}"] = tensor
    for name, shape, _ in report["mismatched_keys"]:
        own = "positions" if name == table else f"model.{name}"
        # Its shape is what the refusal names.
        tensors[own] = torch.empty(shape, device="meta")
    # transformers leaves a stored buffer that is missing without a value; `module` has
    # computed it.
    copy_buffers(model, module.model, without=absent)
    return tensors


def loaded(config: str, stored: State) -> tuple[Any, Mapping[str, Any]]:
    """transformers' model of a checkpoint in float32, and its report of what is missing."""
    settings = json.loads(config)
    # What a checkpoint lacks is drawn, and refused later.
    with judged(settings["model_type"]), quiet(), drawn_from(0):
        parsed, model_class = class_of(settings)
        model, report = model_class.from_pretrained(
            None,
            config=parsed,
            state_dict=dict(stored),
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # they are in the report
            output_loading_info=True,
        )
        scales = sorted(name for name in report["unexpected_keys"] if "scale" in name)
        if scales and any(tensor.dtype in EIGHT_BITS for tensor in stored.values()):
            raise Misfit(f"its weights are scaled 8-bit floats, {scales[0]} is not applied")
    return model, report


def token_embeddings(config: str) -> Any:
    """The model's module of token embeddings, on the meta device."""
    return network(config).get_input_embeddings()


def token_vectors(config: str, stored: State) -> Tensor:
    """The vectors of all tokens of a checkpoint (vocabulary, width), as the model makes
    them: some scale their embeddings."""
    model, _ = loaded(config, stored)
    embeddings = model.get_input_embeddings()
    return embeddings(torch.arange(embeddings.num_embeddings))


def drawn_token(config: str, draw: torch.Generator, std: float | None) -> Tensor:
    """The vector of one token (width,), drawn as the model's own code draws its embeddings,
    with the standard deviation `std`; None: that of its configuration."""
    model = network(config)
    embeddings = deepcopy(model.get_input_embeddings())
    with drawn_from(seed_from(draw)), standard_deviation(model.config, std):
        row = nn.Embedding(1, embeddings.embedding_dim)
        model._init_weights(row)
    embeddings.weight = row.weight
    embeddings.padding_idx = None
    return embeddings(torch.tensor(0))


FAMILIES = {"generic": Family(GenericBackbone, (), True, init_)}
