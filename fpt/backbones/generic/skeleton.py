"""A model of transformers from its configuration: its modules and buffers, without weights.

Parameters are on the meta device. Buffers, such as rotary frequencies, are computed by the
model's own code from its own configuration, whether or not a checkpoint stores them.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from ...errors import FptError
from ...isolation import drawn_from, one_at_a_time
from ...spec import canonical
from ..base import is_norm

FIRST_LAYERS = "first_layers"  # a setting of ours: how many layers of the model there are
TABLE = re.compile(r"(^|\.)(wpe|embed_positions|positions_embed|position_embeddings)$")


class Misfit(Exception):
    """Why an architecture is no backbone."""


class Absent(nn.Module):
    """In place of the token embeddings, of a table of positions and of a pooler: zeros."""

    def __init__(self, embedding_dim: int = 0) -> None:
        super().__init__()
        # For code that initialises a table.
        self.weight = torch.empty(1, dtype=torch.float32)
        # 0: what is added or thrown away may be a scalar.
        self.embedding_dim = embedding_dim

    def forward(self, ids: Tensor | None = None, *args: Any, **options: Any) -> Tensor:
        if ids is None or not self.embedding_dim:
            return torch.zeros((), dtype=torch.float32)
        # Only Longformer asks for tokens, those of its own padding.
        shape = (*ids.shape, self.embedding_dim)
        return torch.zeros(shape, dtype=torch.float32, device=ids.device)


@contextmanager
def judged(model_type: object) -> Iterator[None]:
    """Refuse the architecture, in one sentence, if anything goes wrong within the block."""
    try:
        yield
    except FptError:
        raise
    except Exception as error:  # a misfit, or whatever transformers raised
        raise FptError(
            f"An architecture of type {model_type!r} cannot be a backbone here "
            f"({first_line(error)}); what fits is a decoder or encoder of transformers "
            "that takes token vectors (inputs_embeds) and an attention mask, such as "
            "GPT-2, Pythia, Llama, Qwen, BERT, ModernBERT or T5's encoder, and a ViT."
        ) from error


def first_line(error: Exception) -> str:
    """The message of an error in one line that is short enough for a sentence."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:200].rstrip(" .:")


def text_of(config: Mapping[str, Any]) -> str:
    """A configuration as canonical JSON. FptError if it holds what JSON cannot."""
    with judged(config.get("model_type")):
        try:
            return canonical(config)
        except ValueError as error:
            reason = f"its config.json holds a number that is not finite: {error}"
            raise Misfit(reason) from error


@one_at_a_time()
def network(config: str) -> Any:
    """The model of a configuration (JSON) in evaluation mode. FptError if it does not
    fit."""
    settings = json.loads(config)
    with judged(settings.get("model_type")):
        # No cast makes the original weights of packed integers or scaled 8-bit floats.
        quantization = settings.get("quantization_config")
        if quantization:
            method = quantization.get("quant_method", "a method that it does not name")
            raise Misfit(f"it is quantised by {method}: take the model that was quantised")
        parsed, model_class = class_of(settings)
        arguments = inspect.signature(model_class.forward).parameters
        if "inputs_embeds" not in arguments:
            raise Misfit("it takes no token vectors")
        if "decoder_inputs_embeds" in arguments:
            raise Misfit("it has an encoder and a decoder")
        with drawn_from(0), parameters_on_meta():
            model = model_class(parsed).eval()
        for part in model.modules():
            check_part(part)
    return model


@one_at_a_time()
def class_of(settings: dict[str, Any]) -> tuple[Any, Any]:
    """The configuration of transformers that `settings` describe, and the class of its
    model, the one that AutoModel would take; of an encoder-decoder such as T5, its encoder
    alone. Misfit if there is none."""
    from transformers import CONFIG_MAPPING, MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING

    # transformers reads a configuration of all layers, whose settings fit together; then it
    # is cut.
    settings = {**settings, "use_cache": False, "return_dict": True}
    first_layers = settings.pop(FIRST_LAYERS, None)
    try:
        config = CONFIG_MAPPING[settings["model_type"]].from_dict(settings)
        mapping: Any = MODEL_MAPPING
        if type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING:
            mapping = MODEL_FOR_TEXT_ENCODING_MAPPING
        classes = mapping[type(config)]
    except KeyError as error:
        reason = "transformers has no model of this type that gives hidden states"
        raise Misfit(reason) from error
    if first_layers is not None:
        shorten(config, first_layers)
    keep_constant(config)
    if not isinstance(classes, tuple | list):
        return config, classes
    # Of several classes of a type, AutoModel takes the one that the checkpoint names.
    named = [kind for kind in classes if kind.__name__ in (config.architectures or ())]
    return config, (named or classes)[0]


def keep_constant(config: Any) -> None:
    """Switch off what would change a model as it computes, so that a prediction depended on
    those before it."""
    # A BigBird leaves its blocks for good at the first batch of short sequences.
    if getattr(config, "attention_type", "") == "block_sparse":
        config.attention_type = "original_full"
    # An RWKV halves the weights of its later layers when it evaluates.
    if hasattr(config, "rescale_every"):
        config.rescale_every = 0


@contextmanager
def quiet() -> Iterator[None]:
    """transformers neither reports the unused head of a checkpoint nor shows progress.

    Its settings are those of the process, so one thread at a time changes them.
    """
    from transformers.utils import logging

    with one_at_a_time():
        verbosity = logging.get_verbosity()
        had_progress_bar = logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            if had_progress_bar:
                logging.enable_progress_bar()


def per_layer(config: Any) -> dict[str, Sequence[Any]]:
    """The settings of a configuration that are one value for each layer."""
    return {
        name: value
        for name, value in config.to_dict().items()
        if isinstance(value, list | tuple) and len(value) == config.num_hidden_layers
    }


def shorten(config: Any, layers: int) -> None:
    """Make it the configuration of the first `layers`. Misfit if which weights a layer has
    depends on how many there are."""
    if getattr(config, "num_hidden_groups", 1) > 1:
        raise Misfit("its groups of layers that share weights cannot be cut")
    if hasattr(config, "scale_depth"):  # of MiniCPM3
        raise Misfit("its layers are scaled by how many there are, so it cannot be cut")
    for name, values in per_layer(config).items():
        setattr(config, name, values[:layers])
    config.num_hidden_layers = layers


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Modules that this thread constructs keep their parameters on the meta device, and
    everything else as it is computed."""
    thread = get_ident()

    def moved(module: nn.Module, name: str, parameter: nn.Parameter) -> Any:
        if get_ident() != thread:
            return None
        return nn.Parameter(parameter.to("meta"), parameter.requires_grad)

    handle = register_module_parameter_registration_hook(moved)
    try:
        yield
    finally:
        handle.remove()


def check_part(part: nn.Module) -> None:
    """Misfit if a model with this module is no backbone."""
    kind = type(part).__name__
    if re.search(r"Conv\dd", kind):
        raise Misfit(f"it has a convolution, {kind}")
    own = dict(part.named_parameters(recurse=False))
    if not own or not re.search("[Nn]orm", kind):
        return
    names = {"weight", "bias"} if isinstance(part, nn.LayerNorm) else {"weight"}
    vectors = all(parameter.dim() == 1 for parameter in own.values())
    if not (is_norm(part) and {*own} <= names and vectors):
        raise Misfit(f"the runs of a pack cannot each have their own {kind}")


def table_of(model: Any) -> tuple[str, int]:
    """The path of the learned table of positions and the row of the first token: OPT and
    RoBERTa leave two rows unused. Without a table the path is empty. RoFormer's, which
    turns queries and keys, is not added to token vectors: its rows have another width."""
    width = model.get_input_embeddings().embedding_dim
    for path, part in model.named_modules():
        is_table = isinstance(part, nn.Embedding) and part.embedding_dim == width
        if is_table and TABLE.search(path):
            unused = 0 if part.padding_idx is None else part.padding_idx + 1
            return path, getattr(part, "offset", unused)
    return "", 0


def bare(model: Any) -> Any:
    """The model without token embeddings, table of positions, pooler, and ESM's head for
    contacts, whose shape depends on the number of layers."""
    path, _ = table_of(model)
    if path:
        model.set_submodule(path, Absent())
    for part in ("pooler", "contact_head"):
        if getattr(model, part, None) is not None:
            setattr(model, part, Absent())
    return without_tokens(model)


def without_tokens(model: Any) -> Any:
    """The model without its token embeddings."""
    model.set_input_embeddings(Absent(model.get_input_embeddings().embedding_dim))
    return model


def hidden_states(model: Any, x: Tensor, mask: Tensor | None) -> Tensor:
    """The last hidden states of token vectors `x` (N, T, width). `mask` (N, T), True = a
    real token, goes to the model as integers, which every model takes: some subtract it
    from 1."""
    options = {} if mask is None else {"attention_mask": mask.long()}
    output = model(inputs_embeds=x.clone(), **options)  # CTRL scales its inputs in place
    if not hasattr(output, "last_hidden_state"):
        raise Misfit(f"{type(output).__name__} has no hidden states")
    return output.last_hidden_state
