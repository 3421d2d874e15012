"""The tasks, by name: `get_task("mnist", size=28)`."""

from collections.abc import Callable, Iterable
from typing import Any

from ..files import check_free, check_names, import_modules
from .base import Batch, Example, Task
from .bits import bit_memory, bit_xor
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
TASKS = tuple(REGISTRY)  # those of this package


def register_task(name: str, factory: Callable[..., Task]) -> None:
    """Make `factory`, which takes the task's options, known as `name`; for a module that
    `params.yaml` names under `modules`. FptError if the name is taken."""
    check_free("task", name, REGISTRY)
    REGISTRY[name] = factory


def get_task(name: str, **options: Any) -> Task:
    """The task `name` with its options; reads no data. FptError for a wrong name or option."""
    if name not in list(REGISTRY):  # which may be any value of params.yaml
        import_modules()
    check_names("task", [name], REGISTRY)
    return REGISTRY[name](**options)


def shown_tasks(names: Iterable[str] = TASKS) -> dict[str, Task]:
    """The tasks by name as the first notebook draws them: of ListOps, a short variant."""
    short = {"listops": {"max_length": 64, "train": 8000, "valid": 1000, "test": 2000}}
    return {name: get_task(name, **short.get(name, {})) for name in names}


__all__ = [
    "TASKS", "Batch", "Example", "Task", "get_task", "own_task", "register_task", "shown_tasks"
]  # fmt: skip
