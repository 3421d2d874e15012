"""Atomic files, folders and locks, and the reading of YAML and JSON.

A reader of a file sees its old content or its new, never half of it.
"""

import glob
import json
import os
import platform
import re
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from .errors import FptError

HOST = platform.node()  # processes of two machines that share a disk may have one number
STALE = 3600.0  # seconds since a partial file was written to
# What may become part of a file's name: nothing hidden, and no way out of a folder.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,99}")


def write_atomic(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, durable before it is visible; FptError if that fails."""
    # Two writers of a file of one name would mix their bytes.
    writer = f"{HOST}.{os.getpid()}.{threading.get_ident()}"
    partial = path.with_name(f".{path.name}.{writer}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Remove what writers that were killed left; one that lives changes its file often.
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
            with suppress(OSError):
                if time.time() - leftover.stat().st_mtime > STALE:
                    leftover.unlink()
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException as error:
        # A write that was interrupted leaves nothing either.
        with suppress(OSError):
            partial.unlink()
        if not isinstance(error, OSError):
            raise
        sentence = f"Cannot write {path}: {error.strerror}; nothing was changed there."
        raise FptError(sentence) from error


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The values by name in a file that this project wrote; FptError if it is damaged."""
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise ValueError("no values by name")
    except (ValueError, RecursionError) as error:
        raise FptError(f"{path} is not valid JSON ({error}); make it again.") from error
    except OSError as error:
        raise FptError(f"Cannot read {path}: {error.strerror}.") from error
    return content


# PyYAML's C part reads the same language ten times as fast.
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# A number with a point or an exponent, as YAML 1.2 has it. What is no number (.nan) lies in
# no range, and out of none.
DECIMAL = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9]+[eE][-+]?[0-9]+"
    r"|[-+]?\.(inf|Inf|INF)"
)


MERGE = "tag:yaml.org,2002:merge"  # of the key `<<`


class ProjectLoader(SafeLoader):
    """Reads YAML as DVC does, by version 1.2: 1e-05, as DVC writes it, is a number.

    Rejects a key that appears twice in one mapping, of which PyYAML keeps the last, and
    plain values that the two versions of YAML read differently.
    """

    def flatten_mapping(self, node: Any) -> None:
        """Rejects a key that appears twice, and merges in the mappings that `<<` names,
        whose keys may be overridden."""
        # An alias brings the mapping here again, with the keys that were merged in.
        if hasattr(node, "is_flat"):
            return
        node.is_flat = True
        keys = [
            self.construct_object(key, deep=True)
            for key, _ in node.value
            if key.tag != MERGE
        ]
        for key in keys:
            if keys.count(key) > 1:
                problem = f"the key {key!r} appears twice"
                raise yaml.constructor.ConstructorError(
                    None, None, problem, node.start_mark
                )
        super().flatten_mapping(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Rejects what YAML 1.1 reads as another value: 010 is 8, 1:30 is 90, yes is
        true."""
        value = super().construct_object(node, deep)
        is_plain = True
        if isinstance(value, float):
            is_plain = DECIMAL.fullmatch(node.value) is not None
        elif isinstance(value, int):
            is_plain = node.value.lower() == str(value).lower()
        if not is_plain:
            problem = (
                f"{node.value} is read as {str(value).lower()}; write that, or quote it"
            )
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value


# Beside the rules of YAML 1.1, by which the loader knows what it has to reject.
ProjectLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(f"(?:{DECIMAL.pattern})$"), [*"-+.0123456789"]
)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; FptError if it is missing or not valid, or has a key
    twice."""
    try:
        return yaml.load(path.read_bytes(), Loader=ProjectLoader)
    except OSError as error:
        raise FptError(f"Cannot read {path}: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise FptError(
            f"{path} is not valid YAML: {' '.join(str(error).split())}."
        ) from error


def set_aside(path: Path, reason: object, then: str) -> None:
    """Rename a damaged file or folder out of the way, keeping it for inspection, and warn
    what `then` happens. One on a disk that cannot be written stays where it is."""
    aside = path.with_name(f"{path.name}.corrupt")
    # A folder takes no other's place.
    if aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
    try:
        os.replace(path, aside)
    except OSError as error:
        place = f"cannot be moved aside ({error.strerror})"
    else:
        place = f"was moved to {aside.name}"
    warnings.warn(
        f"{path.name} is damaged ({reason}); it {place} and {then}.", stacklevel=3
    )


@contextmanager
def lock(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold `path` as a lock file; yields False if another process holds it and `wait` is
    off.

    The operating system frees the lock when its holder dies, however it dies. The file is
    removed while it is still held: a process that waited for it sees that it is gone and
    makes a new one.
    """
    file_lock = FileLock(path, blocking=wait)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file_lock.acquire()
    except Timeout:
        yield False
        return
    except OSError as error:
        raise FptError(f"Cannot write the lock {path}: {error.strerror}.") from error
    try:
        yield True
    finally:
        with suppress(OSError):
            path.unlink()
        file_lock.release()


@contextmanager
def write_folder(
    target: Path, is_complete: Callable[[Path], bool]
) -> Iterator[Path | None]:
    """A new folder beside `target` to write into, which takes that name when the block has
    ended; None if `target` is complete already. So it is never seen half written, however a
    process ends, and one process at a time writes it. FptError if that fails."""
    if is_complete(target):
        yield None
        return
    partial = target.with_name(f".{target.name}.partial")
    try:
        with lock(target.with_name(f".{target.name}.lock"), wait=True):
            if is_complete(target):  # another process has written it meanwhile
                yield None
                return
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
            partial.mkdir()
            try:
                yield partial
                partial.rename(target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise FptError(f"Cannot write {target}: {error.strerror or error}.") from error
