"""Paths, atomic files and locks, and the one exception that users see.

papermill runs a notebook in the caller's directory, nbval in the notebook's own, so no path is
relative. The root is the checkout that holds the package, or `FPT_ROOT` if the package is installed
apart from a checkout. A reader of a file sees its old content or its new, never half of it.
"""

import errno
import fcntl
import json
import os
import platform
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent
SHIPPED = PACKAGE / "shipped"  # weights that come with the package
ROOT = Path(os.environ.get("FPT_ROOT", PACKAGE.parent))
with suppress(FileNotFoundError):  # of the working directory: who reads a file says so
    ROOT = Path(os.path.realpath(ROOT))
DATA = ROOT / "data"
PREPARED = DATA / "prepared"
REPORTS = ROOT / "reports"
PARAMS = ROOT / "params.yaml"
CACHE = ROOT / ".cache"
NOTEBOOKS = ROOT / "notebooks"

HOST = platform.node()  # processes of two machines that share a disk may have one number
PARTIAL = re.compile(rf"\..+\.{re.escape(HOST)}\.(\d{{1,9}})\.partial")

# What may become part of a file's name: nothing hidden, and no way out of a folder.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,99}")


class FptError(Exception):
    """A mistake the user can correct, told in one sentence.

    The sentence names what was given, what is allowed, and what to do. The command line prints it
    and exits with status 2; nothing has been written when it is raised.
    """


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Replace each path by its content, in their order, each durable before it is visible.

    Many files cost two flushes, not two each. FptError where it fails: what became visible by then
    is whole, the rest is as it was. Halves that killed processes had left beside the paths before
    this one's first write there are removed.
    """
    suffix = f"{HOST}.{os.getpid()}.partial"
    partials = {path: path.with_name(f".{path.name}.{suffix}") for path in contents}
    parents = {path.parent for path in contents}
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(partials[path], "wb") as file:
                file.write(content)
                if len(contents) == 1:
                    file.flush()
                    os.fsync(file.fileno())
        if len(contents) > 1:
            os.sync()
        for path, partial in partials.items():
            os.replace(partial, path)
        for parent in parents:
            remove_abandoned(parent)
            folder = os.open(parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        for partial in partials.values():
            with suppress(OSError):
                partial.unlink()
        raise FptError(
            f"Cannot write {path}: {error.strerror}; nothing was changed there."
        ) from error


@cache  # once in a process: to list a store of 50,000 records takes longer than to write one
def remove_abandoned(folder: Path) -> None:
    """Remove the partial files of this machine's dead processes in `folder`."""
    for name in os.listdir(folder):
        found = PARTIAL.fullmatch(name)
        if found and not alive(int(found[1])):
            with suppress(OSError):
                (folder / name).unlink()


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        pass
    return True


def write_atomic(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, durable before it is visible."""
    write_all({path: content})


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    write_atomic(path, (json.dumps(value, indent=indent, allow_nan=False) + "\n").encode())


def content_of(path: Path) -> bytes:
    """What is in a file; ValueError where something else is in its place: a folder, a pipe, which
    would be waited for, or a link that leads to itself."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError("it is a link that leads to itself") from error
        raise
    if not stat.S_ISREG(mode):
        raise ValueError("it is a folder" if stat.S_ISDIR(mode) else "it is no file")
    return path.read_bytes()


def reason(error: Exception) -> str:
    """Why `content_of` failed, without the name of the file."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def read_json(path: Path) -> dict[str, Any]:
    """The values by name in a file that this project wrote; FptError where it is damaged."""
    try:
        content = json.loads(content_of(path))
    except (ValueError, RecursionError) as error:
        raise FptError(f"{path} is not valid JSON ({error}); make it again.") from error
    except OSError as error:
        raise FptError(f"Cannot read {path}: {error.strerror}.") from error
    if not isinstance(content, dict):
        raise FptError(f"{path} holds no values by name; make it again.")
    return content


def set_aside(path: Path) -> Path:
    """Rename a damaged file out of the way, keeping it for inspection."""
    aside = path.with_name(f"{path.name}.corrupt")
    try:
        os.replace(path, aside)
    except OSError as error:
        raise FptError(f"{path} is damaged and cannot be moved: {error.strerror}.") from error
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
