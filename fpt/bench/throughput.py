"""Runs per hour: a pack, one run of ours and the plain loop, in turn in one process.

Everything is timed in short rounds, each of all parts, and compared within its round, so that what
else the machine does falls on all of them alike. Ratios are medians over the rounds.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch

from ..sections.arms import FROZEN
from ..spec import RunSpec, canonical
from ..tasks import get_task
from ..training import device as devices
from ..training.flops import flops_per_token
from ..training.loop import Loop
from .plain import PlainRun


@dataclass(frozen=True)
class Case:
    """K runs of one shape on random bodies; `kind` is that of the device."""

    name: str
    task: str
    options: dict[str, Any]
    backbone: str
    batch: int
    runs: int
    kind: str


CASES = (
    Case("12 bit-xor runs, nano, batch 4", "bit-xor", {"n": 5}, "nano", 4, 12, "cpu"),
    Case("3 CIFAR-shaped runs, nano, batch 16", "shapes", {}, "nano", 16, 3, "cpu"),
    Case("15 CIFAR-shaped runs, GPT-2 small, batch 16", "shapes", {}, "gpt2", 16, 15, "cuda"),
    Case("4 CIFAR-shaped runs, GPT-2 small, batch 16", "shapes", {}, "gpt2", 16, 4, "cuda"),
    Case("15 bit-xor runs, GPT-2 small, batch 4", "bit-xor", {"n": 5}, "gpt2", 4, 15, "cuda"),
    Case("12 CIFAR-shaped runs, nano, batch 16", "shapes", {}, "nano", 16, 12, "cuda"),
)


@dataclass(frozen=True)
class Measured:
    """What a case gave. Times are in seconds, per round; the ceiling in FLOP/s."""

    case: str
    runs: int
    tokens: int  # of one step of one run
    flops: int  # of one step of one run, 4 P per token: frozen matrices of the body
    steps: dict[str, list[float]]  # of "plain", "single" and "packed": seconds per step
    products: list[float]  # the matrix products of a packed step alone, in their shapes
    ceiling: list[float]  # FLOP/s of a large square product
    losses: dict[str, list[float]]  # mean training loss of the first run
    peak_bytes: int  # of the pack's first steps; on CUDA with the weights of the other loops
    warm_up: dict[str, float]  # seconds of the first steps, with what is compiled and captured

    def ratio(self, name: str, other: str) -> float:
        """How many times the runs per hour of `other` those of `name` are."""
        times = {"packed": self.steps["packed"]}
        times |= {part: [self.runs * t for t in self.steps[part]] for part in ("plain", "single")}
        return median(b / a for a, b in zip(times[name], times[other], strict=True))

    @property
    def summary(self) -> dict[str, float]:
        """The numbers to quote."""
        packed = self.steps["packed"]
        work = self.runs * self.flops
        return {
            "packed / plain": self.ratio("packed", "plain"),
            "packed / single": self.ratio("packed", "single"),
            "single / plain": self.ratio("single", "plain"),
            "share of the matrix ceiling": median(
                work / (t * c) for t, c in zip(packed, self.ceiling, strict=True)
            ),
            "share of the step in its products": median(
                p / t for t, p in zip(packed, self.products, strict=True)
            ),
            "tokens per second": self.runs * self.tokens / median(packed),
        }


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
    """Mean time of `count` calls: wall time until a GPU has done them; on a CPU this process's own,
    which is wall time where nobody else wants the core."""
    if device.type == "cpu":
        began = time.process_time()
        for _ in range(count):
            step()
        return (time.process_time() - began) / count
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / count


def by_the_clock(step: Callable[[], Any], count: int) -> float:
    """Mean time of `count` calls on a CPU by the clock: nothing else may run."""
    began = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - began) / count


def large_product(device: torch.device) -> tuple[Callable[[], Any], int]:
    """A large square product in the precision of training, and its FLOPs."""
    cuda = device.type == "cuda"
    size, dtype = (8192, torch.bfloat16) if cuda else (1024, torch.float32)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return lambda: a @ b, 2 * size**3


def step_products(loop: Loop, tokens: int) -> Callable[[], Any]:
    """The frozen matrix products of one step on `tokens` tokens, forward and backward, alone."""
    dtype = torch.bfloat16 if loop.device.type == "cuda" else torch.float32
    matrices = [p.detach().to(dtype) for p in loop.model.body.parameters() if p.dim() == 2]
    sizes = {size for matrix in matrices for size in matrix.shape}
    given = {size: torch.randn(tokens, size, device=loop.device, dtype=dtype) for size in sizes}

    def products() -> None:
        for matrix in matrices:
            given[len(matrix)] @ matrix
            given[len(matrix.T)] @ matrix.T

    return products


def measure(case: Case, rounds: int, seconds: float) -> Measured:
    """Time a case in `rounds` rounds; the packed steps of one take about `seconds`, and the other
    loops make as many steps.

    The products are those of all layers on all tokens, though the last layer is computed only
    where it is read: their share of a step is a little too high.
    """
    device = torch.device(case.kind)
    devices.release_memory(device)  # of the case before
    specs, task = specs_of(case), get_task(case.task, **case.options)
    packed, single = Loop(specs, task, device), Loop(specs[:1], task, device)
    plain = PlainRun(specs[0], task, device)
    tokens = case.batch * task.length
    large, large_flops = large_product(device)
    seen: list[float] = []
    parts: dict[str, Callable[[], Any]] = {
        "plain": lambda: seen.append(plain.step()),
        "single": single.train_step,
        "packed": packed.train_step,
        "products": step_products(packed, case.runs * tokens),
        "large": large,
    }
    counts, warm_up, peak_bytes = {}, {}, 0
    for name, part in parts.items():
        devices.reset_peak_memory(device)
        began = time.perf_counter()
        seconds_per_step(part, 5, device)
        warm_up[name] = time.perf_counter() - began
        if name == "packed":
            peak_bytes = devices.peak_memory(device)
        counts[name] = max(1, round(seconds / seconds_per_step(part, 3, device)))
    counts |= dict.fromkeys(("plain", "single"), counts["packed"])  # the same steps on all sides
    times: dict[str, list[float]] = {name: [] for name in parts}
    losses: dict[str, list[float]] = {"plain": [], "packed": []}
    for _ in range(rounds):
        seen.clear()
        packed._reset_sums()
        for name, part in parts.items():
            times[name].append(seconds_per_step(part, counts[name], device))
        losses["plain"].append(sum(seen) / len(seen))
        losses["packed"].append(float(packed.sums[0, 0]) / packed.summed)
    return Measured(
        case=case.name,
        runs=case.runs,
        tokens=tokens,
        flops=tokens * flops_per_token(specs[0]),
        steps={name: times[name] for name in ("plain", "single", "packed")},
        products=times["products"],
        ceiling=[large_flops / t for t in times["large"]],
        losses=losses,
        peak_bytes=peak_bytes,
        warm_up=warm_up,
    )
