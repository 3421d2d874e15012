"""The tasks, by name: `get_task("mnist", size=28)`."""

from collections.abc import Callable, Iterable
from typing import Any

import yaml

from ..errors import FptError, check_free, check_names
from ..files import ProjectLoader
from ..project import REGISTRIES, import_modules
from .base import Batch, Example, Task
from .bits import bit_memory, bit_xor
from .datasets import data_note
from .images import cifar10, cifar10_lra, digits, mnist
from .listops import listops
from .own import own_task
from .proteins import homology
from .text import english, glue

REGISTRY: dict[str, Callable[..., Task]] = {
    "bit-memory": bit_memory,
    "bit-xor": bit_xor,
    "listops": listops,
    "mnist": mnist,
    "cifar10": cifar10,
    "cifar10-lra": cifar10_lra,
    "homology": homology,
    "digits": digits,
    "english": english,
    "glue": glue,
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
    """The task `name` with its options; reads no data. FptError for a wrong name or
    option."""
    # A list, because params.yaml may give a value that cannot be hashed.
    if name not in list(REGISTRY):
        import_modules()
    check_names("task", [name], REGISTRY)
    try:
        return REGISTRY[name](**options)
    except Exception as error:
        if name in TASKS or isinstance(error, FptError):
            raise
        # Whatever a reader's own code raised.
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise FptError(f"The task {name!r} cannot be made ({reason}).") from error


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
            raise ValueError("an option stands twice")
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
    "TASKS", "Batch", "Example", "Task", "get_task", "own_task", "parse_task", "prepare",
    "register_task", "shown_tasks",
]  # fmt: skip
