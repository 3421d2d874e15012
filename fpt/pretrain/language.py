"""Causal language modelling of a body, from a token stream to a backbone directory.

Sequences are shorter than the 1,024 positions; each starts at a random offset, so that every
position is trained (a recurrent body has none). Data order is a permutation keyed by the seed: a
resumed run repeats an uninterrupted one.
"""

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

from .. import checkpoint
from ..backbones import backbone
from ..errors import FptError
from ..files import write_json
from ..rng import generator
from .corpus import VOCABULARY, Stream, token_stream
from .models import LanguageModel, language_model, surprise

POSITIONS = 1024
OFFSET = 64  # sequences start at multiples of this position


@dataclass(frozen=True)
class Pretraining:
    """What is estimated when a body is pretrained; all of it is written beside the weights."""

    corpus: str
    backbone: str
    tokens: int
    seed: int = 0
    context: int = 256  # tokens per sequence
    batch: int = 16  # sequences per step
    lr: float = 2e-3  # peak; linear warm-up, cosine decay to zero
    warmup: int = 200  # steps
    weight_decay: float = 0.1
    clip: float = 1.0

    @property
    def steps(self) -> int:
        return math.ceil(self.tokens / (self.batch * self.context))

    @property
    def name(self) -> str:
        """The identity of the resulting weights."""
        return f"{self.backbone}-{self.corpus}-{self.seed}"


def learning_rate(plan: Pretraining, step: int) -> float:
    if step < plan.warmup:
        return plan.lr * (step + 1) / plan.warmup
    done = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
    return plan.lr * 0.5 * (1 + math.cos(math.pi * done))


def optimizer_of(plan: Pretraining, model: LanguageModel) -> torch.optim.AdamW:
    """AdamW; matrices decay, norms and biases do not."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": plan.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=plan.lr, betas=(0.9, 0.95), fused=True)


def batch_at(plan: Pretraining, tokens: np.ndarray, step: int, order: Tensor) -> tuple[Tensor, ...]:
    """Ids and positions of step `step`, both (batch, context) int64."""
    first = step * plan.batch
    windows = [int(order[(first + row) % len(order)]) * plan.context for row in range(plan.batch)]
    ids = np.stack([tokens[start : start + plan.context] for start in windows]).astype(np.int64)
    draws = generator("cpu", plan.seed, "offset", step)
    starts = (POSITIONS - plan.context) // OFFSET + 1
    offsets = OFFSET * torch.randint(starts, (plan.batch, 1), generator=draws)
    return torch.from_numpy(ids), offsets + torch.arange(plan.context)


def loss_of(model: Callable[..., Tensor], words: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
    """Mean cross-entropy in nats of every token but the first of each sequence."""
    hidden = model(ids, positions)[:, :-1]
    return surprise(hidden.flatten(0, 1), words, ids[:, 1:].flatten())


@torch.no_grad()
def held_out_loss(loss: Callable[..., Tensor], plan: Pretraining, tokens: np.ndarray) -> float:
    """Mean loss over the whole windows of `tokens`, at position offsets spread evenly."""
    rows = len(tokens) // plan.context // plan.batch * plan.batch
    if rows == 0:
        raise FptError(
            f"The held-out part has {len(tokens)} tokens; "
            f"one batch of {plan.batch} x {plan.context} is the least."
        )
    ids = torch.from_numpy(tokens[: rows * plan.context].astype(np.int64)).view(rows, -1)
    starts = (POSITIONS - plan.context) // OFFSET + 1
    offsets = OFFSET * (torch.arange(rows) % starts)[:, None]
    positions = offsets + torch.arange(plan.context)
    pairs = zip(ids.split(plan.batch), positions.split(plan.batch), strict=True)
    return float(np.mean([loss(i, p).item() for i, p in pairs]))


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
    model: LanguageModel,
    optimizer: torch.optim.AdamW,
    log: Log,
) -> None:
    tensors = {f"model.{name}": p for name, p in model.named_parameters()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"adam.{index}.{name}": value for name, value in state.items()}
    checkpoint.write(path, tensors, {"plan": asdict(plan), "log": asdict(log)})


def resume(
    path: Path, plan: Pretraining, model: LanguageModel, optimizer: torch.optim.AdamW
) -> Log:
    """The state of this very plan, unfinished, put into model and optimizer; a new Log if none."""
    found = checkpoint.read(path)
    if found is None or found[1]["plan"] != asdict(plan):
        return Log()
    tensors, history = found
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "adam":
            index, _, key = rest.partition(".")
            state.setdefault(int(index), {})[key] = tensor
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    return Log(**history["log"])


def pretrain(
    plan: Pretraining,
    out: Path,
    *,
    budget: float = math.inf,
    compiled: bool = False,
    evaluations: int = 20,
    stream: Stream | None = None,
) -> bool:
    """Train `plan` into the directory `out`; True when finished, False when `budget` s ran out.

    Writes config.json, model.safetensors (bf16), tokenizer.json and pretraining.json (plan, curve,
    cost, corpus digest). An unfinished run leaves `out/checkpoint.safetensors` and goes on there.
    """
    model = language_model(backbone(plan.backbone), plan.seed).train()
    stream = stream or token_stream(plan.corpus, plan.tokens)
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    optimizer = optimizer_of(plan, model)
    path = out / "checkpoint.safetensors"
    log = resume(path, plan, model, optimizer)
    before = log.seconds

    body = torch.compile(model) if compiled else model

    def loss(ids: Tensor, positions: Tensor) -> Tensor:
        return loss_of(body, model.words, ids, positions)

    windows = len(stream.train) // plan.context
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
            over = log.step < plan.steps and time.monotonic() - began > budget
            if look:
                point = {
                    "step": log.step,
                    "tokens": log.step * plan.batch * plan.context,
                    "train_loss": float(np.mean(log.running)),
                    "valid_loss": held_out_loss(loss, plan, sample),
                }
                log.curve.append(point)
                log.running = []
                bar.set_postfix(valid=f"{point['valid_loss']:.3f}")
            if look or over:
                save(path, plan, model, optimizer, log)
            if over:
                return False
    finish(plan, out, model, stream, log, held_out_loss(loss, plan, stream.valid))
    path.unlink(missing_ok=True)
    return True


def finish(
    plan: Pretraining,
    out: Path,
    model: LanguageModel,
    stream: Stream,
    log: Log,
    valid_loss: float,
) -> None:
    """Write the backbone directory. Weights are rounded to bf16, as every frozen body is."""
    counts = np.bincount(stream.valid, minlength=VOCABULARY) / len(stream.valid)
    seen = counts[counts > 0]
    model.write(out)
    stream.tokenizer.save(str(out / "tokenizer.json"))
    nats_to_bits_per_byte = len(stream.valid) / stream.valid_bytes / math.log(2)
    record: dict[str, Any] = {
        "plan": asdict(plan),
        "tokens": plan.steps * plan.batch * plan.context,
        "valid_loss": valid_loss,
        "bits_per_byte": valid_loss * nats_to_bits_per_byte,
        "unigram_entropy": float(-(seen * np.log(seen)).sum()),
        "corpus_digest": stream.digest,
        "positions_seen": backbone(plan.backbone).positions,
        "seconds": log.seconds,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "curve": log.curve,
    }
    write_json(out / "pretraining.json", record)
