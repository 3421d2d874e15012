"""Ten minutes of any GPU: runs that a CPU cannot pay, in stages that stop by the clock.

`python -m lab.ten_gpu_minutes OUT` trains what ten_gpu_minutes.yaml lists into the folder OUT, in
eleven processes that share the work, and packs the records. It needs MNIST and CIFAR-10 in
data/prepared and SmolLM2 in data/backbones, and reaches no network. What the clock cuts off is left
out: a record is whole or not there. `--device cpu --steps 8 --processes 2` runs it at toy size.
"""

import argparse
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from fpt import config
from fpt.errors import FptError
from fpt.records import Store
from fpt.training import progress, sweep

PLAN = Path(__file__).with_suffix(".yaml")
MINUTES = 9.5
PROCESSES = 11  # small steps leave a GPU idle
TOY_ITEMS = 16  # that a run is evaluated on at toy size


def train(out: Path, device: str, minutes: float, steps: int | None) -> None:
    """Train the stages one after another until the time is over."""
    end = time.monotonic() + 60 * minutes
    store = Store(out)
    tier = config.load("own", PLAN)
    changed: dict[str, Any] = {}
    if steps:
        changed = {"steps": steps, "eval_every": steps, "warmup": 0, "seeds": [0]}
        progress.TRAIN_ITEMS = TOY_ITEMS
    for section in tier.sections:
        runs = config.expand(tier, section, changed)
        specs = [run.spec for run in runs]
        if steps:
            items = {"eval_items": TOY_ITEMS, "test_items": TOY_ITEMS}
            specs = [replace(spec, **items) for spec in specs]
        began = time.monotonic()
        try:
            sweep.run(
                specs,
                store,
                budget=end - began,
                titles={spec.key: run.title for spec, run in zip(specs, runs, strict=True)},
                device=device,
                workers=1,
            )
        except FptError as error:  # of data or weights that are not here
            print(f"{section}: {error}")
        done = len(store.keys() & {spec.key for spec in specs})
        seconds = time.monotonic() - began
        print(f"{section}: {done} of {len(specs)} runs, {seconds:.0f} s", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    arguments.add_argument("--minutes", type=float, default=MINUTES)
    arguments.add_argument("--steps", type=int, help="of each run, for a trial")
    arguments.add_argument("--processes", type=int, default=PROCESSES)
    args = arguments.parse_args()
    # A run is trained by the process that comes first, and each needs no package but torch's.
    command = [sys.executable, "-m", "lab.ten_gpu_minutes", *sys.argv[1:], "--processes", "1"]
    others = [subprocess.Popen(command) for _ in range(args.processes - 1)]
    train(args.out, args.device, args.minutes, args.steps)
    for process in others:
        process.wait()
    if args.processes > 1:
        store = Store(args.out)
        store.pack()
        print(f"{len(store.keys())} records in {args.out}")


if __name__ == "__main__":
    main()
