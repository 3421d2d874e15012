"""Choose the rate of each arm on each task of a tier by its search: `python -m lab.choose TIER`.

It prints the block `arms` of params.yaml. Of the rates that a block tries on a seed of its own,
the best has the highest validation accuracy, and of equals the lower validation loss at the end.
"""

import math
import sys
from collections.abc import Iterable, Mapping

import yaml

from fpt.config import Run
from fpt.errors import FptError
from fpt.plan import plan
from fpt.records import Record

Chosen = dict[str, dict[str, float]]  # rates by arm and task


def goodness(record: Record) -> tuple[float, float]:
    """What the best record of a search has most of."""
    loss = record.curve[-1]["valid_loss"] if record.status == "done" else math.inf
    return record.metrics["valid_accuracy"], -loss


def chosen(runs: Iterable[Run], records: Mapping[str, Record]) -> Chosen:
    """The best rate of each arm on each task. FptError if a run of the search is missing."""
    best: dict[tuple[str, str], Record] = {}
    for run in runs:
        if not run.search:
            continue
        if run.key not in records:
            raise FptError(f"The search has no record of {run.title}, rate {run.spec.lr:g}.")
        place = (run.arm, run.task)
        rivals = [records[run.key], *([best[place]] if place in best else [])]
        best[place] = max(rivals, key=goodness)
    rates: Chosen = {}
    for (arm, task), record in best.items():
        rates.setdefault(arm, {})[task] = record.spec.lr
    return rates


def main(tier: str) -> str:
    """The block `arms` of a tier, with what it says of an arm beside its rates."""
    whole = plan(tier)
    rates = chosen(whole.runs, whole.records())
    blocks = {arm: {**whole.tier.arms.get(arm, {}), "lr": rates[arm]} for arm in rates}
    return yaml.safe_dump({"arms": blocks}, sort_keys=False)


if __name__ == "__main__":
    print(main(sys.argv[1]))
