"""A profile, which is one block of params.yaml, and the runs of its sections."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .spec import RunSpec
from .training.device import AUTO


@dataclass(frozen=True)
class Run:
    """A spec in its place: the arm and the task it stands for in a section's table."""

    arm: str
    task: str
    spec: RunSpec
    keep: bool = False  # the trained parameters, beside the record
    search: bool = False  # only its validation accuracy counts, to choose a learning rate

    @property
    def key(self) -> str:
        """The key of the run's specification."""
        return self.spec.key


@dataclass(frozen=True)
class Profile:
    """One block of params.yaml, checked."""

    name: str
    train_on: tuple[str, ...]  # the pipeline trains on these devices: cpu, cuda or none
    backbones: Mapping[str, str]  # the backbone that plays each role that the arms name
    weights: Mapping[str, str]  # the weights' identity by the source that the arms name
    seeds: tuple[int, ...]
    defaults: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Any]]
    arms: Mapping[str, Mapping[str, Any]]
    sections: Mapping[str, tuple[Mapping[str, Any], ...]]  # blocks of tasks by arms
    precision: str = AUTO  # of all its runs; it may be left out

    def __repr__(self) -> str:
        return f"<Profile {self.name}>"

    @property
    def backbone(self) -> str:
        """The transformer that most arms share."""
        return self.backbones["transformer"]
