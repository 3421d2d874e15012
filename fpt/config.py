"""params.yaml -> the runs of each section; strict, in one place.

A run's settings are the profile's `defaults`, overridden by its task's block, then by its arm's,
then by its section's: the nearest to the table wins. Anything unknown is an error that lists what
is allowed.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from .arms import ARMS, Arm
from .backbones import Backbone, backbone
from .errors import FptError
from .paths import PARAMS
from .spec import RunSpec, canonical
from .strict_yaml import read_yaml
from .tasks import get_task
from .weights import reads_weights

PROFILES = ("smoke", "lab", "paper")
SETTINGS: Mapping[str, type] = {
    "lr": float,
    "batch": int,
    "steps": int,
    "eval_every": int,
    "patience": int,
    "clip": float,
    "dropout": float,
    "augment": bool,
}
ZERO_ALLOWED = {"patience", "dropout"}


@dataclass(frozen=True)
class Run:
    """A spec in its place: the arm and the task it stands for in a section's table."""

    arm: str
    task: str
    spec: RunSpec


@dataclass(frozen=True)
class Profile:
    """One block of params.yaml, checked."""

    name: str
    train_on: tuple[str, ...]  # devices on which the pipeline may train: cpu, cuda
    backbone: str  # the transformer of every arm
    lstm: str  # width of the LSTM arms, by the size whose width it shares
    weights: str  # identity of the language-pretrained weights
    seeds: tuple[int, ...]
    defaults: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Any]]
    arms: Mapping[str, Mapping[str, Any]]
    sections: Mapping[str, Mapping[str, Any]]

    @cached_property
    def body(self) -> Backbone:
        return backbone(self.backbone)


def check_names(what: str, given: Iterable[Any], allowed: Iterable[str]) -> None:
    allowed = list(allowed)
    for name in given:
        if name not in allowed:
            raise FptError(f"{what}: {name!r} is not known; allowed are {', '.join(allowed)}.")


def check_block(where: str, block: Any) -> Mapping[str, Any]:
    if not isinstance(block, Mapping):
        raise FptError(f"{where}: expected settings by name, found {block!r}.")
    return block


def check_list(where: str, given: Any, allowed: Iterable[str]) -> None:
    if not isinstance(given, list):
        first = next(iter(allowed))
        raise FptError(f"{where}: expected a list such as [{first}], found {given!r}.")
    check_names(where, given, allowed)


def check_seeds(where: str, seeds: Any) -> None:
    if not isinstance(seeds, list) or not seeds or not all(type(s) is int for s in seeds):
        raise FptError(f"{where}: expected a list of whole numbers, found {seeds!r}.")


def check_task(where: str, task: str, settings: Mapping[str, Any]) -> None:
    options = check_block(f"{where}.options", settings.get("options", {}))
    try:
        get_task(settings.get("name", task), **{str(name): options[name] for name in options})
    except FptError as error:
        raise FptError(f"{where}: {error}") from error


def check_settings(where: str, block: Any, extra: Iterable[str] = ()) -> Mapping[str, Any]:
    """`block` with the types of SETTINGS; FptError names the place and what is allowed."""
    check_block(where, block)
    check_names(where, block, (*SETTINGS, *extra))
    checked = dict(block)
    for name, kind in SETTINGS.items():
        if name not in block:
            continue
        value = block[name]
        if kind is float and type(value) is int:
            value = checked[name] = float(value)
        fits = type(value) is kind
        if not fits:
            hint = " (write 1.0e-3 or 0.001, not 1e-3)" if isinstance(value, str) else ""
            raise FptError(f"{where}.{name}: expected {kind.__name__}, found {value!r}{hint}.")
        zero = kind is bool or name in ZERO_ALLOWED
        if not 0 <= value < math.inf or (value == 0 and not zero):
            raise FptError(f"{where}.{name}: must be above zero and finite, found {value!r}.")
        if name == "dropout" and value >= 1:
            raise FptError(f"{where}.dropout: must be below 1, found {value!r}.")
    return checked


def read_params(path: Path | None = None) -> dict[str, Any]:
    path = path or PARAMS
    try:
        content = read_yaml(path)
    except FileNotFoundError as error:
        raise FptError(f"There is no {path}; run inside a checkout or set FPT_ROOT.") from error
    if not isinstance(content, dict):
        raise FptError(f"{path}: expected `profile` and one block per profile.")
    check_names(path.name, content, ("profile", *PROFILES))
    return content


def current_profile(path: Path | None = None) -> str:
    """The profile at the top of params.yaml."""
    name = read_params(path).get("profile")
    check_names("profile", [name], PROFILES)
    return str(name)


def load(name: str, path: Path | None = None) -> Profile:
    """The profile `name`, checked whole."""
    check_names("profile", [name], PROFILES)
    block = read_params(path).get(name)
    names = [field.name for field in fields(Profile) if field.name != "name"]
    if not isinstance(block, Mapping):
        raise FptError(f"params.yaml has no block {name!r}; it needs {', '.join(names)}.")
    check_names(name, block, names)
    missing = [field for field in names if field not in block]
    if missing:
        raise FptError(f"{name}: {', '.join(missing)} missing; it needs {', '.join(names)}.")
    check_list(f"{name}.train_on", block["train_on"], ("cpu", "cuda"))
    for which in ("backbone", "lstm", "weights"):
        if not isinstance(block[which], str):
            raise FptError(f"{name}.{which}: expected a name, found {block[which]!r}.")
    defaults = check_settings(f"{name}.defaults", block["defaults"])
    absent = [setting for setting in SETTINGS if setting not in defaults]
    if absent:
        raise FptError(f"{name}.defaults: {', '.join(absent)} missing.")
    tasks = {}
    for task, settings in check_block(f"{name}.tasks", block["tasks"]).items():
        where = f"{name}.tasks.{task}"
        tasks[task] = check_settings(where, settings or {}, ("name", "options"))
        check_task(where, task, tasks[task])
    check_names(f"{name}.arms", check_block(f"{name}.arms", block["arms"]), ARMS)
    arms = {arm: check_settings(f"{name}.arms.{arm}", s) for arm, s in block["arms"].items()}
    check_seeds(f"{name}.seeds", block["seeds"])
    sections = {}
    for section, settings in check_block(f"{name}.sections", block["sections"]).items():
        where = f"{name}.sections.{section}"
        checked = check_settings(where, settings or {}, ("tasks", "arms", "seeds"))
        check_list(f"{where}.tasks", checked.get("tasks", []), tasks)
        check_list(f"{where}.arms", checked.get("arms", []), ARMS)
        check_seeds(f"{where}.seeds", checked.get("seeds", block["seeds"]))
        sections[section] = checked
    for which, body in (("backbone", block["backbone"]), ("lstm", f"lstm-{block['lstm']}")):
        try:
            backbone(body)
        except FptError as error:
            raise FptError(f"{name}.{which}: {error}") from error
    return Profile(
        name=name,
        train_on=tuple(block["train_on"]),
        backbone=block["backbone"],
        lstm=block["lstm"],
        weights=block["weights"],
        seeds=tuple(block["seeds"]),
        defaults=defaults,
        tasks=tasks,
        arms=arms,
        sections=sections,
    )


def make_spec(profile: Profile, arm: Arm, task: str, seed: int, **settings: Any) -> RunSpec:
    """The spec of one run; `settings` override the profile's for its task and arm."""
    block = dict(profile.tasks[task])
    kind, options = block.pop("name", task), block.pop("options", {})
    values = {**profile.defaults, **block, **profile.arms.get(arm.name, {}), **settings}
    name = profile.backbone if arm.body == "transformer" else f"{arm.body}-{profile.lstm}"
    body = backbone(name)
    trainable = body.groups if arm.trainable is None else arm.trainable
    if not body.positions:
        trainable = tuple(group for group in trainable if group != "positions")
    return RunSpec(
        data=canonical(get_task(kind, **options).identity),
        backbone=name,
        init=arm.init,
        weights=profile.weights if reads_weights(arm.init) else None,
        trainable=tuple(sorted(trainable)),
        seed=seed,
        **values,
    )


def expand(profile: Profile, section: str) -> list[Run]:
    """Every run of a section's tables, in the order of its tasks, arms and seeds."""
    check_names("section", [section], profile.sections)
    block = dict(profile.sections[section])
    tasks, arms = block.pop("tasks", []), block.pop("arms", [])
    seeds = block.pop("seeds", profile.seeds)
    return [
        Run(arm, task, make_spec(profile, ARMS[arm], task, seed, **block))
        for task in tasks
        for arm in arms
        for seed in seeds
    ]
