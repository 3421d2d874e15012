"""AdamW or Muon: which pretrains a body better on equally many tokens?

    FPT_CORPORA=... python benchmarks/optimizers.py [--corpus english] [--tokens 1000000]

Each at several learning rates, with the same model, data, order and schedule; Muon moves the
matrices of the layers, AdamW the rest at its usual rate, as Muon's author advises. Then what a step
costs with Muon, and AdamW at its best rate on the tokens that it can have in Muon's time. Writes
results/optimizers.json after every run, and goes on where that leaves off.
"""

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from fpt.backbones import backbone
from fpt.pretraining.corpus import Stream
from fpt.pretraining.language import held_out_loss, loss_of
from fpt.pretraining.models import LanguageModel, language_model
from fpt.pretraining.plan import Pretraining, batch_at, fitted, learning_rate
from fpt.pretraining.streams import open_stream
from fpt.tasks.rng import generator
from fpt.training import device as devices

RESULTS = Path(__file__).parent / "results" / "optimizers.json"
RATES = {"adamw": (0.001, 0.002, 0.004, 0.008), "muon": (0.001, 0.002, 0.004, 0.008)}
BETAS = (0.9, 0.95)
COST = "muon / adamw, processor time of a step"


def optimizers(name: str, plan: Pretraining, model: LanguageModel, lr: float) -> list[Optimizer]:
    """Those of a model; each group holds its own rate as `peak`. Muon's updates are scaled to be as
    large as AdamW's (Liu et al. 2025, arXiv:2502.16982)."""
    body = model.body_parameters().items() if name == "muon" else ()
    layers = [p for where, p in body if where != "positions" and p.dim() == 2]
    rest = [p for p in model.parameters() if all(p is not one for one in layers)]
    peak = plan.lr if name == "muon" else lr
    decay = plan.weight_decay
    groups = [
        {"params": [p for p in rest if p.dim() >= 2], "peak": peak, "weight_decay": decay},
        {"params": [p for p in rest if p.dim() < 2], "peak": peak, "weight_decay": 0.0},
    ]
    found: list[Optimizer] = [AdamW(groups, betas=BETAS, fused=True)]
    if layers:
        moved = {"params": layers, "peak": lr}
        found.append(Muon([moved], weight_decay=decay, adjust_lr_fn="match_rms_adamw"))
    return found


@dataclass
class Trial:
    """A model on its way, with one optimiser at one rate."""

    plan: Pretraining
    stream: Stream
    name: str
    lr: float

    def __post_init__(self) -> None:
        self.model = language_model(backbone(self.plan.backbone), self.plan.seed).train()
        self.optimizers = optimizers(self.name, self.plan, self.model, self.lr)
        windows = len(self.stream.train) // self.plan.context
        self.order = torch.randperm(windows, generator=generator("cpu", self.plan.seed, "order"))

    def loss(self, ids: Tensor, positions: Tensor) -> Tensor:
        return loss_of(self.model, self.model.words, ids, positions, self.stream.sparse)

    def step(self, step: int) -> None:
        self.loss(*batch_at(self.plan, self.stream.train, step, self.order)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.plan.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * learning_rate(self.plan, step) / self.plan.lr
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def held_out(plan: Pretraining, stream: Stream, name: str, lr: float) -> float:
    """Nats per held-out token after all of `plan`."""
    trial = Trial(plan, stream, name, lr)
    for step in range(plan.steps):
        trial.step(step)
    return held_out_loss(trial.loss, plan, stream.valid)


def cost(plan: Pretraining, stream: Stream, rounds: int = 15) -> float:
    """A step with Muon over one with AdamW alone, in processor time: the median of rounds, each of
    both in turn."""
    trials = [Trial(plan, stream, name, plan.lr) for name in ("muon", "adamw")]
    ratios = []
    for step in range(rounds):
        seconds = []
        for trial in trials:
            began = time.process_time()
            trial.step(step)
            seconds.append(time.process_time() - began)
        ratios.append(seconds[0] / seconds[1])
    return median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", default="english")
    parser.add_argument("--backbone", default="nano")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    plan = fitted(Pretraining(args.corpus, args.backbone, args.tokens))
    what = {"corpus": plan.corpus, "backbone": plan.backbone, "tokens": plan.tokens}
    content: dict[str, Any] = {"environment": devices.environment(torch.device("cpu")), **what}
    content["trials"] = []
    if RESULTS.exists():
        before = json.loads(RESULTS.read_text())
        if {name: before[name] for name in what} == what:
            content = before
    stream = open_stream(plan.corpus, plan.tokens)

    done = {(one["optimizer"], one["lr"], one["tokens"]) for one in content["trials"]}

    def tried(name: str, lr: float, plan: Pretraining) -> None:
        if (name, lr, plan.tokens) not in done:
            loss = held_out(plan, stream, name, lr)
            print(f"{name:6} {lr:<6g} {plan.tokens} tokens: {loss:.4f} nats", flush=True)
            trial = {"optimizer": name, "lr": lr, "tokens": plan.tokens, "valid_loss": loss}
            content["trials"].append(trial)
            RESULTS.write_text(json.dumps(content, indent=1) + "\n")

    for name, rates in RATES.items():
        for lr in rates:
            tried(name, lr, plan)
    if COST not in content:
        content[COST] = cost(plan, stream)
    adamw = [one for one in content["trials"] if one["optimizer"] == "adamw"]
    best = min(adamw, key=lambda one: one["valid_loss"])["lr"]
    tried("adamw", best, fitted(replace(plan, tokens=round(plan.tokens * content[COST]))))
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
