"""How many runs an hour: packs against the plain loop.

    python benchmarks/throughput.py [ROUNDS]      # every case that fits this machine, some minutes

Everything is timed in short rounds, each of all parts, and compared within its round, so that what
else the machine does falls on all of them alike. Ratios are medians over the rounds. On a CPU packs
on all cores are compared with the plain loop too, by the clock and so on a quiet machine only.
Writes results/<device kind>.json and .png beside this file.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import seaborn
import torch
from matplotlib.figure import Figure
from plain import PlainRun

from fpt.backbones import backbone
from fpt.reading.plot import INK
from fpt.spec import FOUR_GROUPS, RunSpec, canonical
from fpt.tasks import Task, get_task
from fpt.tasks.datasets import Arrays, Dataset
from fpt.tasks.images import ImageTask
from fpt.training import device as devices
from fpt.training.flops import flops_per_token
from fpt.training.loop import Loop

LOOPS = {"plain": "plain loop", "packed": "in a pack"}
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Case:
    """K runs of one shape on random backbones; `kind` is that of the device."""

    name: str
    task: str
    options: dict[str, Any]
    backbone: str
    batch: int
    runs: int
    kind: str


CASES = (
    Case("12 bit-xor runs, nano, batch 4", "bit-xor", {"n": 5}, "nano", 4, 12, "cpu"),
    Case("3 CIFAR-shaped runs, nano, batch 16", "cifar10", {}, "nano", 16, 3, "cpu"),
    Case("15 CIFAR-shaped runs, GPT-2 small, batch 16", "cifar10", {}, "gpt2", 16, 15, "cuda"),
    Case("4 CIFAR-shaped runs, GPT-2 small, batch 16", "cifar10", {}, "gpt2", 16, 4, "cuda"),
    Case("15 bit-xor runs, GPT-2 small, batch 4", "bit-xor", {"n": 5}, "gpt2", 4, 15, "cuda"),
    Case("12 CIFAR-shaped runs, nano, batch 16", "cifar10", {}, "nano", 16, 12, "cuda"),
)


@dataclass(frozen=True)
class Measured:
    """What a case gave. Times are in seconds, per round; the ceiling in FLOP/s."""

    case: str
    runs: int
    tokens: int  # of one step of one run
    flops: int  # of one step of one run, 4 P per token: frozen matrices of the backbone
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


def task_of(case: Case) -> Task:
    """The task of a case; noise stands in for photographs, so nothing has to be fetched."""
    task = get_task(case.task, **case.options)
    if not isinstance(task, ImageTask):
        return task
    draw, sizes = np.random.default_rng(0), {"train": 1000, "valid": 100, "test": 100}

    def build() -> Arrays:
        form = (28, 28, 1) if task.name == "mnist" else (32, 32, 3)
        shapes = {f"{split}_images": (count, *form) for split, count in sizes.items()}
        images = {name: draw.integers(0, 256, shape, np.uint8) for name, shape in shapes.items()}
        labels = {f"{split}_labels": np.zeros(count, np.uint8) for split, count in sizes.items()}
        return images | labels

    noise = Dataset("noise", {"source": "noise"}, build)
    return replace(task, dataset=noise, sizes=sizes, available=sizes["train"])


def specs_of(case: Case) -> list[RunSpec]:
    """Runs on one random backbone, which is drawn by seed, that differ in learning rate."""
    task = task_of(case)
    first = RunSpec(
        data=canonical(task.identity),
        backbone=case.backbone,
        init="random",
        weights=None,
        trainable=FOUR_GROUPS,
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
    which is wall time if nothing else needs the core."""
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
    matrices = [p.detach().to(dtype) for p in loop.model.backbone.parameters() if p.dim() == 2]
    sizes = {size for matrix in matrices for size in matrix.shape}
    inputs = {size: torch.randn(tokens, size, device=loop.device, dtype=dtype) for size in sizes}

    def products() -> None:
        for matrix in matrices:
            inputs[len(matrix)] @ matrix
            inputs[len(matrix.T)] @ matrix.T

    return products


def measure(case: Case, rounds: int, seconds: float) -> Measured:
    """Time a case in `rounds` rounds; the packed steps of one take about `seconds`, and the other
    loops make as many steps.

    The products are those of all layers on all tokens, though the last layer is computed only
    where it is read: their share of a step is a little too high.
    """
    device = torch.device(case.kind)
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()  # of the case before
    specs, task = specs_of(case), task_of(case)
    devices.keep_memory()
    packed, single = Loop(specs, task, device), Loop(specs[:1], task, device)
    plain = PlainRun(specs[0], task, device)
    tokens = case.batch * task.length
    large, large_flops = large_product(device)
    losses_seen: list[float] = []
    parts: dict[str, Callable[[], Any]] = {
        "plain": lambda: losses_seen.append(plain.step()),
        "single": single.train_step,
        "packed": packed.train_step,
        "products": step_products(packed, case.runs * tokens),
        "large": large,
    }
    counts, warm_up, peak_bytes = {}, {}, 0
    for name, part in parts.items():
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
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
        losses_seen.clear()
        packed.reset_sums()
        for name, part in parts.items():
            times[name].append(seconds_per_step(part, counts[name], device))
        losses["plain"].append(sum(losses_seen) / len(losses_seen))
        losses["packed"].append(float(packed.sums[0, 0]) / packed.summed)
    return Measured(
        case=case.name,
        runs=case.runs,
        tokens=tokens,
        flops=tokens * flops_per_token(specs[0], backbone(specs[0].backbone)),
        steps={name: times[name] for name in ("plain", "single", "packed")},
        products=times["products"],
        ceiling=[large_flops / t for t in times["large"]],
        losses=losses,
        peak_bytes=peak_bytes,
        warm_up=warm_up,
    )


def plot(measured: list[Measured], path: Path) -> None:
    """Time per step and run of every round, beside the matrix products alone; and below it what the
    same run learned in the plain loop and in the pack."""
    with seaborn.axes_style("whitegrid"):
        figure = Figure(figsize=(3.4 * len(measured), 5.4), layout="constrained")
        panels = figure.subplots(2, len(measured), squeeze=False, height_ratios=(3, 2))
        for axes, below, one in zip(*panels, measured, strict=True):
            rows = {
                "plain loop": one.steps["plain"],
                "single run": one.steps["single"],
                "pack, per run": [t / one.runs for t in one.steps["packed"]],
                "its products": [t / one.runs for t in one.products],
            }
            values = [[1000 * t for t in times] for times in rows.values()]
            axes.boxplot(values, whis=(0, 100), widths=0.5, medianprops={"color": INK})
            axes.set_xticklabels([name.replace(" ", "\n", 1) for name in rows])
            axes.set_ylim(bottom=0)
            axes.set_title(one.case)
            axes.set_ylabel("ms per step and run")
            for name, form in (("plain", "--"), ("packed", "-")):
                rounds = range(1, len(one.losses[name]) + 1)
                below.plot(rounds, one.losses[name], form, label=LOOPS[name], color=INK)
            below.set_xlabel("round")
            below.set_ylabel("training loss (nats)")
            below.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, columnspacing=1)
        figure.savefig(path, facecolor="white")


def lines(case: str, summary: dict[str, float]) -> list[str]:
    """What a case gave, as text."""
    return [case, *(f"  {value:10,.2f}  {name}" for name, value in summary.items())]


def main(rounds: int = 25) -> None:
    from cores import side_by_side

    device = devices.choose()
    torch.set_num_threads(1)
    mine = [case for case in CASES if case.kind == device.type]
    measured = []
    for case in mine:
        measured.append(measure(case, rounds, 0.3))
        print(*lines(case.name, measured[-1].summary), sep="\n", flush=True)
    content = {
        "environment": devices.environment(device),
        "cases": [{"summary": one.summary} | asdict(one) for one in measured],
    }
    if device.type == "cpu":
        cores = [side_by_side(case, 10, 0.5) for case in mine]
        for one in cores:
            print(*lines(one.case, one.summary), sep="\n", flush=True)
        content["cores"] = [{"summary": one.summary} | asdict(one) for one in cores]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{device.type}.json").write_text(json.dumps(content, indent=1) + "\n")
    plot(measured, RESULTS / f"{device.type}.png")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
