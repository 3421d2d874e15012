"""AdamW or Muon: which pretrains a body better on equally many tokens?

    FPT_CORPORA=... python benchmarks/optimizers.py [--corpus english] [--tokens 1000000]

Each at several learning rates, with the same model, data, order and schedule. Muon (PyTorch's own)
moves the matrices of the layers, AdamW the rest at its usual rate, as Muon's authors advise. Writes
results/optimizers.json after every run, and goes on where that leaves off.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW, Muon, Optimizer

from fpt import device as devices
from fpt.backbones import backbone
from fpt.pretrain.corpus import Stream
from fpt.pretrain.language import held_out_loss, loss_of
from fpt.pretrain.models import LanguageModel, language_model
from fpt.pretrain.plan import Pretraining, batch_at, fitted, learning_rate
from fpt.pretrain.streams import open_stream
from fpt.rng import generator

RESULTS = Path(__file__).parent / "results" / "optimizers.json"
RATES = {"adamw": (0.001, 0.002, 0.004, 0.008), "muon": (0.001, 0.002, 0.004, 0.008)}
BETAS = (0.9, 0.95)


def optimizers(name: str, plan: Pretraining, model: LanguageModel, lr: float) -> list[Optimizer]:
    """Those of a model; each group holds its own rate as `peak`. Muon's is in AdamW's units, so
    that its updates are as large (Liu et al. 2025, arXiv:2502.16982)."""
    layers = [p for p in model.body_parameters().values() if p.dim() == 2] if name == "muon" else []
    rest = [p for p in model.parameters() if all(p is not one for one in layers)]
    peak = plan.lr if name == "muon" else lr
    groups = [
        {"params": [p for p in rest if p.dim() >= 2], "weight_decay": plan.weight_decay},
        {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
    ]
    found: list[Optimizer] = [AdamW([g | {"peak": peak} for g in groups], betas=BETAS, fused=True)]
    if layers:
        moved = {"params": layers, "peak": lr}
        found.append(Muon([moved], weight_decay=plan.weight_decay, adjust_lr_fn="match_rms_adamw"))
    return found


def trial(name: str, lr: float, plan: Pretraining, stream: Stream) -> dict[str, object]:
    """Held-out loss in nats per token, and seconds, of one optimiser at one rate."""
    model = language_model(backbone(plan.backbone), plan.seed).train()
    steppers = optimizers(name, plan, model, lr)
    windows = len(stream.train) // plan.context
    order = torch.randperm(windows, generator=generator("cpu", plan.seed, "order"))
    began = time.perf_counter()
    for step in range(plan.steps):
        ids, positions = batch_at(plan, stream.train, step, order)
        loss_of(model, model.words, ids, positions, stream.sparse).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        for stepper in steppers:
            for group in stepper.param_groups:
                group["lr"] = group["peak"] * learning_rate(plan, step) / plan.lr
            stepper.step()
            stepper.zero_grad(set_to_none=True)
    seconds = time.perf_counter() - began

    def loss(ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return loss_of(model, model.words, ids, positions, stream.sparse)

    held_out = held_out_loss(loss, plan, stream.valid)
    return {"optimizer": name, "lr": lr, "valid_loss": held_out, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", default="english")
    parser.add_argument("--backbone", default="nano")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    plan = fitted(Pretraining(args.corpus, args.backbone, args.tokens))
    what = {"corpus": plan.corpus, "backbone": plan.backbone, "tokens": plan.tokens}
    stream = open_stream(plan.corpus, plan.tokens)
    content: dict[str, Any] = {"environment": devices.environment(torch.device("cpu")), **what}
    content["trials"] = []
    if RESULTS.exists():
        before = json.loads(RESULTS.read_text())
        if {name: before[name] for name in what} == what:
            content = before
    done = {(one["optimizer"], one["lr"]) for one in content["trials"]}
    for name, rates in RATES.items():
        for lr in rates:
            if (name, lr) in done:
                continue
            found = trial(name, lr, plan, stream)
            print(f"{name:6} {lr:<6g} {found['valid_loss']:.4f} nats, {found['seconds']:.0f} s")
            content["trials"].append(found)
            RESULTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
