"""The plan of a pretraining on a corpus: its settings, and what each step of it reads.

Sequences are shorter than the 1,024 positions; each starts at a random offset, so that every
position is trained (a recurrent backbone has none).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..backbones import backbone
from ..tasks.rng import generator

POSITIONS = 1024
# Sequences start at multiples of this position.
OFFSET = 64


@dataclass(frozen=True)
class Pretraining:
    """Everything that determines the weights; it is written beside them."""

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
        return math.ceil(self.tokens / self.step_tokens)

    @property
    def step_tokens(self) -> int:
        return self.batch * self.context

    @property
    def name(self) -> str:
        """The identity of the resulting weights."""
        return f"{self.backbone}-{self.corpus}-{self.seed}"


def learning_rate(plan: Pretraining, step: int) -> float:
    if step < plan.warmup:
        return plan.lr * (step + 1) / plan.warmup
    progress = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
    return plan.lr * 0.5 * (1 + math.cos(math.pi * progress))


def batch_at(
    plan: Pretraining,
    tokens: np.ndarray,
    step: int,
    order: Tensor,
) -> tuple[Tensor, ...]:
    """Ids and positions of step `step`, both (batch, context) int64, from windows of `tokens` in
    this order; a corpus that is too short is read again."""
    places = torch.arange(step * plan.batch, (step + 1) * plan.batch) % len(order)
    windows = tokens[: len(order) * plan.context].reshape(len(order), plan.context)
    ids = torch.from_numpy(windows[order[places].numpy()].astype(np.int64))
    return ids, offsets_at(plan, step) + torch.arange(plan.context)


def offset_count(plan: Pretraining) -> int:
    """The number of positions at which a sequence may start."""
    return (POSITIONS - plan.context) // OFFSET + 1


def offsets_at(plan: Pretraining, step: int) -> Tensor:
    """The positions at which the sequences of step `step` start, (batch, 1) int64."""
    draws = generator("cpu", plan.seed, "offset", step)
    return OFFSET * torch.randint(offset_count(plan), (plan.batch, 1), generator=draws)


def positions_seen(plan: Pretraining) -> int:
    """How many of a backbone's positions all steps together train; 0 if it has none."""
    if not backbone(plan.backbone).positions:
        return 0
    starts = torch.cat([offsets_at(plan, step) for step in range(plan.steps)]).unique()
    return len((starts[:, None] + torch.arange(plan.context)).unique())
