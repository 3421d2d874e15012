"""A pretrained backbone as a folder, and its pretraining metadata, kept with the records.

The folder holds config.json, model.safetensors in bf16, and pretraining.json: what the
backbone was trained on and how well it learned. `fpt.backbones.weights` reads it; GPT-2's
is also one for `GPT2Model.from_pretrained`.

Weights are too large for Git and can be made again. A copy of pretraining.json is kept in
the folder `bodies` of the records, so that a report can be rendered, and its held-out
losses checked, without weights. Backbones that ship with the package have theirs there.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ..backbones.generic.gguf import save_rounded
from ..backbones.weights import file_digest, folder_of
from ..errors import FptError
from ..files import NAME, read_json, write_atomic, write_json
from ..project import project
from ..records import digest
from ..records.content import parse_metadata

log = logging.getLogger("fpt")
CHECKPOINT = "checkpoint.safetensors"
COPIES = "bodies"  # the subfolder of records that holds the copies


def write(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, Any],
    tokenizer: str | None = None,
) -> None:
    """Write config.json, tokenizer.json of a text, model.safetensors (rounded to bf16 as
    every frozen backbone is), and, last, pretraining.json; then remove the checkpoint."""
    write_atomic(folder / "config.json", json.dumps(config, indent=1).encode())
    if tokenizer is not None:
        write_atomic(folder / "tokenizer.json", tokenizer.encode())
    path = folder / "model.safetensors"
    save_rounded({name: tensor.detach().cpu() for name, tensor in tensors.items()}, path)
    measured = {
        "weight_scale": weight_scale(load_file(path)),
        "weights_digest": file_digest(path),
    }
    # Last, because a folder that has it counts as finished.
    write_json(folder / "pretraining.json", {**metadata, **measured})
    (folder / CHECKPOINT).unlink(missing_ok=True)


def weight_scale(tensors: Mapping[str, Tensor]) -> float:
    """The standard deviation of the entries of all matrices, taken together, but for the
    tables of tokens and positions."""
    tables = ("wte.weight", "wpe.weight", "words", "positions")
    entries = [
        tensor.double().flatten()
        for name, tensor in tensors.items()
        if tensor.ndim == 2 and not name.endswith(tables)
    ]
    return torch.cat(entries).std().item()


def finished(folder: Path, **expected: Any) -> bool:
    """Whether `folder` holds whole weights whose pretraining metadata have the `expected`
    values: the plan, a digest of the data."""
    weights = folder / "model.safetensors"
    try:
        metadata = read_json(folder / "pretraining.json")
    except FptError:
        # It is missing or damaged, so the weights are made again.
        return False
    expected["weights_digest"] = file_digest(weights) if weights.is_file() else "none"
    return all(metadata.get(name) == value for name, value in expected.items())


def copy_of(records: Path, weights: str) -> Path:
    """The path of the copy in a folder of records."""
    return records / COPIES / f"{weights}.json"


def beside(weights: str) -> dict[str, Any]:
    """The metadata beside local weights; empty if they are not here."""
    # Not `find`, which would fetch the weights of a wheel: a page does not need them.
    folder = folder_of(weights)
    path = folder / "pretraining.json"
    is_here = path.is_file() and (folder / "model.safetensors").is_file()
    return read_json(path) if is_here else {}


def keep(records: Path, weights: Iterable[str]) -> dict[str, str]:
    """Copy the metadata of those `weights` that were made here; returns the digests of all
    copies.

    An existing copy stays, because the recorded runs are of that backbone; if the weights
    here are others, this warns.
    """
    digests: dict[str, str] = {}
    for name in filter(NAME.fullmatch, weights):
        copy = copy_of(records, name)
        is_made_here = folder_of(name).parent == project().backbones
        original = beside(name) if is_made_here else {}
        if original and not copy.exists():
            write_json(copy, original | {"digest": digest(original)})
        if copy.exists():
            kept = read(records, name)
            digests[name] = kept["digest"]
            if original and original.get("weights_digest") != kept.get("weights_digest"):
                log.warning(
                    f"The weights {name} here are others than those of runs; see {copy}."
                )
    return digests


def read(records: Path, weights: str) -> dict[str, Any]:
    """The copy with the records, or else the metadata beside the weights; empty if there is
    neither. FptError if the copy was damaged or edited."""
    if not NAME.fullmatch(weights):
        return {}
    copy = copy_of(records, weights)
    if not copy.exists():
        return beside(weights)
    try:
        return parse_metadata(copy.read_bytes())
    except ValueError as error:
        raise FptError(
            f"{copy} is not what was written when {weights} was pretrained ({error}); "
            "restore it, or remove it if the weights are here."
        ) from error
