"""Plans of pretraining, on a corpus or a task, and the identities of the weights that they
make.

An identity is BACKBONE-OBJECTIVE-SEED, such as nano-english-0 or vit-nano-cifar10-0. An
objective is a corpus (`corpora`) or a task. Names of backbones and objectives may hold
dashes themselves; of the backbones with which an identity begins, the longest is meant.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..backbones import BACKBONES, backbone
from ..backbones.published import pinned
from ..backbones.weights import check_identity, folder_of
from ..errors import FptError
from ..tasks import get_task
from ..training.settings import SEED, check_value
from .corpora import NAMES, parse

# As many as for the language models that ship with the package.
DEFAULT_TOKENS = 21_000_000
# Settings that differ from the plan's own, for the weights that ship with the package: as
# much as one CPU thread does in tens of minutes.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "bit-memory": {"tokens": 1_920_000},
    "cifar10": {"tokens": 3_000_000, "batch": 32},
}


@dataclass(frozen=True)
class Pretraining:
    """Everything that determines weights made from a corpus; it is written beside them."""

    corpus: str
    backbone: str
    tokens: int
    seed: int = 0
    context: int = 256  # tokens per sequence
    batch: int = 16  # sequences per step
    lr: float = 2e-3  # peak; linear warm-up, cosine decay to zero
    warmup: int = 200  # steps
    weight_decay: float = 0.1
    clip: float = 1.0

    @property
    def step_tokens(self) -> int:
        return self.batch * self.context

    @property
    def steps(self) -> int:
        return math.ceil(self.tokens / self.step_tokens)

    @property
    def name(self) -> str:
        """The identity of the resulting weights."""
        return f"{self.backbone}-{self.corpus}-{self.seed}"


@dataclass(frozen=True)
class TaskPretraining:
    """Everything that determines weights made from a task; it is written beside them."""

    task: str
    backbone: str
    tokens: int
    seed: int = 0
    batch: int = 16  # sequences per step
    lr: float = 1e-3  # Adam, constant
    dropout: float = 0.0

    @property
    def steps(self) -> int:
        return math.ceil(self.tokens / (self.batch * get_task(self.task).length))

    @property
    def name(self) -> str:
        """The identity of the resulting weights."""
        return f"{self.backbone}-{self.task}-{self.seed}"


Plan = Pretraining | TaskPretraining


def make_plan(objective: str, name: str, seed: int = 0) -> Plan:
    """The plan for `objective`, a corpus or a task, on the backbone `name`. A corpus whose
    name gives no number of tokens has as many as for the weights that ship with the
    package. FptError if nothing can be pretrained so."""
    # First, because it is an FptError if there is no such backbone.
    backbone(name)
    check_value("seed", seed, SEED)
    if objective in SETTINGS:
        return TaskPretraining(objective, name, seed=seed, **SETTINGS[objective])
    plan = Pretraining(objective, name, parse(objective).most or DEFAULT_TOKENS, seed)
    return replace(plan, warmup=max(1, min(plan.warmup, plan.steps // 5)))


def plan_of(identity: str) -> Plan:
    """The plan behind a local identity BACKBONE-OBJECTIVE-SEED; FptError if there is
    none."""
    names = "|".join(map(re.escape, sorted(BACKBONES, key=len, reverse=True)))
    parts = re.fullmatch(f"({names})-(.+)-(0|[1-9][0-9]*)", identity)
    try:
        if parts is None:
            raise FptError("The name has no such parts.")
        name, objective, seed = parts.groups()
        return make_plan(objective, name, int(seed))
    except FptError as error:
        raise FptError(
            f"The weights {identity!r} cannot be made here: they are not "
            "BACKBONE-OBJECTIVE-SEED with a backbone and a corpus or task "
            f"({', '.join((*NAMES, *SETTINGS))}), such as nano-english-0."
        ) from error


def check_weights(name: str) -> None:
    """FptError unless `name` may be an identity of weights, with {seed} for a seed. Those
    of a folder need not be here, since records name them too; but a name that begins with a
    backbone has to be a plan."""
    weights = pinned(name).replace("{seed}", "0")
    check_identity(weights)
    if weights.startswith("folder:"):
        if not re.search("@[0-9a-f]{16}$", weights):
            raise FptError(
                f"The weights {weights!r} do not say which content the folder has: give "
                "folder:NAME@DIGEST, or the name alone of a folder of backbones."
            )
    elif not weights[-1].isalnum():
        raise FptError(f"The weights {weights!r} must end in a letter or a digit.")
    names_backbone = weights.startswith(tuple(f"{name}-" for name in BACKBONES))
    if names_backbone and not folder_of(weights).is_dir():
        plan_of(weights)
