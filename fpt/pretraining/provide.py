"""Identities of local weights, the plan behind each, and the bodies that a profile freezes: found,
or pretrained where the profile allows it.

An identity is BACKBONE-OBJECTIVE-SEED, such as nano-english-0 or vit-nano-shapes-0; names of
backbones and objectives may hold dashes themselves. An objective is a corpus (`streams`) or a task.
"""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..backbones import BACKBONES, Backbone, backbone
from ..backbones.weights import file_digest, find, local_folder
from ..files import DATA, NAME, FptError, write_json
from . import language, supervised
from .plan import Pretraining, fitted
from .streams import FORMS, NAMES, Wanted, amount, taken_apart, wanted
from .supervised import SETTINGS, TaskPretraining

Plan = Pretraining | TaskPretraining

# What differs from the plan's own settings, for the language models that ship with the package: as
# much as one CPU thread does in an hour and a half, for every architecture alike.
LANGUAGE: Mapping[str, Any] = {"tokens": 21_000_000}
OBJECTIVES = (*NAMES, *SETTINGS)


def asked(objective: str) -> Wanted | None:
    """The corpus or the task behind an objective; None where nothing can be pretrained on it."""
    found = taken_apart(objective)
    if found is not None and not SETTINGS.keys().isdisjoint(found.parts):  # alone, and not -last
        return found if len(found.parts) == 1 and not found.sparse else None
    return wanted(objective)


def make_plan(objective: str, body: str, seed: int = 0, tokens: int | None = None) -> Plan:
    """The plan for `objective`, a corpus or a task, on the backbone `body`; `tokens` by default
    those of the weights that ship with the package. Others are a part of the name, so that one name
    stands for one plan: english with 5,000,000 is english@5M."""
    backbone(body)  # there has to be one
    found = asked(objective)
    if found is None:
        raise FptError(
            f"Nothing is pretrained on {objective!r} here; choose from {', '.join(OBJECTIVES)}, or "
            f"put {objective}.txt into the corpora folder (FPT_CORPORA). {FORMS}"
        )
    for count in (tokens, found.most):
        if count is not None and not 1 <= count < 2**63:
            bound = "at least 1" if count < 1 else "below 2^63"
            raise FptError(f"The number of tokens must be {bound}, not {count}.")
    if None not in (tokens, found.most) and tokens != found.most:
        raise FptError(
            f"{objective!r} says that it has {found.most} tokens, so {tokens} are another corpus: "
            f"leave them out or write {amount(tokens or 0)} in its name."
        )
    if not 0 <= seed < 2**63:
        raise FptError(f"The seed must be a whole number from 0 to below 2^63, not {seed}.")
    task = "+".join(found.parts)
    settings = SETTINGS.get(task, LANGUAGE)
    count = tokens or found.most or settings["tokens"]
    plan: Plan
    if task in SETTINGS:
        plan = TaskPretraining(task, body, seed=seed, **{**settings, "tokens": count})
    else:
        cut = "" if count == settings["tokens"] else f"@{amount(count)}"
        corpus = f"{task}{cut}" + ("-last" if found.sparse else "")
        plan = fitted(Pretraining(corpus, body, seed=seed, **{**settings, "tokens": count}))
    if not NAME.fullmatch(plan.name):
        raise FptError(f"The weights would be called {plan.name!r}: more than 100 characters.")
    return plan


def plan_of(identity: str) -> Plan:
    """The plan behind a local identity BACKBONE-OBJECTIVE-SEED."""
    rest, _, seed = identity.rpartition("-")
    for body in sorted(BACKBONES, key=len, reverse=True):
        objective = rest.removeprefix(f"{body}-")
        if objective != rest and asked(objective) and re.fullmatch("[0-9]+", seed):
            plan = make_plan(objective, body, int(seed))
            if plan.name != identity:
                raise FptError(f"The weights {identity!r} are called {plan.name!r}.")
            return plan
    raise FptError(
        f"The weights {identity!r} cannot be made here: they are not BACKBONE-OBJECTIVE-SEED with "
        f"a backbone and a corpus or task ({', '.join(OBJECTIVES)}), such as nano-english-0."
    )


def backbone_of(identity: str) -> Backbone:
    """The backbone whose name a local identity begins with, the longest if there are several."""
    names = [name for name in BACKBONES if identity.startswith(f"{name}-")]
    if not names:
        raise FptError(
            f"The weights {identity!r} do not begin with the name of a backbone; local weights are "
            "called BACKBONE-OBJECTIVE-SEED, such as nano-english-0."
        )
    return BACKBONES[max(names, key=len)]


def pretrain(plan: Plan, out: Path, *, budget: float = math.inf, compiled: bool = False) -> bool:
    """Train `plan` into `out`; True when finished, False when `budget` seconds ran out."""
    if isinstance(plan, Pretraining):
        return language.pretrain(plan, out, budget=budget, compiled=compiled)
    return supervised.pretrain(plan, out, budget=budget)


def digest_of(identity: str) -> str:
    """SHA-256 of the weights file; FptError where it is not here."""
    published = identity.startswith("hub:")  # which are looked for by repository, whoever asks
    spec = backbone("gpt2") if published else backbone_of(identity)
    return file_digest(find(spec, identity))


def provide(weights: Iterable[str], train_here: bool) -> list[str]:
    """Make sure of `weights`, and list them in data/backbones/manifest.json by digest.

    Missing weights stop training, not rendering: where they cannot be made here, the list says
    null. Returns a sentence for each.
    """
    digests: dict[str, str | None] = {}
    said = []
    for identity in dict.fromkeys(weights):
        try:
            digests[identity] = digest_of(identity)
            said.append(f"{identity}: present")
        except FptError as error:
            if not train_here:
                digests[identity] = None
                said.append(f"{identity}: not here, and nothing is trained here. {error}")
                continue
            if identity.startswith("hub:"):
                raise
            pretrain(plan_of(identity), local_folder() / identity)
            digests[identity] = digest_of(identity)
            said.append(f"{identity}: pretrained")
    write_json(DATA / "backbones" / "manifest.json", digests)
    return said
