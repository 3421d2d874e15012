"""What takes long to work out and little to read, kept in the cache under a stamp of all it follows
from: with another stamp, or damaged, it is worked out anew."""

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import files as paths
from ..files import FptError, content_of, reason, write_atomic


def remembered(name: str, stamp: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, as JSON has it: from the cache's file `name` where that bears `stamp`."""
    value = recalled(name, stamp)
    if value is None:
        value = json.loads(json.dumps(make()))
        remember(name, stamp, value)
    return value


def recalled(name: str, stamp: str) -> Any:
    """What was put under `name` and `stamp`; None where nothing was, or it is damaged."""
    with suppress(OSError, ValueError):
        seal, _, text = content_of(paths.CACHE / name).partition(b"\n")
        if seal == _seal(stamp, text):
            return json.loads(text)
    return None


def remember(name: str, stamp: str, value: Any) -> None:
    """Put `value`, which JSON can hold, under `name` and `stamp`."""
    text = json.dumps(value, allow_nan=False).encode()
    with suppress(FptError):  # a cache that cannot be written costs time only
        write_atomic(paths.CACHE / name, _seal(stamp, text) + b"\n" + text)


def _seal(stamp: str, text: bytes) -> bytes:
    """First line of a file of the cache, by which the rest is known to be whole and wanted."""
    return hashlib.sha256(stamp.encode() + b"\n" + text).hexdigest().encode()


def package() -> list[Path]:
    """Every module of this package."""
    return sorted(paths.PACKAGE.rglob("*.py"))


def stamp_of(files: Iterable[Path], *others: str) -> str:
    """SHA-256 of the contents of `files`, in their order, and of `others`."""
    total = hashlib.sha256()
    for path in files:
        try:
            total.update(hashlib.sha256(content_of(path)).digest())
        except (ValueError, OSError) as error:
            raise FptError(
                f"Cannot read {path}: {reason(error)}; run inside a checkout or set FPT_ROOT."
            ) from error
    for text in others:
        total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()
