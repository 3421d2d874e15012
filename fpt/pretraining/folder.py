"""A pretrained backbone as a folder: config.json, model.safetensors in bf16, pretraining.json.

`fpt.backbones.weights` reads it; GPT-2's is also one for `GPT2Model.from_pretrained`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from ..backbones.weights import file_digest
from ..files import FptError, read_json, write_atomic, write_json

CHECKPOINT = "checkpoint.safetensors"


def gpt2_tensors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of a GPT-2 and its `positions` by the names of transformers, with token
    embeddings of one token, a vector of zeros for those that it never had."""
    width = state["positions"].shape[1]
    tensors = {name.removeprefix("gpt2."): tensor for name, tensor in state.items()}
    return {"wpe.weight": tensors.pop("positions"), "wte.weight": torch.zeros(1, width)} | tensors


def write(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, Any],
    tokenizer: str | None = None,
) -> None:
    """Write config.json, tokenizer.json of a text, model.safetensors (rounded to bf16 as every
    frozen backbone is), and, last, pretraining.json; then remove the checkpoint."""
    write_atomic(folder / "config.json", json.dumps(config, indent=1).encode())
    if tokenizer is not None:
        write_atomic(folder / "tokenizer.json", tokenizer.encode())
    rounded = {
        name: tensor.detach().cpu().bfloat16().contiguous() for name, tensor in tensors.items()
    }
    path = folder / "model.safetensors"
    write_atomic(path, save(rounded, metadata={"format": "pt"}))
    write_json(folder / "pretraining.json", {**metadata, "weights_digest": file_digest(path)})
    (folder / CHECKPOINT).unlink(missing_ok=True)


def finished(folder: Path, **expected: Any) -> bool:
    """Whether `folder` holds weights whose pretraining metadata have the `expected` values: the
    plan, a digest of the data."""
    metadata, weights = folder / "pretraining.json", folder / "model.safetensors"
    if not (metadata.is_file() and weights.is_file()):
        return False
    try:
        found = read_json(metadata)
    except FptError:  # damaged: to be made again
        return False
    expected["weights_digest"] = file_digest(weights)
    return all(found.get(name) == value for name, value in expected.items())
