"""The tasks, by name: `get_task("mnist", size=28)`."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import yaml

from ..errors import FptError, check_free, check_names
from ..files import ProjectLoader
from ..project import REGISTRIES, import_modules
from ..spec import RunSpec, canonical
from .base import Batch, Example, Task
from .bits import bit_memory, bit_xor
from .datasets import data_note
from .images import cifar10, cifar10_lra, digits, mnist
from .listops import listops
from .own import own_task
from .proteins import homology

REGISTRY: dict[str, Callable[..., Task]] = {
    "bit-memory": bit_memory,
    "bit-xor": bit_xor,
    "listops": listops,
    "mnist": mnist,
    "cifar10": cifar10,
    "cifar10-lra": cifar10_lra,
    "homology": homology,
    "digits": digits,
}
REGISTRIES.append(REGISTRY)
# The tasks of this package, without those that a reader registers.
TASKS = tuple(REGISTRY)
SHORT_LISTOPS = {"max_length": 64, "train": 8000, "valid": 1000, "test": 2000}


def register_task(name: str, factory: Callable[..., Task]) -> None:
    """Make `factory`, which takes the task's options, known as `name`; for a module that
    `params.yaml` names under `modules`. FptError if the name is taken."""
    check_free("task", name, REGISTRY)
    REGISTRY[name] = factory


def get_task(name: str, /, **options: Any) -> Task:
    """The task `name` with its options; one of this package reads no data. FptError for a
    wrong name or option."""
    # A list, because params.yaml may give a value that cannot be hashed.
    if name not in list(REGISTRY):
        import_modules()
    check_names("task", [name], REGISTRY)
    if name in TASKS:
        return REGISTRY[name](**options)
    try:
        task = readers_task(REGISTRY[name], canonical(options))
    except Exception as error:
        if isinstance(error, FptError):
            raise
        # Whatever a reader's own code raised.
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise FptError(f"The task {name!r} cannot be made ({reason}).") from error
    # Runs are looked up by the name that the task gives itself.
    if task.name not in REGISTRY:
        raise FptError(
            f"The task registered as {name!r} calls itself {task.name!r}; give both one "
            "name."
        )
    return task


# A plan asks for the task of each of its runs, and a reader's factory may read files. Each
# plan begins with an empty cache.
@lru_cache(maxsize=32)
def readers_task(factory: Callable[..., Task], options: str) -> Task:
    """The task that a reader's `factory` makes with `options` in JSON."""
    return factory(**json.loads(options))


# Of examples that no name can make again, such as a user's arrays.
IN_MEMORY: ContextVar[tuple[Task, ...]] = ContextVar("IN_MEMORY", default=())


@contextmanager
def in_memory(*tasks: Task) -> Iterator[None]:
    """Let `task_of` know these tasks too in the block, for the thread that runs it."""
    token = IN_MEMORY.set(tasks)
    try:
        yield
    finally:
        IN_MEMORY.reset(token)


def task_of(spec: RunSpec) -> Task:
    """The task of a run, with its options; reads no data. FptError if it learns from other
    data than the run names."""
    for task in IN_MEMORY.get():
        if canonical(task.identity) == spec.data:
            return task
    try:
        name, options = spec.task, spec.options
    except (ValueError, TypeError, KeyError) as error:
        raise FptError(
            f"data: expected the identity of a task as JSON, found {spec.data!r}."
        ) from error
    task = get_task(name, **options)
    # Or the record would name data that the run has not seen.
    if canonical(task.identity) != spec.data:
        raise FptError(
            f"The task {spec.task!r} has other data here than the run names. A task of "
            "your own needs a name that no other task has, and its data must stay as they "
            "are while its runs are trained."
        )
    return task


def shown_tasks(names: Iterable[str] = TASKS) -> dict[str, Task]:
    """The tasks by name as the first notebook draws them: ListOps in a short variant."""
    return {
        name: get_task(name, **SHORT_LISTOPS if name == "listops" else {}) for name in names
    }


def parse_task(text: str) -> Task:
    """The task that `name` or `name:option=value,...` describes on the command line, each
    value in YAML. FptError for other text, and as `get_task`."""
    name, _, listed = text.partition(":")
    try:
        pairs = [pair.split("=") for pair in listed.split(",") if pair]
        options = {key: yaml.load(value, ProjectLoader) for key, value in pairs}
        # A dictionary keeps the last of two values, and nobody would know.
        if len(options) < len(pairs):
            raise ValueError("an option appears twice")
    except (ValueError, yaml.YAMLError) as error:
        raise FptError(
            f"{text!r} is not of the form TASK or TASK:option=value,option=value, each "
            "once."
        ) from error
    return get_task(name, **options)


def prepare(task: Task) -> str:
    """Fetch, decode or generate, and verify the data of `task`; returns a line that
    describes them. FptError if a source cannot be reached."""
    data = task.dataset.key if task.dataset else "generated on the fly"
    digest = task.digest()
    note = data_note(task.dataset, digest)
    line = f"{task.name}: {data}, {digest[:12]}"
    return f"{line} ({note})" if note else line


__all__ = [
    "IN_MEMORY", "TASKS", "Batch", "Example", "Task", "get_task", "in_memory", "own_task",
    "parse_task", "prepare", "register_task", "shown_tasks", "task_of",
]  # fmt: skip
