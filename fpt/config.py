"""params.yaml -> the runs of each section.

A run's settings are the profile's `defaults`, overridden by its task's block, then by its arm's,
then by its section's: the nearest to the table wins. Anything unknown or out of range is an
FptError that names the place in params.yaml and what is allowed there.
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
    arm_settings,
    check_list,
    check_mapping,
    check_rates,
    check_role,
    check_roles,
    check_settings,
    check_weights,
    placed,
    seeds_of,
)
from .files import PROFILES, FptError, check_names, read_params
from .report.pages import notebooks
from .sections.arms import ARMS, Arm
from .spec import RunSpec, canonical, probe_of
from .tasks import Task, get_task
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
    bodies: Mapping[str, str]  # the backbone that plays each role that the arms name
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
    """The profile `name` of params.yaml, or of the file `path`, checked whole."""
    check_names("profile", [name], PROFILES)
    names = [field.name for field in fields(Profile) if field.name != "name"]
    block = check_mapping(name, read_params(path).get(name))
    check_names(name, block, names)
    if absent := [field for field in names if field not in block]:
        raise FptError(f"{name}: {', '.join(absent)} missing; it needs {', '.join(names)}.")
    check_list(f"{name}.train_on", block["train_on"], ("cpu", "cuda"))
    check_roles(f"{name}.bodies", block["bodies"], {arm.body for arm in ARMS.values()}, backbone)
    sources = {arm.weights for arm in ARMS.values()}
    check_roles(f"{name}.weights", block["weights"], sources, check_weights)
    defaults = {**OPTIONAL, **check_settings(f"{name}.defaults", block["defaults"])}
    if absent := [setting for setting in SETTINGS if setting not in defaults]:
        raise FptError(f"{name}.defaults: {', '.join(absent)} missing.")
    tasks = {}
    for task, given in check_mapping(f"{name}.tasks", block["tasks"]).items():
        where = f"{name}.tasks.{task}"
        tasks[task] = check_settings(where, given or {}, ("name", "options"))
        check_mapping(f"{where}.options", tasks[task].get("options", {}))
        with placed(where):
            _task(task, tasks[task])
    arms = check_mapping(f"{name}.arms", block["arms"])
    check_names(f"{name}.arms", arms, ARMS)
    profile = Profile(
        name=name,
        train_on=tuple(block["train_on"]),
        bodies=block["bodies"],
        weights=block["weights"],
        seeds=tuple(seeds_of(f"{name}.seeds", block["seeds"])),
        defaults=defaults,
        tasks=tasks,
        arms={arm: arm_settings(f"{name}.arms.{arm}", it, tasks) for arm, it in arms.items()},
        sections={},
    )
    return replace(profile, sections=_sections(profile, block["sections"]))


def _sections(profile: Profile, given: Any) -> dict[str, tuple[Mapping[str, Any], ...]]:
    where, found = f"{profile.name}.sections", {}
    if known := [path.stem[3:] for path in notebooks()]:  # a root without any names its own
        check_names(where, check_mapping(where, given), known)
    for section, blocks in check_mapping(where, given).items():
        if not isinstance(blocks, list):
            raise FptError(f"{where}.{section}: expected a list of blocks, found {blocks!r}.")
        found[section] = tuple(_block(f"{where}.{section}", it, profile) for it in blocks)
    return found


def _block(where: str, given: Any, profile: Profile) -> Mapping[str, Any]:
    """One block of a section: each of its arms on each of its tasks."""
    block = check_settings(where, given, EXTRA)
    check_list(f"{where}.arms", block.get("arms"), ARMS)
    check_list(f"{where}.tasks", block.get("tasks"), profile.tasks)
    for arm in (ARMS[name] for name in block["arms"]):
        check_role(f"{where}.arms", arm.name, "body", arm.body, profile.bodies)
        if INITS[arm.init].reads_weights:
            check_role(f"{where}.arms", arm.name, "weights", arm.weights, profile.weights)
    if "seeds" in block:
        block["seeds"] = seeds_of(f"{where}.seeds", block["seeds"])
    if type(block.get("keep", False)) is not bool:
        raise FptError(f"{where}.keep: expected true or false, found {block['keep']!r}.")
    if "lrs" in block or "search" in block:
        check_rates(where, block, block.get("seeds", profile.seeds))
    probes = [arm for arm in block["arms"] if ARMS[arm].procedure == "probe"]
    if probes and ("lrs" in block or block.get("keep")):
        raise FptError(
            f"{where}: a probe has no learning rate and keeps no parameters; leave "
            f"{', '.join(probes)} out."
        )
    return block


def _task(name: str, settings: Mapping[str, Any]) -> Task:
    """The task behind a block of `tasks`, whose name in the profile may be its own."""
    options = {str(option): value for option, value in settings.get("options", {}).items()}
    return get_task(settings.get("name", name), **options)


def weights_of(profile: Profile, arm: Arm, seed: int) -> str | None:
    """The identity of an arm's weights. `{seed}` in it is the run's own seed, as in
    nano-nesting-{seed}: so runs differ in their backbone too, the unit that compares corpora."""
    if not INITS[arm.init].reads_weights:
        return None
    return profile.weights[arm.weights].replace("{seed}", str(seed))


def make_spec(profile: Profile, arm: Arm, task: str, seed: int, **settings: Any) -> RunSpec:
    """The spec of one run; `settings` override the profile's for its task and arm."""
    data = _task(task, profile.tasks[task])
    of_task = {key: value for key, value in profile.tasks[task].items() if key in SETTINGS}
    values = {**profile.defaults, **of_task, **profile.arms.get(arm.name, {}), **settings}
    if isinstance(values["lr"], Mapping):
        values["lr"] = values["lr"].get(task, of_task.get("lr", profile.defaults["lr"]))
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
        if 0 < count < task.sizes[split] and split not in task.random_order
    ]
    return 2 if headed or (task.kind == "token" and spec.dropout) else 1


def expand(profile: Profile, section: str) -> list[Run]:
    """Every run that a section's tables can have, in the order of its blocks, tasks, arms, rates
    and seeds."""
    check_names("section", [section], profile.sections)
    runs = []
    for block in profile.sections[section]:
        settings = {key: value for key, value in block.items() if key in SETTINGS}
        search = block.get("search", ())
        runs += [
            Run(
                arm,
                task,
                make_spec(profile, ARMS[arm], task, seed, **settings, **rate),
                block.get("keep", False),
                seed in search,
            )
            for task in block.get("tasks", ())
            for arm in block["arms"]
            for rate in [{"lr": float(lr)} for lr in block.get("lrs", ())] or [{}]
            for seed in (*search, *block.get("seeds", profile.seeds))
        ]
    return runs
