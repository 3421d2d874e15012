"""What the runs of a registered claim say: its verdict, and the words and numbers of every
page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from ..analysis.effects import Effect
from .claim import Claim
from .pooled import ALPHA

NO_SPREAD = "there is no spread to test against"  # all values of both arms are equal
# The words of the lab's registration, then those of `language`.
Label = Literal[
    "supported",
    "contradicted",
    "undecided",
    "depends on the task",
    "neither learned",
    "helps",
    "hurts",
    "no clear difference",
    "suffices",
]


@dataclass(frozen=True)
class Finding:
    """A claim with what its runs say: its effect (natural log of a ratio of steps or areas,
    a difference of accuracies or shares, or a correlation), adjusted p and verdict, and the
    reason for a verdict that the p-value alone does not give.

    `opposite`: the adjusted p of the opposite claim. `heterogeneity`: the adjusted p of
    equal effects on all tasks. `instead`: what is said in place of the effect. `by_task`:
    the effect on each task. `ended`: the runs of each arm on each task that end at their
    budget. `at_baseline`: the arms of an area whose test accuracy is no better than a
    trivial baseline. `one_backbone`: arms whose runs all read one backbone. `fragile`: how
    a verdict rests on single seeds. `notes`: what a sentence about it has to say.
    `elsewhere`: the same claim with an arm at a better rate than the registered one, and
    `rates`, which says what rate.
    """

    claim: Claim
    effect: Effect
    n: Mapping[str, int]
    adjusted: float = math.nan
    label: Label = "undecided"
    reason: str = ""
    opposite: float = math.nan
    heterogeneity: float = math.nan
    instead: str = ""
    by_task: Mapping[str, Effect] = field(default_factory=dict)
    ended: Mapping[tuple[str, str], int] = field(default_factory=dict)
    at_baseline: tuple[str, ...] = ()
    one_backbone: tuple[str, ...] = ()
    fragile: str = ""
    notes: tuple[str, ...] = ()
    elsewhere: "Finding | None" = None
    rates: str = ""

    def inverted(self) -> "Finding":
        """The same finding, shown as the ratio of the other arm to this one."""
        claim = replace(self.claim, is_inverted=True)
        elsewhere = self.elsewhere and self.elsewhere.inverted()
        return replace(self, claim=claim, elsewhere=elsewhere)

    @property
    def values(self) -> np.ndarray:
        """Estimate, low and high as they are shown, (3,) floats: a ratio of steps or areas
        of the arm that the sentence is about to those of the other, a difference, or a
        correlation."""
        values = np.array([self.effect.estimate, self.effect.low, self.effect.high])
        # The test is on minus the accuracy, or on the other arm; low and high are swapped.
        if self.claim.measure == "accuracy" or self.claim.is_about_second:
            values = -values[[0, 2, 1]]
        return np.exp(values) if self.claim.is_ratio else values

    @property
    def task_ratios(self) -> list[float]:
        """The ratio of steps on each task, in the direction of `values`."""
        # The tests are on logarithms of the first arm over the second.
        sign = -1 if self.claim.is_about_second else 1
        return [math.exp(sign * effect.estimate) for effect in self.by_task.values()]

    @property
    def expected(self) -> float:
        """The effect for which the power was simulated, as `values` are shown."""
        return (
            1 / self.claim.expected if self.claim.is_about_second else self.claim.expected
        )

    @property
    def effect_text(self) -> str:
        """`0.55× the steps [0.40, 0.76]`, or points, or a correlation, with a 95% interval;
        the tasks on either side if it depends on them; and the same at a better rate."""
        # No number stands for arms that did not learn, or for a mean over opposite effects.
        text = self.instead or self._number(f"× the {self.claim.measure}")
        if self.elsewhere is None:
            return text
        return f"{text}; {self.rates}: {self.elsewhere.effect_text}"

    def brief(self, interval: bool = True) -> str:
        """`0.55× [0.40, 0.76]`, for a cell of a table; the ratio on each task if there is
        no mean over them. With its `interval` comes what changes at a better rate."""
        if self.label == "neither learned":
            return self.instead
        if not self.instead:
            text = self._number(unit="×", interval=interval)
            if self.elsewhere is not None and interval:
                text += f", at a better rate {self.elsewhere.brief()}"
            return text
        ratios = self.ratio_texts
        other_rates = ratios if self.elsewhere is None else self.elsewhere.ratio_texts
        texts = []
        for task, ratio in ratios.items():
            changed = interval and other_rates[task] != ratio
            better = f" (at a better rate {other_rates[task]})" if changed else ""
            texts.append(f"{task} {ratio}{better}")
        return ", ".join(texts)

    @property
    def ratio_texts(self) -> dict[str, str]:
        """`at least 1.20×`, on each task."""
        ratios = zip(self.by_task, self.task_ratios, strict=True)
        return {task: f"{self.bound(task)}{ratio:.2f}×" for task, ratio in ratios}

    def _number(self, unit: str, interval: bool = True) -> str:
        """The effect; `unit` is that of a ratio."""
        form = "{:+.1f}"
        start = ""
        values = 100 * self.values
        if self.claim.measure == "predicts":
            form = "{:.2f}"
            unit = ""
            start = "partial rank correlation "
            values = self.values
        elif self.claim.is_ratio:
            form = "{:.2f}"
            start = self.bound(*self.claim.tasks)
            values = self.values
        else:
            unit = " points"
        estimate, low, high = map(form.format, values)
        text = f"{start}{estimate}{unit}"
        if not interval:
            return text
        if not math.isnan(self.effect.low):
            text += f" [{low}, {high}]"
        # Against an arm that learned nothing, a ratio says little of how much better the
        # other one is.
        if self.at_baseline:
            text += f" ({listed(self.at_baseline)} at or below a trivial baseline)"
        return text

    def bound(self, *tasks: str) -> str:
        """`at least `, `at most ` or `roughly `, before the ratio of steps on some tasks if
        runs of an arm end at their budget: the true steps of this arm are more."""
        arms = list(self.claim.backbones)
        if self.claim.is_about_second:
            arms.reverse()
        ends = [any(self.ended.get((arm, task)) for task in tasks) for arm in arms]
        if all(ends):
            return "roughly "
        if ends[0]:
            return "at least "
        return "at most " if ends[1] else ""

    @property
    def is_judged(self) -> bool:
        """Whether all runs of the claim are recorded."""
        return not math.isnan(self.effect.estimate) or self.label == "neither learned"

    @property
    def is_tested(self) -> bool:
        """Whether it has a p-value. A claim that is judged without one has a reason."""
        return not math.isnan(self.effect.p)

    @property
    def n_text(self) -> str:
        """`n = 12 and 12` backbones, `6 and 36 runs`, or `17 corpora`; with runs at the
        budget, and runs that share a backbone."""
        if self.claim.measure == "predicts":
            return f"{len(self.n)} corpora"
        counts = [str(count) for count in self.n.values()]
        if self.claim.measure == "area":  # draws crossed with seeds
            return f"{' and '.join(counts)} runs"
        text = f"n = {' and '.join(counts)}"
        if len(set(counts)) == 1:
            text = f"n = {counts[0]} each"
        for arm in self.one_backbone:
            text += f", one backbone of {arm}"
        for arm in self.claim.backbones:
            ended = sum(self.ended.get((arm, task), 0) for task in self.claim.tasks)
            if ended:
                runs = self.n[arm] * len(self.claim.tasks)
                text += f", {ended} of {runs} runs of {arm} at the budget"
        return text


def task_sides(finding: Finding) -> str:
    """On which tasks the subject of a claim needs fewer steps, on which more, and on which
    there is no clear difference, each with its ratio; at 5% over these tasks."""
    groups: dict[str, list[str]] = {
        "fewer steps on": [],
        "more steps on": [],
        "no clear difference on": [],
        "neither arm reaches the threshold of": [],
    }
    fewer, more, unclear, neither = groups.values()
    # Bonferroni over the tasks: the sides are a description, but each is a test.
    level = ALPHA / len(finding.by_task)
    ratios = finding.ratio_texts
    for task, effect in finding.by_task.items():
        text = f"{task} ({ratios[task]})"
        fewer_p, more_p = effect.p, effect.against
        if finding.claim.is_about_second:
            fewer_p, more_p = more_p, fewer_p
        # Without a p, every run is at the budget.
        if finding.bound(task) == "roughly " and math.isnan(effect.p):
            neither.append(task)
        elif fewer_p < level:
            fewer.append(text)
        elif more_p < level:
            more.append(text)
        else:
            unclear.append(text)
    return "; ".join(f"{words} {listed(tasks)}" for words, tasks in groups.items() if tasks)


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
