"""The weights that a tier reads: looked up, fetched, or pretrained if it trains here."""

import math
from collections.abc import Iterable
from pathlib import Path

from ..backbones.published import comes_in_wheel
from ..backbones.weights import WEIGHTS, digest, file_digest, files, folder_of
from ..errors import FptError
from ..files import lock, set_aside, write_json
from ..project import project
from . import metadata, on_corpus, on_task
from .plans import Plan, Pretraining, plan_of
from .released import fetch_released


def pretrain(plan: Plan, out: Path, *, budget: float = math.inf) -> bool:
    """Train `plan` into the folder `out`; True when finished, False when `budget` seconds
    ran out.

    An interrupted training leaves `out/checkpoint.safetensors` and resumes from there; a
    finished one is not repeated. FptError if nothing can be trained so.
    """
    # Two processes would train it twice, and write one checkpoint.
    with lock(out.with_name(f".{out.name}.lock"), wait=True):
        if isinstance(plan, Pretraining):
            return on_corpus.pretrain(plan, out, budget=budget)
        return on_task.pretrain(plan, out, budget=budget)


def set_aside_if_damaged(identity: str) -> None:
    """Move weights that were made here out of the way if they are not what their metadata
    say, so that they count as missing."""
    stated = metadata.beside(identity).get("weights_digest")
    folder = folder_of(identity)
    is_made_here = stated is not None and folder.parent == project().backbones
    if is_made_here and file_digest(folder / WEIGHTS) != stated:
        set_aside(folder, "its SHA-256 is not the stated one", "counts as missing")


def ensure_weights(weights: Iterable[str], train_here: bool) -> list[str]:
    """Fetch those of `weights` that are missing, or pretrain them, if `train_here`, and
    list the digests of all in data/backbones/manifest.json, null for those that are
    missing. Returns a sentence for each. FptError if `train_here` and weights can be
    neither fetched nor pretrained."""
    digests: dict[str, str | None] = dict.fromkeys(weights)
    sentences = []
    for identity in digests:
        set_aside_if_damaged(identity)
    try:
        fetch_released(digests)
    except FptError as error:
        if train_here:
            # Pretraining all of them would take hours, and round otherwise.
            raise
        sentences.append(str(error))
    for identity in digests:
        state = "present"
        try:
            digests[identity] = digest(files(identity, remember=True))
        except FptError as error:
            if not train_here:
                state = f"not here, and nothing is trained here. {error}"
            elif identity.startswith("hub:") or comes_in_wheel(identity):
                # These are fetched, never trained.
                raise
            else:
                pretrain(plan_of(identity), project().backbones / identity)
                digests[identity] = digest(files(identity))
                state = "pretrained"
        sentences.append(f"{identity}: {state}")
    write_json(project().data / "backbones" / "manifest.json", digests)
    return sentences
