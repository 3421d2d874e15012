"""Where a project keeps its files, and which project is in force.

`project()` looks anew each time and remembers nothing, so a program may change its
directory after it has imported this package. What goes on for longer, such as a study and
its training, keeps the `Project` that it began with, in every thread and process.
"""

import math
import os
import re
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from .errors import FptError, check_names
from .files import read_yaml

VERSION = "0.1.0"
PACKAGE = Path(__file__).resolve().parent
SHIPPED = PACKAGE / "shipped"  # weights that come with the package
TIERS = ("none", "own", "smoke", "evening", "hour", "day", "weekend")
OWN = "own"  # the experiment of what no other tier plans


@dataclass(frozen=True)
class Project:
    """The folders and files below an absolute `root`."""

    root: Path

    @property
    def params(self) -> Path:
        return self.root / "params.yaml"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def prepared(self) -> Path:
        """The data sets that were prepared for training."""
        return self.data / "prepared"

    @property
    def backbones(self) -> Path:
        """The backbones that are pretrained here: `FPT_BACKBONES`, a path from the root."""
        return self.root / (os.environ.get("FPT_BACKBONES") or "data/backbones")

    @property
    def corpora(self) -> Path:
        """The texts for pretraining: `FPT_CORPORA`, a path from the root."""
        return self.root / (os.environ.get("FPT_CORPORA") or "data/corpora")

    @property
    def reports(self) -> Path:
        """The pages, their figures, and what DVC compares."""
        return self.root / "reports"

    @property
    def experiments(self) -> Path:
        """A folder for each experiment: its records, and a row for each in index.json."""
        return self.reports / "experiments"

    def records(self, experiment: str) -> Path:
        """The folder of the records of an experiment. A tier of params.yaml is one."""
        return self.experiments / experiment

    @property
    def cache(self) -> Path:
        """Locks, checkpoints and runs that no report shows."""
        return self.root / ".cache"

    @property
    def notebooks(self) -> list[Path]:
        """Every notebook, one for each section, in reading order."""
        return sorted(self.root.glob("notebooks/[0-9][0-9]_*.ipynb"))

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Let `project()` return this project in the block, for the thread that runs it."""
        token = IN_FORCE.set(self)
        try:
            yield
        finally:
            IN_FORCE.reset(token)


IN_FORCE: ContextVar[Project] = ContextVar("IN_FORCE")


def project() -> Project:
    """The project in force: that of the block `in_force`, or else at `FPT_ROOT`, or else
    the checkout that holds this package, or else the working directory."""
    chosen = IN_FORCE.get(None)
    if chosen is not None:
        return chosen
    if os.environ.get("FPT_ROOT"):
        try:
            return Project(Path(os.environ["FPT_ROOT"]).resolve())
        except FileNotFoundError as error:
            sentence = "The working directory is gone, so FPT_ROOT must be absolute."
            raise FptError(sentence) from error
    if (PACKAGE.parent / "params.yaml").exists():
        return Project(PACKAGE.parent)
    try:
        return Project(Path.cwd())
    except OSError:
        # It is gone: an estimator needs no project, and a command finds none there.
        return Project(PACKAGE.parent)


@cache
def schema() -> dict[str, Any]:
    """What params.yaml, a run and an arm may be, as a JSON Schema."""
    return read_yaml(PACKAGE / "params.schema.yaml")


@cache
def validator(part: str) -> Callable[[Any], Any]:
    """A function that raises an exception of fastjsonschema for values that a part of the
    schema refuses."""
    try:
        import fastjsonschema  # late: it writes and compiles code
    except ImportError:
        # A machine that only trains has no more packages than it needs.
        warnings.warn(
            "fastjsonschema is not installed, so names and values in params.yaml are not "
            "checked here: pip install fastjsonschema.",
            stacklevel=2,
        )
        return lambda values: None
    return fastjsonschema.compile({**schema(), "$ref": f"#/definitions/{part}"})


def check(where: str, values: Any, part: str) -> None:
    """FptError unless `values` are what a `part` of the schema allows. It names `where`
    they stand, the place among them, what is allowed there, and what was found."""
    try:
        validator(part)(values)
    except ValueError as error:
        mistake: Any = error  # its place and its rule are attributes
        inside = mistake.name.removeprefix("data").lstrip(".")
        place = f"{where}: {inside}" if inside else where
        if mistake.rule == "additionalProperties":
            check_names(place, mistake.value, mistake.definition["properties"])
        if mistake.rule == "enum":
            check_names(place, [mistake.value], mistake.definition["enum"])
        sentence = place + mistake.message.removeprefix(mistake.name)
        if "description" in mistake.definition:
            sentence = f"{place}: expected {mistake.definition['description']}"
        found = reprlib.repr(mistake.value)
        raise FptError(f"{sentence}, found {found}.") from error


def read_params(path: Path | None = None) -> dict[str, Any]:
    """params.yaml, checked: the name of a tier, and a block of each tier by name."""
    path = path or project().params
    if not path.exists():
        raise FptError(f"There is no {path}; run inside a checkout or set FPT_ROOT.")
    content = read_yaml(path)
    check(path.name, content, "params")
    return content


def current_tier() -> str:
    """The tier at the top of params.yaml."""
    return read_params()["tier"]


# What a reader's modules add to: tasks and arms, by name.
REGISTRIES: list[dict[str, Any]] = []


def import_modules() -> None:
    """Import the reader's own modules, which `modules` in params.yaml lists and which
    register tasks and arms. They are found beside params.yaml too. FptError if one
    fails."""
    params = project().params
    names = read_params(params).get("modules", []) if params.exists() else []
    folder = str(params.parent)
    if names and folder not in sys.path:
        sys.path.append(folder)
    for name in names:
        before = [dict(registry) for registry in REGISTRIES]
        try:
            import_module(name)
        except (Exception, SystemExit) as error:  # a script that ends itself is no module
            # Python forgets a module that fails, so that it can be mended and imported
            # again; what it had registered is to be forgotten too. (There are more
            # registries than before if it was the first to import one.)
            for registry, content in zip(REGISTRIES, before, strict=False):
                registry.clear()
                registry.update(content)
            if isinstance(error, FptError):
                raise
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise FptError(
                f"{params.name}: the module {name!r} cannot be imported ({reason})."
            ) from error


UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> float:
    """`90s`, `9m`, `2h`, a plain number of seconds, or `inf`."""
    if text == "inf":
        return math.inf
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text)
    if match is None:
        raise FptError(f"{text!r} is not a time; write 90s, 9m or 2h.")
    return float(match[1]) * UNITS[match[2]]
