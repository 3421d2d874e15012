"""What takes long to work out and little to read, kept in the cache under a stamp of all it follows
from: with another stamp, or damaged, it is worked out anew."""

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import paths
from .errors import FptError
from .files import write_json


def remembered(name: str, stamp: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, as JSON has it: from the cache's file `name` where that bears `stamp`."""
    path = paths.CACHE / f"{name}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(path.read_bytes())
        if content["stamp"] == stamp:
            return content["value"]
    value = json.loads(json.dumps(make()))
    with suppress(FptError):  # a cache that cannot be written costs time only
        write_json(path, {"stamp": stamp, "value": value}, indent=None)
    return value


def package() -> list[Path]:
    """Every module of this package."""
    return sorted(paths.PACKAGE.rglob("*.py"))


def stamp_of(files: Iterable[Path], *others: str) -> str:
    """SHA-256 of the contents of `files`, in their order, and of `others`."""
    total = hashlib.sha256()
    for path in files:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    for text in others:
        total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()
