"""Identities of local weights, the plan behind each, and the weights that a profile reads, which
are looked up, or pretrained if the profile trains here.

An identity is BACKBONE-OBJECTIVE-SEED, such as nano-english-0 or vit-nano-cifar10-0. An objective
is a corpus (`corpora`) or a task. Names of backbones and objectives may hold dashes themselves; of
the backbones with which an identity begins, the longest is meant.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ..backbones import BACKBONES, backbone
from ..backbones.published import comes_in_wheel
from ..backbones.weights import (
    check_identity,
    digest,
    files,
    local_folder,
)
from ..files import DATA, SHIPPED, FptError, write_json
from ..tasks import Task, get_task
from ..tasks.base import FiniteTask
from . import on_corpus, on_task
from .corpora import NAMES, parse
from .on_corpus import Pretraining
from .on_task import SETTINGS, TaskPretraining

Plan = Pretraining | TaskPretraining

# As many as for the language models that ship with the package.
DEFAULT_TOKENS = 21_000_000
# A corpus is held in memory, with two bytes a token.
MOST_TOKENS = 10**10


def make_plan(objective: str, name: str, seed: int = 0) -> Plan:
    """The plan for `objective`, a corpus or a task, on the backbone `name`. A corpus whose name
    gives no number of tokens has as many as for the weights that ship with the package. FptError if
    nothing can be pretrained so."""
    # First, because it is an FptError if there is no such backbone.
    backbone(name)
    if not 0 <= seed < 2**63:
        raise FptError(f"The seed must be from 0 to below 2^63, not {seed}.")
    if objective in SETTINGS:
        return TaskPretraining(objective, name, seed=seed, **SETTINGS[objective])
    plan = Pretraining(
        objective,
        name,
        parse(objective).most or DEFAULT_TOKENS,
        seed,
    )
    if plan.tokens > MOST_TOKENS:
        raise FptError(f"A corpus has at most {MOST_TOKENS:,} tokens here, not {plan.tokens:,}.")
    return replace(plan, warmup=max(1, min(plan.warmup, plan.steps // 5)))


def plan_of(identity: str) -> Plan:
    """The plan behind a local identity BACKBONE-OBJECTIVE-SEED; FptError if there is none."""
    names = "|".join(map(re.escape, sorted(BACKBONES, key=len, reverse=True)))
    parts = re.fullmatch(f"({names})-(.+)-(0|[1-9][0-9]*)", identity)
    try:
        if parts is None:
            raise FptError("The name has no such parts.")
        name, objective, seed = parts.groups()
        return make_plan(objective, name, int(seed))
    except FptError as error:
        raise FptError(
            f"The weights {identity!r} cannot be made here: they are not BACKBONE-OBJECTIVE-SEED "
            f"with a backbone and a corpus or task ({', '.join((*NAMES, *SETTINGS))}), such as "
            "nano-english-0."
        ) from error


def shares_data(weights: str, task: Task) -> bool:
    """Whether weights were made here from a task, or with the labels of its data."""
    try:
        plan = plan_of(weights)
    except FptError:  # published weights
        return False
    if not isinstance(plan, TaskPretraining):
        return False
    source = get_task(plan.task)
    both = isinstance(source, FiniteTask) and isinstance(task, FiniteTask)
    return source.name == task.name or (both and source.dataset.key == task.dataset.key)  # type: ignore[attr-defined]


def check_name(weights: str) -> None:
    """FptError unless `weights` may be an identity of weights. Those of a folder need not be here,
    since records name them too; but a name that begins with a backbone has to be a plan."""
    check_identity(weights)
    if weights.startswith("folder:") and not re.search("@[0-9a-f]{16}$", weights):
        raise FptError(
            f"The weights {weights!r} do not say which content the folder has: give "
            "folder:NAME@DIGEST, or the name alone of a folder of backbones."
        )
    if not weights[-1].isalnum():
        raise FptError(f"The weights {weights!r} must end in a letter or a digit.")
    is_here = any((folder / weights).is_dir() for folder in (SHIPPED, local_folder()))
    if not is_here and weights.startswith(tuple(f"{name}-" for name in BACKBONES)):
        plan_of(weights)


def pretrain(
    plan: Plan,
    out: Path,
    *,
    budget: float = math.inf,
    compiled: bool = False,
) -> bool:
    """Train `plan` into `out`; True when finished, False when `budget` seconds ran out."""
    if isinstance(plan, Pretraining):
        return on_corpus.pretrain(plan, out, budget=budget, compiled=compiled)
    return on_task.pretrain(plan, out, budget=budget)


def ensure_weights(weights: Iterable[str], train_here: bool) -> list[str]:
    """Pretrain those of `weights` that are missing, if `train_here`, and list the digests of all in
    data/backbones/manifest.json, null for those that are missing. Returns a sentence for each.
    FptError if `train_here` and weights can be neither found nor pretrained."""
    digests: dict[str, str | None] = dict.fromkeys(weights)
    sentences = []
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
                pretrain(plan_of(identity), local_folder() / identity)
                digests[identity] = digest(files(identity))
                state = "pretrained"
        sentences.append(f"{identity}: {state}")
    write_json(DATA / "backbones" / "manifest.json", digests)
    return sentences
