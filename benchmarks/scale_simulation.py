"""What a profile would take on many GPUs, simulated: no GPU was measured.

    python benchmarks/scale_simulation.py      # the profile `paper`, a minute

The packs of the profile are put on GPUs, longest first, after the pretraining of the weights that
they read; where GPUs have nothing to do, the longest packs are halved. A step of a pack costs

    fixed cost of the body + runs * FLOPs of a run's step / rate

The FLOPs are those of the cost model (`fpt status`); the form, and the share of the ceiling that a
step reaches, were measured on a CPU (results/cpu.json); the GPU's ceiling and fixed cost are
assumed. Writes results/scale.json and .svg, and the table of docs/scale.md.
"""

import heapq
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from matplotlib.figure import Figure

from fpt.backbones import Backbone, backbone
from fpt.commands import sections_of
from fpt.pretraining.language import Pretraining
from fpt.pretraining.provide import plan_of
from fpt.report.style import INK, styled
from fpt.spec import RunSpec
from fpt.tasks import get_task
from fpt.training import sweep
from fpt.training.flops import flops_per_token, matrix_parameters, planned_flops
from fpt.training.train import task_of

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "scale.md"
MARKS = ("<!-- simulated: begin -->", "<!-- simulated: end -->")
PROFILE, COUNTS = "paper", (1, 8, 64, 1024)
SHOWN = tuple(2**power for power in range(13))

CEILING = 312e12  # FLOP/s, bf16 without sparsity: the data sheet of an A100
LAYER = 1e-3  # s per layer and step: some 80 small kernels, forward and backward
CELL = 1e-4  # s per layer and token of an LSTM, which cannot be taken in parallel


def sequential(body: Backbone) -> bool:
    """Whether a token waits for the one before it."""
    return body.family.startswith("lstm")


@dataclass(frozen=True)
class Machine:
    """`tokens`: the fixed cost of a step as the work of so many tokens, in place of seconds."""

    name: str
    rate: float  # FLOP/s of a large step
    tokens: float | None = None

    def fixed(self, body: Backbone, length: int, flops: float) -> float:
        """Seconds of a step that do not depend on the number of runs; `flops` of a token."""
        if sequential(body):
            return CELL * body.layers * length
        if self.tokens is not None:
            return self.tokens * flops / self.rate
        return LAYER * body.layers


@dataclass(frozen=True)
class Job:
    """A pack, or a pretraining. `of_run` and `fixed` are seconds of the whole job."""

    title: str
    runs: int
    fixed: float
    of_run: float
    weights: str | None = None  # that a pack reads, if they are pretrained here

    @property
    def seconds(self) -> float:
        return self.fixed + self.runs * self.of_run

    def halves(self) -> "tuple[Job, Job]":
        more = (self.runs + 1) // 2
        return replace(self, runs=more), replace(self, runs=self.runs - more)


@dataclass(frozen=True)
class Outcome:
    gpus: int
    packs: int  # after those that were halved
    days: float
    efficiency: float  # days on one GPU over GPU-days here
    longest_days: float  # of the longest pack, with the pretraining before it
    longest: str


def machines(measured: Path) -> list[Machine]:
    """From what was measured on the CPU: the share of the ceiling, and the fixed cost of a step in
    tokens, by what a single run's step takes over a packed run's."""
    cases = [it for it in json.loads(measured.read_text())["cases"] if "ceiling" in it]
    share = mean(it["summary"]["share of the matrix ceiling"] for it in cases)
    small = min(cases, key=lambda it: it["tokens"])
    single, packed = (median(small["steps"][name]) for name in ("single", "packed"))
    per_token = (packed - single) / (small["tokens"] * (small["runs"] - 1))
    tokens = single / per_token - small["tokens"]
    rate = CEILING * share
    return [Machine("assumed", rate), Machine("as measured on a CPU", rate, tokens)]


def job(pack: Sequence[RunSpec], machine: Machine) -> Job:
    spec, task = pack[0], task_of(pack[0])
    body = backbone(spec.backbone)
    here = spec.weights is not None and not spec.weights.startswith("hub:")
    steps = 0 if spec.procedure == "probe" else spec.steps
    fixed = machine.fixed(body, task.length, flops_per_token(spec))
    return Job(
        f"{spec.task} on {spec.backbone}",
        len(pack),
        steps * fixed,
        planned_flops(spec, task) / machine.rate,
        spec.weights if here else None,
    )


def pretraining(weights: str, machine: Machine) -> Job:
    """Six FLOPs per token and parameter of the matrices, and the fixed cost of its steps."""
    plan = plan_of(weights)
    body = backbone(plan.backbone)
    length = plan.context if isinstance(plan, Pretraining) else get_task(plan.task).length
    flops = 6 * matrix_parameters(body)
    fixed = plan.steps * machine.fixed(body, length, flops)
    return Job(f"pretraining {weights}", 1, fixed, flops * plan.tokens / machine.rate)


def makespan(jobs: Sequence[Job], before: dict[str, Job], gpus: int) -> float:
    """Seconds until all have ended: longest first, each as soon as a GPU is free and the weights
    that it reads are there."""
    after: dict[str, list[Job]] = {}
    for one in jobs:
        if one.weights is not None:
            after.setdefault(one.weights, []).append(one)
    ready: list[tuple[float, int, Job, str]] = []  # what to begin, by minus its seconds
    order = 0

    def add(one: Job, seconds: float, gives: str = "") -> None:
        nonlocal order
        order += 1
        heapq.heappush(ready, (-seconds, order, one, gives))

    for one in jobs:
        if one.weights is None:
            add(one, one.seconds)
    for name, one in before.items():
        add(one, one.seconds + max(it.seconds for it in after[name]), name)
    running: list[tuple[float, int, str]] = []  # end, and the weights that are there then
    now = 0.0
    while ready or running:
        while ready and len(running) < gpus:
            _, number, one, gives = heapq.heappop(ready)
            heapq.heappush(running, (now + one.seconds, number, gives))
        now, _, given = heapq.heappop(running)
        for one in after.get(given, []):
            add(one, one.seconds)
    return now


def best(jobs: Sequence[Job], before: dict[str, Job], gpus: int) -> tuple[float, list[Job]]:
    """The shortest makespan found, and its packs: the longest are halved for as long as they are
    longer than the GPUs' even share, and that helps."""
    current = list(jobs)
    found = makespan(current, before, gpus), current
    while True:
        share = sum(it.seconds for it in current) / gpus
        longest = max(
            (it for it in current if it.runs > 1), key=lambda it: it.seconds, default=None
        )
        if longest is None or longest.seconds < share / 2:
            return found
        bound = longest.seconds * 0.999
        current = [
            part
            for it in current
            for part in (it.halves() if it.runs > 1 and it.seconds >= bound else (it,))
        ]
        seconds = makespan(current, before, gpus)
        if seconds < found[0]:
            found = seconds, current


def simulate(packs: Sequence[Sequence[RunSpec]], machine: Machine) -> list[Outcome]:
    jobs = [job(pack, machine) for pack in packs]
    names = dict.fromkeys(it.weights for it in jobs if it.weights is not None)
    before = {name: pretraining(name, machine) for name in names}
    alone = sum(it.seconds for it in (*jobs, *before.values()))
    outcomes = []
    for gpus in SHOWN:
        seconds, parts = best(jobs, before, gpus)
        chains = [
            (it.seconds + (before[it.weights].seconds if it.weights else 0.0), it.title)
            for it in parts
        ]
        longest, title = max(chains)
        day = 86400.0
        outcomes.append(
            Outcome(gpus, len(parts), seconds / day, alone / (gpus * seconds), longest / day, title)
        )
    return outcomes


def table(found: dict[str, list[Outcome]]) -> str:
    lines = [
        "| packs, fixed cost of a step | GPUs | packs | days | efficiency | longest pack, days |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for name, outcomes in found.items():
        for it in outcomes:
            if it.gpus in COUNTS:
                lines.append(
                    f"| {name} | {it.gpus:,} | {it.packs:,} | {it.days:,.1f} | {it.efficiency:.0%} "
                    f"| {it.longest_days:.1f}: {it.longest} |"
                )
    lines.append("")
    for name, outcomes in found.items():
        enough = next(it for it in outcomes if it.days <= 1.05 * outcomes[-1].days)
        half = max((it for it in outcomes if it.efficiency >= 0.5), key=lambda it: it.gpus)
        lines.append(
            f"- *{name}*: up to {half.gpus:,} GPUs work for at least half of the time; more than "
            f"{enough.gpus:,} gain less than 5%, and wait for *{outcomes[-1].longest}*."
        )
    return "\n".join(lines)


def plot(found: dict[str, list[Outcome]], path: Path) -> None:
    """Days and efficiency by number of GPUs, with the longest pack, which no number shortens."""
    with styled():
        figure = Figure(figsize=(7.4, 3.6))
        days, shares = figure.subplots(1, 2)
        for (name, outcomes), colour, marker in zip(
            found.items(), ("#D55E00", "#0072B2", "#E69F00"), "os^", strict=True
        ):
            gpus = [it.gpus for it in outcomes]
            look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
            days.plot(gpus, [it.days for it in outcomes], label=name, **look)
            days.plot(gpus, [it.longest_days for it in outcomes], ":", color=colour)
            shares.plot(gpus, [100 * it.efficiency for it in outcomes], label=name, **look)
        days.plot([], [], ":", color=INK, label="the longest pack")
        days.set_yscale("log")
        days.set_title("Days until the last pack has ended")
        shares.set_ylim(0, 105)
        shares.set_title("Efficiency, % of the GPUs' time")
        figure.legend(
            *days.get_legend_handles_labels(),
            loc="outside lower center",
            ncols=4,
            title="packs, fixed cost of a step",
            fontsize=8,
            title_fontsize=8,
        )
        for axes in (days, shares):
            axes.set_xscale("log", base=2)
            axes.set_xticks(COUNTS, [f"{count:,}" for count in COUNTS])
            axes.set_xlabel("GPUs")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    runs = {run.spec.key: run.spec for part in sections_of(PROFILE) for run in part.runs}
    packs = sweep.packs(runs.values())
    results = HERE / "results"
    assumed, measured = chosen = machines(results / "cpu.json")
    parallel = [pack for pack in packs if not sequential(backbone(pack[0].backbone))]
    found = {
        "all, assumed": simulate(packs, assumed),
        "without LSTMs, assumed": simulate(parallel, assumed),
        "without LSTMs, as measured on a CPU": simulate(parallel, measured),
    }
    content = {
        "profile": PROFILE,
        "runs": len(runs),
        "packs": len(packs),
        "packs_without_lstms": len(parallel),
        "measured_gpus": [],
        "assumed": {"ceiling": CEILING, "layer_seconds": LAYER, "cell_seconds": CELL},
        "machines": [asdict(machine) for machine in chosen],
        "outcomes": {name: [asdict(it) for it in outcomes] for name, outcomes in found.items()},
    }
    (results / "scale.json").write_text(json.dumps(content, indent=1) + "\n")
    plot(found, results / "scale.svg")
    page = PAGE.read_text()
    head, rest = page.split(MARKS[0])
    PAGE.write_text(f"{head}{MARKS[0]}\n{table(found)}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")
    print(table(found))


if __name__ == "__main__":
    main()
