"""A tier, which is one block of params.yaml, and the runs of its sections."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .errors import check_names
from .project import TIERS
from .spec import RunSpec
from .training.device import AUTO
from .training.settings import check_mapping


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
class Tier:
    """One block of params.yaml, checked. Every part may be left out."""

    name: str
    # The tiers that it includes, from the smallest, and itself: the experiments of its
    # runs.
    experiments: tuple[str, ...] = ()
    train_on: tuple[str, ...] = ()  # the pipeline trains on these: cpu, cuda or none
    seeds: tuple[int, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # their settings
    sections: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    precision: str = AUTO  # of all its runs
    shown: bool = True  # on the pages; runs that only check the code are not
    budget: str = ""  # the time that the pipeline may train, such as 50m

    def __repr__(self) -> str:
        return f"<Tier {self.name}>"


def with_included(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The block of a tier, with what the tier that it `includes` has and it does not: a
    larger tier has all runs of a smaller one."""
    names = [
        field.name for field in fields(Tier) if field.name not in ("name", "experiments")
    ]
    block = dict(check_mapping(name, params.get(name), [*names, "includes"]))
    smaller = block.pop("includes", None)
    if smaller is None:
        return {**block, "experiments": (name,)}
    check_names(f"{name}.includes", [smaller], TIERS[: TIERS.index(name)])
    base = with_included(smaller, params)
    for part in ("defaults", "tasks", "arms"):
        block[part] = {**base.get(part, {}), **(block.get(part) or {})}
    sections = dict(base.get("sections", {}))
    for section, blocks in (block.get("sections") or {}).items():
        sections[section] = [*sections.get(section, []), *blocks]
    experiments = (*base["experiments"], name)
    return {**base, **block, "sections": sections, "experiments": experiments}
