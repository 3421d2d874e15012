"""How many runs an hour: packs against the plain loop, alternating in one process.

    python benchmarks/throughput.py            # every case that fits this machine
    python benchmarks/throughput.py --quick    # about a minute

Writes benchmarks/results/<device kind>.json. Ratios are of one run of this script; absolute numbers
belong to the machine that is named beside them. Packing and the quality of the loop are reported
apart: `packed / plain`, `packed / single` (our own loop at K = 1), `single / plain`.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from plain import PlainRun

from fpt import device as devices
from fpt.arms import FROZEN
from fpt.loop import Loop
from fpt.spec import RunSpec, canonical
from fpt.tasks import get_task
from fpt.train import flops_per_token

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Case:
    """K runs of one shape; on a CPU one thread, as packs are trained."""

    name: str
    task: str
    options: dict[str, Any]
    backbone: str
    batch: int
    runs: int
    kind: str  # of device


CASES = (
    Case("12 bit-xor runs, nano, batch 4", "bit-xor", {"n": 5}, "nano", 4, 12, "cpu"),
    Case("3 CIFAR-shaped runs, nano, batch 16", "shapes", {}, "nano", 16, 3, "cpu"),
    Case("15 CIFAR-shaped runs, GPT-2 small, batch 16", "shapes", {}, "gpt2", 16, 15, "cuda"),
)


def specs_of(case: Case) -> list[RunSpec]:
    """Runs on one random body that differ in learning rate (a random body is drawn by seed)."""
    task = get_task(case.task, **case.options)
    first = RunSpec(
        data=canonical(task.identity),
        backbone=case.backbone,
        init="random",
        weights=None,
        trainable=FROZEN,
        lr=1e-3,
        batch=case.batch,
        steps=10**6,
        eval_every=10**6,
        seed=0,
        augment=False,
    )
    return [replace(first, lr=1e-3 * 1.02**index) for index in range(case.runs)]


def seconds_per_step(step: Callable[[], Any], count: int, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / count


def matrix_ceiling(device: torch.device) -> float:
    """FLOP/s of a large square matrix product on random data, in the precision of training."""
    cuda = device.type == "cuda"
    size, dtype = (8192, torch.bfloat16) if cuda else (1024, torch.float32)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    return 2 * size**3 / min(seconds_per_step(lambda: a @ b, 5, device) for _ in range(3))


def measure(case: Case, rounds: int, count: int) -> dict[str, Any]:
    """Median seconds per step of three loops, measured in turn; ratios of runs per hour."""
    device = torch.device(case.kind)
    specs, task = specs_of(case), get_task(case.task, **case.options)
    packed, single = Loop(specs, task, device), Loop(specs[:1], task, device)
    plain = PlainRun(specs[0], task, device)
    curves: dict[str, list[float]] = {"plain": [], "packed": []}
    times: dict[str, list[float]] = {"plain": [], "single": [], "packed": []}
    for loop in (packed, single):
        seconds_per_step(loop.train_step, 5, device)  # warm up
        loop._reset_sums()
    seconds_per_step(plain.step, 5, device)
    for _ in range(rounds):
        times["plain"].append(
            seconds_per_step(lambda: curves["plain"].append(plain.step()), count, device)
        )
        times["single"].append(seconds_per_step(single.train_step, count, device))
        times["packed"].append(seconds_per_step(packed.train_step, count, device))
        curves["packed"].append(float(packed.sums[0, 0]) / packed.summed)
        packed._reset_sums()
    middle = {name: median(values) for name, values in times.items()}
    chunks = [curves["plain"][i * count : (i + 1) * count] for i in range(rounds)]
    tokens = case.batch * task.length
    rate = case.runs * tokens / middle["packed"]
    flops = rate * flops_per_token(specs[0])
    ceiling = matrix_ceiling(device)
    return {
        "case": case.name,
        "seconds per step": middle,
        "spread": {name: (min(v), max(v)) for name, v in times.items()},
        "packed / plain": case.runs * middle["plain"] / middle["packed"],
        "packed / single": case.runs * middle["single"] / middle["packed"],
        "single / plain": middle["plain"] / middle["single"],
        "tokens per second": rate,
        "share of matrix ceiling": flops / ceiling,
        "matrix ceiling, FLOP/s": ceiling,
        "mean loss per round": {
            "plain": [sum(chunk) / len(chunk) for chunk in chunks],
            "packed": curves["packed"],
        },
        "peak bytes": devices.peak_memory(device),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    kind = devices.choose().type
    torch.set_num_threads(1)
    rounds, count = (3, 10) if args.quick else (7, 30)
    rows = [measure(case, rounds, count) for case in CASES if case.kind == kind]
    for row in rows:
        print(row["case"])
        for name in ("packed / plain", "packed / single", "single / plain"):
            print(f"  {name:16} {row[name]:6.2f}")
        print(f"  share of the matrix ceiling {row['share of matrix ceiling']:.0%}")
    RESULTS.mkdir(exist_ok=True)
    content = {"environment": devices.environment(torch.device(kind)), "cases": rows}
    (RESULTS / f"{kind}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
