"""Files of the Hugging Face hub, each at one commit and with one content.

A revision is a commit, or the word `locked` if no commit was known when it was written down. The
first use of a file writes commit and SHA-256 into the committed `data/hub.lock.json`; from then on
that commit is asked for, and another content is an error. Identities (`hub:REPO@locked`, `revision`
of a data set) keep the word, so that the keys of runs are the same on every machine, without a hub.
"""

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from ..files import DATA, FptError, lock, read_json, write_json

LOCKED = "locked"
COMMIT = re.compile("[0-9a-f]{40}")
Kind = Literal["model", "dataset"]


def fetch(repo: str, file: str, revision: str, kind: Kind = "model") -> Path:
    """The local path of one file of the repository `repo`, downloaded by the hub client if its
    cache lacks it. FptError if neither the cache nor the network has it, or if its content is not
    the one that the lock file states."""
    name = f"{'datasets/' if kind == 'dataset' else ''}{repo}@{revision}"
    entry = _entry(read_lock(), name)
    asked = entry["commit"] or ("main" if revision == LOCKED else revision)
    path = _downloaded(repo, file, asked, kind)
    digest = file_digest(path)
    if file not in entry["sha256"]:
        # The hub's cache is .../snapshots/COMMIT/FILE, and a file may lie in folders.
        commit = asked if COMMIT.fullmatch(asked) else path.parents[file.count("/")].name
        entry = _written(name, file, commit, digest)
    if entry["sha256"][file] != digest:
        raise FptError(
            f"{file} of {repo} at {entry['commit'][:12]} has SHA-256 {digest[:12]} in {path}, but "
            f"{entry['sha256'][file][:12]} in {lock_path()}: remove that file and fetch it again, "
            f"or, if the new content is meant, remove the entry {name!r}."
        )
    return path


def lock_path() -> Path:
    return DATA / "hub.lock.json"


def read_lock() -> dict[str, Any]:
    """REPO@REVISION, data sets after `datasets/` -> `commit`, and `sha256` by file."""
    path = lock_path()
    found = read_json(path) if path.exists() else {}
    for name, entry in found.items():
        match entry:
            case {"commit": str(), "sha256": dict(files)} if all(
                isinstance(digest, str) for digest in files.values()
            ):
                continue
        raise FptError(f"{path}: {name!r} has no commit or digests; take the committed file again.")
    return found


def _entry(found: dict[str, Any], name: str) -> dict[str, Any]:
    return found.get(name, {"commit": "", "sha256": {}})


def _written(name: str, file: str, commit: str, digest: str) -> dict[str, Any]:
    """The entry `name` with the file in it, which another process may have written meanwhile."""
    with lock(DATA / "hub.lock", wait=True):
        found = read_lock()
        entry = _entry(found, name)
        if file not in entry["sha256"]:
            files = dict(sorted({**entry["sha256"], file: digest}.items()))
            entry = {"commit": entry["commit"] or commit, "sha256": files}
            write_json(lock_path(), dict(sorted({**found, name: entry}.items())))
    return entry


def _downloaded(repo: str, file: str, revision: str, kind: Kind) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import RemoteEntryNotFoundError

    try:
        return Path(hf_hub_download(repo, file, repo_type=kind, revision=revision))
    except RemoteEntryNotFoundError as error:
        raise FptError(f"{repo} has no file {file} at revision {revision}.") from error
    except Exception as error:  # whatever the client raised, the user can do the same about it
        raise FptError(
            f"{file} of {repo} (revision {revision}) is neither in the Hugging Face cache nor "
            f"downloadable ({type(error).__name__}): connect once with HF_HUB_OFFLINE unset, or "
            "point HF_HUB_CACHE at a cache that holds it."
        ) from error


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        seen = path.stat()
        return _digest(path, seen.st_ino, seen.st_mtime_ns)
    except OSError as error:
        raise FptError(
            f"Cannot read {path} ({error.strerror}); give this user the right to read it, or fetch "
            "or pretrain it again."
        ) from error


@lru_cache(maxsize=8)
def _digest(path: Path, *version: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
