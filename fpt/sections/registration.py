"""The registrations: what is claimed, how it is tested and on how many runs, one file a
profile.

That of `lab` is registration.yaml beside this file, that of `language`
registration-language.yaml. The seeds of every reported run follow from the digest of its
file, so no reported run can be older than it. The file of `language` also holds the digests
of its settings and rates, of its weights and of the code, so its own digest covers these as
well.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..files import read_yaml
from ..project import PACKAGE, read_params
from ..spec import canonical
from ..training.settings import MOST_SEEDS, SEED, check_list, check_mapping, check_value

FILE = Path(__file__).with_name("registration.yaml")
LANGUAGE = "language"


def file_of(profile: str) -> Path:
    """The registration whose seeds a profile uses: every profile but `language` that of
    `lab`."""
    return FILE.with_name("registration-language.yaml") if profile == LANGUAGE else FILE


@cache
def registration(profile: str = "lab") -> Mapping[str, Any]:
    """The content of a profile's registration."""
    content: Mapping[str, Any] = read_yaml(file_of(profile))
    return content


@cache
def deviations(profile: str = "lab") -> Sequence[Mapping[str, Any]]:
    """What was done otherwise than registered: `date`, `because`, the claims `withdrawn`,
    and in `language` the `cells` that are planned no longer or are `reinstated`."""
    name = "deviations-language.yaml" if profile == LANGUAGE else "deviations.yaml"
    content: Sequence[Mapping[str, Any]] = read_yaml(FILE.with_name(name))
    return content


def is_withdrawn(profile: str, arm: str, task: str) -> bool:
    """Whether a deviation has taken an arm on a task out of a profile's plan."""
    return bool(_date_of_withdrawal(profile, arm, task))


def withdrawal(profile: str, claim: str, arms: Iterable[str], tasks: Iterable[str]) -> str:
    """The date at which a claim about some arms on some tasks was withdrawn, and the page
    that says why; empty if it stands."""
    cells = itertools.product(arms, tasks)
    dates = [_date_of_withdrawal(profile, arm, task) for arm, task in cells]
    dates += [entry["date"] for entry in deviations(profile) if claim in entry["withdrawn"]]
    page = "docs/plan-language.md" if profile == LANGUAGE else "docs/plan.md"
    dates = [date for date in dates if date]
    return f"withdrawn on {dates[0]}, while an arm had no run ({page})" if dates else ""


def _date_of_withdrawal(profile: str, arm: str, task: str) -> str:
    # params.yaml keeps a cell that is dropped, since the registration covers that file.
    date = ""
    for deviation in deviations(profile):
        if _has_cell(deviation.get("cells", ()), arm, task):
            date = deviation["date"]
        if _has_cell(deviation.get("reinstated", ()), arm, task):
            date = ""
    return date


def _has_cell(cells: Sequence[Mapping[str, str]], arm: str, task: str) -> bool:
    return {"task": task} in cells or {"task": task, "arm": arm} in cells


@cache
def digest(profile: str = "lab") -> str:
    """SHA-256 of a registration, whose line ends may be those of Windows."""
    return hashlib.sha256(_with_unix_line_ends(file_of(profile))).hexdigest()


def _with_unix_line_ends(path: Path) -> bytes:
    return path.read_bytes().replace(b"\r\n", b"\n")


def registered_seeds(count: int, profile: str = "lab") -> list[int]:
    """The first `count` seeds that follow from a registration, each below 2^31; more of
    them begin with fewer."""
    return [seed_from(f"{digest(profile)}/{index}") for index in range(count)]


def registered_draws(count: int, profile: str = LANGUAGE) -> list[int]:
    """The first `count` seeds of draws that follow from a registration; they are others
    than its seeds."""
    return [seed_from(f"{digest(profile)}/draw/{index}") for index in range(count)]


def seed_from(text: str) -> int:
    """The seed that follows from a text."""
    # 31 bits: torch and NumPy take such a seed on every platform.
    drawn = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(drawn[:4], "big") >> 1


def check_seeds(
    where: str,
    seeds: Any,
    profile: str,
    registered: Callable[..., list[int]] = registered_seeds,
) -> list[int]:
    """A list of seeds, or {registered: N} for the first N that follow from the registration
    of the profile's claims."""
    # Seeds that are typed cannot be known to be those that were registered.
    if isinstance(seeds, Mapping):
        count = check_mapping(where, seeds, ("registered",), ("registered",))["registered"]
        return registered(check_value(f"{where}.registered", count, MOST_SEEDS), profile)
    return [check_value(where, seed, SEED) for seed in check_list(where, seeds)]


def settings_digest(profile: str) -> str:
    """SHA-256 of a profile's block of params.yaml: its settings, rates, sections and
    budgets."""
    return hashlib.sha256(canonical(read_params()[profile]).encode()).hexdigest()


def code_digest(package: Path = PACKAGE) -> str:
    """SHA-256 of all Python files of the package, by their paths in it and their
    contents."""
    digests = {
        path.relative_to(package).as_posix(): hashlib.sha256(
            _with_unix_line_ends(path)
        ).hexdigest()
        for path in sorted(package.rglob("*.py"))
    }
    return hashlib.sha256(canonical(digests).encode()).hexdigest()
