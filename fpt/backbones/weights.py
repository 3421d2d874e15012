"""How a body starts: published or local weights, or a random draw.

Every body, pretrained or random, is rounded to bfloat16 once, so that no arm has finer weights
than another. Weights are read from safetensors only.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from ..files import DATA, NAME, SHIPPED, FptError, read_json
from ..tasks.hub import fetch, file_digest
from ..tasks.rng import generator
from . import FAMILIES, Backbone, gpt2
from . import initialisations as inits
from .common import matrices
from .initialisations import State

Init = Callable[[Backbone, nn.Module, str | None, int], State]


def folders() -> tuple[Path, ...]:
    """Where local backbones are looked for: shipped with the package, then in the data folder."""
    return (SHIPPED, local_folder())


def local_folder() -> Path:
    """Where backbones that are pretrained here are put."""
    return Path(os.environ.get("FPT_BACKBONES", DATA / "backbones"))


def check_identity(weights: str) -> None:
    """FptError if `weights` is neither a local name nor of the form `hub:OWNER/REPO@REVISION`."""
    if weights.startswith("hub:"):
        repository, at, revision = weights.removeprefix("hub:").partition("@")
        if not at:
            raise FptError(f"The weights {weights!r} name no revision: write hub:REPO@REVISION.")
        if not all(map(NAME.fullmatch, (*repository.split("/"), revision))):
            raise FptError(f"The weights {weights!r} are not of the form hub:OWNER/REPO@REVISION.")
    elif not NAME.fullmatch(weights):
        raise FptError(
            f"The weights {weights!r} are no name such as nano-english-0, and a path is not taken; "
            f"copy the folder into {local_folder()} and give its name."
        )


def find(spec: Backbone, weights: str) -> Path:
    """The safetensors file behind the identity `weights`: a local name, or `hub:REPO@REVISION`."""
    check_identity(weights)
    if weights.startswith("hub:"):
        repository, _, revision = weights.removeprefix("hub:").partition("@")
        return fetch(repository, "model.safetensors", revision)
    for folder in folders():
        path = folder / weights / "model.safetensors"
        if path.is_file():
            return path
    raise FptError(
        f"The weights {weights!r} of backbone {spec.name!r} are in none of "
        f"{', '.join(map(str, folders()))}: pretrain them (fpt pretrain) or copy them there."
    )


def stated_digest(path: Path) -> str | None:
    """The SHA-256 that a weights file should have: by the notes of its pretraining beside it, or by
    its own name in the hub's cache. None where nothing says."""
    notes = path.with_name("pretraining.json")
    if notes.is_file():
        return read_json(notes).get("weights_digest")
    name = path.resolve().name
    return name if re.fullmatch("[0-9a-f]{64}", name) else None


def pretrained(spec: Backbone, body: nn.Module, weights: str | None, seed: int) -> State:
    """The weights of a checkpoint of the body, or of a model around it."""
    del seed
    if weights is None:
        raise FptError(
            f"Init 'pretrained' of backbone {spec.name!r} needs `weights`, a local name or "
            "hub:REPO@REVISION; or use init 'random'."
        )
    path = find(spec, weights)
    if stated_digest(path) not in (None, file_digest(path)):
        raise FptError(
            f"{path} is damaged or another's: its SHA-256 is not the one that is stated of it; "
            "fetch it again, or pretrain it again (fpt pretrain)."
        )
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise FptError(
            f"{path} is not a whole safetensors file ({error}); fetch it again."
        ) from error
    load = FAMILIES[spec.family].load
    stored = load(spec, stored) if load else stored
    state = {}
    shapes = {name: parameter.shape for name, parameter in body.named_parameters()}
    if spec.positions:
        shapes["positions"] = torch.Size((spec.positions, spec.width))
    for name, shape in shapes.items():
        if name not in stored or stored[name].shape != shape:
            found = tuple(stored[name].shape) if name in stored else "nothing"
            raise FptError(
                f"{path} does not fit backbone {spec.name!r}: {name} should be "
                f"{tuple(shape)}, it holds {found}."
            )
        state[name] = stored[name].float()
        if not stored[name].is_floating_point() or not state[name].isfinite().all():
            raise FptError(
                f"{path} does not fit backbone {spec.name!r}: {name} holds values that are not "
                "finite floating-point numbers; fetch it again."
            )
    return state


def _random(
    spec: Backbone, body: nn.Module, seed: int, init_: Callable[[nn.Module, torch.Generator], None]
) -> State:
    draw = generator("cpu", seed, "body")
    body = body.to_empty(device="cpu")
    with torch.no_grad():
        init_(body, draw)
    state = {name: parameter.detach() for name, parameter in body.named_parameters()}
    if spec.positions:
        state["positions"] = torch.empty(spec.positions, spec.width).normal_(
            0.0, FAMILIES[spec.family].position_std, generator=draw
        )
    return state


def random(spec: Backbone, body: nn.Module, weights: str | None, seed: int) -> State:
    """Default start of the paper's day (flat 0.02 for GPT-2), drawn anew for every seed."""
    del weights
    return _random(spec, body, seed, FAMILIES[spec.family].init_)


def random_scaled(spec: Backbone, body: nn.Module, weights: str | None, seed: int) -> State:
    """Default start of today's libraries: residual projections divided by sqrt(2 * layers)."""
    del weights
    if spec.family != "gpt2":
        raise FptError(
            f"Init 'random-scaled' is GPT-2's; backbone {spec.name!r} is of family "
            f"{spec.family!r}: use init 'random'."
        )
    return _random(spec, body, seed, partial(gpt2.init_, residual_scaled=True))


def random_at_scale(spec: Backbone, body: nn.Module, weights: str | None, seed: int) -> State:
    """The start `random`, with all matrices multiplied by one factor, so that their standard
    deviation over the whole backbone is that of the pretrained matrices."""
    read = pretrained(spec, body, weights, seed)
    fresh = random(spec, body, weights, seed)
    names = [name for name, _, _ in matrices(body)]
    wanted, drawn = (torch.cat([it[name].flatten() for name in names]) for it in (read, fresh))
    factor = (wanted.double().std() / drawn.double().std()).item()
    return fresh | {name: fresh[name] * factor for name in names}


def _kept(*parts: inits.Part) -> Init:
    """Some parts pretrained, the others of `random`: which of them carries the effect?"""

    def start(spec: Backbone, body: nn.Module, weights: str | None, seed: int) -> State:
        read = pretrained(spec, body, weights, seed)
        return inits.joined(spec, parts, read, random(spec, body, weights, seed))

    return start


def _from_pretrained(change: Callable[[Backbone, nn.Module, State, int], State]) -> Init:
    def start(spec: Backbone, body: nn.Module, weights: str | None, seed: int) -> State:
        return change(spec, body, pretrained(spec, body, weights, seed), seed)

    return start


INITS: Mapping[str, Init] = {
    "pretrained": pretrained,
    "random": random,
    "random-scaled": random_scaled,
    "random-at-scale": random_at_scale,
    "statistics-tensor": _from_pretrained(partial(inits.resampled, level="tensor")),
    "statistics-layer": _from_pretrained(partial(inits.resampled, level="layer")),
    "statistics-global": _from_pretrained(partial(inits.resampled, level="global")),
    "shuffled": _from_pretrained(inits.shuffled),
    "permuted-rows": _from_pretrained(inits.permuted_rows),
    "random-body": _kept("layernorm", "positions"),
    "random-layernorm": _kept("body", "positions"),
    "random-positions": _kept("body", "layernorm"),
    "pretrained-body": _kept("body"),
    "pretrained-layernorm": _kept("layernorm"),
    "pretrained-positions": _kept("positions"),
}


def reads_weights(init: str) -> bool:
    """Whether the start `init` needs pretrained weights, if only for their statistics."""
    return init not in ("random", "random-scaled")


def body_depends_on_seed(init: str) -> bool:
    """Whether runs that differ in seed have different bodies, and so cannot share one."""
    return init not in ("pretrained", "random-layernorm")  # a norm starts as 1 and 0, not by chance


def body_state(spec: Backbone, body: nn.Module, init: str, weights: str | None, seed: int) -> State:
    """Initial values for `body` (built on the meta device) and its positions, rounded to bf16."""
    if init not in INITS:
        raise FptError(f"There is no init {init!r}; choose one of {', '.join(INITS)}.")
    state = INITS[init](spec, body, weights, seed)
    return {name: tensor.bfloat16().float() for name, tensor in state.items()}
