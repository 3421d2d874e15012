"""How a body starts: published or local weights, or a random draw.

Every body, pretrained or random, is rounded to bfloat16 once, so that no arm has finer weights
than another. Weights are read from safetensors only.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from .backbones import Backbone, gpt2, lstm
from .errors import FptError
from .paths import DATA, PACKAGE
from .rng import generator

State = dict[str, Tensor]  # the body's parameters by name, and "positions" (rows, width)


def folders() -> tuple[Path, ...]:
    """Where local backbones are looked for: shipped with the package, then in the data folder."""
    return (PACKAGE / "shipped", local_folder())


def local_folder() -> Path:
    """Where backbones that are pretrained here are put."""
    return Path(os.environ.get("FPT_BACKBONES", DATA / "backbones"))


def find(spec: Backbone, weights: str) -> Path:
    """The safetensors file behind the identity `weights`: a local name, or `hub:REPO@REVISION`."""
    if weights.startswith("hub:"):
        return _from_hub(*weights.removeprefix("hub:").split("@"))
    for folder in folders():
        path = folder / weights / "model.safetensors"
        if path.is_file():
            return path
    raise FptError(
        f"The weights {weights!r} of backbone {spec.name!r} are in none of "
        f"{', '.join(map(str, folders()))}: pretrain them (fpt pretrain) or copy them there."
    )


def _from_hub(repository: str, revision: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return Path(hf_hub_download(repository, "model.safetensors", revision=revision))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise FptError(
            f"model.safetensors of {repository}@{revision} is neither in the hub cache nor "
            "reachable: unset HF_HUB_OFFLINE on a machine with a network, or point HF_HUB_CACHE "
            "to a cache that has it."
        ) from error


@lru_cache(maxsize=8)
def file_digest(path: Path) -> str:
    """SHA-256 of a weights file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pretrained(spec: Backbone, body: nn.Module, weights: str | None, seed: int) -> State:
    """The weights of a GPT-2 checkpoint, with or without its language-model head."""
    del seed
    if weights is None or spec.family != "gpt2":
        raise FptError(
            f"Backbone {spec.name!r} has no pretrained weights named {weights!r}; "
            "give `weights` for a GPT-2 backbone, or use init 'random'."
        )
    path = find(spec, weights)
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise FptError(
            f"{path} is not a whole safetensors file ({error}); fetch it again."
        ) from error
    stored = {name.removeprefix("transformer."): tensor for name, tensor in stored.items()}
    state = {}
    shapes = {name: parameter.shape for name, parameter in body.named_parameters()}
    shapes["positions"] = torch.Size((spec.positions, spec.width))
    for name, shape in shapes.items():
        source = "wpe.weight" if name == "positions" else name.removeprefix("gpt2.")
        if source not in stored or stored[source].shape != shape:
            found = tuple(stored[source].shape) if source in stored else "nothing"
            raise FptError(
                f"{path} does not fit backbone {spec.name!r}: {source} should be "
                f"{tuple(shape)}, it holds {found}."
            )
        state[name] = stored[source].float()
    return state


def _random(spec: Backbone, body: nn.Module, seed: int, residual_scaled: bool) -> State:
    draw = generator("cpu", seed, "body")
    body = body.to_empty(device="cpu")
    with torch.no_grad():
        if spec.family == "gpt2":
            gpt2.init_(body, draw, residual_scaled)
        else:
            lstm.init_(body, draw)  # type: ignore[arg-type]
    state = {name: parameter.detach() for name, parameter in body.named_parameters()}
    if spec.positions:
        state["positions"] = torch.empty(spec.positions, spec.width).normal_(
            0.0, 0.02, generator=draw
        )
    return state


def random(spec: Backbone, body: nn.Module, weights: str | None, seed: int) -> State:
    """Default start of the paper's day (flat 0.02 for GPT-2), drawn anew for every seed."""
    del weights
    return _random(spec, body, seed, residual_scaled=False)


def random_scaled(spec: Backbone, body: nn.Module, weights: str | None, seed: int) -> State:
    """Default start of today's libraries: residual projections divided by sqrt(2 * layers)."""
    del weights
    return _random(spec, body, seed, residual_scaled=True)


INITS: Mapping[str, Callable[[Backbone, nn.Module, str | None, int], State]] = {
    "pretrained": pretrained,
    "random": random,
    "random-scaled": random_scaled,
}


def body_depends_on_seed(init: str) -> bool:
    """Whether runs that differ in seed have different bodies, and so cannot share one."""
    return init != "pretrained"


def body_state(spec: Backbone, body: nn.Module, init: str, weights: str | None, seed: int) -> State:
    """Initial values for `body` (built on the meta device) and its positions, rounded to bf16."""
    if init not in INITS:
        raise FptError(f"There is no init {init!r}; choose one of {', '.join(INITS)}.")
    state = INITS[init](spec, body, weights, seed)
    return {name: tensor.bfloat16().float() for name, tensor in state.items()}
