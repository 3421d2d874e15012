"""params.yaml -> the runs of each section.

A section is a list of blocks: every arm of every model on every task. A run's settings are
the tier's `defaults`, overridden by its task's block, then by its arm's, then by its
section's: the nearest to the table wins. Anything unknown or out of range is an FptError
that names the place in params.yaml and what is allowed there.
"""

import itertools
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .backbones import backbone
from .backbones.initialisations import INITS
from .backbones.published import pinned
from .errors import FptError, check_names, placed
from .names import arm, model
from .pretraining.plans import check_weights
from .project import TIERS, project, read_params
from .spec import RunSpec, canonical, probe_of
from .tasks import Task, get_task, readers_task
from .tier import Run, Tier, with_included
from .training.device import AUTO, PRECISIONS
from .training.model import check_length
from .training.settings import (
    FLAG,
    OF_ARMS,
    SEED,
    SETTINGS,
    check_arm,
    check_items,
    check_list,
    check_mapping,
    check_name,
    check_settings,
    check_spec,
    check_value,
    evaluated,
    semantics_of,
)

# What `defaults` may leave out.
UNLESS_SAID = {"test_items": 0, "threshold": 0.0, "warmup": 0, "eval_early": 0}
OPTIONAL: dict[str, Any] = {**UNLESS_SAID, "prefix": None}
# Of a section, beside SETTINGS.
OF_BLOCK = ("tasks", "models", "arms", "seeds", "draws", "keep", "lrs", "search", "share")


def load(name: str, path: Path | None = None) -> Tier:
    """The tier `name` of params.yaml, or of the file `path`. Each setting is checked;
    `make_spec` checks what they mean together."""
    check_names("tier", [name], TIERS)
    block = with_included(name, read_params(path))
    precision = block.get("precision", AUTO)
    check_names(f"{name}.precision", [precision], PRECISIONS)
    defaults = OPTIONAL | check_settings(f"{name}.defaults", block.get("defaults", {}))
    if block.get("sections"):
        check_mapping(f"{name}.defaults", defaults, needed=SETTINGS)
    tasks = _tasks(f"{name}.tasks", block.get("tasks", {}))
    settings_of_arms = check_mapping(f"{name}.arms", block.get("arms", {}))
    with placed(f"{name}.arms"):
        for arm_name in settings_of_arms:
            check_name("a key", arm_name)
            arm(arm_name)
    devices: tuple[str, ...] = ()
    if block.get("train_on"):
        devices = tuple(check_list(f"{name}.train_on", block["train_on"], ("cpu", "cuda")))
    tier = Tier(
        name=name,
        experiments=block["experiments"],
        train_on=devices,
        seeds=tuple(
            check_seeds(f"{name}.seeds", block["seeds"]) if "seeds" in block else ()
        ),
        defaults=defaults,
        tasks=tasks,
        arms={
            arm(arm_name).name: check_arm(f"{name}.arms.{arm_name}", settings, tasks)
            for arm_name, settings in settings_of_arms.items()
        },
        precision=precision,
        shown=check_value(f"{name}.shown", block.get("shown", True), FLAG),
        budget=str(block.get("budget", "")),
    )
    where = f"{name}.sections"
    # Without notebooks, any name.
    stems = [path.stem[3:] for path in project().notebooks] or None
    sections = {}
    for section, blocks in check_mapping(where, block.get("sections", {}), stems).items():
        if not isinstance(blocks, list):
            raise FptError(
                f"{where}.{section}: expected a list of blocks, found {blocks!r}."
            )
        checked = [_block(f"{where}.{section}", content, tier) for content in blocks]
        sections[section] = tuple(checked)
    return replace(tier, sections=sections)


def _tasks(where: str, blocks: Any) -> dict[str, dict[str, Any]]:
    tasks: dict[str, dict[str, Any]] = {}
    for task, content in check_mapping(where, blocks).items():
        check_name(where, task)
        place = f"{where}.{task}"
        tasks[task] = check_settings(place, content or {}, ("name", "options"))
        check_mapping(f"{place}.options", tasks[task].get("options", {}))
        with placed(place):
            check_items(task_named(task, tasks[task]), tasks[task])
    return tasks


def check_seeds(where: str, seeds: Any) -> list[int]:
    return [check_value(where, seed, SEED) for seed in check_list(where, seeds)]


def _block(where: str, content: Any, tier: Tier) -> Mapping[str, Any]:
    """One block of a section: each of its arms of each of its models on each of its tasks.

    A block with `lrs` trains at each of these rates; its `search` names the seeds that
    choose among them, which must not be those that are reported; `share` is the part of
    each task's steps that its runs take.
    """
    block = check_settings(where, content, OF_BLOCK, OF_ARMS)
    check_list(f"{where}.tasks", block.get("tasks"), tier.tasks)
    with placed(f"{where}.arms"):
        arms = [arm(str(name)) for name in check_list("names", block.get("arms"))]
    with placed(f"{where}.models"):
        models = [model(str(name)) for name in check_list("names", block.get("models"))]
    block |= {"arms": [row.name for row in arms], "models": [row.name for row in models]}
    for row, of_model in itertools.product(arms, models):
        if INITS[row.init].reads_weights and not of_model.reads:
            raise FptError(
                f"{where}: {row.name!r} starts from pretrained weights, and "
                f"{of_model.name!r} has none; give an arm that is drawn, such as random."
            )
    for name in ("seeds", "draws"):
        if name in block:
            block[name] = check_seeds(f"{where}.{name}", block[name])
    # A search of rates has seeds of its own, and reports none unless it says so.
    block.setdefault("seeds", [] if "lrs" in block else [*tier.seeds])
    if not block["seeds"] and "lrs" not in block:
        raise FptError(f"{where}: there are no seeds; give `seeds` here or in the tier.")
    check_value(f"{where}.share", block.get("share", 1.0), (float, 1e-6, 1))
    keep = check_value(f"{where}.keep", block.get("keep", False), FLAG)
    probes = [row.name for row in arms if row.procedure == "probe"]
    if probes and ("lrs" in block or keep):
        raise FptError(
            f"{where}: a probe has no learning rate and keeps no parameters; leave "
            f"{', '.join(probes)} out."
        )
    if "lrs" not in block and "search" not in block:
        return block
    search = check_seeds(f"{where}.search", block.get("search"))
    rates = check_list(f"{where}.lrs", block.get("lrs"))
    block["lrs"] = [check_value(f"{where}.lrs", lr, SETTINGS["lr"]) for lr in rates]
    if "lr" in block:
        raise FptError(
            f"{where}.lr: a block with lrs has no rate of its own; leave it out."
        )
    both = sorted({*search} & {*block["seeds"], *tier.seeds})
    if both:
        # The best of several rates is best by chance too, so its seeds flatter it.
        raise FptError(
            f"{where}.search: seeds that choose a rate cannot be reported too; give others "
            f"than {', '.join(map(str, both))}."
        )
    return block


def task_named(name: str, settings: Mapping[str, Any]) -> Task:
    """The task behind a block of `tasks`, whose name in the tier may be its own."""
    options = {str(option): value for option, value in settings.get("options", {}).items()}
    return get_task(settings.get("name", name), **options)


def make_spec(
    tier: Tier,
    model_name: str,
    arm_name: str,
    task: str,
    seed: int,
    **settings: Any,
) -> RunSpec:
    """The spec of one run; `settings` override the tier's for its task and arm. `{seed}`
    in the name of its weights is its own seed, so that runs differ in their backbone
    too."""
    frozen, treatment = model(model_name), arm(arm_name)
    place = f"{frozen.name}, {treatment.name} on {task}"
    data = task_named(task, tier.tasks[task])
    values = _merged(tier, treatment.name, task, settings)
    with placed(place):
        check_items(data, settings)
    # Validation and test subsets belong to the task, so that all arms are evaluated alike.
    values |= evaluated(data, values)
    name = frozen.backbone
    if treatment.backbone:
        name = f"{treatment.backbone}-{frozen.in_place}"
    with placed(place):
        architecture = backbone(name)
    check_length(architecture, data)
    weights = None
    if INITS[treatment.init].reads_weights:
        with placed(place):
            check_weights(frozen.reads)
        weights = pinned(frozen.reads).replace("{seed}", str(seed))
    spec = RunSpec(
        data=canonical(data.identity),
        backbone=architecture.name,
        init=treatment.init,
        weights=weights,
        trainable=treatment.groups(architecture),
        seed=seed,
        order=treatment.order,
        **values,
    )
    spec = probe_of(spec) if treatment.procedure == "probe" else spec
    spec = replace(spec, semantics=semantics_of(spec))
    check_spec(place, spec)
    return spec


def _merged(
    tier: Tier, name: str, task: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of an arm on a task: the tier's, then the task's, the arm's and
    `settings`, of which the later ones count. An arm may have a rate for each task."""
    of_task = {key: value for key, value in tier.tasks[task].items() if key in SETTINGS}
    values = {**tier.defaults, **of_task, **tier.arms.get(name, {}), **settings}
    if isinstance(values["lr"], Mapping):
        values["lr"] = values["lr"].get(task, of_task.get("lr", tier.defaults["lr"]))
    values["steps"] = math.ceil(values.pop("share", 1) * values["steps"])
    return values


def sections_of(tier: Tier) -> dict[str, tuple[str, ...]]:
    """The sections of a tier that have each run, by its key."""
    sections: dict[str, tuple[str, ...]] = {}
    for name in tier.sections:
        for key in dict.fromkeys(run.key for run in expand(tier, name)):
            sections[key] = (*sections.get(key, ()), name)
    return sections


def expand(tier: Tier, section: str, changed: Mapping[str, Any] | None = None) -> list[Run]:
    """Every run that a section's tables can have, in the order of its blocks, tasks,
    models, arms, rates, draws and seeds. `changed` settings override those of every block;
    a changed rate also replaces the rates that a block searches."""
    check_names("section", [section], tier.sections)
    # The files that a reader's task reads may have been edited.
    readers_task.cache_clear()
    changed = changed or {}
    without_search = {"lrs": (), "search": ()} if "lr" in changed else {}
    runs: list[Run] = []
    searched: set[tuple[str, str, str]] = set()
    for content in tier.sections[section]:
        block = {**content, **without_search, **changed}
        settings = {key: block[key] for key in (*SETTINGS, "share") if key in block}
        search = block.get("search", ())
        # One empty change stands for the rate of the settings, or for no draw.
        rates = [{"lr": lr} for lr in block.get("lrs", ())] or [{}]
        places = itertools.product(block["tasks"], block["models"], block["arms"])
        for task, model_name, name in places:
            is_drawn = INITS[arm(name).init].depends_on_seed and not arm(name).backbone
            drawn = block.get("draws", ()) if is_drawn else ()
            draws: Sequence[Mapping[str, int]] = [{"draw": draw} for draw in drawn] or [{}]
            seeds = (*search, *block["seeds"])
            for rate, draw, seed in itertools.product(rates, draws, seeds):
                changes = {**settings, **rate, **draw}
                spec = make_spec(tier, model_name, name, task, seed, **changes)
                is_search = seed in search
                keep = block.get("keep", False)
                runs.append(Run(model_name, name, task, spec, keep, is_search))
        if "lrs" in block:
            searched.update(
                itertools.product(block["models"], block["arms"], block["tasks"])
            )
    check_alike(f"{tier.name}.sections.{section}", runs, searched)
    # Two blocks may have runs in common: each is one run, kept if either block keeps it.
    kept = {run.key for run in runs if run.keep}
    return list(dict.fromkeys(replace(run, keep=run.key in kept) for run in runs))


def check_alike(
    where: str, runs: Sequence[Run], searched: Container[tuple[str, str, str]]
) -> None:
    """FptError if runs of an arm on a task differ in more than seeds and, of what is
    `searched`, rates: tables take the mean of all of them."""
    settings: dict[tuple[str, str, str], RunSpec] = {}
    for run in runs:
        place = (run.model, run.arm, run.task)
        alike = replace(run.spec, seed=0, draw=None, weights=None)
        if place in searched:
            alike = replace(alike, lr=0.0)
        if settings.setdefault(place, alike) != alike:
            raise FptError(
                f"{where}: two blocks train {run.title} with other settings, and tables "
                "take the mean of all runs; leave one of them out."
            )
