"""How many runs an hour: packs against the plain loop, and cached features against the body.

    python benchmarks/throughput.py      # every case that fits this machine, some minutes

And on a CPU, timed by the clock and so on a quiet machine only: packs on all cores against the
plain loop, and what threads are worth. Writes results/<device kind>.json and .svg beside this file.
`fpt bench` is the first part in a minute.
"""

import json
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure

from fpt import bench
from fpt.bench.cores import side_by_side
from fpt.bench.threads import THREADS, threaded
from fpt.bench.throughput import Measured
from fpt.report.style import INK, styled
from fpt.training import device as devices

LOOPS = {"plain": "plain loop", "packed": "in a pack"}
RESULTS = Path(__file__).parent / "results"


def plot(found: list[Measured], path: Path) -> None:
    """Time per step and run of every round, beside the matrix products alone; and below it what the
    same run learned in the plain loop and in the pack."""
    with styled():
        figure = Figure(figsize=(3.4 * len(found), 5.4))
        panels = figure.subplots(2, len(found), squeeze=False, height_ratios=(3, 2))
        for axes, below, one in zip(*panels, found, strict=True):
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
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    device = devices.choose()
    found = []
    for one in bench.run(device.type, 25, 0.3):
        print(*bench.lines(one), sep="\n", flush=True)
        found.append(one)
    content = {
        "environment": devices.environment(device),
        "cases": [{"summary": one.summary} | asdict(one) for one in found],
    }
    if device.type == "cpu":
        cores = [side_by_side(case, 10, 0.5) for case in bench.CASES if case.kind == "cpu"]
        gains = [threaded(case, 10, 0.5) for case in THREADS]
        print(*(line for one in (*cores, *gains) for line in bench.lines(one)), sep="\n")
        content["cores"] = [{"summary": one.summary} | asdict(one) for one in cores]
        content["threads"] = [{"summary": one.summary} | asdict(one) for one in gains]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{device.type}.json").write_text(json.dumps(content, indent=1) + "\n")
    plot([one for one in found if isinstance(one, Measured)], RESULTS / f"{device.type}.svg")


if __name__ == "__main__":
    main()
