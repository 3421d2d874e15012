"""The lab's plan: its runs in blocks, in the order of their value.

`python -m lab.plan launch` pretrains and trains what is missing, and goes on where it stopped;
`python -m lab.plan` writes docs/plan.md: what each block costs, what is done and what is left.
"""

import argparse
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from fpt import config
from fpt.__main__ import seconds
from fpt.analysis import sensitivity
from fpt.analysis.claims import LAB, claims, runs_of
from fpt.backbones.weights import find, local_folder
from fpt.config import Run
from fpt.files import ROOT, SHIPPED, FptError, write_atomic
from fpt.pretraining import metadata
from fpt.pretraining.ensure import plan_of, pretrain
from fpt.records import Store, store
from fpt.report.findings import prose
from fpt.sections.registration import deviations, digest, registered_seeds
from fpt.tasks import get_task
from fpt.training import sweep

from . import pilot

PAGE = ROOT / "docs" / "plan.md"
PRETRAINING = {"nano": 320.0, "micro": 1900.0}  # measured core-seconds for two million tokens
WHAT = {
    "primary": "every run that a primary claim is judged on",
    "transfer": "fully trained from English, and both LSTMs",
    "modality": "pretrained on bit memory or images",
    "architecture": "frozen LSTMs of several kinds, other architectures at random",
    "efficiency": "the output net alone, and a converged probe on cached features",
    "overfitting": "100 training images",
    "scaling": "a smaller and a larger random backbone (pico, micro)",
    "initialization": "parts of the pretrained weights, and their rows permuted",
    "finetuning": "which parts are trained, and how many layers are frozen",
    "learning_rate": "what critics set beside the transformer",
    "synthetic_pretraining": "English after nested pairs",
}


@dataclass(frozen=True)
class Block:
    """Runs that no block before has, and the weights that they are the first to need."""

    name: str
    runs: tuple[Run, ...]
    weights: tuple[str, ...]


def blocks() -> list[Block]:
    """The plan: what the primary claims need, then what each section shows beside."""
    profile = config.load(LAB)
    of_section = {name: config.expand(profile, name) for name in profile.sections}
    everything = {run.key: run for runs in of_section.values() for run in runs}
    primary = [everything[run.key] for run in runs_of(claims("primary")).runs]
    seen: set[str] = set()
    read: set[str] = set()
    found = []
    for name, runs in {"primary": primary, **of_section}.items():
        mine = {run.key: run for run in runs if run.key not in seen}
        weights = {run.spec.weights for run in mine.values() if run.spec.weights}
        new = sorted(it for it in weights - read if not (SHIPPED / it).exists())
        if mine:
            found.append(Block(name, tuple(mine.values()), tuple(new)))
        seen |= mine.keys()
        read |= weights
    return found


def by_backbone(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs in groups with one backbone each: the seeds that come first in the registration before
    the later ones, so that all arms grow together."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        spec = run.spec
        groups.setdefault((spec.backbone, spec.weights or spec.init, spec.seed), []).append(run)
    order = {seed: index for index, seed in enumerate(registered_seeds(100))}
    return sorted(groups.values(), key=lambda group: order.get(group[0].spec.seed, -1))


def launch(part: str, workers: int, budget: float) -> Iterator[str]:
    """Train what is missing of the plan, block by block; a line for each backbone that is done.

    `part` I/N takes every N-th backbone, so that N processes share the plan."""
    there, end = store(LAB), time.monotonic() + budget
    index, count = (int(number) for number in part.split("/"))
    for block in blocks():
        keep = {run.key for run in planned() if run.keep}
        for group in by_backbone(block.runs)[index - 1 :: count]:
            specs = [run.spec for run in group]
            if len(there.read_all((spec.key for spec in specs), keep)) == len(specs):
                continue
            left = end - time.monotonic()
            for weights in sorted({spec.weights for spec in specs if spec.weights}):
                if not provided(weights, left):
                    return
            metadata.keep(there.folder, {spec.weights for spec in specs if spec.weights})
            left = end - time.monotonic()
            made = sweep.run(specs, there, keep=keep, device="cpu", budget=left, workers=workers)
            yield f"{block.name}: {made} new records of {group[0].arm}, seed {specs[0].seed}"
            if time.monotonic() > end:
                return


def provided(weights: str, budget: float) -> bool:
    """Whether `weights` are here, or could be pretrained within `budget` seconds."""
    try:
        find(weights)
    except FptError:
        plan = plan_of(weights)
        return pretrain(plan, local_folder() / weights, budget=budget, compiled=True)
    return True


@cache
def planned() -> tuple[Run, ...]:
    """Every run of the lab's sections."""
    profile = config.load(LAB)
    return tuple(run for name in profile.sections for run in config.expand(profile, name))


def cost(run: Run, measured: Mapping[tuple[str, str], float]) -> float:
    """Core-seconds of a run: the pilot's mean for its task and arm; else for its task and a frozen
    random or a fully trained backbone; else a minute."""
    spec = run.spec
    kind = "full" if "attention" in spec.trainable else "random"
    if (spec.task, run.arm) in measured and spec.threshold:
        return measured[spec.task, run.arm]
    return measured.get((spec.task, kind), 60.0)


def measured(there: Store) -> dict[tuple[str, str], float]:
    """Mean core-seconds of the pilot's runs, by task and arm, at all rates."""
    spent: dict[tuple[str, str], list[float]] = {}
    for run in pilot.runs(pilot.plan()["arms"]):
        record = there.read(run.key)
        if record is not None:
            at = run.spec.task, run.arm
            spent.setdefault(at, []).append(record.cost["process_seconds"])
    return {at: math.fsum(values) / len(values) for at, values in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.plan", description=__doc__)
    parser.add_argument("verb", nargs="?", choices=["launch", "page"], default="page")
    parser.add_argument("--part", default="1/1", metavar="I/N")
    parser.add_argument("--workers", type=int, default=1, help="packs side by side")
    parser.add_argument("--budget", default="1000h", metavar="TIME")
    args = parser.parse_args()
    if args.verb == "launch":
        for line in launch(args.part, args.workers, seconds(args.budget)):
            print(line, flush=True)
    else:
        write_atomic(PAGE, page().encode())


def page() -> str:
    """docs/plan.md."""
    there, spent = store(LAB), measured(pilot.store())
    present = there.keys()
    rows, planned_hours, hours_left = [], 0.0, 0.0
    for block in blocks():
        missing = [run for run in block.runs if run.key not in present]
        trained, untrained = (
            math.fsum(PRETRAINING[plan_of(it).backbone] for it in weights)
            for weights in (block.weights, _needed(block, missing))
        )
        whole = (math.fsum(cost(run, spent) for run in block.runs) + trained) / 3600
        left = (math.fsum(cost(run, spent) for run in missing) + untrained) / 3600
        rows.append(
            f"| {block.name} | {WHAT[block.name]} | {len(block.weights)} | {len(block.runs)} | "
            f"{whole:.1f} | {len(block.runs) - len(missing)} | {left:.1f} |"
        )
        planned_hours += whole
        hours_left += left
    return PAGE_TEXT.format(
        digest=digest()[:16],
        table="\n".join(rows),
        planned=f"{planned_hours:.1f}",
        left=f"{hours_left:.1f}",
        claims=claims_table(),
        thresholds=thresholds_table(),
        pilot=pilot.table(),
        trials=trials(),
        machines=machines_table(),
        twins=twins(),
        deviations="\n".join(
            f"- {it['date']}: {it['because']}. Dropped: {it['dropped']}." for it in deviations()
        ),
        not_planned=prose()["cannot_say"],
    )


def _needed(block: Block, missing: Iterable[Run]) -> set[str]:
    """The weights of a block that its missing runs still read."""
    return set(block.weights) & {run.spec.weights for run in missing if run.spec.weights}


def claims_table() -> str:
    """A row per primary claim: backbones, expected effect, simulated power and error."""
    lines = ["| claim | backbones | expected | power | error |", "|---|---|---|---|---|"]
    for it in claims("primary"):
        counts = ", ".join(f"{count} {arm}" for arm, count in it.backbones.items())
        if it.measure == "predicts":
            counts = f"{len(it.backbones)} corpora, {next(iter(it.backbones.values()))} of each"
        lines.append(
            f"| {it.statement} | {counts} | {it.expected:g} | {it.power:.2f} | {it.error:.3f} |"
        )
    return "\n".join(lines)


def trials() -> str:
    """How many runs the pilot tried for each arm of a claim, over all rates of a task."""
    groups: dict[str, list[str]] = {}
    for arm, tasks in pilot.results().groupby("arm", sort=False):
        counts = tasks.drop_duplicates(["task", "lr", "seed"]).groupby("task", sort=False).size()
        few, most = counts.min(), counts.max()
        words = f"{few}" if few == most else f"{few} to {most}"
        groups.setdefault(words, []).append(f"`{arm}`")
    return "; ".join(f"{words} of {', '.join(arms)}" for words, arms in groups.items())


def machines_table() -> str:
    """A row per arm of the primary claims: how many seeds have runs on each kind of processor."""
    frame = runs_of(claims("primary")).frame()
    recorded = frame[frame["status"] != "not run"]
    if recorded.empty:
        return "No run is recorded yet."
    seeds = recorded.groupby(["arm", "device"], sort=False)["seed"].nunique().unstack(fill_value=0)
    lines = [f"| arm | {' | '.join(seeds.columns)} |", "|---" * (1 + len(seeds.columns)) + "|"]
    for arm, counts in seeds.iterrows():
        lines.append(f"| {arm} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def twins() -> str:
    """A sentence on the names of weights that stand for more than one backbone in the records."""
    runs = (*planned(), *sensitivity.study().runs)
    records = store(LAB).read_all(run.key for run in runs).values()
    seen: dict[str, dict[str, int]] = {}
    for record in records:
        digest_of = record.environment.get("weights_digest")
        if record.spec.weights and digest_of:
            counts = seen.setdefault(record.spec.weights, {})
            counts[digest_of] = counts.get(digest_of, 0) + 1
    double = {name: counts for name, counts in seen.items() if len(counts) > 1}
    if not double:
        return "Each name of weights stands for one backbone in all records."
    lines = [
        "These names stand for two backbones, one of each vendor, since the first was lost and "
        "pretrained again. The records tell them by their digests; `records/bodies` has the "
        "metadata of one.",
        "",
        "| weights | runs by digest |",
        "|---|---|",
    ]
    for name, counts in sorted(double.items()):
        runs = ", ".join(f"{count} on {key[:8]}" for key, count in counts.items())
        lines.append(f"| {name} | {runs} |")
    return "\n".join(lines)


def thresholds_table() -> str:
    """A row per task of the battery: its threshold, trivial baselines and budget."""
    profile = config.load(LAB)
    lines = [
        "| task | threshold | trivial baselines | budget, steps | steps between evaluations |",
        "|---|---|---|---|---|",
    ]
    for name in pilot.plan()["battery"]:
        settings = profile.tasks[name]
        task = get_task(settings.get("name", name), **settings.get("options", {}))
        floors = ", ".join(f"{what} {100 * value:.1f}%" for what, value in task.floors().items())
        values = {**profile.defaults, **settings}
        lines.append(
            f"| {name}{' (fitting)' * task.fitting} | {100 * values['threshold']:g}% | {floors} | "
            f"{values['steps']:,} | {values['eval_every']} |"
        )
    return "\n".join(lines)


PAGE_TEXT = """\
# The lab's plan

The profile `lab` asks which of the paper's claims hold at a size that two CPU cores pay for. Its
claims were registered before any of their runs: `fpt/sections/registration.yaml` says what is
claimed, how it is tested and on how many backbones, and the seeds of all reported runs follow from
the SHA-256 of that file ({digest}…). `nice -n 19 python -m lab.plan launch` trains what is missing,
block by block, and goes on where it stopped; `python -m lab.plan` writes this page anew.

| block | what | backbones to pretrain | runs | core-hours | runs done | core-hours left |
|---|---|---|---|---|---|---|
{table}

Together {planned} core-hours, of which {left} are left, estimated from the processor time of the
pilot's runs. A run counts in the first block that needs it, a backbone too. Blocks stand in the
order of their value, and so they are trained.

## The primary claims

`expected` is the smallest effect for which the numbers of backbones were chosen: a ratio of steps,
a difference of accuracies or shares, or a correlation. `power` is how often a simulated experiment
with this effect, and with the pilot's spread between backbones, supports the claim at a twelfth of
5%; `error` how often one without any effect does at 5%.

{claims}

Supported claims hold a chance of 5% of any false one, and contradicted claims another 5%: if all
nulls were true, some verdict would be false in up to one registration of ten.

The first version of that file, of 23 November 2026, was replaced on the same day, before any of
its runs had been recorded: it tested distance with repeated segments, which the pilot's backbones
had not learned. The new version changed more than that. A corpus that was not learned makes a
claim undecided only if two corpora are compared; before, `context-predicts`, which has three such
corpora, could not have been decided. Three secondary claims (on a bigram at a distance, on nested
against flat pairs, and on pairs against independent tokens) gave way to one, `blocks-over-
nesting`. The digest covers claims, tests and numbers of backbones, but neither learning rates and
budgets nor the code of the analysis: that those did not change, only the history of the
repository shows.

Deviations from the present version:

{deviations}

## The battery

A run ends two evaluations after the first of two consecutive evaluations at its threshold.
«Fitting»: training sees every input of the validation and test sets. The pilot (`lab/pilot.yaml`
has its rules) set thresholds and learning rates on seeds and backbones that no reported run uses.
`…-one-rate` are the same tasks at the rate of 0.003 for all arms.

{thresholds}

The pilot: median steps to the threshold at the best of six rates from 0.0003 to 0.1, that rate, and
how many runs reached the threshold.

{pilot}

«Each at its best learning rate» in a claim means the rate that this pilot chose, on few runs of
other seeds. The trials were not equal for all arms: {trials}. No rate was searched for the
accuracy at an equal budget (`mnist-equal`), nor for `full-pretrained`, `fpt-bits`, `fpt-vit`, the
standard LSTM, parts of backbones and permuted rows. Corpora are compared at one rate for each
task, English's. Arms that the pilot did not try take the rates of the nearest one that it did:
those of `fpt-english`, `random` or `full`. Rates that were chosen after the
results had been seen are exploratory (`fpt/sections/sensitivity.yaml`): the lab's front page
shows both once their runs are recorded, and a verdict that one of them would change is undecided.

## Machines

Backbones and runs were made on processors of two vendors, which is not balanced over arms. Seeds
by the processor that trained the runs of primary claims:

{machines}

{twins}

## What is not planned

{not_planned}
"""


if __name__ == "__main__":
    main()
