"""The pilot: runs on old seeds and backbones from which thresholds, rates and numbers are set.

`python -m fpt.analysis.pilot ARM ...` trains what is missing of some arms, by default of those that
set the thresholds, into `reports/lab/records/pilot`.
"""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from .. import sweep
from ..arms import ARMS
from ..backbones import backbone
from ..config import semantics_of
from ..paths import REPORTS
from ..records import Store
from ..spec import RunSpec, canonical
from ..strict_yaml import read_yaml
from ..tasks import get_task
from ..weights import reads_weights

FILE = Path(__file__).with_name("pilot.yaml")


@cache
def plan() -> Mapping[str, Any]:
    """The content of pilot.yaml."""
    found: Mapping[str, Any] = read_yaml(FILE)
    return found


def store() -> Store:
    return Store(REPORTS / "lab" / "records" / "pilot")


def specs(arms: Iterable[str]) -> list[RunSpec]:
    """Every run of the pilot of `arms`: four tasks, all rates and seeds."""
    return [
        spec_of(arm, task, lr, seed)
        for arm in arms
        for task in plan()["battery"]
        for lr in plan()["lrs"]
        for seed in plan()["seeds"]
    ]


def spec_of(arm: str, task: str, lr: float, seed: int) -> RunSpec:
    """One run of the pilot. A random backbone is drawn by `seed`; of a pretrained one there is the
    first alone, and `seed` is that of the run."""
    of_arm, name = ARMS[arm], plan()["backbone"]
    values = {**plan()["settings"], **plan()["battery"][task]}
    data = get_task(task, **values.pop("options"))
    weights = (
        f"{name}-{of_arm.weights}@{plan()['tokens']}-0" if reads_weights(of_arm.init) else None
    )
    groups = backbone(name).groups if of_arm.trainable is None else of_arm.trainable
    spec = RunSpec(
        data=canonical(data.identity),
        backbone=name,
        init=of_arm.init,
        weights=weights,
        trainable=tuple(sorted(groups)),
        lr=lr,
        seed=seed,
        **values,
    )
    return replace(spec, semantics=semantics_of(spec))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fpt.analysis.pilot", description=__doc__)
    parser.add_argument("arms", nargs="*", default=plan()["first"], metavar="ARM")
    parser.add_argument("--tasks", nargs="*", default=list(plan()["battery"]), metavar="TASK")
    parser.add_argument("--workers", type=int, default=1, help="packs side by side")
    args = parser.parse_args()
    for task in args.tasks:
        wanted = [spec for spec in specs(args.arms) if spec.task == task]
        made = sweep.run(wanted, store(), device="cpu", workers=args.workers)
        print(f"{task}: {made} new records in {store().folder}", flush=True)


if __name__ == "__main__":
    main()
