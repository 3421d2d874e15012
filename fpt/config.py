"""params.yaml -> the runs of each section.

A section is a list of blocks: every arm of every model on every task. A run's settings are
the tier's `defaults`, overridden by its task's block, then by its arm's, then by its
section's: the nearest to the table wins. fpt/params.schema.yaml has the names and types;
what they mean together is checked here. A mistake is an FptError that names its place.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .backbones import backbone
from .backbones.initialisations import INITS
from .backbones.published import pinned
from .errors import FptError, check_names, placed
from .names import arm, model
from .project import TIERS, project, read_params
from .spec import RunSpec, canonical, probe_of
from .tasks import get_task, readers_task
from .training.device import AUTO
from .training.settings import (
    SETTINGS,
    check_items,
    check_settings,
    check_spec,
    evaluated,
    semantics_of,
)


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


Settings = Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class Tier:
    """One block of params.yaml, with what the tier that it includes has."""

    name: str = ""
    # The tiers that it includes, from the smallest, and itself: the experiments of its
    # runs.
    experiments: Sequence[str] = ()
    includes: str = ""
    train_on: Sequence[str] = ()  # the pipeline trains on these: cpu, cuda or none
    seeds: Sequence[int] = ()
    defaults: Settings = field(default_factory=dict)
    tasks: Mapping[str, Settings] = field(default_factory=dict)
    arms: Mapping[str, Settings] = field(default_factory=dict)
    sections: Mapping[str, Sequence[Settings]] = field(default_factory=dict)
    precision: str = AUTO  # of all its runs
    shown: bool = True  # on the pages; runs that only check the code are not
    budget: str = ""  # the time that the pipeline may train, such as 50m


def load(name: str, path: Path | None = None) -> Tier:
    """The tier `name` of params.yaml, or of the file `path`. What its settings mean
    together is checked as its runs are made."""
    params = read_params(path)
    check_names("tier", [name], [tier for tier in TIERS if tier in params])
    block = params[name]
    # A larger tier has all runs of a smaller one.
    base = load(block["includes"], path) if "includes" in block else Tier()
    parts = {
        part: {**getattr(base, part), **block.get(part, {})}
        for part in ("defaults", "tasks", "arms", "sections")
    }
    for section, blocks in base.sections.items():
        parts["sections"][section] = [*blocks, *block.get("sections", {}).get(section, [])]
    # Without notebooks, any name.
    stems = [path.stem[3:] for path in project().notebooks]
    check_names(f"{name}.sections", parts["sections"], stems or parts["sections"])
    with placed(f"{name}.arms"):
        parts["arms"] = {arm(key).name: parts["arms"][key] for key in parts["arms"]}
    experiments = [*base.experiments, name]
    return replace(base, **{**block, **parts}, name=name, experiments=experiments)


def make_spec(
    tier: Tier,
    model_name: str,
    arm_name: str,
    task: str,
    seed: int,
    draw: int | None = None,
    **settings: Any,
) -> RunSpec:
    """The spec of one run; `settings` override the tier's for its task and arm. `{seed}`
    in the name of its weights is its own seed, so that runs differ in their backbone
    too."""
    frozen, treatment = model(model_name), arm(arm_name)
    of_task = tier.tasks[task]
    place = f"{frozen.name}, {treatment.name} on {task}"
    name = frozen.backbone
    if treatment.backbone:
        name = f"{treatment.backbone}-{frozen.in_place}"
    weights = None
    with placed(place):
        values = check_settings("settings", _merged(tier, treatment.name, task, settings))
        # A task may have another name in the tier.
        data = get_task(of_task.get("name", task), **of_task.get("options", {}))
        check_items(data, {**of_task, **settings})
        architecture = backbone(name)
        if INITS[treatment.init].reads_weights and frozen.reads:
            weights = pinned(frozen.reads).replace("{seed}", str(seed))
    spec = RunSpec(
        data=canonical(data.identity),
        backbone=architecture.name,
        init=treatment.init,
        weights=weights,
        trainable=treatment.groups(architecture),
        seed=seed,
        draw=draw,
        order=treatment.order,
        # The subsets belong to the task, so that all arms are evaluated alike.
        **values | evaluated(data, values),
    )
    spec = probe_of(spec) if treatment.procedure == "probe" else spec
    spec = replace(spec, semantics=semantics_of(spec))
    check_spec(place, spec)
    return spec


def _merged(tier: Tier, name: str, task: str, settings: Settings) -> Settings:
    """The settings of an arm on a task: the tier's, then the task's, the arm's and
    `settings`, of which the later ones count. An arm may have a rate for each task."""
    of_task = tier.tasks[task]
    values = {**tier.defaults, **of_task, **tier.arms.get(name, {}), **settings}
    if isinstance(values["lr"], Mapping):
        check_names("lr", values["lr"], tier.tasks)
        values["lr"] = values["lr"].get(task, of_task.get("lr", tier.defaults["lr"]))
    values["steps"] = math.ceil(values.get("share", 1) * values["steps"])
    return {name: value for name, value in values.items() if name in SETTINGS}


def expand(tier: Tier, section: str, changed: Settings | None = None) -> list[Run]:
    """Every run that a section's tables can have, in the order of its blocks, tasks,
    models, arms, rates, draws and seeds. `changed` settings override those of every block;
    a changed rate also replaces the rates that a block searches."""
    check_names("section", [section], tier.sections)
    # The files that a reader's task reads may have been edited.
    readers_task.cache_clear()
    changes = dict(changed or {})
    if "lr" in changes:
        changes |= {"lrs": [], "search": []}
    runs: list[Run] = []
    with placed(f"{tier.name}.sections.{section}"):
        for block in tier.sections[section]:
            # A search of rates has seeds of its own, and reports none unless it says so.
            seeds = [] if "search" in block else tier.seeds
            runs += _runs_of(tier, {"seeds": seeds, **block, **changes})
        check_alike(runs)
    # Two blocks may have runs in common: each is one run, kept if either block keeps it.
    kept = {run.key for run in runs if run.keep}
    return list(dict.fromkeys(replace(run, keep=run.key in kept) for run in runs))


def _runs_of(tier: Tier, block: Settings) -> Iterator[Run]:
    """The runs of one block: each of its arms of each of its models on each of its tasks.

    A block with `lrs` trains at each of these rates; its `search` names the seeds that
    choose among them, which must not be those that are reported; `share` is the part of
    each task's steps that its runs take.
    """
    check_names("tasks", block["tasks"], tier.tasks)
    search, seeds, keep = block.get("search", []), block["seeds"], block.get("keep", False)
    both = sorted({*search} & {*seeds, *tier.seeds})
    if both:
        # The best of several rates is best by chance too, so its seeds flatter it.
        raise FptError(
            "search: seeds that choose a rate cannot be reported too; give others than "
            f"{', '.join(map(str, both))}."
        )
    settings = {name: block[name] for name in (*SETTINGS, "share") if name in block}
    # One empty change stands for the rate of the settings.
    rates = [{"lr": rate} for rate in block.get("lrs", [])] or [{}]
    models, arms = map(model, block["models"]), map(arm, block["arms"])
    for task, frozen, treatment in itertools.product(block["tasks"], models, arms):
        if treatment.procedure == "probe" and (search or keep):
            raise FptError(
                "a probe has no learning rate and keeps no parameters; leave "
                f"{treatment.name} out."
            )
        is_drawn = INITS[treatment.init].depends_on_seed and not treatment.backbone
        draws = block.get("draws", [None]) if is_drawn else [None]
        for rate, draw, seed in itertools.product(rates, draws, [*search, *seeds]):
            names = frozen.name, treatment.name, task
            spec = make_spec(tier, *names, seed, draw, **{**settings, **rate})
            yield Run(*names, spec, keep, seed in search)


def check_alike(runs: Sequence[Run]) -> None:
    """FptError if runs of an arm on a task differ in more than seeds and, if rates are
    searched there, rates: tables take the mean of all of them."""
    searched = {run.title for run in runs if run.search}
    settings: dict[str, RunSpec] = {}
    for run in runs:
        rate = 0.0 if run.title in searched else run.spec.lr
        alike = replace(run.spec, seed=0, draw=None, weights=None, lr=rate)
        if settings.setdefault(run.title, alike) != alike:
            raise FptError(
                f"two blocks train {run.title} with other settings, and tables take the "
                "mean of all runs; leave one of them out."
            )
