"""The experiment on real language models, profile `language`: its plan, its power, its launch.

`python -m lab.language launch` trains what is missing of the plan, block by block and in each block
seed by seed, and resumes where it stopped; `--part I/N` takes every N-th run, so that N processes
share the work. `python -m lab.language power` simulates the claims, `costs` measures a step and an
evaluation of each model on this processor, `digests` prints what the registration has to cover, and
without a verb docs/plan-language.md is written.
"""

import argparse
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from fpt import config
from fpt.__main__ import seconds
from fpt.analysis.crossed import difference, two_sided
from fpt.backbones.weights import digest as weights_digest
from fpt.backbones.weights import files as weights_files
from fpt.claims.claim import KINDS, Claim, Kind
from fpt.claims.model_claims import model_claims, planned_runs, runs_of
from fpt.errors import FptError
from fpt.files import read_yaml, write_atomic
from fpt.profile import Run
from fpt.project import project
from fpt.records import store
from fpt.sections.registration import (
    LANGUAGE,
    code_digest,
    deviations,
    digest,
    registration,
    settings_digest,
)
from fpt.tasks import task_of
from fpt.training import sweep
from fpt.training.loop import Loop

from . import search

FILE = Path(__file__).with_suffix(".yaml")
ALPHA = 0.05
SIMULATIONS = 2000
# How the spread of a control's runs may be made up, since the search has a draw for each seed and
# cannot tell: the share of the variance that belongs to its draws. Power is the least of these.
SHARES_OF_DRAWS = (0.2, 0.5, 0.8)
# What a reader of the verdicts has to know of their making; docs/interpretation.md has it, too.
SENTENCE = (
    "p-values of finished claims were known after 195, 344, 350 and 396 of the 416 primary runs "
    "and changed no number of runs; 288 runs (19 of 55 secondary claims, all of ListOps and whole "
    "SmolLM2 against its statistics on bit-xor) were withdrawn for cost and trained after the "
    "other verdicts were known, with the registered seeds, rates and tests; the registered "
    "replication of the nano finding was not trained; each rate is the better of two that were "
    "run in full on three other seeds, for 51 of 64 arms at the edge of those."
)


@cache
def plan() -> Mapping[str, Any]:
    """The content of language.yaml: what each block is for, and measured costs."""
    content: Mapping[str, Any] = read_yaml(FILE)
    return content


@dataclass(frozen=True)
class Block:
    """Runs that no block before has."""

    purpose: str
    runs: tuple[Run, ...]


def blocks() -> list[Block]:
    """The plan: what the primary claims need, then the blocks of the profile's sections. A
    block whose runs are all withdrawn is none."""
    profile = config.load(LANGUAGE)
    parts: list[list[Run]] = []
    for name, settings_of_blocks in profile.sections.items():
        for settings in settings_of_blocks:
            alone = replace(profile, sections={name: (settings,)})
            parts.append(config.expand(alone, name))
    everything = [run for part in parts for run in part]
    primary = runs_of(model_claims("primary"), everything)
    planned: set[str] = set()
    in_order = []
    for purpose, runs in zip(plan()["blocks"], [primary, *parts], strict=True):
        new = {run.key: run for run in runs if run.key not in planned}
        planned |= new.keys()
        if new:
            in_order.append(Block(purpose, tuple(new.values())))
    return in_order


def launch(part: str, budget: float) -> Iterator[str]:
    """Train what is missing; a line for each seed of a block that has new records.

    All arms of a seed are trained before the next seed, in an order that has nothing to do with
    them, so that neither the day nor the machine can go with an arm.
    """
    check_registration()
    end = time.monotonic() + budget
    records = store(LANGUAGE)
    precision = config.load(LANGUAGE).precision
    for block in blocks():
        for seed in dict.fromkeys(run.spec.seed for run in block.runs):
            runs = [run for run in block.runs if run.spec.seed == seed]
            specs = sorted((run.spec for run in runs), key=lambda spec: spec.key)
            count = sweep.run(
                specs,
                records,
                budget=end - time.monotonic(),
                part=part,
                device="cpu",
                precision=precision,
                workers=1,
                max_runs=search.ALONE,
                titles={run.key: f"{run.arm} on {run.task}" for run in runs},
            )
            if count:
                yield f"{block.purpose}: {count} new records of seed {seed}"
            if time.monotonic() > end:
                return


def cost(run: Run) -> float:
    """Core-seconds of a run, by what a step and an evaluation of its model on its task took."""
    spec = run.spec
    costs: Mapping[str, Sequence[float]] = plan()["costs"][spec.backbone]
    of_step, of_evaluation = costs[run.task]
    if "attention" in spec.trainable:
        of_step *= plan()["full"]
    return spec.steps * of_step + spec.steps // spec.eval_every * of_evaluation


def hours(runs: Iterable[Run]) -> float:
    """Core-hours of runs."""
    return math.fsum(map(cost, runs)) / 3600


def measured_costs() -> Iterator[str]:
    """A line of YAML for each backbone: seconds of a step and of an evaluation, by task."""
    torch.set_num_threads(1)
    profile = config.load(LANGUAGE)
    cells: dict[str, dict[str, Run]] = {}
    for block in blocks():
        for run in block.runs:
            if "attention" not in run.spec.trainable:
                cells.setdefault(run.spec.backbone, {}).setdefault(run.task, run)
    for backbone, runs in cells.items():
        parts = []
        for task, run in runs.items():
            of_step, of_evaluation = _timed(run, profile.precision)
            parts.append(f"{task}: [{of_step:.3f}, {of_evaluation:.3f}]")
        yield f"  {backbone}: {{{', '.join(parts)}}}"


def _timed(run: Run, precision: str) -> tuple[float, float]:
    """Seconds of processor time of a step and of an evaluation."""
    loop = Loop([run.spec], task_of(run.spec), torch.device("cpu"), quiet=True, precision=precision)
    times = []
    for _ in range(6):
        start = time.process_time()
        loop.train_step()
        times.append(time.process_time() - start)
    start = time.process_time()
    loop.validate()
    return min(times), time.process_time() - start


# ---------------------------------------------------------------------------------------- power


@dataclass(frozen=True)
class Sizes:
    """How many seeds both arms of a claim have, and how many draws each."""

    seeds: int
    first_draws: int
    second_draws: int


def sizes_of(claim: Claim, runs: Sequence[Run]) -> Sizes:
    """The planned sizes of a claim's arms."""
    counts = []
    for arm in claim.backbones:
        cell = [run.spec for run in runs if (run.arm, run.task) == (arm, claim.tasks[0])]
        counts.append((len({spec.seed for spec in cell}), len({spec.draw for spec in cell})))
    (first_seeds, first_draws), (second_seeds, second_draws) = counts
    return Sizes(min(first_seeds, second_seeds), first_draws, second_draws)


def searched(claim: Claim) -> tuple[float, float]:
    """Of the search's runs of a claim's arms, each at its best rate: the log ratio of areas, first
    over second, and the standard deviation of log areas of one arm, pooled over the two."""
    profile = config.load(LANGUAGE)
    areas = [
        search.best_areas(profile, search.Cell(arm, claim.tasks[0])) for arm in claim.backbones
    ]
    spread = np.sqrt(np.mean([np.var(of_arm, ddof=1) for of_arm in areas]))
    return float(np.mean(areas[0]) - np.mean(areas[1])), float(spread)


def simulated(
    claim: Claim, shift: float, spread: float, share: float, alpha: float, sizes: Sizes
) -> float:
    """The share of simulated experiments in which the test of `claim` is significant at `alpha`.

    `shift` is the true log ratio. A run of a control varies by its draw (`share` of the variance),
    and half of the rest by its seed, in the same way for all arms, half by chance; a run of the
    model by seed and chance alone.
    """
    draw_generator = np.random.default_rng(0)
    of_draw, of_seed = math.sqrt(share), math.sqrt((1 - share) / 2)
    significant = 0
    for _ in range(SIMULATIONS):
        by_seed = of_seed * draw_generator.normal(size=sizes.seeds)
        tables = []
        for draws, mean in ((sizes.first_draws, shift), (sizes.second_draws, 0.0)):
            by_draw = of_draw * draw_generator.normal(size=(draws, 1)) if draws > 1 else 0.0
            chance = of_seed * draw_generator.normal(size=(draws, sizes.seeds))
            tables.append(pd.DataFrame(mean + spread * (by_draw + by_seed + chance)))
        effect = difference(tables[0], tables[1], math.log(claim.margin))
        p = effect.p if claim.test == "suffices" else two_sided(effect)
        significant += p < alpha
    return significant / SIMULATIONS


def powers(kind: Kind) -> Iterator[tuple[Claim, float, float, float]]:
    """Each claim of a kind with the ratio of areas in the search, its power for it, and its error.

    Power is at the strictest level of Holm's correction for primary claims and at 5% for others;
    error, of a true null at 5%, is the largest over the ways to divide the spread.
    """
    claims = model_claims(kind)
    runs = planned_runs()
    alpha = ALPHA / len(claims) if kind == "primary" else ALPHA
    for claim in claims:
        if claim.test == "rank" or claim.withdrawn:
            continue
        shift, spread = searched(claim)
        sizes = sizes_of(claim, runs)
        null = math.log(claim.margin)
        power = min(
            simulated(claim, shift, spread, share, alpha, sizes) for share in SHARES_OF_DRAWS
        )
        error = max(
            simulated(claim, null, spread, share, ALPHA, sizes) for share in SHARES_OF_DRAWS
        )
        yield claim, math.exp(shift), power, error


# ----------------------------------------------------------------------------------------- page


def digests() -> dict[str, str]:
    """What registration-language.yaml has to say under `covers`, as it is here."""
    weights = {run.spec.weights for run in planned_runs() if run.spec.weights}
    return {
        "settings": settings_digest(LANGUAGE),
        "code": code_digest(),
        **{identity: weights_digest(weights_files(identity)) for identity in sorted(weights)},
    }


def check_registration() -> None:
    """FptError unless rates are those of the search, and settings, code and weights those that the
    registration covers: the experiment is trained at its tag, whatever the project becomes."""
    covered = registration(LANGUAGE)["covers"]
    changed = [name for name, digest in digests().items() if covered.get(name) != digest]
    if changed:
        raise FptError(
            f"The registration of {LANGUAGE!r} covers other {' and '.join(changed)} than these: "
            "check out the tag `registered-language-30h` to train its runs."
        )
    chosen = search.best_rates(config.load(LANGUAGE))
    for run in planned_runs():
        if run.spec.lr != chosen[run.arm]["lr"][run.task]:
            raise FptError(f"The rate of {run.arm} on {run.task} is not that of the search.")


def page() -> str:
    """docs/plan-language.md."""
    runs = [run for block in blocks() for run in block.runs]
    records = store(LANGUAGE).read_all(run.key for run in runs)
    spent = math.fsum(record.cost["process_seconds"] for record in records.values()) / 3600
    pretrained = frozen_pretrained(runs)
    rows = []
    for block in blocks():
        missing = [run for run in block.runs if run.key not in records]
        rows.append(
            f"| {block.purpose} | {len(block.runs)} | {hours(block.runs):.1f} | "
            f"{len(block.runs) - len(missing)} | {hours(missing):.1f} |"
        )
    return PAGE_TEXT.format(
        digest=digest(LANGUAGE)[:16],
        table="\n".join(rows),
        planned=f"{hours(runs):.1f}",
        left=f"{hours(run for run in runs if run.key not in records):.1f}",
        spent=f"{spent:.1f}",
        spent_planned=f"{hours(run for run in runs if run.key in records):.1f}",
        processor=plan()["processor"],
        primary=claims_table("primary"),
        secondary=len(model_claims("secondary")),
        claims=sum(len(model_claims(kind)) for kind in KINDS),
        frozen=sum(pretrained.values()),
        cells=len(pretrained),
        fewest=min(pretrained.values()),
        most=max(pretrained.values()),
        sentence=SENTENCE,
        search=search_table(),
        deviations="\n".join(_deviation(entry) for entry in deviations(LANGUAGE)) or "None.",
    )


def _deviation(entry: Mapping[str, Any]) -> str:
    """A list item: what was done otherwise, and what came to nothing by it."""
    text = f"- {entry['date']}: {entry['because']}."
    if "replication" in entry["withdrawn"]:
        planned = registration(LANGUAGE)["replication"]
        text += (
            f" The registered replication of the lab's finding on {planned['backbones']} new nano "
            f"backbones, {len(planned['tasks'])} tests, has not been trained since."
        )
    return text


def frozen_pretrained(runs: Iterable[Run]) -> Counter[tuple[str, str]]:
    """How many runs each arm with frozen pretrained weights has on each task."""
    return Counter(
        (run.arm, run.task)
        for run in runs
        if run.spec.init == "pretrained" and "attention" not in run.spec.trainable
    )


def claims_table(kind: Kind) -> str:
    """A row per claim: statement, sizes, the ratio in the search, power and error."""
    runs = planned_runs()
    lines = [
        "| claim | seeds | draws | ratio of geometric means in the search | power | error |",
        "|---|---|---|---|---|---|",
    ]
    for claim in model_claims(kind):
        sizes = sizes_of(claim, runs)
        lines.append(
            f"| {claim.statement} | {sizes.seeds} | {sizes.second_draws} | "
            f"{_number(claim.expected, '.2f')} | {_number(claim.power, '.2f')} | "
            f"{_number(claim.error, '.3f')} |"
        )
    return "\n".join(lines)


def _number(value: float, form: str) -> str:
    """A number of a claim; a dash before its simulation."""
    return "–" if math.isnan(value) else format(value, form)


def search_table() -> str:
    """A row per arm and task: its best rate and its mean area and final accuracy in the search."""
    profile = config.load(LANGUAGE)
    results = search.results(profile)
    lines = [
        "| task | arm | rate | mean area, nats | accuracy at the end |",
        "|---|---|---|---|---|",
    ]
    for cell in search.cells(profile):
        try:
            rate = search.best_rate(profile, cell)
        except KeyError:
            continue
        at_best = results.query(
            "arm == @cell.arm and task == @cell.task and share == 1 and lr == @rate"
        )
        place = ", at the edge of the grid" if search.is_at_edge(cell, rate) else ""
        lines.append(
            f"| {cell.task} | {cell.arm} | {rate:g}{place} | {at_best['area'].mean():.3f} | "
            f"{100 * at_best['accuracy'].mean():.0f}% |"
        )
    return "\n".join(lines)


PAGE_TEXT = """\
# The plan of the experiment on real language models

The profile `language` asks whether the frozen weights of a real language model help a network to
learn another modality, and what of them helps. Its claims are registered before any of their
runs: `fpt/sections/registration-language.yaml` says what is claimed and how it is tested and holds
the digests of settings, rates, weights and code, and the seeds and draws of all reported runs
follow from its SHA-256 ({digest}…). At the tag `registered-language-30h` (commit `e96079ca`), whose
code of `fpt` is the registered one, `nice -n 19 python -m lab.language launch` trains what is
missing and resumes what was stopped. `python -m lab.language` writes this page again.

A *rung* is a random initialisation that keeps less of the pretrained weights than the rung above it
([initialisations](initialisations.md)). The *truncated* SmolLM2 is its first six layers.

| block | runs | core-hours | runs done | core-hours left |
|---|---|---|---|---|
{table}

Together {planned} core-hours, of which {left} are left, estimated from the time of a step and of an
evaluation on one core of {processor}.
The recorded runs took {spent} core-hours, where this table estimates {spent_planned}.

A run counts in the first block that needs it. Blocks are trained in the order of the table, the
most valuable first, except where the [deviations](#deviations) say otherwise; inside a block, all
arms of a seed come before the next seed. A seed counts in a comparison if both arms have it.

## The primary claims

The ratio is that of areas under the validation loss, first arm over second, in the search of
learning rates. Power is how often a simulated experiment with this ratio and the search's spread
decides the claim at the strictest level of Holm's correction; error, how often one without any
effect does at 5%. Both are the worse of three ways to divide the spread between draws and seeds.

{primary}

{secondary} secondary claims are tested at a false-discovery rate of 5%; the registration lists
them. Some were withdrawn and reinstated later; the replication in nano backbones was withdrawn and
never trained (see the [deviations](#deviations)). The verdicts on the {claims} claims rest on
{frozen} runs of frozen pretrained weights: {cells} pairs of model and task, {fewest} to {most}
seeds each.

The recorded runs spread more than those of the search, so the power was less; page 12 has both.

## The search of learning rates

Its rules are in `lab/search.yaml`. No reported run has a seed or a draw of the search. An arm that
learns nothing at any rate has its best one at the lower edge of the grid, and would have it there
however far the grid went, since a lower rate only stays closer to guessing.

{search}

## What was considered and left out

* **MNIST.** A step of six layers on its 49 tokens takes half a second. What arms of SmolLM2 need
  to pass logistic regression there, 1,500 steps, would cost more than all other runs together.
  Two GPUs trained six layers on MNIST and CIFAR-10 afterwards, outside this experiment and at one
  rate for all arms (`reports/paper`).
* **The other rungs on the whole model.** A run of its thirty layers costs as much as five runs of
  six, so gains, shuffled entries and spectra are compared on truncated SmolLM2 and on MiniLM.
* **Whole SmolLM2 against draws of its statistics on bit-xor as a primary claim.** The ratio in the
  search, 1.34, would be decided in 30 to 45% of simulated experiments with 6 draws and 6 seeds.
  That claim is secondary; the primary one on the same question is about the first six layers,
  whose runs cost a fifth, with 39 draws.
* **The mean over evaluations** as the measure, without the loss of guessing at step 0. Some random
  backbones have learned bit-xor after 20 steps. The logarithm of such a mean has no lower bound, so
  chance would have made most of the difference between them.
* **One claim over all tasks.** Effects have had opposite signs on different tasks in the lab, so
  each claim is about one task.
* **Gains folded into the matrices**, so that all arms start with gains of 1. Gains are a rung of
  the ladder instead: `random-at-scale` has gains of 1, `random-at-scale-norms` the pretrained
  ones.
* **The training loss of each batch before its step** as the measure. ListOps repeats its
  examples, so the loss is measured on validation examples.
* **Exact sign-flip tests of paired runs.** Six seeds give no p-value below 0.03, and pairing says
  nothing about draws. The test used here has both variances.
* **Layers in a random order, input rows permuted.** They are more rungs between `spectrum` and
  the weights; they can follow if those two differ.

## Deviations

In one sentence: {sentence}

An arm counts once for each task. In 10 of these 64 cases, three to five rates had all three seeds.
The measure, the area from the loss of guessing, was fixed seven minutes before the registration
(commit `44dfec69`), after the search had been seen.

{deviations}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.language", description=__doc__)
    verbs = ["launch", "power", "costs", "digests", "page"]
    parser.add_argument("verb", nargs="?", choices=verbs, default="page")
    parser.add_argument("--part", default="1/1", metavar="I/N")
    parser.add_argument("--budget", default="1000h", metavar="TIME")
    args = parser.parse_args()
    if args.verb == "launch":
        for line in launch(args.part, seconds(args.budget)):
            print(line, flush=True)
    elif args.verb == "costs":
        print(*measured_costs(), sep="\n")
    elif args.verb == "digests":
        print(*(f"  {name}: {digest}" for name, digest in digests().items()), sep="\n")
    elif args.verb == "power":
        for kind in KINDS:
            for claim, ratio, power, error in powers(kind):
                print(f"{claim.name}: ratio {ratio:.2f}, power {power:.2f}, error {error:.3f}")
    else:
        write_atomic(project().root / "docs/plan-language.md", page().encode())


if __name__ == "__main__":
    main()
