"""What a profile expects: its runs with their FLOPs, and the cells of the paper that they fill.

To work this out takes torch, transformers and many seconds; to read it back takes neither. So it is
kept in the cache, under a digest of params.yaml and of this package: either changed, it is made
anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .. import files as paths
from .. import params
from .remembered import package, remembered, stamp_of

if TYPE_CHECKING:
    from .section import Section


@dataclass(frozen=True)
class Wanted:
    """A run in its place in a section. `flops`: of its whole budget; one that stops early has
    fewer. `keep`: it is missing without its parameters. The rest is as of a
    `fpt.analysis.grid.Trial`."""

    section: str
    arm: str
    task: str
    key: str
    backbone: str
    flops: float
    keep: bool
    lr: float
    block: int | None
    search: bool
    beyond: bool


@dataclass(frozen=True)
class Place:
    """Where a number of ours comes from: an arm of a section on a task."""

    section: str
    arm: str
    task: str


@dataclass(frozen=True)
class Coverage:
    """One printed cell. `expected` are keys of runs, `present` those that are recorded; both are
    empty where the number is `counted`, or where the profile has no run for it."""

    table: str
    row: str
    column: str
    value: float | None
    counted: bool
    places: tuple[Place, ...]
    expected: tuple[str, ...]
    present: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`3/5`: runs present of expected."""
        if self.counted:
            return "counted"
        return f"{len(self.present)}/{len(self.expected)}" if self.expected else "no runs"


@dataclass(frozen=True)
class Expected:
    """`unprinted`: tables of the paper without a number here, and why."""

    sections: tuple[str, ...]
    runs: tuple[Wanted, ...]
    cells: tuple[Coverage, ...]
    unprinted: Mapping[str, str]


def expected(profile: str) -> Expected:
    """What `profile` expects, from the cache where that is of this package and this params.yaml."""
    stamp = stamp_of((params.PARAMS, *package(), paths.PACKAGE / "paper.yaml"))
    return _from_content(remembered(f"expected/{profile}", stamp, lambda: _made(profile)))


def _made(profile: str) -> dict[str, Any]:
    from ..config import load
    from .section import planned

    return asdict(expected_of([planned(name, profile) for name in load(profile).sections]))


def expected_of(sections: "Sequence[Section]") -> Expected:
    """What `sections` expect."""
    from ..paper import reader as paper
    from ..report.coverage import cells
    from ..training.flops import planned_flops
    from ..training.train import task_of

    runs = []
    for part in sections:
        for run in part.runs:
            spec = run.spec
            runs.append(
                Wanted(
                    section=part.name,
                    arm=run.arm,
                    task=run.task,
                    key=run.key,
                    backbone=spec.backbone,
                    flops=float(planned_flops(spec, task_of(spec))),
                    keep=run.keep,
                    lr=run.lr,
                    block=run.block,
                    search=run.search,
                    beyond=run.beyond,
                )
            )
    names = tuple(part.name for part in sections)
    return Expected(names, tuple(runs), tuple(cells(sections)), paper.missing())


def _from_content(content: Mapping[str, Any]) -> Expected:
    cells = []
    for cell in content["cells"]:
        there = tuple(Place(**place) for place in cell.pop("places"))
        keys = tuple(cell.pop("expected"))
        cells.append(Coverage(**cell | {"places": there, "expected": keys, "present": ()}))
    return Expected(
        tuple(content["sections"]),
        tuple(Wanted(**run) for run in content["runs"]),
        tuple(cells),
        content["unprinted"],
    )
