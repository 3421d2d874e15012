"""params.yaml as it stands: which profiles there are, and which one is chosen."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .files import PARAMS, FptError
from .strict_yaml import read_yaml

PROFILES = ("smoke", "lab", "paper")
SHOWN = 30  # names that a sentence lists; of more, it gives those that are most like the mistake


def check_names(what: str, given: Iterable[Any], allowed: Iterable[str]) -> None:
    """FptError for the first of the names `given` that is not `allowed`, with the nearest that
    are."""
    allowed = list(allowed)
    for name in given:
        if name not in allowed:
            raise FptError(f"{what}: {name!r} is not known{instead(str(name), allowed)}.")


def instead(name: str, allowed: list[str]) -> str:
    """What to write in place of a mistyped `name`, as the end of a sentence."""
    if len(allowed) > SHOWN:
        near = get_close_matches(name, allowed, n=5, cutoff=0)
        return f"; the nearest of {len(allowed)} names are {', '.join(near)}"
    near = get_close_matches(name, allowed, n=2)
    guess = f" (did you mean {' or '.join(near)}?)" if near else ""
    return f"{guess}; allowed are {', '.join(allowed)}"


def read_params(path: Path | None = None) -> dict[str, Any]:
    path = path or PARAMS
    try:
        content = read_yaml(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FptError(f"There is no {path}; run inside a checkout or set FPT_ROOT.") from error
    if not isinstance(content, dict):
        raise FptError(f"{path}: expected `profile` and one block per profile.")
    check_names(path.name, content, ("profile", *PROFILES))
    return content


def current_profile(path: Path | None = None) -> str:
    """The profile at the top of params.yaml."""
    name = read_params(path).get("profile")
    check_names("profile", [name], PROFILES)
    return str(name)
