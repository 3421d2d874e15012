"""A section of the paper: the runs it needs, training what is missing, one tidy frame of results.

`fpt.section("transfer")` is all a notebook needs to begin.
"""

import math
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from .. import config
from ..config import Profile, Run
from ..files import REPORTS, FptError, current_profile, write_json
from ..pretraining import metadata as notes
from ..records import Record, Store, store
from ..training import device as devices
from ..training import sweep


@dataclass(frozen=True)
class Section:
    """The runs of one section in one profile, and the store that may hold their records."""

    name: str
    profile: Profile
    runs: tuple[Run, ...]

    @property
    def folder(self) -> Any:
        """`reports/<profile>`."""
        return REPORTS / self.profile.name

    @cached_property
    def store(self) -> Store:
        return store(self.profile.name)

    @property
    def keys(self) -> list[str]:
        """The keys of exactly this section's runs; no other record can enter its tables."""
        return list(dict.fromkeys(run.spec.key for run in self.runs))

    @cached_property
    def keep(self) -> frozenset[str]:
        """The keys of runs whose parameters are kept; without them, such a run is missing."""
        return frozenset(run.spec.key for run in self.runs if run.keep)

    def part(self, tasks: Collection[str], arms: Collection[str] | None = None) -> "Section":
        """The section with the runs on some tasks, or of some arms on them, and no others."""
        runs = [run for run in self.runs if run.task in tasks and (arms is None or run.arm in arms)]
        return replace(self, runs=tuple(runs))

    def records(self) -> dict[str, Record]:
        return self.store.read_all(self.keys, self.keep)

    def complete(self) -> set[tuple[str, str]]:
        """The arms and tasks, each of whose runs is recorded: what gives a number."""
        missing = {(run.arm, run.task) for run in self.missing()}
        return {(run.arm, run.task) for run in self.runs} - missing

    def missing(self) -> list[Run]:
        present = self.records()
        return [run for run in self.runs if run.spec.key not in present]

    def may_train(self, device: str = "auto") -> bool:
        """Whether the profile allows training on the device that `device` means here."""
        return devices.choose(device).type in self.profile.train_on

    def train(self, **options: Any) -> int:
        """Train what is missing, if the profile allows it; returns the number of new records.
        `options` are those of `fpt.training.sweep.run`."""
        if not self.may_train():
            return 0
        return sweep.run([run.spec for run in self.runs], self.store, keep=self.keep, **options)

    def frame(self) -> pd.DataFrame:
        """One row per expected run: arm, task, seed, key, weights, status and, if it is recorded,
        its metrics (accuracies in [0, 1]), cost, device, and digests of data and weights."""
        present = self.records()
        rows = []
        for run in self.runs:
            row: dict[str, Any] = {
                "arm": run.arm,
                "task": run.task,
                "seed": run.spec.seed,
                "lr": run.spec.lr,
                "key": run.spec.key,
                "weights": run.spec.weights,
                "status": "not run",
            }
            record = present.get(run.spec.key)
            if record is not None:
                row |= {"status": record.status, **record.metrics, **record.cost}
                seen = ("device", "data_digest", "weights_digest")
                row |= {name: record.environment.get(name) for name in seen}
                row["notes"] = "; ".join(record.notes)
            rows.append(row)
        return pd.DataFrame(rows)

    def curves(self) -> pd.DataFrame:
        """One row per evaluation on the validation set of every recorded run."""
        present = self.records()
        rows = [
            {
                "arm": run.arm,
                "task": run.task,
                "seed": run.spec.seed,
                "lr": run.spec.lr,
                **point,
            }
            for run in self.runs
            if run.spec.key in present
            for point in present[run.spec.key].curve
        ]
        return pd.DataFrame(rows, columns=None if rows else ["arm", "task", "seed", "lr", "step"])

    def expected(self) -> pd.DataFrame:
        """What the section compares, from params.yaml alone: one row per arm, task and
        learning rate."""
        rows: dict[tuple[str, str, float], dict[str, Any]] = {}
        for run in self.runs:
            spec = run.spec
            row = rows.setdefault(
                (run.arm, run.task, spec.lr),
                {
                    "arm": run.arm,
                    "task": run.task,
                    "backbone": spec.backbone,
                    "init": spec.init,
                    "lr": spec.lr,
                    "batch": spec.batch,
                    "steps": spec.steps,
                    "seeds": 0,
                    "first key": spec.key[:8],
                },
            )
            row["seeds"] += 1
        return pd.DataFrame(rows.values())

    def tally(self) -> dict[str, Any]:
        """Expected and present runs, by status and by device."""
        present = self.records()
        return {
            "section": self.name,
            "profile": self.profile.name,
            "expected": len(self.keys),
            "present": len(present),
            "status": dict(Counter(record.status for record in present.values())),
            "devices": dict(Counter(r.environment["device"] for r in present.values())),
            "seconds": math.fsum(record.cost["seconds"] for record in present.values()),
        }

    def summary(self) -> dict[str, Any]:
        """The tally, and the digest of each run's record: what `runs.json` holds."""
        return self.tally() | {"runs": self.store.digests(self.keys, self.keep)}

    @property
    def bodies(self) -> list[str]:
        """The weights that the section's runs read."""
        return list(dict.fromkeys(run.spec.weights for run in self.runs if run.spec.weights))

    def write_index(self) -> None:
        """Write the small file that stands for this section's records in the pipeline, and copy the
        metadata of the pretrained backbones that they are of."""
        listed = self.store.digests(self.keys, self.keep)
        listed |= notes.keep(self.store.folder, self.bodies)
        write_json(self.folder / "index" / f"{self.name}.json", listed)


def seconds(text: str) -> float:
    """`90s`, `9m`, `2h` or a plain number of seconds."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text)
    if match is None:
        raise FptError(f"The budget {text!r} is not a time; write 90s, 9m or 2h.")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def section(name: str, profile: str | None = None) -> Section:
    """The section `name` of `profile`, by default the one at the top of params.yaml."""
    loaded = config.load(profile or current_profile())
    return Section(name, loaded, tuple(config.expand(loaded, name)))
