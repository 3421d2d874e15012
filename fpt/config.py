"""params.yaml -> the runs of each section.

A run's settings are the profile's `defaults`, overridden by its task's block, then by its arm's,
then by its section's: the nearest to the table wins. Anything unknown is an error that lists what
is allowed (`fpt.checks`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from .backbones import backbone
from .backbones.initialisations import INITS
from .checks import (
    EXTRA,
    SETTINGS,
    check_arm,
    check_arm_settings,
    check_block,
    check_body,
    check_keep,
    check_list,
    check_rates,
    check_roles,
    check_searches,
    check_settings,
    check_task,
    check_weights,
    check_words,
    seeds_of,
)
from .files import FptError
from .params import PROFILES, check_names, read_params
from .report.pages import notebooks
from .sections.arms import ARMS, Arm
from .spec import RunSpec, canonical, probe_of
from .tasks import get_task
from .training.flops import as_costly
from .training.loop import TRAIN_ITEMS

OPTIONAL: Mapping[str, Any] = {"test_items": 0, "threshold": 0.0}  # what `defaults` may leave out
LONG = 1024  # tokens of a sequence from which on a test takes longer than the training
LONG_TEST_ITEMS = 2000  # test examples of such a task at most


@dataclass(frozen=True)
class Run:
    """A spec in its place: the arm and the task it stands for in a section's table."""

    arm: str
    task: str
    spec: RunSpec
    keep: bool = False  # the trained parameters, beside the record
    search: bool = False  # only its validation accuracy counts, to choose a learning rate
    beyond: bool = False  # its rate is outside the grid: it waits until a best rate is at the edge
    block: int | None = None  # of its section, counted from 0, where that has several rates

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def lr(self) -> float:
        return self.spec.lr


@dataclass(frozen=True)
class Profile:
    """One block of params.yaml, checked."""

    name: str
    train_on: tuple[str, ...]  # devices on which the pipeline may train: cpu, cuda
    bodies: Mapping[str, str]  # the backbone behind each kind of body that the arms name
    weights: Mapping[str, str]  # the identity of the weights from each source that the arms name
    seeds: tuple[int, ...]
    defaults: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Any]]
    arms: Mapping[str, Mapping[str, Any]]
    sections: Mapping[str, tuple[Mapping[str, Any], ...]]  # blocks of tasks by arms

    @property
    def backbone(self) -> str:
        """The transformer that most arms share."""
        return self.bodies["transformer"]


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
    check_roles(f"{name}.bodies", block["bodies"], {arm.body for arm in ARMS.values()})
    check_roles(f"{name}.weights", block["weights"], {arm.weights for arm in ARMS.values()})
    for role, body in block["bodies"].items():
        check_body(f"{name}.bodies.{role}", role, body)
    for role, weights in block["weights"].items():
        check_weights(f"{name}.weights.{role}", weights)
    defaults = {**OPTIONAL, **check_settings(f"{name}.defaults", block["defaults"])}
    absent = [setting for setting in SETTINGS if setting not in defaults]
    if absent:
        raise FptError(f"{name}.defaults: {', '.join(absent)} missing.")
    tasks = {}
    check_words(f"{name}.tasks", check_block(f"{name}.tasks", block["tasks"]))
    for task, settings in block["tasks"].items():
        where = f"{name}.tasks.{task}"
        given = {} if settings is None else settings
        tasks[task] = check_settings(where, given, ("name", "options"))
        check_task(where, task, tasks[task])
    check_names(f"{name}.arms", check_block(f"{name}.arms", block["arms"]), ARMS)
    settings_of = {
        arm: check_arm_settings(f"{name}.arms.{arm}", given, tasks)
        for arm, given in block["arms"].items()
    }
    seeds = seeds_of(f"{name}.seeds", block["seeds"])
    sections = {}
    check_words(f"{name}.sections", check_block(f"{name}.sections", block["sections"]))
    if known := [path.stem[3:] for path in notebooks()]:  # a root without any names its own
        check_names(f"{name}.sections", block["sections"], known)
    for section, given in block["sections"].items():
        where = f"{name}.sections.{section}"
        if not isinstance(given, list):
            raise FptError(
                f"{where}: expected a list of blocks of tasks and arms, found {given!r}."
            )
        checked = [dict(check_settings(where, part, EXTRA)) for part in given]
        for part in checked:
            check_list(f"{where}.arms", part.get("arms"), ARMS)
            check_list(f"{where}.tasks", part.get("tasks"), tasks)
            for arm in part["arms"]:
                check_arm(f"{where}.arms", ARMS[arm], block["bodies"], block["weights"])
            if "seeds" in part:
                part["seeds"] = seeds_of(f"{where}.seeds", part["seeds"])
            check_rates(where, part, part.get("seeds", seeds))
            check_keep(f"{where}.keep", part)
        check_searches(where, checked)
        sections[section] = tuple(checked)
    return Profile(
        name=name,
        train_on=tuple(block["train_on"]),
        bodies=block["bodies"],
        weights=block["weights"],
        seeds=tuple(seeds),
        defaults=defaults,
        tasks=tasks,
        arms=settings_of,
        sections=sections,
    )


def weights_of(profile: Profile, arm: Arm, seed: int) -> str | None:
    """The identity of an arm's weights. `{seed}` in it is the run's own seed, as in
    nano-nesting-{seed}: so runs differ in their body too, the unit when corpora are compared."""
    if not INITS[arm.init].reads_weights:
        return None
    return profile.weights[arm.weights].replace("{seed}", str(seed))


def make_spec(profile: Profile, arm: Arm, task: str, seed: int, **settings: Any) -> RunSpec:
    """The spec of one run; `settings` override the profile's for its task and arm."""
    block = dict(profile.tasks[task])
    kind, options = block.pop("name", task), block.pop("options", {})
    values = {**profile.defaults, **block, **profile.arms.get(arm.name, {}), **settings}
    if isinstance(values["lr"], Mapping):
        values["lr"] = values["lr"].get(task, profile.defaults["lr"])
    data = get_task(kind, **options)
    whole = data.sizes["test"]
    most = LONG_TEST_ITEMS if data.length >= LONG else whole
    test_items = min(values["test_items"] or whole, most)
    values["test_items"] = test_items if test_items < whole else 0
    body = backbone(profile.bodies[arm.body])
    if arm.body == "lstm-flops":
        body = as_costly(body, backbone(profile.bodies["transformer"]), data.length)
    trainable = body.groups if arm.trainable is None else arm.trainable
    if not body.positions:
        trainable = tuple(group for group in trainable if group != "positions")
    spec = RunSpec(
        data=canonical(data.identity),
        backbone=body.name,
        init=arm.init,
        weights=weights_of(profile, arm, seed),
        trainable=tuple(sorted(trainable)),
        seed=seed,
        input_init=arm.input_init,
        order=arm.order,
        **values,
    )
    spec = probe_of(spec) if arm.procedure == "probe" else spec
    return replace(spec, semantics=semantics_of(spec))


def semantics_of(spec: RunSpec) -> int:
    """2 for a spec that means something else than in the first version of this project; else 1.

    It does if an evaluation reads a part of a set that is not stored in random order (the first
    version read the head of it: the shortest sequences, or the first classes), if dropout fell on
    an embedding, or if the evaluation of the released LSTM depended on its pack.
    """
    task = get_task(spec.task, **spec.options)
    if backbone(spec.backbone).family == "lstm-released":
        return 2
    if spec.procedure == "probe":  # it evaluates whole sets, without dropout
        return 1
    parts = {"valid": spec.eval_items, "train": TRAIN_ITEMS}
    headed = [
        split
        for split, count in parts.items()
        if 0 < count < task.sizes[split] and not task.in_random_order(split)
    ]
    return 2 if headed or (task.kind == "token" and spec.dropout) else 1


def expand(profile: Profile, section: str) -> list[Run]:
    """Every run that a section's tables can have, in the order of its blocks, tasks, arms, rates
    and seeds."""
    check_names("section", [section], profile.sections)
    runs = []
    for index, part in enumerate(profile.sections[section]):
        block = dict(part)
        tasks, arms = block.pop("tasks"), block.pop("arms")
        seeds, keep = block.pop("seeds", profile.seeds), block.pop("keep", False)
        lrs, search = block.pop("lrs", []), block.pop("search", ())
        beyond = block.pop("beyond", [])
        rates: list[dict[str, Any]] = [{"lr": float(lr)} for lr in (*lrs, *beyond)] or [{}]
        runs += [
            Run(
                arm,
                task,
                make_spec(profile, ARMS[arm], task, seed, **block, **rate),
                keep,
                seed in search,
                rate.get("lr") in beyond,
                index if lrs else None,
            )
            for task in tasks
            for arm in arms
            for rate in rates
            for seed in (*search, *seeds)
        ]
    return runs
