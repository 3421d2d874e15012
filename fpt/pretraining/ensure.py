"""Identities of local weights, the plan behind each, and the weights that a profile reads, which
are found, or pretrained if the profile trains here.

An identity is BACKBONE-OBJECTIVE-SEED, such as nano-english-0 or vit-nano-shapes-0; names of
backbones and objectives may hold dashes themselves. An objective is a corpus (`corpora`) or a task.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ..backbones import BACKBONES, backbone
from ..backbones.weights import file_digest, find, local_folder
from ..files import DATA, NAME, FptError, write_json
from . import on_corpus, on_task
from .corpora import FORMS, NAMES, amount, known
from .on_corpus import Pretraining
from .on_task import SETTINGS, TaskPretraining

Plan = Pretraining | TaskPretraining

TOKENS = 21_000_000  # of the language models that ship with the package
OBJECTIVES = (*NAMES, *SETTINGS)


def make_plan(objective: str, body: str, seed: int = 0, tokens: int | None = None) -> Plan:
    """The plan for `objective`, a corpus or a task, on the backbone `body`; `tokens` are by default
    those of the weights that ship with the package. Another number becomes part of the name, so
    that one name stands for one plan: english with 5,000,000 is english@5M. FptError if nothing can
    be pretrained so."""
    backbone(body)  # FptError if there is none
    found = known(objective, SETTINGS)
    if found is None:
        raise FptError(
            f"Nothing is pretrained on {objective!r} here; choose from {', '.join(OBJECTIVES)}, or "
            f"put {objective}.txt into the corpora folder (FPT_CORPORA). {FORMS}"
        )
    count = tokens if tokens is not None else found.most
    for what, value, least in (("number of tokens", count, 1), ("seed", seed, 0)):
        if value is not None and not least <= value < 2**63:
            raise FptError(f"The {what} must be from {least} to below 2^63, not {value}.")
    if count is not None and found.most not in (None, count):
        raise FptError(
            f"{objective!r} says that it has {found.most} tokens, so {count} are another corpus: "
            f"leave them out or write {amount(count)} in its name."
        )
    name = "+".join(found.parts)
    plan: Plan
    if name in SETTINGS:
        settings = {**SETTINGS[name], **({"tokens": count} if count else {})}
        plan = TaskPretraining(name, body, seed=seed, **settings)
    else:
        count = count or TOKENS
        cut = "" if count == TOKENS else f"@{amount(count)}"
        plan = Pretraining(f"{name}{cut}" + ("-last" if found.sparse else ""), body, count, seed)
        plan = replace(plan, warmup=max(1, min(plan.warmup, plan.steps // 5)))
    if not NAME.fullmatch(plan.name):
        raise FptError(f"The weights would be called {plan.name!r}: more than 100 characters.")
    return plan


def plan_of(identity: str) -> Plan:
    """The plan behind a local identity BACKBONE-OBJECTIVE-SEED."""
    rest, _, seed = identity.rpartition("-")
    for body in sorted(BACKBONES, key=len, reverse=True):
        objective = rest.removeprefix(f"{body}-")
        if objective != rest and known(objective, SETTINGS) and re.fullmatch("[0-9]+", seed):
            plan = make_plan(objective, body, int(seed))
            if plan.name != identity:
                raise FptError(f"The weights {identity!r} are called {plan.name!r}.")
            return plan
    raise FptError(
        f"The weights {identity!r} cannot be made here: they are not BACKBONE-OBJECTIVE-SEED with "
        f"a backbone and a corpus or task ({', '.join(OBJECTIVES)}), such as nano-english-0."
    )


def pretrain(plan: Plan, out: Path, *, budget: float = math.inf, compiled: bool = False) -> bool:
    """Train `plan` into `out`; True when finished, False when `budget` seconds ran out."""
    if isinstance(plan, Pretraining):
        return on_corpus.pretrain(plan, out, budget=budget, compiled=compiled)
    return on_task.pretrain(plan, out, budget=budget)


def digest_of(identity: str) -> str:
    """SHA-256 of the weights file; FptError if it is not here."""
    return file_digest(find(identity))


def ensure_weights(weights: Iterable[str], train_here: bool) -> list[str]:
    """Pretrain those of `weights` that are missing, if `train_here`, and list the digests of all in
    data/backbones/manifest.json, null for those that are missing. Returns a sentence for each.
    FptError if `train_here` and weights can be neither found nor pretrained."""
    digests: dict[str, str | None] = {}
    sentences = []
    for identity in dict.fromkeys(weights):
        try:
            digests[identity] = digest_of(identity)
            sentences.append(f"{identity}: present")
        except FptError as error:
            if not train_here:
                digests[identity] = None
                sentences.append(f"{identity}: not here, and nothing is trained here. {error}")
                continue
            if identity.startswith("hub:"):
                raise
            pretrain(plan_of(identity), local_folder() / identity)
            digests[identity] = digest_of(identity)
            sentences.append(f"{identity}: pretrained")
    write_json(DATA / "backbones" / "manifest.json", digests)
    return sentences
