"""What params.yaml may say. Each check raises an FptError that names the place `where` and what is
allowed there."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..files import FptError, check_names

Allowed = tuple[type, float, float]  # type and range of a value, both ends included

SETTINGS: Mapping[str, Allowed] = {
    "lr": (float, 1e-12, 1e3),
    "batch": (int, 1, 10**6),
    "steps": (int, 1, 10**9),
    "eval_every": (int, 1, 10**9),
    "eval_items": (int, 0, 10**9),
    "test_items": (int, 0, 10**9),
    "threshold": (float, 0, 1),
    "patience": (int, 0, 10**9),
    "clip": (float, 1e-12, 1e12),
    "dropout": (float, 0, 0.99),
    "augment": (bool, False, True),
}
# What of a set is evaluated is the same for all arms, so no arm and no block says it.
OF_ARMS = tuple(name for name in SETTINGS if name not in ("eval_items", "test_items"))
SEED, FLAG = (int, 0, 2**63 - 1), (bool, False, True)
MOST_SEEDS = (int, 1, 1000)
EXPECTED = {
    float: "a number such as 0.001 or 1.0e-3, from {} to {}",
    int: "a whole number from {} to {}",
    bool: "true or false",
}


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Puts the place in front of an FptError."""
    try:
        yield
    except FptError as error:
        raise FptError(f"{where}: {error}") from error


def check_value(where: str, value: Any, allowed: Allowed) -> Any:
    """`value` in its type, of which a whole number may be a float; a number of NumPy will do."""
    kind, least, most = allowed
    value = value.item() if isinstance(value, np.generic) else value
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds or not least <= value <= most:
        expected = EXPECTED[kind].format(least, most)
        raise FptError(f"{where}: expected {expected}, found {value!r}.")
    return kind(value)


def check_mapping(
    where: str, given: Any, names: Iterable[str] | None = None, needed: Iterable[str] = ()
) -> Mapping[str, Any]:
    """`given`, which has all `needed` names, and none but `names` unless these are None."""
    if not isinstance(given, Mapping):
        raise FptError(f"{where}: expected settings by name, found {given!r}.")
    if names is not None:
        check_names(where, given, names)
    if absent := [name for name in needed if name not in given]:
        raise FptError(f"{where}: {', '.join(absent)} missing; it needs {', '.join(needed)}.")
    return given


def check_settings(
    where: str, given: Any, extra: Iterable[str] = (), names: Iterable[str] = tuple(SETTINGS)
) -> dict[str, Any]:
    """`given`, whose settings `names` have their types; it may have the names `extra` too."""
    return {
        name: check_value(f"{where}.{name}", value, SETTINGS[name]) if name in SETTINGS else value
        for name, value in check_mapping(where, given, (*names, *extra)).items()
    }


def check_list(where: str, given: Any, names: Iterable[str] | None = None) -> list[Any]:
    """The values of a list, each different, and one of `names` unless these are None."""
    if not isinstance(given, list | tuple) or not given:
        raise FptError(f"{where}: expected a list such as [a, b], found {given!r}.")
    if names is not None:
        check_names(where, given, names)
    if twice := [value for value in given if given.count(value) > 1]:
        raise FptError(f"{where}: {twice[0]!r} stands twice; name it once.")
    return list(given)


def check_roles(
    where: str, given: Any, roles: Iterable[str], check: Callable[[str, str], object]
) -> None:
    """Names by role; each role and its name must pass `check`."""
    for role, name in check_mapping(where, given, sorted(roles)).items():
        if not isinstance(name, str):
            raise FptError(f"{where}.{role}: expected a name, found {name!r}.")
        with placed(f"{where}.{role}"):
            check(role, name)
