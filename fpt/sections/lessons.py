"""English taught to the bodies of a section: which lessons there are, teaching, their records.

A block of a section in params.yaml with `english` in place of `tasks` asks for them:

    - {english: {backbone: nano, tokens: 1000000}, arms: [random, fpt-nesting, full, full-nesting]}

An arm means what it means elsewhere: how the body starts, and whether it stays frozen. Words,
positions and norms are always trained.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..analysis.stats import Interval, mean_interval
from ..config import Profile, weights_of
from ..files import CACHE, FptError, lock
from ..pretraining.adapt import adapt, adapted
from ..pretraining.plan import Adaptation, fitted
from ..records import store
from .arms import ARMS

CORPUS = "english"


@dataclass(frozen=True)
class Lesson:
    """A plan in its place: the arm that it stands for."""

    arm: str
    plan: Adaptation


@dataclass(frozen=True)
class Taught:
    """What the lessons of one arm gave: bits per byte in the order of seeds."""

    arm: str
    values: tuple[float, ...]
    records: tuple[dict[str, Any], ...]
    expected: int

    @property
    def interval(self) -> Interval | None:
        """95%, over seeds; None where a lesson is missing."""
        return mean_interval(self.values) if len(self.values) == self.expected else None


def planned(profile: Profile, section: str) -> list[Lesson]:
    """Every lesson of a section, in the order of its blocks, arms and seeds."""
    return [
        Lesson(
            arm,
            fitted(
                Adaptation(
                    CORPUS,
                    **block["english"],
                    seed=seed,
                    init=ARMS[arm].init,
                    weights=weights_of(profile, ARMS[arm], seed),
                    frozen=ARMS[arm].trainable is not None,
                )
            ),
        )
        for block in profile.sections.get(section, ())
        if "english" in block
        for arm in block["arms"]
        for seed in block.get("seeds", profile.seeds)
    ]


def folder_of(profile: Profile) -> Path:
    """Beside the records of runs, which are one folder higher."""
    return store(profile.name).folder / "english"


def missing(profile: Profile, section: str) -> list[Lesson]:
    folder = folder_of(profile)
    return [it for it in planned(profile, section) if adapted(folder, it.plan) is None]


def teach(profile: Profile, wanted: list[Lesson], budget: float = math.inf) -> int:
    """Give those of the lessons that are missing, one after another, until `budget` seconds are
    over; what is unfinished then goes on in the next call. Returns how many were finished.

    One that cannot be given, as its body is not here, does not keep the others from it: the first
    such FptError is raised after them.
    """
    end, finished = time.monotonic() + budget, 0
    failed: FptError | None = None
    folder = folder_of(profile)
    for lesson in wanted:
        with lock(CACHE / "locks" / profile.name / lesson.plan.key, wait=False) as mine:
            if not mine or adapted(folder, lesson.plan) is not None:
                continue
            left = end - time.monotonic()
            try:
                if left <= 0 or not adapt(lesson.plan, folder, CACHE / "checkpoints", budget=left):
                    break
                finished += 1
            except FptError as error:
                failed = failed or error
    if failed is not None:
        raise failed
    return finished


def taught(profile: Profile, section: str) -> dict[str, Taught]:
    """What the lessons of a section gave, by arm."""
    folder = folder_of(profile)
    plans: dict[str, list[Adaptation]] = {}
    for lesson in planned(profile, section):
        plans.setdefault(lesson.arm, []).append(lesson.plan)
    results = {}
    for arm, mine in plans.items():
        records = tuple(it for plan in mine if (it := adapted(folder, plan)) is not None)
        values = tuple(it["bits_per_byte"] for it in records)
        results[arm] = Taught(arm, values, records, len(mine))
    return results


def digests(profile: Profile, section: str) -> dict[str, str | None]:
    """The digest of each lesson's record, None where it is missing: for the section's index."""
    folder = folder_of(profile)
    found = {it.plan.key: adapted(folder, it.plan) for it in planned(profile, section)}
    return {key: None if it is None else it["digest"] for key, it in found.items()}
