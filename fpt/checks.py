"""What params.yaml may say: each check raises an FptError that names the place and what is allowed
there."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from .analysis.registration import registered_seeds
from .files import FptError, check_names


class Allowed(NamedTuple):
    """Type and range of a value, both ends included."""

    kind: type
    least: float
    most: float


SETTINGS: Mapping[str, Allowed] = {
    "lr": Allowed(float, 1e-12, 1e3),
    "batch": Allowed(int, 1, 10**6),
    "steps": Allowed(int, 1, 10**9),
    "eval_every": Allowed(int, 1, 10**9),
    "eval_items": Allowed(int, 0, 10**9),
    "test_items": Allowed(int, 0, 10**9),
    "threshold": Allowed(float, 0, 1),
    "patience": Allowed(int, 0, 10**9),
    "clip": Allowed(float, 1e-12, 1e12),
    "dropout": Allowed(float, 0, 0.99),
    "augment": Allowed(bool, False, True),
}
SEED = Allowed(int, 0, 2**63 - 1)
EXPECTED = {
    float: "a number such as 0.001 or 1.0e-3, from {} to {}",
    int: "a whole number from {} to {}",
    bool: "true or false",
}
MOST_SEEDS = 1000


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Puts the place in params.yaml in front of an FptError."""
    try:
        yield
    except FptError as error:
        raise FptError(f"{where}: {error}") from error


def check_value(where: str, value: Any, allowed: Allowed) -> Any:
    """`value` in its type, of which a whole number may be a float."""
    kinds = (int, float) if allowed.kind is float else (allowed.kind,)
    if type(value) not in kinds or not allowed.least <= value <= allowed.most:
        wanted = EXPECTED[allowed.kind].format(allowed.least, allowed.most)
        raise FptError(f"{where}: expected {wanted}, found {value!r}.")
    return allowed.kind(value)


def check_mapping(where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise FptError(f"{where}: expected settings by name, found {given!r}.")
    return given


def check_complete(where: str, given: Any, names: Iterable[str]) -> None:
    """`given` has all of `names` and no others."""
    names = list(names)
    check_names(where, check_mapping(where, given), names)
    if absent := [name for name in names if name not in given]:
        raise FptError(f"{where}: {', '.join(absent)} missing; it needs {', '.join(names)}.")


def check_list(
    where: str, given: Any, check: Callable[[Any], Any] = lambda value: value
) -> list[Any]:
    """The values of a list, each different and as `check` gives it."""
    if not isinstance(given, list) or not given:
        raise FptError(f"{where}: expected a list such as [a, b], found {given!r}.")
    values = [check(value) for value in given]
    for value in values:
        if values.count(value) > 1:
            raise FptError(f"{where}: {value!r} stands twice; name it once.")
    return values


def check_named(where: str, given: Any, allowed: Iterable[str]) -> list[str]:
    """The names of a list."""
    names = check_list(where, given)
    check_names(where, names, allowed)
    return names


def check_roles(
    where: str, given: Any, allowed: Iterable[str], check: Callable[[str], object]
) -> None:
    """Names by role; each must pass `check`."""
    check_names(where, check_mapping(where, given), sorted(allowed))
    for role, name in given.items():
        if not isinstance(name, str):
            raise FptError(f"{where}.{role}: expected a name, found {name!r}.")
        with placed(f"{where}.{role}"):
            check(name)


def check_settings(where: str, given: Any, extra: Iterable[str] = ()) -> dict[str, Any]:
    """`given`, whose SETTINGS have their types; it may have the names `extra` too."""
    check_names(where, check_mapping(where, given), (*SETTINGS, *extra))
    return {
        name: check_value(f"{where}.{name}", value, SETTINGS[name]) if name in SETTINGS else value
        for name, value in given.items()
    }


def check_seeds(where: str, given: Any) -> list[int]:
    """A list of seeds, or {registered: N} for the first N that follow from the registration of the
    lab's claims (`fpt.analysis.registration`)."""
    if isinstance(given, Mapping):
        check_complete(where, given, ("registered",))
        most = Allowed(int, 1, MOST_SEEDS)
        return registered_seeds(check_value(f"{where}.registered", given["registered"], most))
    return check_list(where, given, lambda seed: check_value(where, seed, SEED))
