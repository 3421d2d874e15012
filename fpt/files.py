"""Atomic files and locks: a reader sees the old content or the new, never half of it."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .errors import FptError


def write_atomic(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, durable before it is visible."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        reason = error.strerror
        raise FptError(f"Cannot write {path}: {reason}; nothing was changed there.") from error


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    write_atomic(path, (json.dumps(value, indent=indent, allow_nan=False) + "\n").encode())


def set_aside(path: Path) -> Path:
    """Rename a damaged file out of the way, keeping it for inspection."""
    aside = path.with_name(f"{path.name}.corrupt")
    os.replace(path, aside)
    return aside


@contextmanager
def lock(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold `path` as a lock file; yields False where somebody else has it and `wait` is off.

    The kernel frees the lock when its holder dies, however it dies.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = open(path, "a")  # noqa: SIM115
    except OSError as error:
        raise FptError(f"Cannot write the lock {path}: {error.strerror}.") from error
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
