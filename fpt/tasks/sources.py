"""The files that data are made from: those of the Hugging Face hub, and texts on this disk.

**Hub.** A revision is a commit, or the word `locked` if no commit was known when it was
written down. The pipeline's first use of a file writes its commit and SHA-256 into the
committed `data/hub.lock.json`; later uses ask for that commit, and other content is an
error. Identities (`hub:REPO@locked`, the `revision` of a data set) keep the word, so that a
run has the same key on every machine. An estimator compares digests itself. It writes down
the commit of a model that its user names without one, and uses that commit from then on
(`pin`).

**Texts.** The corpora folder, `FPT_CORPORA` or `data/corpora`, holds text files, plain or
`.xz`. A line `<|endoftext|>` ends a document.
"""

import errno
import hashlib
import io
import lzma
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import FptError
from ..files import lock, read_json, write_json
from ..project import project

LOCKED = "locked"
COMMIT = re.compile("[0-9a-f]{40}")
WEIGHTS = "model.safetensors"  # of a model
SHARDS = "model.safetensors.index.json"  # lists the files of weights that are not one file
END = "<|endoftext|>"
# Books of Project Gutenberg.
ENGLISH = tuple(f"english-train-{part}.txt" for part in range(4))
# Books by authors who are not in `ENGLISH`.
ENGLISH_HELD_OUT = "english-valid.txt"

Kind = Literal["model", "dataset"]


class NoSuchFile(FptError):
    """A repository of the hub, or a folder, is there without this file."""


class Unreachable(FptError):
    """A file is neither in the cache of the hub nor can it be downloaded."""


@dataclass(frozen=True)
class Repository:
    """A data set repository on the hub, with parquet files."""

    name: str  # OWNER/REPO
    revision: str  # a commit, or LOCKED
    files: dict[str, str]  # split -> file in the repository

    def columns(self, split: str, *names: str) -> list[list[Any]]:
        """The values of each of the columns `names` in the file of one split. FptError as
        `fetch` and `read_table`."""
        path = fetch(self.name, self.files[split], self.revision, "dataset")
        table = read_table(path, *names)
        return [table[name].to_pylist() for name in names]


def fetch(
    repo: str,
    file: str,
    revision: str,
    kind: Kind = "model",
    remember: bool = True,
) -> Path:
    """The local path of one file of the repository `repo`, downloaded if the hub's cache
    lacks it; `remember` adds what the lock file does not have yet to it. FptError if it
    cannot be had, or if its SHA-256 is not the one in the lock file."""
    name = f"{repo}@{revision}" if kind == "model" else f"datasets/{repo}@{revision}"
    entry = read_lock().get(name)
    commit = entry["commit"] if entry else revision
    path = Path(_downloaded(repo, file, "main" if commit == LOCKED else commit, kind))
    # The hub's cache is .../snapshots/COMMIT/FILE, and FILE may name folders.
    commit = path.parents[file.count("/")].name
    digest = file_digest(path)
    if entry is None or file not in entry["sha256"]:
        if not remember:
            return path  # an estimator compares digests itself
        entry = _add_to_lock(lock_path(), name, commit, {file: digest})
    if entry["sha256"][file] != digest:
        raise FptError(
            f"{file} of {repo} at {commit[:12]} has SHA-256 {digest[:12]} in {path}, but "
            f"{entry['sha256'][file][:12]} in {lock_path()}: remove that file and fetch it "
            f"again, or, if the new content is meant, remove the entry {name!r}."
        )
    return path


def pin(repo: str, revision: str = LOCKED) -> str:
    """The commit at which the model `repo` is used if its user says `revision`: a commit, a
    branch or a tag; LOCKED: the branch main. The first call takes the newest commit, says
    so on standard error and writes it down (`pins_path`), and later calls return it.

    FptError if the hub has no safetensors there, if it cannot be reached (Unreachable), or
    if the commit cannot be written down.
    """
    if COMMIT.fullmatch(revision):
        return revision
    branch = "main" if revision == LOCKED else revision
    name = f"{repo}@{revision}"
    path = pins_path()
    entry = read_lock(path).get(name)
    if entry is None:
        entry = _add_to_lock(path, name, _newest_commit(repo, branch), {})
        print(
            f"fpt: {branch} of {repo} is commit {entry['commit']} from now on: {path} says "
            f"so, and {repo}@REVISION names another.",
            file=sys.stderr,
        )
    return str(entry["commit"])


def _newest_commit(repo: str, branch: str) -> str:
    """The commit of a model that the hub has now, or, without a network, its cache.
    FptError if there are no safetensors."""
    unreachable = None
    for file in (WEIGHTS, SHARDS):
        try:  # nothing is downloaded: drawn weights need none
            return str(_downloaded(repo, file, branch, "model", dry_run=True).commit_hash)
        except NoSuchFile:
            continue
        except Unreachable as error:  # the cache may have the other one
            unreachable = unreachable or error
    if unreachable:
        raise unreachable
    raise FptError(
        f"{repo} has no safetensors ({WEIGHTS}) at revision {branch}, and nothing else is "
        "read: take a repository or a revision that has them."
    )


def lock_path() -> Path:
    return project().data / "hub.lock.json"


def pins_path() -> Path:
    """Where `pin` writes: in a project its lock file, so that everyone who has the project
    uses the same commits. Elsewhere it is beside the cache of the hub, not among the user's
    files."""
    from huggingface_hub import constants

    path = lock_path()
    return path if path.exists() else Path(constants.HF_HOME) / "fpt-hub.lock.json"


def read_lock(path: Path | None = None) -> dict[str, Any]:
    """REPO@REVISION, data sets after `datasets/` -> `commit`, and `sha256` by file."""
    path = path or lock_path()
    return read_json(path) if path.exists() else {}


def _add_to_lock(
    path: Path, name: str, commit: str, digests: dict[str, str]
) -> dict[str, Any]:
    """The entry `name` of the lock file, with `digests` of files in it. What another
    process has written meanwhile stays."""
    with lock(path.with_suffix(""), wait=True):
        entries = read_lock(path)
        entry = entries.setdefault(name, {"commit": commit, "sha256": {}})
        entry["sha256"] = dict(sorted({**digests, **entry["sha256"]}.items()))
        write_json(path, dict(sorted(entries.items())))
    return entry


DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS}


def _downloaded(repo: str, file: str, revision: str, kind: Kind, **options: Any) -> Any:
    """What `hf_hub_download` returns: the path, unless `options` ask for something else."""
    # Who fetches nothing does not wait for this import.
    from huggingface_hub import errors, hf_hub_download

    try:
        return hf_hub_download(repo, file, repo_type=kind, revision=revision, **options)
    except errors.RemoteEntryNotFoundError as error:
        raise NoSuchFile(f"{repo} has no file {file} at revision {revision}.") from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise FptError(
            f"The hub shows no {repo} at revision {revision} ({type(error).__name__}): "
            "correct the name, or log in if the repository is private or gated (hf auth "
            "login)."
        ) from error
    except Exception as error:
        # The hub cannot help a disk that is full or cannot be written.
        if getattr(error, "errno", None) in DISK_ERRORS:
            raise
        # The client's own error says what to mend, or the one behind it.
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        place = os.environ.get("HF_ENDPOINT")
        remedy = f"look at HF_ENDPOINT={place}" if place else "connect once"
        raise Unreachable(
            f"{file} of {repo} (revision {revision}) is neither in the Hugging Face cache "
            f"nor downloadable ({type(error).__name__}: {reason}): {remedy} with "
            "HF_HUB_OFFLINE unset, or point HF_HUB_CACHE at a cache that holds it."
        ) from error


def file_digest(path: Path) -> str:
    """SHA-256 of a file, computed again if the file changes. FptError if it cannot be
    read."""
    try:
        stat = path.stat()
        # The time of the last change of the file's entry too: a copy may keep the time of
        # its original.
        version = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        return _digest(path.absolute(), version)
    except OSError as error:
        raise FptError(f"Cannot read {path}: {error.strerror}.") from error


# Each run of a sweep asks for the digest of weights that may be a gigabyte.
@lru_cache(maxsize=64)
def _digest(path: Path, version: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_table(path: Path, *columns: str) -> pa.Table:
    """The `columns` of a parquet file; FptError if it is damaged or lacks one of them."""
    try:
        return pq.read_table(path, columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise FptError(
            f"{path} is not a complete parquet file with columns {', '.join(columns)} "
            f"({reason}); remove it and fetch it again."
        ) from error


def decode_image(value: Any, mode: str | None = None) -> np.ndarray:
    """An encoded image, its bytes or {"bytes": ...}, as uint8 (H, W) if grey, else (H, W,
    channels); converted to Pillow's `mode` if one is given. FptError if it is damaged."""
    from PIL import Image

    content = value["bytes"] if isinstance(value, dict) else value
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.asarray(image.convert(mode) if mode else image)
    except (OSError, TypeError) as error:
        raise FptError("An image is damaged, or Pillow cannot read it.") from error


def find_corpus_file(name: str) -> Path | None:
    """The file `name` or `name.xz` in the corpora folder; None if neither is there."""
    paths = (project().corpora / f"{name}{suffix}" for suffix in ("", ".xz"))
    return next((path for path in paths if path.is_file()), None)


def corpus_file(name: str) -> Path:
    """The file `name` or `name.xz` in the corpora folder; FptError if neither is there."""
    path = find_corpus_file(name)
    if path is None:
        raise FptError(
            f"The corpus file {name!r} (or {name}.xz) is not in {project().corpora}: put "
            "it there, set FPT_CORPORA to the folder that has it, or make one like it "
            "(docs/data-and-weights.md says how)."
        )
    return path


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, packed or not; FptError if it is damaged or not UTF-8."""
    # Line by line, because a corpus may be larger than the memory.
    open_text = lzma.open if path.suffix == ".xz" else open
    try:
        with open_text(path, "rt", encoding="utf-8") as file:
            yield from file
    except (lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise FptError(
            f"The corpus file {path} is not complete text in UTF-8 ({error}); put it there "
            "again."
        ) from error


def documents(files: Iterable[str], by_line: bool = False) -> Iterator[str]:
    """The documents of `files` in the corpora folder, which end at a line `END`, or,
    `by_line`, at every line end. FptError if a file is missing or damaged."""
    for name in files:
        lines = read_lines(corpus_file(name))
        if by_line:
            yield from (line.rstrip("\n") for line in lines if line.strip())
        else:
            parts = groupby(lines, lambda line: line.strip() == END)
            yield from ("".join(part) for is_end, part in parts if not is_end)
