"""A profile, which is one block of params.yaml, and the runs of its sections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .spec import RunSpec
from .training.device import AUTO


@dataclass(frozen=True)
class Run:
    """A spec in its place: the model, arm and task that it stands for in a table."""

    model: str
    arm: str
    task: str
    spec: RunSpec
    keep: bool = False  # the trained parameters, beside the record
    search: bool = False  # only its validation accuracy counts, to choose a learning rate

    @property
    def key(self) -> str:
        """The key of the run's specification."""
        return self.spec.key

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.model}, {self.arm} on {self.task}"


@dataclass(frozen=True)
class Profile:
    """One block of params.yaml, checked. Every part may be left out."""

    name: str
    train_on: tuple[
        str, ...
    ] = ()  # the pipeline trains on these devices: cpu, cuda or none
    seeds: tuple[int, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # their settings
    sections: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    precision: str = AUTO  # of all its runs
    shown: bool = True  # on the pages; runs that only check the code are not

    def __repr__(self) -> str:
        return f"<Profile {self.name}>"
