"""A text learned by a body that knows something else, or nothing: what does it bring along?

This is the direction of Chiang and Lee (2022, arXiv:2109.03537), who finetuned whole models on
English tasks after other data. As with them the ids of one corpus mean nothing in another: every
body gets a table of words of its own, the same one for the same seed. What is kept is no model but
a small record.
"""

import json
import math
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..backbones import backbone, build
from ..backbones.dropout import Draws
from ..backbones.initialisations import is_end
from ..backbones.weights import body_state, file_digest, find
from ..files import set_aside, write_json
from ..records import digest
from ..training import device as devices
from .language import bits_per_nat, learn
from .models import LanguageModel, language_model
from .plan import Adaptation
from .streams import open_stream

LOOKS = 8  # at the held-out text, on the way


def started(plan: Adaptation) -> LanguageModel:
    """The language model that `plan` begins with; what is frozen asks for no gradient."""
    spec = backbone(plan.backbone)
    model = language_model(spec, plan.seed).train()
    meta = build(spec, Draws(), 0.0)
    state = body_state(spec, meta, plan.init, plan.weights, plan.seed)
    with torch.no_grad():
        for name, parameter in model.body_parameters().items():
            parameter.copy_(state[name])
            parameter.requires_grad_(not plan.frozen or is_end(spec, name))
    return model


def record_path(folder: Path, plan: Adaptation) -> Path:
    return folder / f"{plan.key}.json"


def adapt(plan: Adaptation, folder: Path, cache: Path, *, budget: float = math.inf) -> bool:
    """Carry `plan` out and write its record into `folder`; True when finished, False when `budget`
    seconds ran out: a checkpoint in `cache` then goes on. FptError where data or weights are not
    here.

    The record: plan, held-out loss in nats per token and in bits per byte, curve (on a sample of
    the held-out text), tokens, cost, digests of the corpus and of the weights that it began with.
    """
    stream = open_stream(plan.corpus, plan.tokens)
    scale = bits_per_nat(stream)
    path = cache / f"{plan.key}.safetensors"
    model = started(plan).to(devices.choose())
    learned = learn(plan, model, stream, path, budget, evaluations=LOOKS)
    if learned is None:
        return False
    log, losses = learned
    loss = float(losses.mean())
    content: dict[str, Any] = {
        "plan": asdict(plan),
        "tokens": plan.steps * plan.batch * plan.context,
        "corpus_tokens": len(stream.train),
        "held_out_tokens": len(stream.valid),
        "held_out_bytes": stream.valid_bytes,
        "valid_loss": loss,
        "bits_per_byte": loss * scale,
        "curve": [{**it, "bits_per_byte": it["valid_loss"] * scale} for it in log.curve],
        "corpus_digest": stream.digest,
        "weights_digest": None,
        "seconds": log.seconds,
        **devices.environment(model.words.device),
    }
    if plan.weights is not None:
        content["weights_digest"] = file_digest(find(backbone(plan.backbone), plan.weights))
    write_json(record_path(folder, plan), content | {"digest": digest(content)})
    path.unlink(missing_ok=True)
    return True


def adapted(folder: Path, plan: Adaptation) -> dict[str, Any] | None:
    """The record of `plan`, None where there is none. A damaged one is moved aside, and that is
    said."""
    path = record_path(folder, plan)
    try:
        content = json.loads(path.read_bytes())
        if content.get("digest") != digest(content):
            raise ValueError("its digest does not fit its content")
        if content["plan"] != asdict(plan):
            raise ValueError("it is of another plan")
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, KeyError, RecursionError) as error:
        aside = set_aside(path)
        warnings.warn(
            f"The record {path.name} is damaged ({error}); it was moved to {aside.name} and counts "
            "as missing.",
            stacklevel=2,
        )
        return None
    return content
