"""A body as a folder that `fpt.weights` reads: config.json, model.safetensors in bf16."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from ..backbones import Backbone
from ..errors import FptError
from ..files import read_json, write_atomic, write_json
from ..weights import file_digest


def write_body(
    folder: Path,
    spec: Backbone,
    state: Mapping[str, Tensor],
    others: Mapping[str, Tensor] | None = None,
) -> None:
    """Write `state` (the body's parameters by name, and `positions` where it has them), rounded to
    bf16 as every frozen body is, and `others`, which belong to a model around it.

    GPT-2 takes the names that transformers gives it, with a table of one word, a vector of zeros
    that stands for those it has never had: `GPT2Model.from_pretrained` reads it whole.
    """
    tensors = {**state, **(others or {})}
    config = asdict(spec)
    if spec.family == "gpt2":
        from transformers import GPT2Config

        tensors["wpe.weight"] = tensors.pop("positions")
        tensors["wte.weight"] = torch.zeros(1, spec.width)
        tensors = {name.removeprefix("gpt2."): tensor for name, tensor in tensors.items()}
        config = GPT2Config(
            vocab_size=1,
            n_positions=spec.positions,
            n_embd=spec.width,
            n_layer=spec.layers,
            n_head=spec.heads,
            bos_token_id=0,
            eos_token_id=0,
            architectures=["GPT2Model"],
        ).to_diff_dict()
    rounded = {
        name: tensor.detach().cpu().bfloat16().contiguous() for name, tensor in tensors.items()
    }
    write_json(folder / "config.json", config)
    write_atomic(folder / "model.safetensors", save(rounded, metadata={"format": "pt"}))


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
