"""Weights of backbones: from an identity to a safetensors file, and from the file to tensors.

An identity is a local name such as nano-english-0, or `hub:OWNER/REPO@REVISION`. No other format
than safetensors is ever opened.
"""

import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ..files import DATA, NAME, SHIPPED, FptError, read_json
from ..tasks.sources import fetch, file_digest
from .base import FAMILIES, Backbone

State = dict[str, Tensor]  # a backbone's parameters by name, and "positions" (rows, width)


def local_folder() -> Path:
    """The folder of the backbones that are pretrained here."""
    return Path(os.environ.get("FPT_BACKBONES", DATA / "backbones"))


def check_identity(weights: str) -> None:
    """FptError if `weights` is neither a local name nor of the form `hub:OWNER/REPO@REVISION`."""
    if weights.startswith("hub:"):
        names = weights.removeprefix("hub:").replace("@", "/", 1).split("/")
        if len(names) != 3 or not all(map(NAME.fullmatch, names)):
            raise FptError(f"The weights {weights!r} are not of the form hub:OWNER/REPO@REVISION.")
    elif not NAME.fullmatch(weights):
        raise FptError(
            f"The weights {weights!r} are no name such as nano-english-0, and a path is not taken; "
            f"copy the folder into {local_folder()} and give its name."
        )


def find(weights: str) -> Path:
    """The safetensors file of the identity `weights`. Local names are looked up in the package,
    then in `local_folder()`. FptError if there is none."""
    check_identity(weights)
    if weights.startswith("hub:"):
        repository, _, revision = weights.removeprefix("hub:").partition("@")
        return fetch(repository, "model.safetensors", revision)
    folders = (SHIPPED, local_folder())
    for folder in folders:
        path = folder / weights / "model.safetensors"
        if path.is_file():
            return path
    raise FptError(
        f"The weights {weights!r} are in none of {', '.join(map(str, folders))}: pretrain them "
        "(fpt pretrain) or copy them there."
    )


def stated_digest(path: Path) -> str | None:
    """The SHA-256 that the pretraining metadata beside a weights file states of it; None if there
    are none. (`fetch` compares what comes from the hub.)"""
    metadata = path.with_name("pretraining.json")
    return read_json(metadata).get("weights_digest") if metadata.is_file() else None


def read_weights(spec: Backbone, module: nn.Module, weights: str) -> State:
    """The weights of a checkpoint of the backbone, or of a model around it, in float32. FptError if
    the file is missing, damaged, or does not fit."""
    path = find(weights)
    try:
        if stated_digest(path) not in (None, file_digest(path)):
            raise SafetensorError("its SHA-256 is not the one that is stated of it")
        family = FAMILIES[spec.family]
        stored = family.load(load_file(path))
    except (SafetensorError, OSError) as error:
        raise FptError(
            f"{path} is damaged or not readable ({error}); fetch it or pretrain it again."
        ) from error
    shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
    if spec.positions:
        shapes["positions"] = torch.Size((spec.positions, spec.width))
        if family.position_std == 0:
            stored.setdefault("positions", torch.zeros(shapes["positions"]))
    state = {}
    for name, shape in shapes.items():
        tensor = stored.get(name)
        fits = tensor is not None and tensor.shape == shape and tensor.is_floating_point()
        if tensor is None or not fits or not tensor.isfinite().all():
            found = "nothing" if tensor is None else f"{tuple(tensor.shape)} of {tensor.dtype}"
            raise FptError(
                f"{path} does not fit backbone {spec.name!r}: {name} should be {tuple(shape)} of "
                f"finite floating-point numbers, it holds {found}."
            )
        state[name] = tensor.float()
    return state
