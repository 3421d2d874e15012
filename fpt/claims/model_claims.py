"""The registered claims of profile `language`: one published model, one control, one task.

The measure is the area under the validation loss over a fixed number of steps
(`fpt.analysis.steps.area`), as a logarithm, so that a difference is a ratio. The tests are those of
`fpt.analysis.crossed`. Both directions of a primary claim are news, so its p-value is two-sided.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from .. import config
from ..analysis.crossed import difference, rank_among, two_sided
from ..analysis.effects import Effect
from ..analysis.steps import area
from ..config import Run
from ..records import Record
from ..sections.arms import label
from ..sections.registration import LANGUAGE, registration
from .claim import Kind

Test = Literal["difference", "suffices", "rank"]
STATEMENTS: Mapping[Test, str] = {
    "difference": "On {task}, the areas of «{first}» and «{second}» differ.",
    "suffices": "On {task}, the area of «{first}» is at most {margin:g} times that of «{second}».",
    "rank": "On {task}, the area of «{first}» is not one that a draw of «{second}» could have.",
}


@dataclass(frozen=True)
class ModelClaim:
    """One registered claim about the arms `first` and `second` on a task of profile `language`.

    `test`: `difference`, two-sided; `suffices`, one-sided: the area of the first is less than
    `margin` times that of the second; `rank`, two-sided: that of the first among the draws of the
    second. `expected` is the ratio of areas for which `power` was simulated; `error` is how often a
    true null is called a difference at 5%.
    """

    first: str
    second: str
    task: str
    test: Test = "difference"
    margin: float = 1.0
    expected: float = math.nan
    power: float = math.nan
    error: float = math.nan

    @property
    def name(self) -> str:
        return f"{self.first} {self.test} {self.second} on {self.task}"

    @property
    def statement(self) -> str:
        """The claim in a sentence."""
        return STATEMENTS[self.test].format(
            task=self.task,
            first=label(self.first),
            second=label(self.second),
            margin=self.margin,
        )


def model_claims(kind: Kind) -> list[ModelClaim]:
    """The registered claims of one kind, in their order: of each entry, each of its arms `second`
    on each of its `tasks`."""
    claims = []
    for entry in registration(LANGUAGE)[kind]:
        # One line of the registration may be several claims, each of its own in the correction.
        shared = {key: value for key, value in entry.items() if key not in ("second", "tasks")}
        for task in entry["tasks"]:
            claims += [ModelClaim(second=arm, task=task, **shared) for arm in entry["second"]]
    return claims


def planned_runs() -> list[Run]:
    """Every run that the sections of profile `language` plan, each once."""
    profile = config.load(LANGUAGE)
    runs = [run for name in profile.sections for run in config.expand(profile, name)]
    return list({run.key: run for run in runs}.values())


def runs_of(claims: Iterable[ModelClaim], planned: Iterable[Run]) -> list[Run]:
    """The planned runs that some claims are judged on."""
    cells = {(arm, claim.task) for claim in claims for arm in (claim.first, claim.second)}
    return [run for run in planned if (run.arm, run.task) in cells]


def log_areas(runs: Sequence[Run], records: Mapping[str, Record]) -> pd.DataFrame:
    """A row per recorded run: arm, task, draw (-1 if nothing is drawn apart from the seed), seed,
    and the natural logarithm of its area."""
    rows = []
    for run in runs:
        if run.key in records:
            draw = -1 if run.spec.draw is None else run.spec.draw
            log_area = math.log(area(records[run.key]))
            rows.append((run.arm, run.task, draw, run.spec.seed, log_area))
    return pd.DataFrame(rows, columns=["arm", "task", "draw", "seed", "log_area"])


def crossed(areas: pd.DataFrame, arm: str, task: str) -> pd.DataFrame:
    """The log areas of an arm on a task, draws by seeds, without draws that lack a seed."""
    cell = areas[(areas["arm"] == arm) & (areas["task"] == task)]
    # A draw without a seed would not be crossed with it.
    return cell.pivot_table(index="draw", columns="seed", values="log_area").dropna()


def effect_of(claim: ModelClaim, areas: pd.DataFrame) -> tuple[Effect, float]:
    """The effect of a claim, a log ratio of areas, first over second, and its p-value."""
    first = crossed(areas, claim.first, claim.task)
    second = crossed(areas, claim.second, claim.task)
    effect = difference(first, second, math.log(claim.margin))
    if claim.test == "suffices":
        return effect, effect.p
    if claim.test == "rank":
        seeds = first.columns.intersection(second.columns)
        return effect, rank_among(first[seeds].mean().mean(), list(second[seeds].mean(axis=1)))
    return effect, two_sided(effect)
