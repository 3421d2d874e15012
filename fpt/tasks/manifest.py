"""The data of tasks that are named on the command line."""

import yaml

from ..files import FptError, ProjectLoader
from . import Task, get_task
from .base import FiniteTask
from .datasets import data_note


def prepare(task: Task) -> str:
    """Fetch, decode or generate, and verify the data of `task`; returns a line that describes them.
    FptError if a source cannot be reached."""
    data = task.dataset.key if isinstance(task, FiniteTask) else "generated on the fly"
    note = data_note(task)
    return f"{task.name}: {data}, {task.digest()[:12]}" + (f" ({note})" if note else "")


def parse_task(text: str) -> Task:
    """The task of `name` or `name:option=value,...`, each value in YAML; FptError for other text
    and as `get_task`."""
    name, _, rest = text.partition(":")
    try:
        given = [part.split("=") for part in rest.split(",") if part]
        options = {key: yaml.load(value, ProjectLoader) for key, value in given}
        if len(options) < len(given):
            raise ValueError("an option stands twice")
    except (ValueError, yaml.YAMLError) as error:
        raise FptError(
            f"{text!r} is not of the form TASK or TASK:option=value,option=value, each once."
        ) from error
    return get_task(name, **options)
