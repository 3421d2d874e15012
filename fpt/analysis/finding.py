"""What the runs of a registered claim say: its verdict, and the words and numbers of every page."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from . import gates
from .claim import ALPHA, Claim
from .effects import Effect
from .gates import Label


@dataclass(frozen=True)
class Finding:
    """A claim with what its runs say: its effect (natural log of a ratio of steps, a difference of
    accuracies or shares, or a correlation), adjusted p and verdict, and the reason for a verdict
    that the p-value alone does not give.

    `heterogeneity`: the adjusted p of equal effects on all tasks. `instead`: what is said in place
    of the effect. `by_task`: the effect on each task of a pooled claim. `ended`: the runs of each
    arm on each task that end at their budget. `one_backbone`: arms whose runs all read one
    backbone. `notes`: what a sentence about it has to say. `elsewhere`: the same claim with an arm
    at a better rate than the registered one, and `rates`, which says what rate.
    """

    claim: Claim
    effect: Effect
    n: Mapping[str, int]
    adjusted: float
    label: Label
    reason: str = ""
    heterogeneity: float = math.nan
    instead: str = ""
    by_task: Mapping[str, Effect] = field(default_factory=dict)
    ended: Mapping[tuple[str, str], int] = field(default_factory=dict)
    one_backbone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    elsewhere: "Finding | None" = None
    rates: str = ""

    @property
    def values(self) -> np.ndarray:
        """Estimate, low and high as they are shown, (3,) floats: a ratio of steps of the arm that
        the sentence is about to those of the other, a difference, or a correlation."""
        values = np.array([self.effect.estimate, self.effect.low, self.effect.high])
        if self.claim.measure == "accuracy" or self.claim.is_about_second:
            values = -values[[0, 2, 1]]  # the test is on minus the accuracy, or on the other arm
        return np.exp(values) if self.claim.measure == "steps" else values

    @property
    def task_ratios(self) -> list[float]:
        """The ratio of steps on each task of a pooled claim, in the direction of `values`."""
        sign = -1 if self.claim.is_about_second else 1
        return [math.exp(sign * effect.estimate) for effect in self.by_task.values()]

    @property
    def expected(self) -> float:
        """The effect for which the power was simulated, as `values` are shown."""
        return 1 / self.claim.expected if self.claim.is_about_second else self.claim.expected

    @property
    def effect_text(self) -> str:
        """`0.55× the steps [0.40, 0.76]`, or points, or a correlation, with a 95% interval; the
        tasks on either side if it depends on them; and the same at a better rate."""
        text = self.instead or self._number_text
        if self.elsewhere is None:
            return text
        return f"{text}; {self.rates}: {self.elsewhere.effect_text}"

    @property
    def _number_text(self) -> str:
        if self.claim.measure == "predicts":
            text = "rank correlation {:.2f} [{:.2f}, {:.2f}]".format(*self.values)
        elif self.claim.measure == "steps":
            text = "{}{:.2f}× the steps [{:.2f}, {:.2f}]".format(self._bound, *self.values)
        else:
            text = "{:+.1f} points [{:+.1f}, {:+.1f}]".format(*(100 * self.values))
        return text.partition(" [")[0] if math.isnan(self.effect.low) else text

    @property
    def _bound(self) -> str:
        """`at most ` or `at least ` if runs of one arm end at their budget."""
        counts = [
            sum(count for (name, _), count in self.ended.items() if name == arm)
            for arm in self.claim.backbones
        ]
        if len(counts) != 2:
            return ""
        return gates.bound(*(reversed(counts) if self.claim.is_about_second else counts))

    @property
    def in_numbers(self) -> str:
        """Effect, n and verdict, within a sentence."""
        gated = self.label == "undecided" and self.adjusted < ALPHA
        because = f", since {self.reason.partition(';')[0]}" if gated and self.reason else ""
        # A claim on several tasks names them, and its notes stand with the claims on one of them.
        notes = "" if self.claim.is_pooled else "".join(f"; {note}" for note in self.notes)
        return f"{self.effect_text} ({self.n_text}; {self.label}{because}{notes})"

    @property
    def is_judged(self) -> bool:
        """Whether all runs of the claim are recorded."""
        return not math.isnan(self.effect.estimate) or self.label == "neither learned"

    @property
    def n_text(self) -> str:
        """`n = 12 and 12` backbones, or `17 corpora`; with runs at the budget, and runs that share
        a backbone."""
        if self.claim.measure == "predicts":
            return f"{len(self.n)} corpora"
        if len(counts := {*self.n.values()}) == 1:
            text = f"n = {counts.pop()} each"
        else:
            text = "n = " + " and ".join(str(count) for count in self.n.values())
        for arm in self.one_backbone:
            text += f", one backbone of {arm}"
        for arm in self.claim.backbones:
            ends = sum(count for (name, _), count in self.ended.items() if name == arm)
            if ends:
                text += (
                    f", {ends} of {self.n[arm] * len(self.claim.tasks)} runs of {arm} at the budget"
                )
        return text
