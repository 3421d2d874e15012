"""Training of the experiment `converged`.

`python -m lab.launch train` trains what is missing, block by block: first the search of rates, then
the runs that are reported, on seeds that follow from the registration. It may be stopped at any
time and goes on; several processes share the work. `index` writes the keys of all runs that are
known by now, `land FOLDER` takes over records from another checkout of the registered commit,
`pilot` trains the search of a block on a seed that nothing else uses, `costs` prints the core-hours
of each block, and `power` the chance to decide each primary claim.
"""

import argparse
import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from fpt import config
from fpt.__main__ import seconds
from fpt.backbones.weights import digest as weights_digest
from fpt.backbones.weights import files as weights_files
from fpt.errors import FptError
from fpt.files import read_yaml, write_atomic
from fpt.records import Store
from fpt.sections.registration import code_digest
from fpt.spec import RunSpec
from fpt.training.train import Job, train

from .converged import (
    FOLDER,
    PLAN,
    REGISTRATION,
    STORE,
    Cell,
    Planned,
    cells,
    first_rates,
    known_runs,
    plan,
    reported_specs,
    search_specs,
    seeds_of,
    steps_to_threshold,
)

INDEX = FOLDER / "index.json"
PILOT = Store(FOLDER / "pilot")
PILOT_SEEDS = (200,)
ALPHA = 0.05


def digests() -> dict[str, str]:
    """What the registration has to say under `covers`, as it is here."""
    named = {model["weights"] for model in plan()["models"].values() if "weights" in model}
    return {
        "plan": hashlib.sha256(PLAN.read_bytes()).hexdigest(),
        "choice": hashlib.sha256(PLAN.with_suffix(".py").read_bytes()).hexdigest(),
        "launch": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        "code": code_digest(),
        **{name: weights_digest(weights_files(name)) for name in sorted(named)},
    }


def check_registration() -> None:
    """FptError unless plan, code and weights are those that the registration covers."""
    registration = read_yaml(REGISTRATION)
    changed = [name for name, value in digests().items() if registration["covers"][name] != value]
    if changed:
        raise FptError(
            f"The registration of `converged` covers other {' and '.join(changed)} than these: "
            "check out the commit that added it to train its runs."
        )


def train_missing(deadline: float) -> None:
    """Train the runs that are missing, one after another, until `time.monotonic()` is at the
    deadline. A run that another process trains is left to it."""
    check_registration()
    torch.set_num_threads(1)
    while time.monotonic() < deadline:
        missing = [run for run in known_runs() if STORE.read(run.spec.key) is None]
        if not missing:
            return
        # One that no other process is training; then others may be known.
        for run in missing:
            if time.monotonic() >= deadline or train_one(run, STORE, deadline):
                break
        else:
            time.sleep(10)


def train_one(run: Planned, store: Store, deadline: float) -> bool:
    """Train a run; False if another process has it, or if the deadline came first. Of the first
    seed, what a frozen arm trained on bits is kept, for maps of attention."""
    is_first = run.role == "reported" and run.spec.seed == seeds_of(run.cell)[0]
    is_kept = is_first and run.spec.task.startswith("bit") and not run.cell.is_full
    job = Job(
        store,
        keep=(run.spec.key,) if is_kept else (),
        device="cpu",
        precision=config.load(run.cell.settings["profile"]).precision
        if "profile" in run.cell.settings
        else plan()["precision"],
        deadline=deadline,
        titles={run.spec.key: f"{run.cell.arm} on {run.cell.task}"},
    )
    records = train((run.spec,), job)
    for record in records:
        steps, is_bound = steps_to_threshold(record)
        print(
            f"{time.strftime('%H:%M:%S')} block {run.cell.block}, {run.role}: {run.cell.arm} on "
            f"{run.cell.task}, rate {run.spec.lr:g}, warm-up {run.spec.warmup}, seed "
            f"{run.spec.seed}: {'over ' if is_bound else ''}{steps:.0f} steps, "
            f"{record.metrics['valid_accuracy']:.3f}, {record.cost['process_seconds']:.0f} s",
            flush=True,
        )
    return bool(records)


def pilot(block: int, task: str, deadline: float) -> None:
    """Train the search of a block on a task on a seed of the pilot, as far as time allows."""
    torch.set_num_threads(1)
    for cell in cells(block):
        if cell.task != task:
            continue
        for rate in first_rates(cell):
            for spec in search_specs(cell, rate, PILOT_SEEDS)[:1]:
                if time.monotonic() < deadline and PILOT.read(spec.key) is None:
                    train_one(Planned(cell, "pilot", spec), PILOT, deadline)


def write_index() -> int:
    """Write the index of all runs that are known by now; how many these are."""
    rows = [
        {
            "key": run.spec.key,
            "block": run.cell.block,
            "model": run.cell.model,
            "arm": run.cell.arm,
            "task": run.cell.task,
            "role": run.role,
        }
        for run in known_runs()
    ]
    text = ",\n".join(json.dumps(row) for row in rows)
    write_atomic(INDEX, f"[\n{text}\n]\n".encode())
    return len(rows)


def land(folder: Path) -> str:
    """Take over records of runs in the index from a folder, and pack them."""
    known = {row["key"] for row in json.loads(INDEX.read_text())}
    store = Store(folder)
    taken = 0
    for key in sorted(store.keys() & known - STORE.keys()):
        record = store.read(key)
        if record is not None:
            STORE.write(record, store.parameters(record))
            taken += 1
    STORE.pack()
    records = STORE.read_all(STORE.keys()).values()
    hours = math.fsum(record.cost["process_seconds"] for record in records) / 3600
    return f"{taken} records taken over, {len(records)} in all, {hours:.1f} core-hours."


def costs(at_most: bool = False) -> Iterator[str]:
    """A row per block: its runs, and the core-hours that they are expected to take, or take
    `at_most`, if no run ends early."""
    counts, hours = [], []
    for number, settings in enumerate(plan()["blocks"], 1):
        spent = []
        for cell in cells(number):
            search = [spec for rate in first_rates(cell) for spec in search_specs(cell, rate)]
            reported = reported_specs(cell, first_rates(cell)[0])
            spent += [cost(cell, "search", spec, at_most) for spec in search]
            spent += [cost(cell, "reported", spec, at_most) for spec in reported]
        counts.append(len(spent))
        hours.append(math.fsum(spent) / 3600)
        yield f"| {number}. {settings['purpose']} | {counts[-1]} | {hours[-1]:.1f} |"
    yield f"| together | {sum(counts)} | {sum(hours):.1f} |"


def cost(cell: Cell, role: str, spec: RunSpec, at_most: bool) -> float:
    """Core-seconds of a run as the plan has them."""
    of_step, of_evaluation = plan()["costs"][spec.backbone][cell.task]
    if cell.arm == "fully trained":
        of_step *= plan()["full"]
    expected = plan()["expected"]
    share = expected["nano"] if "profile" in cell.settings else expected[role].get(cell.task, 1.0)
    steps = spec.steps if at_most else round(spec.steps * share)
    evaluations = sum(map(spec.evaluates_at, range(1, steps + 1)))
    return float(steps * of_step + evaluations * of_evaluation)


def power(claim: Mapping[str, Any], spread: float) -> float:
    """The chance that Student's t on as many seeds as a primary claim has decides it at the
    strictest level of Holm's correction, if its `expected` effect and a `spread` are true."""
    cell = Cell(claim["block"], claim["first"], claim["task"])
    count = cell.settings["seeds"]
    effect = math.log(claim["expected"]) if cell.is_of_steps else claim["expected"]
    level = ALPHA / len(read_yaml(REGISTRATION)["primary"])
    limit = stats.t.isf(level / 2, count - 1)
    shift = abs(effect) / spread * math.sqrt(count)
    # The tail of the other side underflows to NaN where the effect is large.
    other_side = np.nan_to_num(stats.nct.cdf(-limit, count - 1, shift))
    return float(stats.nct.sf(limit, count - 1, shift) + other_side)


def powers() -> Iterator[str]:
    """A row per primary claim: its power with each spread."""
    for claim in read_yaml(REGISTRATION)["primary"]:
        of_spreads = [f"{power(claim, claim['spread'][k]):.2f} ({k})" for k in claim["spread"]]
        yield f"| {claim['id']} | {claim['expected']} | {', '.join(of_spreads)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.launch", description=__doc__)
    verbs = ["train", "index", "land", "pilot", "costs", "digests", "power"]
    parser.add_argument("verb", choices=verbs)
    parser.add_argument("what", nargs="*", help="land: a folder; pilot: a block and a task")
    parser.add_argument("--budget", type=seconds, default=math.inf, metavar="3h")
    args = parser.parse_args()
    deadline = time.monotonic() + args.budget
    if args.verb == "train":
        train_missing(deadline)
    elif args.verb == "pilot":
        pilot(int(args.what[0]), args.what[1], deadline)
    elif args.verb == "index":
        print(f"{write_index()} runs.")
    elif args.verb == "land":
        print(land(Path(args.what[0])))
    elif args.verb == "costs":
        print("\n".join([*costs(), *costs(at_most=True)]))
    elif args.verb == "power":
        print("\n".join(powers()))
    else:
        print("\n".join(f"  {name}: {value}" for name, value in digests().items()))


if __name__ == "__main__":
    main()
