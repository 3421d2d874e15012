"""What params.yaml may say: each check raises an FptError that names the place and what is allowed
there."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from .analysis.registration import registered_seeds
from .backbones.weights import check_identity
from .files import FptError, check_names


class Allowed(NamedTuple):
    """Type and range of a setting, both ends included."""

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
EXPECTED = {
    float: "a number such as 0.001 or 1.0e-3, from {} to {}",
    int: "a whole number from {} to {}",
    bool: "true or false",
}
EXTRA = ("tasks", "arms", "seeds", "keep", "lrs", "search")  # of a section's block too
MOST_SEEDS = 1000


def check_mapping(where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise FptError(f"{where}: expected settings by name, found {given!r}.")
    return given


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Puts the place in params.yaml in front of an FptError."""
    try:
        yield
    except FptError as error:
        raise FptError(f"{where}: {error}") from error


def check_list(where: str, given: Any, allowed: Iterable[str]) -> None:
    if not isinstance(given, list) or not given:
        raise FptError(
            f"{where}: expected a list such as [{next(iter(allowed))}], found {given!r}."
        )
    check_names(where, given, allowed)
    for name in given:
        if given.count(name) > 1:
            raise FptError(f"{where}: {name!r} stands twice; name it once.")


def check_roles(
    where: str, block: Any, allowed: Iterable[str], check: Callable[[str], object]
) -> None:
    """Names by role; each must pass `check`."""
    check_names(where, check_mapping(where, block), sorted(allowed))
    for role, name in block.items():
        if not isinstance(name, str):
            raise FptError(f"{where}.{role}: expected a name, found {name!r}.")
        with placed(f"{where}.{role}"):
            check(name)


def check_weights(weights: str) -> None:
    check_identity(weights.replace("{seed}", "0"))


def check_settings(where: str, block: Any, extra: Iterable[str] = ()) -> dict[str, Any]:
    """`block`, whose SETTINGS have their types; it may have the names `extra` too."""
    check_names(where, check_mapping(where, block), (*SETTINGS, *extra))
    for name in block.keys() & SETTINGS:
        value, (kind, least, most) = block[name], SETTINGS[name]
        if type(value) not in ((int, float) if kind is float else (kind,)) or not (
            least <= value <= most
        ):
            wanted = EXPECTED[kind].format(least, most)
            raise FptError(f"{where}.{name}: expected {wanted}, found {value!r}.")
    return {
        name: SETTINGS[name].kind(value) if name in SETTINGS else value
        for name, value in block.items()
    }


def arm_settings(where: str, block: Any, tasks: Iterable[str]) -> dict[str, Any]:
    """Settings of an arm; its `lr` may be given for each of some `tasks`."""
    rates = check_mapping(where, block).get("lr")
    if not isinstance(rates, Mapping):
        return check_settings(where, block)
    check_names(f"{where}.lr", rates, tasks)
    by_task = {
        task: check_settings(f"{where}.lr.{task}", {"lr": it})["lr"] for task, it in rates.items()
    }
    others = {name: value for name, value in block.items() if name != "lr"}
    return {**check_settings(where, others), "lr": by_task}


def seeds_of(where: str, given: Any) -> list[int]:
    """A list of seeds, or {registered: N} for the first N that follow from the registration of the
    lab's claims (`fpt.analysis.registration`)."""
    if isinstance(given, Mapping):
        check_names(where, given, ("registered",))
        count = given.get("registered")
        if type(count) is not int or not 0 < count <= MOST_SEEDS:
            raise FptError(f"{where}.registered: expected 1 to {MOST_SEEDS}, found {count!r}.")
        return registered_seeds(count)
    if not isinstance(given, list) or not given or not all(type(seed) is int for seed in given):
        raise FptError(f"{where}: expected a list of whole numbers, found {given!r}.")
    if min(given) < 0 or max(given) >= 2**63 or len(set(given)) < len(given):
        raise FptError(
            f"{where}: expected different whole numbers from 0 to below 2^63, found {given!r}."
        )
    return given


def check_role(where: str, arm: str, kind: str, role: str, there: Iterable[str]) -> None:
    if role not in there:
        raise FptError(f"{where}: {arm!r} needs {kind} {role!r}; there are {', '.join(there)}.")


def check_rates(where: str, block: Mapping[str, Any], seeds: Iterable[int]) -> None:
    """A block with `lrs` trains at each of them; its `search` names the seeds that choose among
    them, which must not be those that are reported (`fpt.analysis.tuning`)."""
    lrs = block.get("lrs")
    rates = [
        check_settings(f"{where}.lrs", {"lr": lr})["lr"]
        for lr in (lrs if isinstance(lrs, list) else ())
    ]
    if len(rates) < 2 or len(set(rates)) < len(rates):
        raise FptError(
            f"{where}.lrs: expected two or more different rates such as [0.001, 0.01], "
            f"found {lrs!r}."
        )
    if "lr" in block:
        raise FptError(f"{where}.lr: a block with lrs has no rate of its own; leave it out.")
    if both := sorted(set(seeds_of(f"{where}.search", block.get("search"))) & set(seeds)):
        raise FptError(
            f"{where}.search: seeds that choose a rate cannot be reported too; give others than "
            f"{', '.join(map(str, both))}."
        )
