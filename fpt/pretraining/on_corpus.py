"""Pretrain a backbone as a causal language model, from a token stream to a folder of
weights.

Every random draw is keyed by the seed and the step, so that a resumed run ends in the same
weights as an uninterrupted one. Sequences are shorter than the 1,024 positions; each starts
at a random offset, so that every position is trained (a recurrent backbone has none).
"""

import logging
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbones import backbone
from ..errors import FptError
from ..tasks.rng import generator
from ..training import device as devices
from ..training.loop import CHECKPOINT_SECONDS
from ..training.progress import progress_bar, read_checkpoint, write_checkpoint
from .corpora import open_stream
from .language_model import LanguageModel, language_model
from .lines import VOCABULARY, entropy
from .metadata import CHECKPOINT, finished, write
from .plans import Pretraining
from .streams import Stream

POSITIONS = 1024
# Sequences start at multiples of this position.
OFFSET = 64
# Measurements of the held-out loss during training.
EVALUATIONS = 20
# Batches of held-out tokens in each of these: all of them would cost more than the
# training.
EVALUATED_BATCHES = 16
ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")

log = logging.getLogger("fpt")


def learning_rate(plan: Pretraining, step: int) -> float:
    """Linear warm-up, then half a cosine to zero."""
    if step < plan.warmup:
        return plan.lr * (step + 1) / plan.warmup
    progress = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
    return plan.lr * 0.5 * (1 + math.cos(math.pi * progress))


def offset_count(plan: Pretraining) -> int:
    """The number of positions at which a sequence may start."""
    return (POSITIONS - plan.context) // OFFSET + 1


def offsets_at(plan: Pretraining, step: int) -> Tensor:
    """The positions at which the sequences of step `step` start, (batch, 1) int64."""
    draws = generator("cpu", plan.seed, "offset", step)
    return OFFSET * torch.randint(offset_count(plan), (plan.batch, 1), generator=draws)


@dataclass
class Progress:
    """How far a training is; plain JSON values, so a checkpoint can hold it."""

    step: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)
    recent_losses: list[float] = field(default_factory=list)  # since the last evaluation


class Training:
    """A language model in training, from its first step or its checkpoint at `path`."""

    def __init__(
        self,
        plan: Pretraining,
        model: LanguageModel,
        stream: Stream,
        path: Path,
    ) -> None:
        self.plan = plan
        self.model = model
        self.stream = stream
        self.path = path
        # Biases and norms are not decayed: weight decay is for matrices and embeddings.
        matrices = [value for value in model.parameters() if value.dim() >= 2]
        vectors = [value for value in model.parameters() if value.dim() < 2]
        groups: list[dict[str, Any]] = [
            {"params": matrices},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups,
            lr=plan.lr,
            betas=(0.9, 0.95),
            weight_decay=plan.weight_decay,
            fused=True,
        )
        count = len(stream.train) // plan.context
        self.windows = stream.train[: count * plan.context].reshape(count, plan.context)
        draws = generator("cpu", plan.seed, "order")
        self.order = torch.randperm(count, generator=draws).numpy()
        self.progress = Progress()
        self.resume()

    def loss(self, windows: np.ndarray, offsets: Tensor) -> Tensor:
        """Mean cross-entropy in nats of the token ids `windows` (B, T), the first at the
        positions `offsets` (B, 1): of all but the first of each sequence, or, of a sparse
        stream, of the last alone. On CUDA, products are in bf16, the softmax and sums in
        fp32."""
        embeddings = self.model.token_embeddings
        ids = torch.from_numpy(windows.astype(np.int64)).to(embeddings.device)
        positions = (offsets + torch.arange(ids.shape[1])).to(embeddings.device)
        first = ids.shape[1] - 1 if self.stream.sparse else 1
        with devices.autocast(embeddings.device):
            hidden = self.model(ids, positions)[:, first - 1 : -1]
            targets = ids[:, first:].flatten()
            logits = hidden.float().flatten(0, 1) @ embeddings.T
            return F.cross_entropy(logits.float(), targets)

    @torch.no_grad()
    def held_out_losses(self, tokens: np.ndarray) -> np.ndarray:
        """Mean loss of each complete batch of `tokens`, at position offsets spread
        evenly."""
        plan = self.plan
        count = len(tokens) // plan.step_tokens
        batches = tokens[: count * plan.step_tokens].reshape(
            count, plan.batch, plan.context
        )
        offsets = OFFSET * (torch.arange(count * plan.batch) % offset_count(plan))
        pairs = zip(batches, offsets.view(count, plan.batch, 1), strict=True)
        return np.array([self.loss(*pair).item() for pair in pairs])

    def train_step(self) -> None:
        plan = self.plan
        step = self.progress.step
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(plan, step)
        # A corpus that is too short for the steps is read again, in the same order.
        places = np.arange(step * plan.batch, (step + 1) * plan.batch) % len(self.order)
        loss = self.loss(self.windows[self.order[places]], offsets_at(plan, step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), plan.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.recent_losses.append(loss.item())
        self.progress.step += 1

    def evaluate(self) -> None:
        """Add a point to the curve, measured on the first held-out tokens."""
        progress = self.progress
        tokens = self.stream.valid[: EVALUATED_BATCHES * self.plan.step_tokens]
        point = {
            "step": progress.step,
            "tokens": progress.step * self.plan.step_tokens,
            "train_loss": float(np.mean(progress.recent_losses)),
            "valid_loss": float(self.held_out_losses(tokens).mean()),
        }
        progress.curve.append(point)
        progress.recent_losses = []

    def train(self, deadline: float) -> bool:
        """Train to the last step (True), or until `time.monotonic()` passes `deadline`."""
        progress = self.progress
        steps = self.plan.steps
        every = max(1, steps // EVALUATIONS)
        saved = time.monotonic()
        began = saved - progress.seconds
        with progress_bar(steps, self.plan.name, initial=progress.step) as bar:
            while progress.step < steps:
                self.train_step()
                bar.update()
                if progress.step == steps or progress.step % every == 0:
                    self.evaluate()
                now = time.monotonic()
                progress.seconds = now - began
                # After the last step too: weights that cannot be written are not trained
                # again.
                is_over = progress.step == steps or now > deadline
                if is_over or now - saved > CHECKPOINT_SECONDS:
                    self.save()
                    saved = now
                if is_over:
                    break
        return progress.step == steps

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree in to be resumed."""
        return {"plan": asdict(self.plan), "corpus": self.stream.digest}

    def save(self) -> None:
        tensors: dict[str, Tensor] = {}
        for name, parameter in self.model.named_parameters():
            tensors[f"value.{name}"] = parameter
            for key in ADAM_STATE:
                tensors[f"{key}.{name}"] = self.optimizer.state[parameter][key]
        write_checkpoint(
            self.path, tensors, {**self.identity(), "log": asdict(self.progress)}
        )

    def resume(self) -> None:
        """Resume from the checkpoint, if there is one of the same plan on the same
        corpus."""
        saved = read_checkpoint(self.path)
        if saved is None:
            return
        tensors, identity = saved
        progress = identity.pop("log", {})
        if identity != self.identity():
            reason = f"the checkpoint {self.path} is of another plan or corpus"
            log.warning(f"{self.plan.name} begins anew: {reason}.")
            return
        for name, parameter in self.model.named_parameters():
            parameter.data.copy_(tensors[f"value.{name}"])
            self.optimizer.state[parameter] = {
                key: tensors[f"{key}.{name}"].to(parameter.device) for key in ADAM_STATE
            }
        self.progress = Progress(**progress)

    def metadata(self) -> dict[str, Any]:
        """The content of pretraining.json; losses and entropies are in nats per token."""
        plan = self.plan
        stream = self.stream
        valid_loss = float(self.held_out_losses(stream.valid).mean())
        frequencies = np.bincount(stream.valid, minlength=VOCABULARY) / len(stream.valid)
        content: dict[str, Any] = {
            "plan": asdict(plan),
            "tokens": plan.steps * plan.step_tokens,
            # If these are fewer than the tokens, they were seen more than once.
            "corpus_tokens": len(stream.train),
            "valid_loss": valid_loss,
            "unigram_entropy": entropy(frequencies),
            "corpus_digest": stream.digest,
            "sparse": stream.sparse,
            "seconds": self.progress.seconds,
            **devices.environment(self.model.token_embeddings.device),
            "curve": self.progress.curve,
        }
        if stream.valid_bytes is not None:
            bits_per_nat = len(stream.valid) / stream.valid_bytes / math.log(2)
            content["bits_per_byte"] = valid_loss * bits_per_nat
        if stream.entropy is not None:
            content["entropy"] = stream.entropy
            content["entropy_exact"] = stream.exact
        return content


def pretrain(plan: Pretraining, out: Path, *, budget: float = math.inf) -> bool:
    """Train `plan` into the folder `out` as `fpt.pretraining.ensure.pretrain` does, the
    time to prepare the corpus included. FptError if the corpus is too short.

    Writes config.json, model.safetensors (bf16), tokenizer.json of a text, and
    pretraining.json (plan, curve, cost, corpus digest).
    """
    deadline = time.monotonic() + budget
    model = language_model(backbone(plan.backbone), plan.seed).train().to(devices.choose())
    stream = open_stream(plan.corpus, plan.tokens)
    if len(stream.train) < plan.context or len(stream.valid) < plan.step_tokens:
        raise FptError(
            f"The corpus {plan.corpus!r} has {len(stream.train)} tokens to train on and "
            f"{len(stream.valid)} held out; {plan.context} and {plan.step_tokens} are the "
            "least."
        )
    if finished(out, plan=asdict(plan), corpus_digest=stream.digest):
        return True
    training = Training(plan, model, stream, out / CHECKPOINT)
    if not training.train(deadline):
        return False
    tokenizer = None if stream.tokenizer is None else stream.tokenizer.to_str(pretty=True)
    write(out, model.config(), model.tensors(), training.metadata(), tokenizer)
    return True
