"""params.yaml -> the runs of each section.

A run's settings are the profile's `defaults`, overridden by its task's block, then by its arm's,
then by its section's: the nearest to the table wins. Anything unknown or out of range is an
FptError that names the place in params.yaml and what is allowed there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from .backbones import BACKBONES, backbone
from .backbones.initialisations import INITS
from .backbones.published import pinned
from .files import PROFILES, FptError, check_names, notebooks, read_params
from .pretraining.plans import check_name
from .sections.arms import ROLES, SOURCES, arm
from .sections.registration import check_seeds, registered_draws
from .spec import RunSpec, canonical, probe_of
from .tasks import Task, get_task
from .training.device import AUTO, PRECISIONS
from .training.flops import as_costly
from .training.model import check_length
from .training.settings import (
    FLAG,
    OF_ARMS,
    SETTINGS,
    check_arm,
    check_items,
    check_list,
    check_mapping,
    check_roles,
    check_settings,
    check_spec,
    check_value,
    evaluated,
    placed,
    semantics_of,
)

OPTIONAL: dict[str, Any] = {"test_items": 0, "threshold": 0.0}  # what `defaults` may leave out
# Of a section, beside SETTINGS.
OF_BLOCK = ("tasks", "arms", "seeds", "draws", "keep", "lrs", "search")


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
    # Devices on which the pipeline may train: cpu, cuda. With none of them, runs are trained by
    # `fpt run --device` alone, as those of an experiment whose arithmetic is registered.
    train_on: tuple[str, ...]
    backbones: Mapping[str, str]  # the backbone that plays each role that the arms name
    weights: Mapping[str, str]  # the identity of the weights from each source that the arms name
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


def load(name: str, path: Path | None = None) -> Profile:
    """The profile `name` of params.yaml, or of the file `path`, checked whole."""
    check_names("profile", [name], PROFILES)
    names = [field.name for field in fields(Profile) if field.name != "name"]
    needed = [it for it in names if it != "precision"]
    block = check_mapping(name, read_params(path).get(name), names, needed)
    precision = block.get("precision", AUTO)
    check_names(f"{name}.precision", [precision], PRECISIONS)
    backbones = check_mapping(f"{name}.backbones", block["backbones"])
    depths = {role for role in backbones if re.fullmatch("depth-[0-9]+", str(role))}
    check_roles(f"{name}.backbones", backbones, ROLES | depths, _check_backbone)
    check_roles(f"{name}.weights", block["weights"], SOURCES, _check_weights)
    defaults = OPTIONAL | check_settings(f"{name}.defaults", block["defaults"])
    check_mapping(f"{name}.defaults", defaults, needed=SETTINGS)
    tasks: dict[str, dict[str, Any]] = {}
    for task, given in check_mapping(f"{name}.tasks", block["tasks"]).items():
        where = f"{name}.tasks.{task}"
        tasks[task] = check_settings(where, given or {}, ("name", "options"))
        check_mapping(f"{where}.options", tasks[task].get("options", {}))
        with placed(where):
            check_items(_task(task, tasks[task]), tasks[task])
    given_arms = check_mapping(f"{name}.arms", block["arms"])
    with placed(f"{name}.arms"):
        for it in given_arms:
            arm(str(it))
    profile = Profile(
        name=name,
        train_on=_devices(f"{name}.train_on", block["train_on"]),
        backbones=backbones,
        weights=block["weights"],
        seeds=tuple(check_seeds(f"{name}.seeds", block["seeds"], name)),
        defaults=defaults,
        tasks=tasks,
        arms={it: check_arm(f"{name}.arms.{it}", given, tasks) for it, given in given_arms.items()},
        sections={},
        precision=precision,
    )
    where = f"{name}.sections"
    known = [notebook.stem[3:] for notebook in notebooks()] or None  # without any, all names pass
    sections = {}
    for section, blocks in check_mapping(where, block["sections"], known).items():
        if not isinstance(blocks, list):
            raise FptError(f"{where}.{section}: expected a list of blocks, found {blocks!r}.")
        sections[section] = tuple(_block(f"{where}.{section}", it, profile) for it in blocks)
    profile = replace(profile, sections=sections)
    for section in sections:
        with placed(f"{where}.{section}"):
            _check_cells(profile, section)
    return profile


def _devices(where: str, given: Any) -> tuple[str, ...]:
    return () if given == [] else tuple(check_list(where, given, ("cpu", "cuda")))


def _check_cells(profile: Profile, section: str) -> None:
    """FptError if an arm of a section cannot be trained on one of its tasks: their settings are
    right each, but do not fit. Seeds and rates change nothing of that."""
    for block in profile.sections[section]:
        settings = {key: value for key, value in block.items() if key in SETTINGS}
        for task in block["tasks"]:
            for name in block["arms"]:
                make_spec(profile, name, task, block["seeds"][0], **settings)


def _check_backbone(role: str, name: str) -> None:
    """FptError unless there is a backbone `name`, of the kind that `role` names: a GPT-2 for
    `transformer`, its sizes and depths. One from the hub or a folder may play these."""
    found, kind = backbone(name), any(each.startswith(role) for each in BACKBONES)
    causal = found.config or (found.family == "gpt2" and found.causal)
    if not (name.startswith(role) if kind else causal):
        wanted = f"called {role}, or {role}- and a size" if kind else "that is a causal GPT-2"
        raise FptError(f"{name!r} does not fit this role; give a backbone {wanted}.")


def _check_weights(role: str, weights: str) -> None:
    check_name(pinned(weights).replace("{seed}", "0"))


def _block(where: str, given: Any, profile: Profile) -> Mapping[str, Any]:
    """One block of a section: each of its arms on each of its tasks.

    A block with `lrs` trains at each of these rates; its `search` names the seeds that choose among
    them, which must not be those that are reported (`fpt.analysis.tuning`).
    """
    block = check_settings(where, given, OF_BLOCK, OF_ARMS)
    with placed(f"{where}.arms"):
        arms = [arm(str(name)) for name in check_list(f"{where}.arms", block.get("arms"))]
    check_list(f"{where}.tasks", block.get("tasks"), profile.tasks)
    for it in arms:
        check_names(f"{where}.arms: backbone of {it.name}", [it.role], profile.backbones)
        if INITS[it.init].reads_weights:
            check_names(f"{where}.arms: weights of {it.name}", [it.weights], profile.weights)
    seeds = block.get("seeds", list(profile.seeds))
    block["seeds"] = check_seeds(f"{where}.seeds", seeds, profile.name)
    if "draws" in block:
        block["draws"] = check_seeds(
            f"{where}.draws", block["draws"], profile.name, registered_draws
        )
    keep = check_value(f"{where}.keep", block.get("keep", False), FLAG)
    probes = [it.name for it in arms if it.procedure == "probe"]
    if probes and ("lrs" in block or keep):
        raise FptError(
            f"{where}: a probe has no learning rate and keeps no parameters; leave "
            f"{', '.join(probes)} out."
        )
    if "lrs" not in block and "search" not in block:
        return block
    search = check_seeds(f"{where}.search", block.get("search"), profile.name)
    rates = check_list(f"{where}.lrs", block.get("lrs"))
    block["lrs"] = [check_value(f"{where}.lrs", lr, SETTINGS["lr"]) for lr in rates]
    if "lr" in block:
        raise FptError(f"{where}.lr: a block with lrs has no rate of its own; leave it out.")
    if both := sorted(set(search) & set(block["seeds"])):
        raise FptError(
            f"{where}.search: seeds that choose a rate cannot be reported too; give others than "
            f"{', '.join(map(str, both))}."
        )
    return block


def _task(name: str, settings: Mapping[str, Any]) -> Task:
    """The task behind a block of `tasks`, whose name in the profile may be its own."""
    options = {str(option): value for option, value in settings.get("options", {}).items()}
    return get_task(settings.get("name", name), **options)


def make_spec(profile: Profile, name: str, task: str, seed: int, **settings: Any) -> RunSpec:
    """The spec of one run; `settings` override the profile's for its task and arm. `{seed}` in the
    name of its weights is its own seed, so that runs differ in their backbone too."""
    it = arm(name)
    data = _task(task, profile.tasks[task])
    of_task = {key: value for key, value in profile.tasks[task].items() if key in SETTINGS}
    values = {**profile.defaults, **of_task, **profile.arms.get(name, {}), **settings}
    if isinstance(values["lr"], Mapping):
        values["lr"] = values["lr"].get(task, of_task.get("lr", profile.defaults["lr"]))
    with placed(f"{name} on {task}"):
        check_items(data, settings)
    values |= evaluated(data, values)
    frozen = backbone(profile.backbones[it.role])
    if it.backbone == "lstm-flops":
        frozen = as_costly(frozen, backbone(profile.backbone), data.length)
    check_length(frozen, data)
    trainable = frozen.groups if it.trainable is None else it.trainable
    if not frozen.positions:
        trainable = tuple(group for group in trainable if group != "positions")
    weights = pinned(profile.weights[it.weights]) if INITS[it.init].reads_weights else None
    spec = RunSpec(
        data=canonical(data.identity),
        backbone=frozen.name,
        init=it.init,
        weights=weights.replace("{seed}", str(seed)) if weights else None,
        trainable=tuple(sorted(trainable)),
        seed=seed,
        input_init=it.input_init,
        order=it.order,
        **values,
    )
    spec = probe_of(spec) if it.procedure == "probe" else spec
    spec = replace(spec, semantics=semantics_of(spec))
    check_spec(f"{name} on {task}", spec)
    return spec


def sections_of(profile: Profile) -> dict[str, tuple[str, ...]]:
    """The sections of a profile that have each run, by its key."""
    keys = {name: {run.key for run in expand(profile, name)} for name in profile.sections}
    every = set().union(*keys.values())
    return {key: tuple(name for name in keys if key in keys[name]) for key in every}


def draws_of(profile: Profile, name: str, block: Mapping[str, Any]) -> Sequence[int]:
    """The seeds of the backbones of an arm that a block crosses with its seeds; none if the block
    names none or if nothing of the arm's backbone is drawn."""
    is_drawn = INITS[arm(name).init].depends_on_seed
    has_layers = backbone(profile.backbones[arm(name).role]).layers > 0
    return block.get("draws", ()) if is_drawn and has_layers else ()


def expand(profile: Profile, section: str, changed: Mapping[str, Any] | None = None) -> list[Run]:
    """Every run that a section's tables can have, in the order of its blocks, tasks, arms, rates,
    draws and seeds; with settings that are `changed` in every block, where a rate takes the place
    of those that the block searches."""
    check_names("section", [section], profile.sections)
    changed, runs = changed or {}, []
    for given in profile.sections[section]:
        block = {**given, **({"lrs": (), "search": ()} if "lr" in changed else {}), **changed}
        settings = {key: value for key, value in block.items() if key in SETTINGS}
        search = block.get("search", ())
        runs += [
            Run(
                name,
                task,
                make_spec(profile, name, task, seed, **settings, **rate, **drawn),
                block.get("keep", False),
                seed in search,
            )
            for task in block["tasks"]
            for name in block["arms"]
            for rate in [{"lr": lr} for lr in block.get("lrs", ())] or [{}]
            for drawn in [{"draw": draw} for draw in draws_of(profile, name, block)] or [{}]
            for seed in (*search, *block["seeds"])
        ]
    # Two blocks may have runs in common: each is one run, kept if either block keeps it.
    kept = {run.key for run in runs if run.keep}
    return list(dict.fromkeys(replace(run, keep=run.key in kept) for run in runs))
