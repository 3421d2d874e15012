"""Whether one run gains from more threads of a CPU, by the size of its step."""

import os
from dataclasses import dataclass, replace
from statistics import median

import torch

from ..tasks import get_task
from ..training.flops import flops_per_token
from ..training.loop import Loop
from .throughput import Case, by_the_clock, specs_of

THREADS = tuple(
    Case(f"{task} on {backbone}, batch {batch}", task, {}, backbone, batch, 1, "cpu")
    for task, backbone, batch in (
        ("bit-xor", "nano", 16),
        ("shapes", "nano", 16),
        ("shapes", "micro", 16),
        ("shapes", "mini", 16),
        ("shapes", "small", 4),
    )
)


@dataclass(frozen=True)
class Threaded:
    """Seconds per step by the clock, per round: on one thread, and on one per core."""

    case: str
    flops: int  # of a step, forward and backward
    cores: int
    one: list[float]
    every: list[float]

    @property
    def summary(self) -> dict[str, float]:
        gains = [a / b for a, b in zip(self.one, self.every, strict=True)]
        return {"GFLOPs of a step": self.flops / 1e9, f"{self.cores} threads / one": median(gains)}


def threaded(case: Case, rounds: int, seconds: float) -> Threaded:
    """Time a run of `case` in `rounds` rounds of about `seconds` for each number of threads. It is
    timed by the clock, so nothing else may run."""
    task = get_task(case.task, **case.options)
    (spec,) = specs_of(replace(case, runs=1))
    loop = Loop([spec], task, torch.device("cpu"))
    cores, before = len(os.sched_getaffinity(0)), torch.get_num_threads()

    def timed(threads: int, count: int) -> float:
        torch.set_num_threads(threads)
        return by_the_clock(loop.train_step, count)

    try:
        timed(cores, 2)
        count = max(1, round(seconds / timed(1, 2)))
        times = [(timed(1, count), timed(cores, count)) for _ in range(rounds)]
    finally:
        torch.set_num_threads(before)
    flops = round(flops_per_token(spec) * case.batch * task.length)
    return Threaded(case.name, flops, cores, *map(list, zip(*times, strict=True)))
