"""A body as a folder that `fpt.backbones.weights` reads: config.json, model.safetensors in bf16."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from ..backbones import Backbone
from ..backbones.weights import file_digest
from ..files import FptError, read_json, write_atomic


def body_config(spec: Backbone) -> dict[str, Any]:
    """config.json of a body alone; that of GPT-2 is for `GPT2Model.from_pretrained`."""
    if spec.family != "gpt2":
        return asdict(spec)
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=1,
        n_positions=spec.positions,
        n_embd=spec.width,
        n_layer=spec.layers,
        n_head=spec.heads,
        bos_token_id=0,
        eos_token_id=0,
        architectures=["GPT2Model"],
    ).to_diff_dict()


def write_body(folder: Path, spec: Backbone, state: Mapping[str, Tensor]) -> None:
    """Write `state`: the body's parameters by name, and `positions` where it has them.

    GPT-2 takes the names that transformers gives it, with a table of one word, a vector of zeros
    that stands for those it has never had: `GPT2Model.from_pretrained` reads it whole.
    """
    tensors = dict(state)
    if spec.family == "gpt2":
        tensors["wpe.weight"] = tensors.pop("positions")
        tensors["wte.weight"] = torch.zeros(1, spec.width)
        tensors = {name.removeprefix("gpt2."): tensor for name, tensor in tensors.items()}
    describe(folder, body_config(spec))
    write_weights(folder, tensors)


def write_weights(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """model.safetensors, rounded to bf16 as every frozen body is."""
    rounded = {
        name: tensor.detach().cpu().bfloat16().contiguous() for name, tensor in tensors.items()
    }
    write_atomic(folder / "model.safetensors", save(rounded, metadata={"format": "pt"}))


def describe(folder: Path, config: Mapping[str, Any], tokenizer: str | None = None) -> None:
    """config.json, and tokenizer.json of a text, unless they are there and say the same."""
    files = {"config.json": json.dumps(config, indent=1)}
    if tokenizer is not None:
        files["tokenizer.json"] = tokenizer
    for name, text in files.items():
        if not _says(folder / name, text):
            write_atomic(folder / name, text.encode())


def _says(path: Path, text: str) -> bool:
    with suppress(OSError, ValueError, RecursionError):
        return bool(json.loads(path.read_bytes()) == json.loads(text))
    return False


def finished(folder: Path, **said: Any) -> bool:
    """Whether `folder` holds weights whose notes say all this: the plan, a digest of the data."""
    notes, weights = folder / "pretraining.json", folder / "model.safetensors"
    if not (notes.is_file() and weights.is_file()):
        return False
    said["weights_digest"] = file_digest(weights)
    try:
        found = read_json(notes)
    except FptError:  # damaged: to be made again
        return False
    return all(found.get(name) == value for name, value in said.items())
