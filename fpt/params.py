"""params.yaml as it stands: which profiles there are, and which one is chosen."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .errors import FptError
from .paths import PARAMS
from .strict_yaml import read_yaml

PROFILES = ("smoke", "lab", "paper")


def check_names(what: str, given: Iterable[Any], allowed: Iterable[str]) -> None:
    allowed = list(allowed)
    for name in given:
        if name not in allowed:
            raise FptError(f"{what}: {name!r} is not known; allowed are {', '.join(allowed)}.")


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
