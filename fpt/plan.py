"""A plan: the runs of a tier, or of one of its sections, and what is recorded of them.

`python -m fpt run` trains what is missing of it. A run that no tier plans, because its
arm is a reader's own or its settings were changed, belongs to the experiment `own`.
"""

import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from . import config
from .config import Run, Tier
from .errors import FptError
from .files import write_json
from .names import SHIPPED
from .pretraining import metadata
from .project import OWN, Project, current_tier, project
from .records import INDEX, Record, Store
from .tasks import task_of
from .training import device as devices
from .training import sweep
from .training.flops import planned_flops
from .training.progress import read_checkpoint
from .training.settings import check_settings, check_spec

Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """The runs of some sections of a tier, by section."""

    tier: Tier
    sections: Mapping[str, tuple[Run, ...]]
    settings: Mapping[str, Any] = field(default_factory=dict)  # that override params.yaml
    project: Project = field(default_factory=project)  # of data, weights and records

    def __repr__(self) -> str:
        return f"<Plan of {self.tier.name}: {len(self.runs)} runs>"

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Each run once, whatever sections show it."""
        every = (run for runs in self.sections.values() for run in runs)
        return tuple({run.key: run for run in every}.values())

    @cached_property
    def keep(self) -> frozenset[str]:
        """The keys of runs whose parameters are kept; without them, such a run is
        missing."""
        return frozenset(run.key for run in self.runs if run.keep)

    @cached_property
    def planned(self) -> dict[str, str]:
        """The experiment of each run that the committed indexes of this tier and of those
        that it includes list, by its key: the smallest one."""
        experiments: dict[str, str] = {}
        for name in reversed(self.tier.experiments):
            path = self.project.records(name) / INDEX
            rows = json.loads(path.read_bytes()) if path.exists() else []
            experiments |= {row["key"]: name for row in rows}
        return experiments

    @cached_property
    def has_index(self) -> bool:
        """Whether the runs of this tier were listed when it was read."""
        return (self.project.records(self.tier.name) / INDEX).exists()

    def experiment_of(self, run: Run) -> str:
        """The experiment that a run belongs to: its tier, or `own`."""
        is_own = (
            bool(self.settings)
            or not {run.arm, run.model} <= SHIPPED
            or (self.has_index and run.key not in self.planned)
        )
        return OWN if is_own else self.planned.get(run.key, self.tier.name)

    def store_of(self, run: Run) -> Store:
        """The store of the record of a run."""
        return Store(self.project.records(self.experiment_of(run)))

    def records(self) -> dict[str, Record]:
        """The records that are there, by key."""
        records: dict[str, Record] = {}
        for run in self.runs:
            records |= self.store_of(run).read_all([run.key], self.keep)
        return records

    def missing(self) -> list[Run]:
        """The runs without a record."""
        recorded = self.records()
        return [run for run in self.runs if run.key not in recorded]

    def whole(self) -> "Plan":
        """The plan of all sections of the tier, as params.yaml has it."""
        names = self.tier.sections
        sections = {name: tuple(config.expand(self.tier, name)) for name in names}
        return replace(self, sections=sections, settings={})

    @cached_property
    def sections_of(self) -> dict[str, tuple[str, ...]]:
        """The sections of the tier that have each run, by its key. Runs of different ones
        share no pack, so that each section has its numbers alone."""
        sections: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
        for name, runs in self.whole().sections.items():
            for key in dict.fromkeys(run.key for run in runs):
                sections[key] += (name,)
        return sections

    def may_train(self, device: str = "auto") -> bool:
        """Whether the tier allows training on the device that `device` means here."""
        return devices.choose(device).type in self.tier.train_on

    def only(self, keys: Iterable[str]) -> "Plan":
        """The plan of the runs with these keys alone."""
        chosen = {*keys}
        sections = {
            name: tuple(run for run in runs if run.key in chosen)
            for name, runs in self.sections.items()
        }
        return replace(self, sections=sections)

    def shard(self, part: str, max_runs: int, device: str = "auto") -> "Plan":
        """The plan of the runs in part `I/N` of its packs on a device."""
        specs = [run.spec for run in self.runs]
        most = sweep.most_tokens(device)
        packs = sweep.packs(specs, max_runs, self.sections_of, most)
        return self.only(spec.key for pack in sweep.shard(packs, part) for spec in pack)

    def train(self, *, budget: float = math.inf, **options: Any) -> None:
        """Train what is missing, for `budget` seconds at most in all experiments together.
        `options` are those of `fpt.training.sweep.run`. What cannot be trained stops
        nothing else; its FptError is raised at the end."""
        end = time.monotonic() + budget
        titles = {run.key: run.title for run in self.runs}
        for run in self.runs:
            check_spec(run.title, run.spec)
        options = {"precision": self.tier.precision, **options}
        options |= {"keep": self.keep, "sections": self.sections_of, "titles": titles}
        by_experiment: defaultdict[str, list[Run]] = defaultdict(list)
        for run in self.runs:
            by_experiment[self.experiment_of(run)].append(run)
        errors: list[FptError] = []
        with self.project.in_force():
            for runs in by_experiment.values():
                specs = [run.spec for run in runs]
                options["budget"] = end - time.monotonic()
                try:
                    sweep.run(specs, self.store_of(runs[0]), **options)
                except FptError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    @property
    def weights(self) -> list[str]:
        """The pretrained weights that the runs read."""
        read = (run.spec.weights for run in self.runs)
        return [*dict.fromkeys(identity for identity in read if identity)]

    # ------------------------------------------------------------------------- the index

    def rows(self) -> dict[str, list[Row]]:
        """What the index of each experiment says of its runs: a row for each section that
        shows a run."""
        rows: defaultdict[str, list[Row]] = defaultdict(list)
        for section, runs in self.sections.items():
            for run in runs:
                role = "search" if run.search else "reported"
                row = {
                    "key": run.key,
                    "section": section,
                    "model": run.model,
                    "arm": run.arm,
                    "task": run.task,
                    "role": role if self.tier.shown else "unshown",
                }
                rows[self.experiment_of(run)].append(row)
        return dict(rows)

    def write_index(self) -> None:
        """List the runs in index.json of their experiment. That of `own` grows; that of a
        tier is written once, and is its plan from then on (`make notebooks` renews
        it)."""
        for experiment, rows in self.rows().items():
            folder = self.project.records(experiment)
            metadata.keep(folder, self.weights)
            path = folder / INDEX
            if experiment != OWN:
                if not path.exists():
                    write_json(path, self.whole().rows()[experiment])
                continue
            listed = json.loads(path.read_bytes()) if path.exists() else []
            write_json(path, [*listed, *(row for row in rows if row not in listed)])


def plan(tier: str | None = None, section: str | None = None, /, **settings: Any) -> Plan:
    """The plan of a tier, by default of the one at the top of params.yaml, or of one of
    its sections; with `settings`, such as `lr=0.01`, of other runs than those."""
    loaded = config.load(tier or current_tier())
    checked = check_settings("settings", settings)
    names = [section] if section else [*loaded.sections]
    sections = {name: tuple(config.expand(loaded, name, checked)) for name in names}
    return Plan(loaded, sections, checked)


# ----------------------------------------------------------------------------- what is left


def speeds(records: Iterable[Record]) -> Mapping[str, float]:
    """Measured processor seconds per FLOP, by backbone; unlike wall time they do not grow
    on a shared machine. 0 for a control without a transformer, which has no FLOPs."""
    seconds: defaultdict[str, float] = defaultdict(float)
    flops: defaultdict[str, float] = defaultdict(float)
    for record in records:
        # Records of older versions have no processor time.
        if "process_seconds" in record.cost:
            seconds[record.spec.backbone] += record.cost["process_seconds"]
            flops[record.spec.backbone] += record.cost["flops"]
    return {name: seconds[name] / flops[name] if flops[name] else 0.0 for name in flops}


def status(of_tier: Plan) -> list[Row]:
    """A row for each section, and one for all: counts of its runs, and the hours that the
    missing ones take at the measured speed of their backbone, None if none was measured."""
    records = of_tier.records()
    measured = speeds(records.values())
    return [
        _counts(name, runs, records, measured)
        for name, runs in [*of_tier.sections.items(), ("all", of_tier.runs)]
    ]


def _counts(
    name: str,
    runs: Iterable[Run],
    records: Mapping[str, Record],
    measured: Mapping[str, float],
) -> Row:
    specs = {run.key: run.spec for run in runs}
    states = Counter(records[key].status for key in specs if key in records)
    missing = {key: spec for key, spec in specs.items() if key not in records}
    timed = [spec for spec in missing.values() if spec.backbone in measured]
    seconds = [
        measured[spec.backbone] * planned_flops(spec, task_of(spec)) for spec in timed
    ]
    return {
        "section": name,
        "expected": len(specs),
        "done": states["done"],
        "diverged": states["diverged"],
        "missing": len(missing),
        "missing_keys": [*missing],
        "hours_left": sum(seconds) / 3600 if timed or not missing else None,
        "not_timed": len(missing) - len(timed),
    }


def in_training(of_tier: Plan) -> Iterator[str]:
    """A line for each pack that has a checkpoint: how far it was, and how long ago."""
    runs = {run.key: run for run in of_tier.runs}
    for path in sorted((of_tier.project.cache / "checkpoints").glob("*.safetensors")):
        _, history = read_checkpoint(path) or ({}, {"keys": ()})
        members = [runs[key] for key in history["keys"] if key in runs]
        if members:
            ending = f" and {len(members) - 1} more" if len(members) > 1 else ""
            steps = f"step {history['step']:,} of {members[0].spec.steps:,}"
            minutes = (time.time() - path.stat().st_mtime) / 60
            yield f"  {members[0].title}{ending}: {steps}, {minutes:.0f} min ago"


def cost(counts: Row) -> str:
    """The hours left, in words."""
    hours = counts["hours_left"]
    if hours is None:
        return "cost unknown: no run on these backbones was measured yet"
    text = f"{hours:.1f} h" if hours >= 1 else f"{math.ceil(60 * hours)} min"
    text += " left at the measured speed"
    if counts["not_timed"]:
        text += f", not counting {counts['not_timed']} runs on other backbones"
    return text


def left(of_tier: Plan) -> str:
    """What is missing of a plan, with its cost, and a line for each cell; empty if nothing
    is."""
    missing = of_tier.missing()
    if not missing:
        return ""
    counts = status(of_tier)[-1]
    lines = [f"missing: {counts['missing']} of {counts['expected']} runs, {cost(counts)}"]
    places = Counter(run.title for run in missing)
    return "\n".join([*lines, *(f"  {place}: {count}" for place, count in places.items())])
