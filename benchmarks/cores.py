"""Runs per hour of all cores: packs side by side, as a sweep trains them, and the plain loop."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median

import torch
from plain import PlainRun
from throughput import Case, by_the_clock, specs_of, task_of

from fpt.spec import RunSpec
from fpt.training.device import keep_memory
from fpt.training.loop import Loop
from fpt.training.sweep import packs


@dataclass(frozen=True)
class SideBySide:
    """Seconds per step by the clock, per round: of the plain loop, alone on the machine with one
    thread and with one per core; and of each of the packs, one on every core."""

    case: str
    runs: list[int]  # of each pack
    one: list[float]
    every: list[float]
    packs: list[list[float]]

    @property
    def summary(self) -> dict[str, float]:
        """Runs per hour over those of the plain loop, with the threads that suit it best."""
        plain = map(min, zip(self.one, self.every, strict=True))
        rates = [sum(n / t for n, t in zip(self.runs, times, strict=True)) for times in self.packs]
        ratio = median(p * rate for p, rate in zip(plain, rates, strict=True))
        return {f"packs of {' and '.join(map(str, self.runs))} side by side / plain": ratio}


def train_on_demand(case: Case, pack: Sequence[RunSpec], pipe: Connection) -> None:
    """In a process of its own: a pack makes as many steps as it is told, until told 0."""
    torch.set_num_threads(1)
    keep_memory()
    loop = Loop(pack, task_of(case), torch.device("cpu"))
    while count := pipe.recv():
        pipe.send(by_the_clock(loop.train_step, count))


def side_by_side(case: Case, rounds: int, seconds: float) -> SideBySide:
    """Time `case` in `rounds` rounds of about `seconds` for each part. Its runs are shared by the
    cores as a sweep shares them; if they are too few for that, each core has as many. It is
    timed by the clock, so nothing else may run."""
    cores, before = len(os.sched_getaffinity(0)), torch.get_num_threads()
    specs = tuple(specs_of(case))
    all_packs = packs(specs)
    if len(all_packs) < cores:
        all_packs = [specs] * cores
    plain = PlainRun(specs[0], task_of(case), torch.device("cpu"))
    processes = get_context("spawn")
    with ExitStack() as ended:
        pipes = []
        for pack in all_packs:
            here, there = processes.Pipe()
            process = processes.Process(
                target=train_on_demand, args=(case, pack, there), daemon=True
            )
            process.start()
            there.close()
            ended.callback(process.join)
            ended.callback(here.send, 0)
            pipes.append(here)

        def alone(threads: int, count: int) -> float:
            torch.set_num_threads(threads)
            return by_the_clock(plain.step, count)

        def together(count: int) -> list[float]:
            for pipe in pipes:
                pipe.send(count)
            return [pipe.recv() for pipe in pipes]

        ended.callback(torch.set_num_threads, before)
        together(3)  # warm up
        alone(cores, 3)
        steps = max(1, round(seconds / max(together(2))))
        plain_steps = max(1, round(seconds / alone(1, 3)))
        times = [
            (alone(1, plain_steps), alone(cores, plain_steps), together(steps))
            for _ in range(rounds)
        ]
    return SideBySide(
        case.name, [len(pack) for pack in all_packs], *map(list, zip(*times, strict=True))
    )
