"""Arms: what is compared. An arm's name says which backbone it has, how that is initialised and
what of it is trained, and names compose: `random-output+layernorm@2` is two layers of a random
backbone, whose output net and layer norms are trained.

The kinds of backbone and the sources of weights are roles; a profile of params.yaml says which
backbone and which weights play them (`fpt.config`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from ..files import FptError, check_free, import_modules, read_yaml
from ..training.settings import check_choices

FROZEN = ("input", "layernorm", "output", "positions")  # what the paper trains around the backbone
INSIDE = ("attention", "feedforward", "last-attention")  # groups of the backbone itself
ENDS = ("input", "output")
ALL_BUT_QUERIES = (*FROZEN, "attention", "feedforward")  # of a backbone that keeps those apart

TABLE = read_yaml(Path(__file__).with_name("arms.yaml"))
CORPORA: Mapping[str, str] = TABLE["corpora"]  # role of weights of a GPT-2 -> their corpus
KINDS: Mapping[str, tuple[str, str]] = TABLE["backbones"]  # role -> label, role of the weights
INITS: Mapping[str, str] = TABLE["initialisations"]


@dataclass(frozen=True)
class Arm:
    """One row of a table. `trainable` None: everything the backbone has; of the groups it names, a
    backbone without a table of positions has no `positions`."""

    name: str
    label: str
    backbone: str = "transformer"  # its role
    init: str = "pretrained"
    trainable: tuple[str, ...] | None = FROZEN
    weights: str = "language"  # role of the weights, for initialisations that read any
    input_init: str = "orthogonal"
    procedure: str = "sgd"
    order: str = "given"  # of the tokens


NAMED: dict[str, Arm] = {
    it.name: it
    for it in (
        *(Arm(name, **given) for name, given in TABLE["arms"].items()),
        *(Arm(init, label, init=init) for init, label in INITS.items()),
        Arm("no-transformer-last", "No transformer, last token", "last-token", "random", ENDS),
        Arm("no-transformer-mean", "No transformer, mean token", "mean-token", "random", ENDS),
        Arm("full-frozen-qk", "Queries and keys frozen", "split", "random", ALL_BUT_QUERIES),
        Arm("full-fixed", "Fixed random attention", "fixed", "random", ALL_BUT_QUERIES),
        *(
            Arm(
                name + how,
                f"{label}, {how}",
                trainable=tuple(group for group in FROZEN if group not in frozen),
                input_init=how,
            )
            for name, label, frozen in (
                ("input-", "FPT, input", ()),
                ("frozen-input-", "FPT, input frozen", ("input",)),
            )
            for how in ("orthogonal", "default", "normal")
        ),
    )
}

# Of backbones, beside `depth-1` and so on.
ROLES = {*KINDS, *(it.backbone for it in NAMED.values())}
SOURCES = {"language", *CORPORA, *(source for _, source in KINDS.values() if source)}  # of weights


def register_arm(own: Arm) -> None:
    """Make an arm of yours known by its name; for a module that `params.yaml` names under
    `modules`. FptError if the name is taken, or if no run can be what the arm says."""
    check_free("arm", own.name, NAMED)
    check_choices(f"arm {own.name!r}", vars(own))
    NAMED[own.name] = own


@cache
def arm(name: str) -> Arm:
    """The arm of this name; FptError if the name is none."""
    found = NAMED.get(name) or _of_depth(name) or _of_parts(name) or _of_backbone(name)
    if found is None:
        import_modules()
        found = NAMED.get(name)
    if found is None:
        near = get_close_matches(name, [*NAMED, *(f"fpt-{it}" for it in (*CORPORA, *KINDS))])
        hint = f"did you mean {' or '.join(near)}" if near else "see how names compose"
        raise FptError(f"{name!r} is no arm; {hint} (fpt/sections/arms.py).")
    return found


def label(name: str) -> str:
    """What tables and figures call an arm."""
    return arm(name).label


def _of_depth(name: str) -> Arm | None:
    """`output@2`: the first two layers."""
    whole, at, depth = name.rpartition("@")
    if not at or not depth.isdigit():
        return None
    layers = "1 layer" if depth == "1" else f"{depth} layers"
    text = f"{label(whole)}, {layers}"
    return replace(arm(whole), name=name, label=text, backbone=f"depth-{depth}")


def _of_parts(name: str) -> Arm | None:
    """`output+input`: these parts are trained, around a pretrained or a `random-` backbone;
    `fpt+attention`: this too."""
    bare = name.removeprefix("random-")
    parts = tuple(sorted(bare.split("+")))
    if len(set(parts)) < len(parts):
        return None
    if name.startswith("fpt+") and set(parts) <= {"fpt", *INSIDE}:
        inside = tuple(part for part in parts if part != "fpt")
        return Arm(name, name.replace("fpt", "FPT").replace("+", " + "), trainable=FROZEN + inside)
    if not set(parts) <= set(FROZEN):
        return None
    if bare != name:
        return Arm(name, f"random: {bare}", init="random", trainable=parts)
    return Arm(name, bare, trainable=parts)


def _of_backbone(name: str) -> Arm | None:
    """`fpt-bert`, `random-lstm`: another backbone; `fpt-english`, `full-english`,
    `statistics-english`: what it was pretrained on."""
    start, _, of = name.partition("-")
    corpus = "bit-memory" if of == "bits" else of
    if of in KINDS and start in ("fpt", "random"):
        kind, weights = KINDS[of]
        if start == "random":
            return Arm(name, f"Frozen random {kind}", of, "random")
        return Arm(name, f"Frozen {kind}", of, weights=weights) if weights else None
    if corpus in CORPORA and start == "fpt":
        return Arm(name, f"Frozen, {CORPORA[corpus]}", weights=corpus)
    if corpus in CORPORA and start == "full":
        return Arm(name, f"Fully trained from {CORPORA[corpus]}", trainable=None, weights=corpus)
    if corpus in CORPORA and start == "statistics":
        label = f"Statistics of {CORPORA[corpus]}"
        return Arm(name, label, init="statistics-tensor", weights=corpus)
    return None
