"""What a plan costs on a GPU: hours, dollars and memory, from counted products and
launches.

A step of one run takes as long as its products at the rate that a GPU sustains, and never
less than the launches of its kernels. Both were measured on an H200 with GPT-2 small
(benchmarks/README.md). Those of other GPUs, of an LSTM and of eight processes are computed
or assumed, and so is the rent.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .records import Record
from .spec import RunSpec
from .tasks import task_of
from .training.flops import bytes_of, planned_flops
from .training.sweep import FILLS_A_GPU, fills_a_gpu, packs

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


def corrected(missing: Iterable[RunSpec], recorded: Iterable[Record]) -> list[str]:
    """A line with the time that runs take by the GPU records that are here, if there are
    any: what was computed, times how much longer those took than computed."""
    timed = [record for record in recorded if record.environment.get("kind") == "cuda"]
    computed = sum(
        max(seconds_of(record.spec, GPUS[0])) * record.metrics["steps"] / record.spec.steps
        for record in timed
    )
    if not computed:
        return []
    ratio = sum(record.cost["seconds"] for record in timed) / computed
    alone, _ = hours(missing, GPUS[0])
    device = timed[-1].environment["device"]
    return [f"  {device}: {alone * ratio:,.1f} hours of processes, by {len(timed)} records"]


def memory(specs: Iterable[RunSpec]) -> str:
    """A line with the memory that the largest pack takes, and the eight largest of those
    that share a GPU."""
    largest = 0.0
    small = []
    for pack in packs(specs, most_tokens=FILLS_A_GPU):
        needed = bytes_of(pack)
        largest = max(largest, needed)
        if not fills_a_gpu(pack):
            small.append(needed)
    together = sum(sorted(small)[-8:])
    return (
        f"  memory: {largest / 1e9:.0f} GB for one pack, {together / 1e9:.0f} GB for eight"
    )
