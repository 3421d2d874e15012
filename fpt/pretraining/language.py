"""Causal language modelling of a body, from a token stream to a backbone directory.

Data order is keyed by the seed (`plan`): a resumed run repeats an uninterrupted one.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from ..backbones import backbone
from ..backbones.weights import file_digest
from ..files import FptError, write_json
from ..tasks.rng import generator
from ..tasks.texts import VOCABULARY
from ..training import checkpoint
from ..training import device as devices
from ..training.loop import CHECKPOINT_SECONDS
from .body import describe, finished, write_weights
from .corpus import Stream
from .lines import entropy
from .models import LanguageModel, language_model, surprise
from .plan import OFFSET, POSITIONS, Pretraining, batch_at, learning_rate, positions_seen
from .streams import open_stream

# How far a held-out loss lies below the entropy by chance: four standard errors at most, from the
# losses of its batches, or, of fewer than BATCHES, from a surprise per token that is, generously,
# SPREAD nats off its mean.
BATCHES = 10
SPREAD = 4.0

log_ = logging.getLogger("fpt")


def optimizer_of(plan: Pretraining, model: LanguageModel) -> torch.optim.AdamW:
    """AdamW on what is not frozen; matrices decay, norms and biases do not."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.dim() >= 2]
    others = [p for p in trained if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": plan.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=plan.lr, betas=(0.9, 0.95), fused=True)


def loss_of(
    model: Callable[..., Tensor], words: Tensor, ids: Tensor, positions: Tensor, sparse: bool
) -> Tensor:
    """Mean cross-entropy in nats of every token but the first of each sequence, or, if `sparse`,
    of the last alone. On CUDA the products are in bf16, the softmax and all sums in fp32."""
    first = ids.shape[1] - 1 if sparse else 1
    ids, positions = ids.to(words.device), positions.to(words.device)
    with devices.autocast(words.device):
        hidden = model(ids, positions)[:, first - 1 : -1].float()
        return surprise(hidden.flatten(0, 1), words, ids[:, first:].flatten())


@torch.no_grad()
def held_out_losses(
    loss: Callable[..., Tensor], plan: Pretraining, tokens: np.ndarray
) -> np.ndarray:
    """Mean loss of each whole batch of `tokens`, at position offsets spread evenly."""
    rows = len(tokens) // plan.context // plan.batch * plan.batch
    ids = torch.from_numpy(tokens[: rows * plan.context].astype(np.int64)).view(rows, -1)
    starts = (POSITIONS - plan.context) // OFFSET + 1
    offsets = OFFSET * (torch.arange(rows) % starts)[:, None]
    positions = offsets + torch.arange(plan.context)
    pairs = zip(ids.split(plan.batch), positions.split(plan.batch), strict=True)
    return np.array([loss(i, p).item() for i, p in pairs])


@dataclass
class Log:
    """How far a pretraining has come."""

    step: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)
    running: list[float] = field(default_factory=list)  # losses since the last look


def save(
    path: Path,
    plan: Pretraining,
    digest: str,
    model: LanguageModel,
    optimizer: torch.optim.AdamW,
    log: Log,
) -> None:
    tensors = {f"model.{name}": p for name, p in model.named_parameters()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"adam.{index}.{name}": value for name, value in state.items()}
    checkpoint.write(path, tensors, {"plan": asdict(plan), "corpus": digest, "log": asdict(log)})


def resume(
    path: Path, plan: Pretraining, digest: str, model: LanguageModel, optimizer: torch.optim.AdamW
) -> Log:
    """The state of this very plan on this very corpus, unfinished, put into model and optimizer; a
    new Log if none."""
    found = checkpoint.read(path)
    if found is None:
        return Log()
    for what, wanted in (("plan", asdict(plan)), ("corpus", digest)):
        if found[1].get(what) != wanted:
            log_.warning("%s begins anew: the checkpoint %s has another %s.", plan.name, path, what)
            return Log()
    tensors, history = found
    state: dict[int, dict[str, Tensor]] = {}
    log = Log(**history["log"])
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "adam":
            index, _, key = rest.partition(".")
            state.setdefault(int(index), {})[key] = tensor
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    return log


def pretrain(
    plan: Pretraining,
    out: Path,
    *,
    budget: float = math.inf,
    compiled: bool = False,
    evaluations: int = 20,
    stream: Stream | None = None,
) -> bool:
    """Train `plan` into the directory `out`; True when finished, False when `budget` s ran out, of
    which the text's preparation is a part.

    Writes config.json, model.safetensors (bf16), tokenizer.json and pretraining.json (plan, curve,
    cost, corpus digest). An unfinished run leaves `out/checkpoint.safetensors` and goes on there; a
    finished one is not made again.
    """
    end = time.monotonic() + budget
    model = language_model(backbone(plan.backbone), plan.seed).train().to(devices.choose())
    stream = stream or open_stream(plan.corpus, plan.tokens)
    if finished(out, plan=asdict(plan), corpus_digest=stream.digest):
        _describe(out, model, stream)  # a lost config.json costs no training
        return True
    path = out / "checkpoint.safetensors"
    left = end - time.monotonic()
    learned = learn(plan, model, stream, path, left, compiled, evaluations)
    if learned is None:
        return False
    finish(plan, out, model, stream, *learned)
    path.unlink(missing_ok=True)
    return True


def learn(
    plan: Pretraining,
    model: LanguageModel,
    stream: Stream,
    path: Path,
    budget: float = math.inf,
    compiled: bool = False,
    evaluations: int = 20,
) -> tuple[Log, np.ndarray] | None:
    """Train `model` in place, on its device, as `plan` says: its log and its held-out loss, a value
    per batch, or None when `budget` s ran out. An unfinished run leaves the checkpoint `path` and
    goes on there."""
    windows = len(stream.train) // plan.context
    if windows == 0:
        raise FptError(
            f"The corpus {plan.corpus!r} has {len(stream.train)} tokens to train on; one sequence "
            f"of {plan.context} is the least."
        )
    if len(stream.valid) < plan.batch * plan.context:
        raise FptError(
            f"The held-out part of the corpus {plan.corpus!r} has {len(stream.valid)} tokens; one "
            f"batch of {plan.batch} x {plan.context} is the least."
        )
    began = saved = time.monotonic()
    optimizer = optimizer_of(plan, model)
    log = resume(path, plan, stream.digest, model, optimizer)
    before = log.seconds

    body = torch.compile(model) if compiled else model

    def loss(ids: Tensor, positions: Tensor) -> Tensor:
        return loss_of(body, model.words, ids, positions, stream.sparse)

    order = torch.randperm(windows, generator=generator("cpu", plan.seed, "order"))
    every = max(1, plan.steps // evaluations)
    sample = stream.valid[: 16 * plan.batch * plan.context]  # for the curve; the end uses all
    with tqdm(total=plan.steps, initial=log.step, desc=plan.name, disable=None) as bar:
        while log.step < plan.steps:
            ids, positions = batch_at(plan, stream.train, log.step, order)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(plan, log.step)
            value = loss(ids, positions)
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            log.running.append(value.item())
            log.step += 1
            log.seconds = before + time.monotonic() - began
            bar.update()
            look = log.step % every == 0 or log.step == plan.steps
            now = time.monotonic()
            over = log.step < plan.steps and now - began > budget
            if look:
                point = {
                    "step": log.step,
                    "tokens": log.step * plan.batch * plan.context,
                    "train_loss": float(np.mean(log.running)),
                    "valid_loss": float(held_out_losses(loss, plan, sample).mean()),
                }
                log.curve.append(point)
                log.running = []
                bar.set_postfix(valid=f"{point['valid_loss']:.3f}")
            if look or over or now - saved > CHECKPOINT_SECONDS:
                save(path, plan, stream.digest, model, optimizer, log)
                saved = now
            if over:
                return None
    return log, held_out_losses(loss, plan, stream.valid)


def finish(
    plan: Pretraining,
    out: Path,
    model: LanguageModel,
    stream: Stream,
    log: Log,
    losses: np.ndarray,
) -> None:
    """Write the backbone directory. Weights are rounded to bf16, as every frozen body is."""
    counts = np.bincount(stream.valid, minlength=VOCABULARY) / len(stream.valid)
    valid_loss = float(losses.mean())
    _describe(out, model, stream)
    write_weights(out, model.tensors())
    record: dict[str, Any] = {
        "plan": asdict(plan),
        "tokens": plan.steps * plan.batch * plan.context,
        "corpus_tokens": len(stream.train),  # fewer: they were seen more than once
        "valid_loss": valid_loss,
        "unigram_entropy": entropy(counts),
        "corpus_digest": stream.digest,
        "weights_digest": file_digest(out / "model.safetensors"),
        "sparse": stream.sparse,
        "positions_seen": positions_seen(plan),
        "seconds": log.seconds,
        **devices.environment(model.words.device),
        "curve": log.curve,
    }
    if stream.tokenizer is not None:
        record["bits_per_byte"] = valid_loss * bits_per_nat(stream)
    if stream.entropy is not None:
        record |= against_entropy(plan, stream, losses)
    write_json(out / "pretraining.json", record)


def _describe(out: Path, model: LanguageModel, stream: Stream) -> None:
    tokenizer = stream.tokenizer
    describe(out, model.config(), None if tokenizer is None else tokenizer.to_str(pretty=True))


def bits_per_nat(stream: Stream) -> float:
    """Bits per byte of the held-out text for each nat per token; FptError where it is no text."""
    if stream.valid_bytes is None:
        raise FptError("There are no bits per byte here: the corpus is not one text.")
    return len(stream.valid) / stream.valid_bytes / math.log(2)


def against_entropy(plan: Pretraining, stream: Stream, losses: np.ndarray) -> dict[str, Any]:
    """The generator's entropy, and whether the held-out loss lies below it by more than chance: no
    model can do that, so there is an error in one of the two. It is said at once."""
    assert stream.entropy is not None
    judged = len(losses) * plan.batch * (1 if stream.sparse else plan.context - 1)
    error = SPREAD / math.sqrt(judged)
    if len(losses) >= BATCHES:
        error = float(losses.std(ddof=1)) / math.sqrt(len(losses))
    below = bool(losses.mean() < stream.entropy - 4 * error)
    if below:
        log_.warning(
            "The held-out loss %.3f of %s is below the %.3f nats per token that its corpus has; "
            "the generator, its entropy or the evaluation is wrong.",
            losses.mean(),
            plan.name,
            stream.entropy,
        )
    return {"entropy": stream.entropy, "entropy_exact": stream.exact, "below_entropy": below}
