"""How fast training is here: `fpt bench` in a minute, `benchmarks/throughput.py` with care."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from .cached import CACHED, OutputOnly, output_only
from .cores import SideBySide
from .threads import Threaded
from .throughput import CASES, Measured, measure


def run(kind: str, rounds: int, seconds: float) -> Iterator[Measured | OutputOnly]:
    """Every case for devices of `kind`, in `rounds` rounds of about `seconds` for each part; on a
    CPU with one thread, as packs are trained."""
    torch.set_num_threads(1)
    for case in CASES:
        if case.kind == kind:
            yield measure(case, rounds, seconds)
    yield output_only(replace(CACHED, kind=kind), rounds, seconds)


def lines(found: Measured | OutputOnly | SideBySide | Threaded) -> list[str]:
    """What a case gave, as text."""
    return [found.case, *(f"  {value:10,.2f}  {name}" for name, value in found.summary.items())]
