"""What is estimated when a body is pretrained on a corpus, and which tokens each step takes.

Sequences are shorter than the 1,024 positions; each starts at a random offset, so that every
position is trained (a recurrent body has none).
"""

import hashlib
import math
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ..backbones import backbone
from ..spec import canonical
from ..tasks.rng import generator

POSITIONS = 1024
OFFSET = 64  # sequences start at multiples of this position


@dataclass(frozen=True)
class Pretraining:
    """What is estimated when a body is pretrained; all of it is written beside the weights."""

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
    def steps(self) -> int:
        return math.ceil(self.tokens / (self.batch * self.context))

    @property
    def name(self) -> str:
        """The identity of the resulting weights."""
        return f"{self.backbone}-{self.corpus}-{self.seed}"


@dataclass(frozen=True)
class Adaptation(Pretraining):
    """A pretraining whose body does not begin anew: it starts as `init` says
    (`fpt.backbones.weights`), and the table of words alone is drawn. `frozen`: its matrices stay as
    they start; words, positions and norms are trained."""

    init: str = "random"
    weights: str | None = None
    frozen: bool = False

    @property
    def key(self) -> str:
        """16 hexadecimal digits that name its record."""
        return hashlib.sha256(canonical(asdict(self)).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """For a reader: `english after nano-nesting@5M-0, body frozen`."""
        start = self.weights or f"{self.backbone} at random"
        return f"{self.corpus} after {start}" + (", body frozen" if self.frozen else "")


P = TypeVar("P", bound=Pretraining)


def fitted(plan: P) -> P:
    """`plan` with a warm-up that is short where it is short."""
    return replace(plan, warmup=max(1, min(plan.warmup, plan.steps // 5)))


def learning_rate(plan: Pretraining, step: int) -> float:
    if step < plan.warmup:
        return plan.lr * (step + 1) / plan.warmup
    done = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
    return plan.lr * 0.5 * (1 + math.cos(math.pi * done))


def batch_at(plan: Pretraining, tokens: np.ndarray, step: int, order: Tensor) -> tuple[Tensor, ...]:
    """Ids and positions of step `step`, both (batch, context) int64."""
    first = step * plan.batch
    windows = [int(order[(first + row) % len(order)]) * plan.context for row in range(plan.batch)]
    ids = np.stack([tokens[start : start + plan.context] for start in windows]).astype(np.int64)
    return torch.from_numpy(ids), offsets_at(plan, step) + torch.arange(plan.context)


def offsets_at(plan: Pretraining, step: int) -> Tensor:
    """The positions at which the sequences of step `step` start, (batch, 1) int64."""
    draws = generator("cpu", plan.seed, "offset", step)
    starts = (POSITIONS - plan.context) // OFFSET + 1
    return OFFSET * torch.randint(starts, (plan.batch, 1), generator=draws)


def positions_seen(plan: Pretraining) -> int:
    """How many of a body's positions the whole plan trains; 0 for a body without any."""
    if not backbone(plan.backbone).positions:
        return 0
    starts = {int(start) for step in range(plan.steps) for start in offsets_at(plan, step)}
    return len({place for start in starts for place in range(start, start + plan.context)})
