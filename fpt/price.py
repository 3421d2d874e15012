"""What a plan costs on a GPU: hours and dollars, from counted products and launches.

A step of one run takes as long as its products at the rate that a GPU sustains, and never
less than the launches of its kernels. Both were measured on an H200 with GPT-2 small
(benchmarks/README.md). Those of other GPUs, of an LSTM and of eight processes are computed
or assumed, and so is the rent.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .spec import RunSpec
from .tasks import task_of
from .training.flops import planned_flops

SECONDS_OF_A_TOKEN = 0.0033  # of an LSTM in three layers, whose tokens wait for each other
SIDE_BY_SIDE = 3.7  # how many times as many launches eight processes make as one


@dataclass(frozen=True)
class Gpu:
    """A GPU: products a second in bf16, seconds of a step at least, dollars an hour."""

    name: str
    rate: float
    launch: float
    dollars: float


GPUS = (
    Gpu("H200", 168e12, 0.019, 3.5),
    Gpu("A100", 60e12, 0.023, 1.5),
    Gpu("RTX 4090", 50e12, 0.012, 0.5),
)


def seconds_of(spec: RunSpec, gpu: Gpu) -> tuple[float, float]:
    """The seconds of the products of a run, and of its launches, if it takes its whole
    budget of steps."""
    task = task_of(spec)
    products = planned_flops(spec, task) / gpu.rate
    if spec.procedure == "probe":
        return products, 0.0
    step = gpu.launch
    if spec.backbone.startswith("lstm"):
        step = max(step, SECONDS_OF_A_TOKEN * task.length)
    return products, spec.steps * step


def hours(specs: Iterable[RunSpec], gpu: Gpu) -> tuple[float, float]:
    """The hours that runs take on one GPU in one process, and in eight, which launch while
    others compute."""
    seconds = [seconds_of(spec, gpu) for spec in specs]
    alone = sum(max(pair) for pair in seconds)
    products = sum(computed for computed, _ in seconds)
    return alone / 3600, max(products, alone / SIDE_BY_SIDE) / 3600


def quoted(specs: Iterable[RunSpec]) -> list[str]:
    """A line for each GPU: hours of eight processes, and of one, and dollars."""
    runs = [*specs]
    lines = []
    for gpu in GPUS:
        alone, together = hours(runs, gpu)
        lines.append(
            f"  {gpu.name:9} {together:7.1f} h in eight processes ({alone:,.1f} h in one), "
            f"about ${together * gpu.dollars:,.0f}"
        )
    return lines
