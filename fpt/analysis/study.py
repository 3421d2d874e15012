"""A study: the runs of one section in one profile, training what is missing, and tidy
frames.

`fpt.section("transfer")` is all a notebook needs to begin.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from .. import config
from ..errors import check_names
from ..files import write_json
from ..pretraining import metadata
from ..pretraining.plans import shares_data
from ..profile import Profile, Run
from ..project import Project, current_profile, project
from ..records import Record, Store
from ..sections import declared
from ..sections.comparison import Comparison, Pair, Section
from ..sections.registration import LANGUAGE
from ..tasks import Task, task_of
from ..training import device as devices
from ..training import sweep
from ..training.settings import SETTINGS, check_list, check_settings, check_spec
from ..training.train import Job, train
from .frame import frame_of
from .tuning import chosen_rates


@dataclass(frozen=True)
class Study:
    """The runs of one section in one profile, and the store that may hold their records."""

    name: str
    profile: Profile
    runs: tuple[Run, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # that override params.yaml
    project: Project = field(default_factory=project)  # of data, weights and records

    def __repr__(self) -> str:
        return f"<Study {self.name} of {self.profile.name}: {len(self.runs)} runs>"

    @property
    def declared(self) -> Section:
        """What the section compares and claims."""
        return declared(self.name, self.arms)

    @property
    def folder(self) -> Path:
        """The folder of the report, `reports/<profile>`."""
        return self.project.reports / self.profile.name

    @cached_property
    def store(self) -> Store:
        """The profile's; with other settings, one in the cache that no report shows."""
        name = self.profile.name
        trials = self.project.cache / "trials" / name / "records"
        return Store(trials if self.settings else self.project.records(name))

    @property
    def keys(self) -> list[str]:
        """The keys of exactly these runs; no other record can enter a table."""
        return list(dict.fromkeys(run.key for run in self.runs))

    @cached_property
    def keep(self) -> frozenset[str]:
        """The keys of runs whose parameters are kept; without them, such a run is
        missing."""
        return frozenset(run.key for run in self.runs if run.keep)

    @property
    def arms(self) -> list[str]:
        """The names of the arms, in the order of `params.yaml`."""
        return list(dict.fromkeys(run.arm for run in self.runs))

    @property
    def compared(self) -> list[Comparison]:
        """The comparisons of the section of whose pairs the profile plans more than
        half."""
        compared = []
        for comparison in self.declared.comparisons:
            planned = [pair for pair in comparison.pairs if set(pair) <= set(self.arms)]
            if 2 * len(planned) > len(comparison.pairs):
                compared.append(comparison)
        return compared

    @property
    def main_pairs(self) -> tuple[Pair, ...]:
        """The differences of the first of these comparisons, or of the first that the
        section declares."""
        comparisons = [*self.compared, *self.declared.comparisons]
        return comparisons[0].pairs if comparisons else ()

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks by the names that the profile gives them. Reads no data."""
        specs = {run.task: run.spec for run in self.runs}
        return {name: task_of(spec) for name, spec in specs.items()}

    def measures(self, task: str) -> str:
        """`steps` if the profile gives the task a threshold, in `language` the `area` under
        the validation loss, else `accuracy`."""
        if self.threshold(task):
            return "steps"
        return "area" if self.profile.name == LANGUAGE else "accuracy"

    def threshold(self, task: str) -> float:
        """The validation accuracy in [0, 1] that steps are counted to; 0 if accuracy is
        measured."""
        return next(run.spec.threshold for run in self.runs if run.task == task)

    def title(self, task: str) -> str:
        """What reports call a task: its name, and whether training sees its whole test
        set."""
        return f"{task} (fitting)" if self.tasks[task].fitting else task

    @cached_property
    def taught(self) -> set[tuple[str, str]]:
        """The arms and tasks whose backbone was pretrained on the task or with the labels
        of its data: an advantage that is not transfer."""
        return {
            (run.arm, run.task)
            for run in self.runs
            if run.spec.weights and shares_data(run.spec.weights, self.tasks[run.task])
        }

    def part(self, tasks: Collection[str], arms: Collection[str] | None = None) -> "Study":
        """The study with the runs on `tasks` alone and, if `arms` are given, of these
        alone."""
        arms = self.arms if arms is None else arms
        runs = [run for run in self.runs if run.task in tasks and run.arm in arms]
        return replace(self, runs=tuple(runs))

    def with_lent_runs(self) -> "Study":
        """The study; if the profile plans none of its runs, with those that the profile
        plans for other sections, its `lenders`, of the arms that it compares."""
        if self.runs:
            return self
        arms = {arm for comparison in self.declared.comparisons for arm in comparison.arms}
        lent = [
            run
            for lender in self.declared.lenders
            for run in config.expand(self.profile, lender)
            if run.arm in arms
        ]
        return replace(self, runs=tuple(dict.fromkeys(lent)))

    def records(self) -> dict[str, Record]:
        """The records that are there, by key."""
        return self.store.read_all(self.keys, self.keep)

    def missing(self) -> list[Run]:
        """The runs without a record."""
        recorded = self.records()
        return [run for run in self.runs if run.key not in recorded]

    def may_train(self, device: str = "auto") -> bool:
        """Whether the profile allows training on the device that `device` means here."""
        return devices.choose(device).type in self.profile.train_on

    def train(self, *, device: str = "auto", **options: Any) -> int:
        """Train what is missing, if the profile allows it on this device; returns the
        number of new records. `options` are others of `fpt.training.sweep.run`."""
        if not self.may_train(device):
            return 0
        return self.train_anyway(device=device, **options)

    def train_anyway(self, **options: Any) -> int:
        """As `train`, whatever the profile says."""
        titles = {run.key: f"{run.arm} on {run.task}" for run in self.runs}
        for run in self.runs:
            check_spec(titles[run.key], run.spec)
        options = {"precision": self.profile.precision, **options}
        # Runs of different sections share no pack, so that each section has its numbers
        # alone.
        sections = config.sections_of(self.profile)
        specs = [run.spec for run in self.runs]
        options |= {"keep": self.keep, "sections": sections, "titles": titles}
        with self.project.in_force():
            return sweep.run(specs, self.store, **options)

    def shard(self, part: str, max_runs: int) -> "Study":
        """The study of the runs in part `I/N` of its packs."""
        specs = [run.spec for run in self.runs]
        packs = sweep.packs(specs, max_runs, config.sections_of(self.profile))
        keys = {spec.key for pack in sweep.shard(packs, part) for spec in pack}
        return replace(self, runs=tuple(run for run in self.runs if run.key in keys))

    def change(self, arm: str, task: str, **settings: Any) -> Record:
        """Train one run of an arm on a task with other settings (`lr=0.01`, `steps=100`,
        `seed=5`: the fields of `RunSpec`), and keep nothing of it; returns its record.
        FptError for settings that params.yaml could not have either."""
        title = f"{arm} on {task}"
        # The first run of an arm and task is the one that is changed.
        specs = {f"{run.arm} on {run.task}": run.spec for run in reversed(self.runs)}
        check_names("run", [title], sorted(specs))
        check_names("setting", settings, specs[title].to_dict())
        # What params.yaml could not say is refused, as a run of a section would be.
        numbers = {name: value for name, value in settings.items() if name in SETTINGS}
        settings |= check_settings(title, numbers)
        if "trainable" in settings:
            settings["trainable"] = tuple(sorted(check_list(title, settings["trainable"])))
        spec = replace(specs[title], **settings)
        check_spec(title, spec)
        # Its record must not enter a report, nor its checkpoint another run.
        with TemporaryDirectory() as name:
            folder = Path(name)
            job = Job(
                Store(folder),
                precision=self.profile.precision,
                project=self.project,
                cache=folder,
                titles={spec.key: title},
            )
            (record,) = train([spec], job)
        return record

    def frame(self) -> pd.DataFrame:
        """One row per run, recorded or not: arm, task, seed, draw (of a backbone that is
        crossed with several seeds), lr, key, search (it only chooses a rate), threshold,
        status, and what the arm is (weights and their role `source`, init, the groups that
        are trained, layers of the backbone); and if it is recorded its metrics, cost,
        device, and digests of data and weights.

        `accuracy` is that on the test set, in percent; a run that diverged has none.
        `steps` are those to the threshold of a task that has one, or all of a run that does
        not get there, which is `censored`. `area`, in nats per answer, is that under the
        validation loss in a profile that measures it. FptError if runs of one arm and task
        saw different data or weights of one name."""
        return frame_of(self.runs, self.records(), self.profile.name == LANGUAGE)

    def results(self, every_rate: bool = False) -> pd.DataFrame:
        """The rows of `frame` that are reported: of several learning rates those at the
        rate that the search seeds chose, or at all of them."""
        frame = self.frame()
        # Runs of the search chose the rate, so they are not reported.
        rates = chosen_rates(frame)
        frame = frame[~frame["search"]]
        if not every_rate:
            chosen = [rates.get((run.arm, run.task), run.lr) for run in frame.itertuples()]
            frame = frame[frame["lr"] == chosen]
        return frame.reset_index(drop=True)

    def curves(self) -> pd.DataFrame:
        """One row per evaluation on validation of every recorded run that is reported."""
        records = self.records()
        reported = set(self.results()["key"]) & records.keys()
        rows = [
            {
                "arm": run.arm,
                "task": run.task,
                "seed": run.spec.seed,
                "lr": run.spec.lr,
                **point,
            }
            for run in self.runs
            if run.key in reported
            for point in records[run.key].curve
        ]
        return pd.DataFrame(
            rows, columns=None if rows else ["arm", "task", "seed", "lr", "step"]
        )

    @property
    def weights(self) -> list[str]:
        """The pretrained weights that the runs read."""
        return list(
            dict.fromkeys(run.spec.weights for run in self.runs if run.spec.weights)
        )

    def write_index(self, digests: Mapping[str, str | None] | None = None) -> None:
        """Write the small file that stands for this study's records in the pipeline, those
        that its page borrows included, with further `digests`, and copy the metadata of
        their pretrained backbones."""
        keys = self.with_lent_runs().keys
        index = {**(digests or {}), **self.store.digests(keys, self.keep)}
        index |= metadata.keep(self.store.folder, self.weights)
        write_json(self.folder / "index" / f"{self.name}.json", index)


def section(name: str, profile: str | None = None, **settings: Any) -> Study:
    """The study of section `name` in `profile`, by default the one at the top of
    params.yaml.

    With `settings`, such as `lr=0.01`, its runs are others than those of the report, and
    their records lie apart from it.
    """
    loaded = config.load(profile or current_profile())
    runs = config.expand(loaded, name, check_settings("settings", settings))
    return Study(name, loaded, tuple(runs), settings)
