"""What params.yaml may say: each check raises FptError with the place and what is allowed there."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from .analysis.registration import registered_seeds
from .backbones import BACKBONES, FAMILIES, Backbone, backbone
from .backbones.initialisations import INITS
from .backbones.weights import check_identity
from .files import NAME, FptError
from .params import check_names
from .sections.arms import ARMS, Arm
from .strict_yaml import is_quoted
from .tasks import get_task

SETTINGS: Mapping[str, type] = {
    "lr": float,
    "batch": int,
    "steps": int,
    "eval_every": int,
    "eval_items": int,
    "test_items": int,
    "threshold": float,
    "patience": int,
    "clip": float,
    "dropout": float,
    "augment": bool,
}
EXTRA = ("tasks", "arms", "seeds", "keep", "lrs", "search", "beyond")  # of a section's block too
ZERO_ALLOWED = {"patience", "dropout", "eval_items", "test_items", "threshold"}
MOST_REGISTERED = 1000
TOO_LARGE = 2**63  # for a number of any setting, and for a seed
AT_MOST: Mapping[str, float] = {
    "batch": 10**6,
    "steps": 10**9,
    "eval_every": 10**9,
    "eval_items": 10**9,
    "test_items": 10**9,
    "threshold": 1.0,
    "patience": 10**9,
    "dropout": 0.99,
}
PLAINLY = {  # what to write instead of text, for a setting of each type
    float: "write 1.0e-3 or 0.001, not 1e-3",
    int: "write a plain number such as 400",
    bool: "write true or false",
}


def check_block(where: str, block: Any) -> Mapping[str, Any]:
    if not isinstance(block, Mapping):
        raise FptError(f"{where}: expected settings by name, found {block!r}.")
    return block


def check_list(where: str, given: Any, allowed: Iterable[str]) -> None:
    if not isinstance(given, list) or not given:
        first = next(iter(allowed), "")
        raise FptError(f"{where}: expected a list such as [{first}], found {given!r}.")
    check_names(where, given, allowed)
    for name in given:
        if given.count(name) > 1:
            raise FptError(f"{where}: {name!r} stands twice; name it once.")


def check_words(where: str, names: Iterable[Any]) -> None:
    """Names of the profile's own, which name files of tables and figures too."""
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise FptError(
                f"{where}: {name!r} is no name; write letters, digits and any of ._+@- after the "
                "first, at most 100."
            )


def check_roles(where: str, block: Any, allowed: Iterable[str]) -> None:
    check_names(where, check_block(where, block), sorted(allowed))
    for name, value in block.items():
        if not isinstance(value, str):
            raise FptError(f"{where}.{name}: expected a name, found {value!r}.")


def check_body(where: str, role: str, name: str) -> None:
    """FptError if the backbone `name` is unknown, or not of the kind that arms mean by `role`."""
    try:
        given = backbone(name)
    except FptError as error:
        raise FptError(f"{where}: {error}") from error
    kind = _kind_of(role)
    if _kind(given) != kind:
        fit = ", ".join(it.name for it in BACKBONES.values() if _kind(it) == kind)
        raise FptError(f"{where}: {name!r} is another kind of body; choose one of {fit}.")


def _kind(body: Backbone) -> tuple[str, bool, bool, bool]:
    return body.family, body.bidirectional, body.fixed, body.feedforward


def _kind_of(role: str) -> tuple[str, bool, bool, bool]:
    """`_kind` of the bodies that can play `role`, which names a family or is played by GPT-2."""
    families = {name: name for name in FAMILIES}
    families |= {"t5": "t5-encoder"} | dict.fromkeys(
        ("split", "attention", "fixed"), "gpt2-unfused"
    )
    family = families.get(role, "lstm" if role.startswith("lstm-") else "gpt2")
    return family, role == "bidirectional", role == "fixed", role != "attention"


def check_weights(where: str, weights: str) -> None:
    """FptError if the identity of weights, in which {seed} may stand, has no known form."""
    try:
        check_identity(weights.replace("{seed}", "0"))
    except FptError as error:
        raise FptError(f"{where}: {error}") from error


def check_arm(where: str, arm: Arm, bodies: Iterable[str], weights: Iterable[str]) -> None:
    """FptError where the profile has no body or no weights for an arm of one of its sections."""
    if arm.body not in bodies:
        raise FptError(
            f"{where}: {arm.name!r} needs a body {arm.body!r}; there are {', '.join(bodies)}."
        )
    if INITS[arm.init].reads_weights and arm.weights not in weights:
        raise FptError(
            f"{where}: {arm.name!r} needs weights {arm.weights!r}; there are {', '.join(weights)}."
        )


def seeds_of(where: str, given: Any) -> list[int]:
    """The seeds that are `given`: a list, or {registered: N} for the first N that follow from the
    registration of the lab's claims (`fpt.analysis.registration`)."""
    if isinstance(given, Mapping):
        check_names(where, given, ("registered",))
        count = given.get("registered")
        if type(count) is not int or not 0 < count <= MOST_REGISTERED:
            raise FptError(
                f"{where}.registered: expected a number from 1 to {MOST_REGISTERED}, "
                f"found {count!r}."
            )
        return registered_seeds(count)
    check_seeds(where, given)
    seeds: list[int] = given
    return seeds


def check_seeds(where: str, seeds: Any) -> None:
    if not isinstance(seeds, list) or not seeds or not all(type(s) is int for s in seeds):
        raise FptError(f"{where}: expected a list of whole numbers, found {seeds!r}.")
    if min(seeds) < 0 or max(seeds) >= TOO_LARGE or len(set(seeds)) < len(seeds):
        raise FptError(
            f"{where}: expected different whole numbers from 0 to below 2^63, found {seeds!r}."
        )


def check_rates(where: str, block: Mapping[str, Any], seeds: Iterable[int]) -> None:
    """A block with `lrs` trains at each of them; its `search` names the seeds that choose among
    them, which must not be those that are reported (see `fpt.analysis.rates`). Where the best is at
    an edge, it goes on to the rates `beyond` (see `fpt.analysis.grid`)."""
    if not {"lrs", "search", "beyond"} & set(block):
        return
    lrs, search, beyond = block.get("lrs"), block.get("search"), block.get("beyond", [])
    if not _are_rates(lrs) or len(lrs) < 2:
        raise FptError(
            f"{where}.lrs: expected two or more different rates such as [0.001, 0.01], found "
            f"{lrs!r}."
        )
    if not _are_rates(beyond) or any(min(lrs) <= lr <= max(lrs) for lr in beyond):
        raise FptError(
            f"{where}.beyond: expected different rates below {min(lrs):g} or above {max(lrs):g}, "
            f"found {beyond!r}."
        )
    if "lr" in block:
        raise FptError(f"{where}.lr: a block with lrs has no rate of its own; leave it out.")
    check_seeds(f"{where}.search", search)
    probes = [arm for arm in block.get("arms", []) if ARMS[arm].procedure == "probe"]
    if probes:
        raise FptError(f"{where}: a probe has no learning rate; leave {', '.join(probes)} out.")
    both = sorted(set(search or ()) & set(seeds))
    if both:
        raise FptError(
            f"{where}.search: seeds that choose a rate cannot be reported too; give others than "
            f"{', '.join(map(str, both))}."
        )


def check_searches(where: str, blocks: Iterable[Mapping[str, Any]]) -> None:
    """Blocks that search on one task do so alike, so that trials of their arms are equal; and no
    arm stands in two of them."""
    how = ("lrs", "beyond", "search", *SETTINGS)
    seen: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for block in blocks:
        if "lrs" not in block:
            continue
        mine = {name: block.get(name) for name in how}
        for task in block["tasks"]:
            first, arms = seen.setdefault(task, (mine, []))
            apart = [name for name in how if mine[name] != first[name]]
            if apart:
                raise FptError(
                    f"{where}: two blocks with lrs have {task!r} and differ in {', '.join(apart)}; "
                    "give the arms of a task equal trials."
                )
            twice = sorted(set(arms) & set(block["arms"]))
            if twice:
                raise FptError(
                    f"{where}: two blocks with lrs have {', '.join(twice)} on {task!r}; name an "
                    "arm in one of them."
                )
            arms += block["arms"]


def _are_rates(given: Any) -> TypeGuard[list[float]]:
    """Whether it is a list of different learning rates."""
    return (
        isinstance(given, list)
        and all(type(lr) in (int, float) and 0 < lr < TOO_LARGE for lr in given)
        and len(set(given)) == len(given)
    )


def check_keep(where: str, block: Mapping[str, Any]) -> None:
    keep = block.get("keep", False)
    if type(keep) is not bool:
        raise FptError(f"{where}: expected true or false, found {keep!r}.")
    probes = [arm for arm in block.get("arms", []) if ARMS[arm].procedure == "probe"]
    if keep and probes:
        raise FptError(f"{where}: a probe keeps no parameters; leave {', '.join(probes)} out.")


def check_task(where: str, task: str, settings: Mapping[str, Any]) -> None:
    options = check_block(f"{where}.options", settings.get("options", {}))
    try:
        get_task(settings.get("name", task), **{str(name): options[name] for name in options})
    except FptError as error:
        raise FptError(f"{where}: {error}") from error


def check_arm_settings(where: str, block: Any, tasks: Iterable[str]) -> Mapping[str, Any]:
    """Settings of an arm; its `lr` may be given for each of some `tasks`."""
    given = dict(check_block(where, block))
    rates = given.get("lr")
    if not isinstance(rates, Mapping):
        return check_settings(where, given)
    check_names(f"{where}.lr", rates, tasks)
    del given["lr"]
    by_task = {
        task: check_settings(f"{where}.lr.{task}", {"lr": rate})["lr"]
        for task, rate in rates.items()
    }
    return {**check_settings(where, given), "lr": by_task}


def check_settings(where: str, block: Any, extra: Iterable[str] = ()) -> Mapping[str, Any]:
    """`block` with the types of SETTINGS; FptError names the place and what is allowed."""
    check_block(where, block)
    check_names(where, block, (*SETTINGS, *extra))
    checked = dict(block)
    for name, kind in SETTINGS.items():
        if name not in block:
            continue
        value = block[name]
        if type(value) not in ((float, int) if kind is float else (kind,)):
            hint = ""
            if isinstance(value, str):
                hint = f" ({'remove the quotes' if is_quoted(value, kind) else PLAINLY[kind]})"
            raise FptError(f"{where}.{name}: expected {kind.__name__}, found {value!r}{hint}.")
        zero = kind is bool or name in ZERO_ALLOWED
        most = AT_MOST.get(name, TOO_LARGE - 1)
        if not 0 <= value <= most or (value == 0 and not zero):
            least = "zero or more" if zero else "above zero"
            bound = f"at most {most}" if name in AT_MOST else "below 2^63"
            raise FptError(f"{where}.{name}: must be {least} and {bound}, found {value!r}.")
        checked[name] = kind(value)
    return checked
