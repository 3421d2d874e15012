"""params.yaml -> the runs of each section.

A run's settings are the profile's `defaults`, overridden by its task's block, then by its
arm's, then by its section's: the nearest to the table wins. Anything unknown or out of
range is an FptError that names the place in params.yaml and what is allowed there.
"""

import itertools
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from .backbones import backbone
from .backbones.initialisations import INITS
from .backbones.published import pinned
from .errors import FptError, check_names, placed
from .pretraining.plans import check_weights
from .profile import Profile, Run
from .project import PROFILES, project, read_params
from .sections.arms import arm, roles
from .sections.registration import check_seeds, is_withdrawn, registered_draws
from .spec import RunSpec, canonical, probe_of
from .tasks import Task, get_task, readers_task
from .training.device import AUTO, PRECISIONS
from .training.flops import as_costly
from .training.model import check_length
from .training.settings import (
    FLAG,
    OF_ARMS,
    SETTINGS,
    check_arm,
    check_backbone,
    check_items,
    check_list,
    check_mapping,
    check_name,
    check_roles,
    check_settings,
    check_spec,
    check_value,
    evaluated,
    semantics_of,
)

# What `defaults` may leave out.
OPTIONAL: dict[str, Any] = {
    "test_items": 0,
    "threshold": 0.0,
    "warmup": 0,
    "prefix": None,
    "eval_early": 0,
}
# Of a section, beside SETTINGS.
OF_BLOCK = ("tasks", "arms", "seeds", "draws", "keep", "lrs", "search")


def load(name: str, path: Path | None = None) -> Profile:
    """The profile `name` of params.yaml, or of the file `path`. Each setting is checked;
    `make_spec` checks what they mean together."""
    check_names("profile", [name], PROFILES)
    names = [field.name for field in fields(Profile) if field.name != "name"]
    needed = [key for key in names if key != "precision"]
    block = check_mapping(name, read_params(path).get(name), names, needed)
    precision = block.get("precision", AUTO)
    check_names(f"{name}.precision", [precision], PRECISIONS)
    backbones = check_mapping(f"{name}.backbones", block["backbones"])
    depths = {role for role in backbones if re.fullmatch("depth-[0-9]+", str(role))}
    of_backbones = roles("backbone", set(backbones) - depths) | depths
    check_roles(f"{name}.backbones", backbones, of_backbones, check_backbone)
    weights = check_mapping(f"{name}.weights", block["weights"])
    check_roles(f"{name}.weights", weights, roles("weights", weights), check_weights)
    defaults = OPTIONAL | check_settings(f"{name}.defaults", block["defaults"])
    check_mapping(f"{name}.defaults", defaults, needed=SETTINGS)
    tasks: dict[str, dict[str, Any]] = {}
    for task, content in check_mapping(f"{name}.tasks", block["tasks"]).items():
        check_name(f"{name}.tasks", task)
        where = f"{name}.tasks.{task}"
        tasks[task] = check_settings(where, content or {}, ("name", "options"))
        check_mapping(f"{where}.options", tasks[task].get("options", {}))
        with placed(where):
            check_items(task_named(task, tasks[task]), tasks[task])
    settings_of_arms = check_mapping(f"{name}.arms", block["arms"])
    with placed(f"{name}.arms"):
        for arm_name in settings_of_arms:
            check_name("a key", arm_name)
            arm(arm_name)
    devices: tuple[str, ...] = ()
    if block["train_on"] != []:
        devices = tuple(check_list(f"{name}.train_on", block["train_on"], ("cpu", "cuda")))
    profile = Profile(
        name=name,
        train_on=devices,
        backbones=backbones,
        weights=weights,
        seeds=tuple(check_seeds(f"{name}.seeds", block["seeds"], name)),
        defaults=defaults,
        tasks=tasks,
        arms={
            arm_name: check_arm(f"{name}.arms.{arm_name}", settings, tasks)
            for arm_name, settings in settings_of_arms.items()
        },
        sections={},
        precision=precision,
    )
    where = f"{name}.sections"
    # Without notebooks, any name.
    stems = [path.stem[3:] for path in project().notebooks] or None
    sections = {}
    for section, blocks in check_mapping(where, block["sections"], stems).items():
        if not isinstance(blocks, list):
            raise FptError(
                f"{where}.{section}: expected a list of blocks, found {blocks!r}."
            )
        checked = [_block(f"{where}.{section}", content, profile) for content in blocks]
        sections[section] = tuple(checked)
    # The pipeline executes every notebook, so a section is empty rather than left out.
    check_mapping(where, sections, needed=stems or ())
    return replace(profile, sections=sections)


def _block(where: str, content: Any, profile: Profile) -> Mapping[str, Any]:
    """One block of a section: each of its arms on each of its tasks.

    A block with `lrs` trains at each of these rates; its `search` names the seeds that
    choose among them, which must not be those that are reported (`fpt.analysis.tuning`).
    """
    block = check_settings(where, content, OF_BLOCK, OF_ARMS)
    names = check_list(f"{where}.arms", block.get("arms"))
    with placed(f"{where}.arms"):
        arms = [arm(str(name)) for name in names]
    check_list(f"{where}.tasks", block.get("tasks"), profile.tasks)
    for row in arms:
        check_names(f"{where}.arms: backbone of {row.name}", [row.role], profile.backbones)
        if INITS[row.init].reads_weights:
            check_names(
                f"{where}.arms: weights of {row.name}", [row.weights], profile.weights
            )
    seeds = block.get("seeds", list(profile.seeds))
    block["seeds"] = check_seeds(f"{where}.seeds", seeds, profile.name)
    if "draws" in block:
        draws = block["draws"]
        block["draws"] = check_seeds(
            f"{where}.draws", draws, profile.name, registered_draws
        )
    keep = check_value(f"{where}.keep", block.get("keep", False), FLAG)
    probes = [row.name for row in arms if row.procedure == "probe"]
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
        raise FptError(
            f"{where}.lr: a block with lrs has no rate of its own; leave it out."
        )
    both = sorted(set(search) & set(block["seeds"]))
    if both:
        # The best of several rates is best by chance too, so its seeds flatter it.
        raise FptError(
            f"{where}.search: seeds that choose a rate cannot be reported too; give others "
            f"than {', '.join(map(str, both))}."
        )
    return block


def task_named(name: str, settings: Mapping[str, Any]) -> Task:
    """The task behind a block of `tasks`, whose name in the profile may be its own."""
    options = {str(option): value for option, value in settings.get("options", {}).items()}
    return get_task(settings.get("name", name), **options)


def make_spec(
    profile: Profile, name: str, task: str, seed: int, **settings: Any
) -> RunSpec:
    """The spec of one run; `settings` override the profile's for its task and arm. `{seed}`
    in the name of its weights is its own seed, so that runs differ in their backbone
    too."""
    treatment = arm(name)
    data = task_named(task, profile.tasks[task])
    values = _merged(profile, name, task, settings)
    with placed(f"{name} on {task}"):
        check_items(data, settings)
    # Validation and test subsets belong to the task, so that all arms are evaluated alike.
    values |= evaluated(data, values)
    architecture = backbone(profile.backbones[treatment.role])
    if treatment.backbone == "lstm-flops":
        architecture = as_costly(architecture, backbone(profile.backbone), data.length)
    check_length(architecture, data)
    trainable = architecture.groups if treatment.trainable is None else treatment.trainable
    # Rotary positions have no table to train.
    if not architecture.positions:
        trainable = tuple(group for group in trainable if group != "positions")
    weights = None
    if INITS[treatment.init].reads_weights:
        weights = pinned(profile.weights[treatment.weights]).replace("{seed}", str(seed))
    spec = RunSpec(
        data=canonical(data.identity),
        backbone=architecture.name,
        init=treatment.init,
        weights=weights,
        trainable=tuple(sorted(trainable)),
        seed=seed,
        input_init=treatment.input_init,
        order=treatment.order,
        **values,
    )
    spec = probe_of(spec) if treatment.procedure == "probe" else spec
    spec = replace(spec, semantics=semantics_of(spec))
    check_spec(f"{name} on {task}", spec)
    return spec


def _merged(
    profile: Profile, name: str, task: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of an arm on a task: the profile's, then the task's, the arm's and
    `settings`, of which the later ones count. An arm may have a rate for each task."""
    of_task = {key: value for key, value in profile.tasks[task].items() if key in SETTINGS}
    values = {**profile.defaults, **of_task, **profile.arms.get(name, {}), **settings}
    if isinstance(values["lr"], Mapping):
        values["lr"] = values["lr"].get(task, of_task.get("lr", profile.defaults["lr"]))
    return values


def sections_of(profile: Profile) -> dict[str, tuple[str, ...]]:
    """The sections of a profile that have each run, by its key."""
    sections: dict[str, tuple[str, ...]] = {}
    for name in profile.sections:
        for key in {run.key for run in expand(profile, name)}:
            sections[key] = (*sections.get(key, ()), name)
    return sections


def draws_of(profile: Profile, name: str, block: Mapping[str, Any]) -> Sequence[int]:
    """The seeds of the backbones of an arm that a block crosses with its seeds; none if the
    block names none or if nothing of the arm's backbone is drawn."""
    if not INITS[arm(name).init].depends_on_seed:
        return ()
    has_layers = backbone(profile.backbones[arm(name).role]).layers > 0
    return block.get("draws", ()) if has_layers else ()


def expand(
    profile: Profile, section: str, changed: Mapping[str, Any] | None = None
) -> list[Run]:
    """Every run that a section's tables can have, in the order of its blocks, tasks, arms,
    rates, draws and seeds. `changed` settings override those of every block; a changed rate
    also replaces the rates that a block searches."""
    check_names("section", [section], profile.sections)
    # The files that a reader's task reads may have been edited.
    readers_task.cache_clear()
    changed = changed or {}
    without_search = {"lrs": (), "search": ()} if "lr" in changed else {}
    runs: list[Run] = []
    searched: set[tuple[str, str]] = set()
    for content in profile.sections[section]:
        block = {**content, **without_search, **changed}
        settings = {key: value for key, value in block.items() if key in SETTINGS}
        search = block.get("search", ())
        seeds = (*search, *block["seeds"])
        # One empty change stands for the rate of the settings, or for no draw.
        rates = [{"lr": lr} for lr in block.get("lrs", ())] or [{}]
        for task, name in itertools.product(block["tasks"], block["arms"]):
            if is_withdrawn(profile.name, name, task):
                continue
            draws = [{"draw": draw} for draw in draws_of(profile, name, block)] or [{}]
            for rate, draw, seed in itertools.product(rates, draws, seeds):
                spec = make_spec(profile, name, task, seed, **settings, **rate, **draw)
                runs.append(Run(name, task, spec, block.get("keep", False), seed in search))
        if "lrs" in block:
            searched.update(itertools.product(block["arms"], block["tasks"]))
    check_alike(f"{profile.name}.sections.{section}", runs, searched)
    # Two blocks may have runs in common: each is one run, kept if either block keeps it.
    kept = {run.key for run in runs if run.keep}
    return list(dict.fromkeys(replace(run, keep=run.key in kept) for run in runs))


def check_alike(
    where: str, runs: Sequence[Run], searched: Container[tuple[str, str]]
) -> None:
    """FptError if runs of an arm on a task differ in more than seeds and, of what is
    `searched`, rates: tables take the mean of all of them."""
    settings: dict[tuple[str, str], RunSpec] = {}
    for run in runs:
        place = (run.arm, run.task)
        alike = replace(run.spec, seed=0, draw=None, weights=None)
        if place in searched:
            alike = replace(alike, lr=0.0)
        if settings.setdefault(place, alike) != alike:
            raise FptError(
                f"{where}: two blocks train {run.arm} on {run.task} with other settings, "
                "and tables take the mean of all runs; leave one of them out."
            )
