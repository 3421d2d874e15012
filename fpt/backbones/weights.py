"""Weights of backbones: from an identity to a safetensors file, and from the file to
tensors.

An identity is a local name such as nano-english-0, `hub:OWNER/REPO@REVISION`, or
`folder:NAME@DIGEST` of a folder (`fpt.backbones.names`). It says which weights, never where
they are: they are looked up in the package and in `project().backbones`, and a caller that
knows of another `folder` hands it over. Those of the hub, and those that a wheel holds, are
fetched if they are not here (`fpt.backbones.published`). Weights are one file, or several
that an index lists. No other format than safetensors is ever opened here.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ..errors import SHOWN, FptError
from ..files import NAME, read_json
from ..project import SHIPPED, project
from ..tasks.rng import generator
from ..tasks.sources import (
    SHARDS,
    WEIGHTS,
    NoSuchFile,
    Unreachable,
    fetch,
    file_digest,
)
from . import generic
from .base import FAMILIES, STD, Backbone, State
from .published import METADATA, MODELS, PUBLISHED, comes_in_wheel, provided

# Of built-in backbones, those that ship with the package.
OWN_WEIGHTS = {"nano": "nano-english-0"}
LABEL_LENGTH = 83  # with @ and 16 digits of a digest it is as long as a name may be


def without_the_hub() -> str:
    """The names of backbones that need no download from the hub, by where they are, as the
    end of an error."""
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    repositories: Iterable[Any] = ()
    with suppress(CacheNotFound, ValueError):  # a file stands where the cache should be
        repositories = scan_cache_dir(constants.HF_HUB_CACHE).repos
    cached = []
    for repository in repositories:
        for snapshot in repository.revisions:
            files = {file.file_name for file in snapshot.files}
            name = f"{repository.repo_id}@{snapshot.commit_hash}"
            # The list has the configurations of its models.
            has_config = "config.json" in files or f"hub:{name}" in MODELS
            if has_config and files & {WEIGHTS, SHARDS}:
                cached.append(name)
    folders = {path.parent.name for path in project().backbones.glob("*/config.json")}
    places = {
        "in the package": list(OWN_WEIGHTS),
        f"in {project().backbones}": sorted(filter(NAME.fullmatch, folders)),
        "in a wheel that pip fetches": sorted(
            filter(comes_in_wheel, {*PUBLISHED} - folders)
        ),
        "in the cache of the hub": sorted(cached),
    }
    parts = []
    for place, names in places.items():
        more = " and others" if len(names) > SHOWN else ""
        if names:
            parts.append(f"{', '.join(names[:SHOWN])}{more} ({place})")
    return "; ".join(parts)


@contextmanager
def saying_what_needs_no_hub() -> Iterator[None]:
    """FptError with the names that work if the hub is not reached within the block."""
    try:
        yield
    except Unreachable as error:
        reason = str(error).rstrip(".")
        raise FptError(
            f"{reason}; without the hub you can use {without_the_hub()}."
        ) from error


def check_identity(weights: str) -> None:
    """FptError if `weights` is neither a local name, nor of the form
    `hub:OWNER/REPO@REVISION`, nor `folder:NAME@DIGEST`."""
    if weights.startswith("hub:"):
        names = weights.removeprefix("hub:").replace("@", "/", 1).split("/")
        if len(names) != 3 or not all(map(NAME.fullmatch, names)):
            raise FptError(
                f"The weights {weights!r} are not of the form hub:OWNER/REPO@REVISION."
            )
    elif not NAME.fullmatch(weights.removeprefix("folder:")):
        raise FptError(
            f"The weights {weights!r} are not a name such as nano-english-0, of letters, "
            "digits and ._+@-, and a path is not taken; "
            f"copy the folder into {project().backbones} and give its name."
        )


def label_of(folder: Path) -> str:
    """The name of a folder in its identity, a dash in place of each character that NAME
    forbids."""
    label = re.sub(r"[^A-Za-z0-9._+@-]", "-", folder.name).lstrip("._+@-")
    return label[:LABEL_LENGTH] or "model"


def identity_of(folder: Path) -> str:
    """`folder:NAME@DIGEST`, by the content of the configuration and the weights in
    `folder`. FptError if they are missing."""
    name = f"folder:{label_of(folder)}"
    content = digest([folder / "config.json", *files(name, str(folder))])
    return f"{name}@{content[:16]}"


def folder_of(weights: str) -> Path:
    """The folder of local weights: in the package, or in `project().backbones`, whether or
    not there is one. That of a `folder:NAME@DIGEST` is found by its content."""
    check_identity(weights)
    if not weights.startswith("folder:"):
        return (
            SHIPPED / weights
            if (SHIPPED / weights).is_dir()
            else project().backbones / weights
        )
    name = re.sub("^folder:|@[0-9a-f]{16}$", "", weights)
    for folder in sorted([*SHIPPED.glob("*/"), *project().backbones.glob("*/")]):
        with suppress(FptError):  # it holds no whole model
            if label_of(folder) == name and identity_of(folder) == weights:
                return folder
    return project().backbones / name


def file_of(weights: str, name: str, folder: str = "", remember: bool = False) -> Path:
    """The file `name` beside the weights of an identity, in `folder` if one is given;
    `remember` as in `fetch`. NoSuchFile, an FptError, if there is none; FptErrors as of
    `fetch`."""
    check_identity(weights)
    if weights.startswith("hub:"):
        repository, _, revision = weights.removeprefix("hub:").partition("@")
        return fetch(repository, name, revision, remember=remember)
    if comes_in_wheel(weights) and not folder:
        return provided(PUBLISHED[weights], project().backbones) / name
    path = Path(folder or folder_of(weights)) / name
    if path.is_file():
        return path
    if folder:
        raise NoSuchFile(
            f"The folder {folder} holds no complete model ({name} is missing): save it "
            "there as safetensors, as `save_pretrained` does."
        )
    raise NoSuchFile(
        f"The weights {weights!r} are in none of {SHIPPED}, {project().backbones} "
        f"({name} is missing): pretrain them (fpt pretrain) or save them there as "
        "safetensors."
    )


@saying_what_needs_no_hub()
def files(weights: str, folder: str = "", remember: bool = False) -> list[Path]:
    """The safetensors files of the identity `weights`: one, or those that its index lists;
    in `folder` if one is given; `remember` as in `fetch`. FptError if one is missing or
    cannot be read."""
    try:
        return [file_of(weights, WEIGHTS, folder, remember)]
    except (NoSuchFile, Unreachable) as error:
        try:
            index = file_of(weights, SHARDS, folder, remember)
        except (NoSuchFile, type(error)):
            # That the index is missing too says nothing new; another error is the reason.
            raise error from None
    file_by_tensor = read_json(index).get("weight_map")
    if not isinstance(file_by_tensor, dict) or not file_by_tensor:
        raise FptError(f"{index} lists no files of weights; fetch or save it again.")
    names = sorted({*map(str, file_by_tensor.values())})
    return [file_of(weights, name, folder, remember) for name in names]


def find(weights: str) -> Path:
    """The first of the `files`."""
    return files(weights)[0]


def digest(paths: Sequence[Path]) -> str:
    """The SHA-256 of a file, or of those of several files. FptError if one cannot be
    read."""
    digests = [file_digest(path) for path in paths]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def random_positions(architecture: Backbone, draw: torch.Generator) -> Tensor:
    """A new table of positions, (rows, width). It is never zero, not even a ViT's: a token
    of zeros would then reach the first norm as zeros
    (`fpt.training.packing.layers.PackedLinear`)."""
    table = torch.empty(architecture.positions, architecture.width, dtype=torch.float32)
    return table.normal_(0.0, STD, generator=draw)


def stored_tensors(architecture: Backbone, weights: str) -> State:
    """Everything in the files of a checkpoint, by the names there. FptError if one is
    missing or damaged."""
    stored: State = {}
    for path in files(weights, architecture.folder):
        try:
            # What comes from the hub was compared by `fetch`.
            metadata = path.with_name(METADATA)
            if metadata.is_file():
                stated = read_json(metadata).get("weights_digest")
                if stated not in (None, file_digest(path)):
                    raise SafetensorError(f"its SHA-256 is not the one in {METADATA}")
            stored |= load_file(path)
        except (SafetensorError, OSError) as error:
            raise FptError(
                f"{path} is damaged or not readable ({error}); fetch it or pretrain it "
                "again."
            ) from error
    return stored


def read_weights(architecture: Backbone, module: nn.Module, weights: str) -> State:
    """The weights of a checkpoint of the backbone, or of a model around it, in float32.
    FptError if the file is missing, damaged, or does not fit."""
    family = FAMILIES[architecture.family]
    stored = stored_tensors(architecture, weights)
    path = files(weights, architecture.folder)[-1]
    # A generic model is loaded by transformers, which knows how its tensors were called
    # before.
    stored = generic.load(module, stored) if architecture.inside else family.load(stored)
    shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
    if architecture.positions:
        shapes["positions"] = torch.Size((architecture.positions, architecture.width))
        if not family.stores_positions and "positions" not in stored:
            # One table for all runs: a pretrained backbone is the same for every seed.
            draw = generator("cpu", 0, "positions")
            stored["positions"] = random_positions(architecture, draw)
    for name, shape in shapes.items():
        content = "nothing"
        if name in stored:
            tensor = stored[name]
            content = f"{tuple(tensor.shape)} of {tensor.dtype}"
            is_alike = tensor.shape == shape and tensor.is_floating_point()
            # As float32, since PyTorch cannot tell whether an 8-bit float is finite.
            if is_alike and tensor.float().isfinite().all():
                continue
        raise FptError(
            f"{path} does not fit backbone {architecture.name!r}: {name} should be "
            f"{tuple(shape)} of finite floating-point numbers, it holds {content}."
        )
    return {name: stored[name].float() for name in shapes}
