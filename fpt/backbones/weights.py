"""Weights of backbones: from an identity to a safetensors file, and from the file to tensors.

An identity is a local name such as nano-english-0, `hub:OWNER/REPO@REVISION`, or
`folder:NAME@DIGEST` of a folder (`fpt.backbones.auto`). Weights are one file, or several that an
index lists. No other format than safetensors is ever opened.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ..files import DATA, NAME, SHIPPED, FptError, read_json
from ..tasks.sources import fetch, file_digest
from . import generic
from .base import FAMILIES, Backbone

State = dict[str, Tensor]  # a backbone's parameters by name, and "positions" (rows, width)
FOLDERS: dict[str, Path] = {}  # by identity, those that were given by path


def local_folder() -> Path:
    """The folder of the backbones that are pretrained here."""
    return Path(os.environ.get("FPT_BACKBONES", DATA / "backbones"))


def check_identity(weights: str) -> None:
    """FptError if `weights` is neither a local name, nor of the form `hub:OWNER/REPO@REVISION`, nor
    `folder:NAME@DIGEST`."""
    if weights.startswith("hub:"):
        names = weights.removeprefix("hub:").replace("@", "/", 1).split("/")
        if len(names) != 3 or not all(map(NAME.fullmatch, names)):
            raise FptError(f"The weights {weights!r} are not of the form hub:OWNER/REPO@REVISION.")
    elif not NAME.fullmatch(weights.removeprefix("folder:")):
        raise FptError(
            f"The weights {weights!r} are no name such as nano-english-0, of letters, digits and "
            "._+@-, and a path is not taken; "
            f"copy the folder into {local_folder()} and give its name."
        )


def folder_of(name: str) -> Path:
    """The folder of this name or identity, whether or not there is one."""
    return FOLDERS.get(name, local_folder() / re.sub("^folder:|@[0-9a-f]{16}$", "", name))


def file_of(weights: str, name: str) -> Path:
    """The file `name` beside the weights of an identity. Local names are looked up in the package,
    then in `local_folder()`. FptError if there is none."""
    check_identity(weights)
    if weights.startswith("hub:"):
        repository, _, revision = weights.removeprefix("hub:").partition("@")
        return fetch(repository, name, revision)
    folders = (SHIPPED / weights, folder_of(weights))
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise FptError(
        f"The weights {weights!r} are in none of {', '.join(str(it.parent) for it in folders)} "
        f"({name} is missing): pretrain them (fpt pretrain) or save them there as safetensors."
    )


def files(weights: str) -> list[Path]:
    """The safetensors files of the identity `weights`: one, or those that its index lists. FptError
    if one is missing."""
    try:
        return [file_of(weights, "model.safetensors")]
    except FptError as error:
        try:
            index = read_json(file_of(weights, "model.safetensors.index.json"))
            names = sorted(map(str, {*index["weight_map"].values()}))
        except (FptError, KeyError, TypeError, AttributeError):
            raise error from None
    return [file_of(weights, name) for name in names]


def find(weights: str) -> Path:
    """The first of the `files`."""
    return files(weights)[0]


def digest(paths: Sequence[Path]) -> str:
    """The SHA-256 of a file, or of those of several files."""
    each = [file_digest(path) for path in paths]
    return each[0] if len(each) == 1 else hashlib.sha256(" ".join(each).encode()).hexdigest()


def stated_digest(path: Path) -> str | None:
    """The SHA-256 that the pretraining metadata beside a weights file states of it; None if there
    are none. (`fetch` compares what comes from the hub.)"""
    metadata = path.with_name("pretraining.json")
    return read_json(metadata).get("weights_digest") if metadata.is_file() else None


def read_weights(spec: Backbone, module: nn.Module, weights: str) -> State:
    """The weights of a checkpoint of the backbone, or of a model around it, in float32. FptError if
    the file is missing, damaged, or does not fit."""
    family, stored = FAMILIES[spec.family], State()
    try:
        for path in files(weights):
            if stated_digest(path) not in (None, file_digest(path)):
                raise SafetensorError("its SHA-256 is not the one that is stated of it")
            stored |= load_file(path)
    except (SafetensorError, OSError) as error:
        raise FptError(
            f"{path} is damaged or not readable ({error}); fetch it or pretrain it again."
        ) from error
    stored = generic.load(module, stored) if spec.inside else family.load(stored)
    shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
    if spec.positions:
        shapes["positions"] = torch.Size((spec.positions, spec.width))
        if family.position_std == 0:
            stored.setdefault("positions", torch.zeros(shapes["positions"]))
    state = {}
    for name, shape in shapes.items():
        tensor = stored.get(name)
        fits = tensor is not None and tensor.shape == shape and tensor.is_floating_point()
        # PyTorch cannot tell whether an 8-bit float is finite.
        if tensor is None or not fits or not tensor.float().isfinite().all():
            found = "nothing" if tensor is None else f"{tuple(tensor.shape)} of {tensor.dtype}"
            raise FptError(
                f"{path} does not fit backbone {spec.name!r}: {name} should be {tuple(shape)} of "
                f"finite floating-point numbers, it holds {found}."
            )
        state[name] = tensor.float()
    return state
