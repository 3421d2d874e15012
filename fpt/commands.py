"""The verbs of the command line that need torch; `fpt.__main__` has their options."""

import argparse
import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from . import config
from .analysis.claims import LAB
from .analysis.headlines import write_headlines
from .analysis.status import left
from .analysis.study import Study, section
from .backbones.names import choose_backbone, split_layers
from .backbones.published import entry_of
from .backbones.weights import local_folder
from .config import Run
from .files import PREPARED, FptError, check_names
from .pretraining import ensure, plans, streams
from .report.results import main_table
from .sections.arms import FROZEN
from .spec import canonical
from .tasks import TASKS, get_task, parse_task, prepare, shown_tasks
from .training import device as devices
from .training.flops import parameter_counts
from .training.kept import retested, retrained
from .training.trackers import tracker


def sections_of(profile: str, name: str | None = None, **settings: Any) -> list[Study]:
    names = [name] if name else list(config.load(profile).sections)
    return [section(each, profile, **settings) for each in names]


def chosen(runs: Sequence[Run], only: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """The runs whose arm or task is named in every `only` given, `--only fpt --only mnist`, and
    that have one of `seeds`, or any if none is given."""
    check_names("--only", only, sorted({name for run in runs for name in (run.arm, run.task)}))
    check_names("--seed", seeds, sorted({run.spec.seed for run in runs}))
    named = [run for run in runs if all(word in (run.arm, run.task) for word in only)]
    found = [run for run in named if not seeds or run.spec.seed in seeds]
    if runs and not found:
        raise FptError(
            f"No run here is all of {', '.join([*only, *map('seed {}'.format, seeds)])}: every "
            "--only narrows the choice, so give one arm and one task at most."
        )
    return found


def data(args: argparse.Namespace) -> None:
    wanted: list[Any] = [parse_task(text) for text in args.tasks]
    loaded = config.load(args.profile)
    PREPARED.mkdir(parents=True, exist_ok=True)  # an output of the pipeline, even if it is empty
    if not wanted:
        # What the pictures of the tasks show, as far as it is generated; so the notebook adds
        # nothing to the prepared data, which are an output of this stage.
        wanted = [task for task in shown_tasks().values() if task.needs is None]
        if args.pipeline and devices.choose().type not in loaded.train_on:
            print(f"Profile {args.profile!r} trains nothing here, so its data are not fetched.")
        else:
            specs = [run.spec for part in sections_of(args.profile) for run in part.runs]
            pairs = {spec.data: (spec.task, spec.options) for spec in specs}
            wanted += [get_task(name, **options) for name, options in pairs.values()]
    for task in {canonical(task.identity): task for task in wanted}.values():
        print(prepare(task))


def run(args: argparse.Namespace) -> None:
    if bool(args.section) == args.all:
        raise FptError("fpt run takes one section, or --all; see fpt status for the sections.")
    if not 0 < args.gpus <= 1:
        raise FptError(f"--gpus must be above 0 and at most 1, not {args.gpus:g}.")
    end = time.monotonic() + args.budget
    parts = sections_of(args.profile, args.section, **dict(args.set))
    runs = chosen([run for part in parts for run in part.runs], args.only, args.seed)
    them = replace(parts[0], runs=tuple(runs))
    if args.dry_run:
        print(left(them) or "Nothing is missing.")
        return
    if args.pipeline:  # its output, even if there is no record
        them.store.folder.mkdir(parents=True, exist_ok=True)
    if args.pipeline and not parts[0].may_train(args.device):
        allowed = " or ".join(parts[0].profile.train_on)
        rule = f"trains on {allowed} only" if allowed else "is trained by `fpt run` alone"
        print(f"Profile {args.profile!r} {rule}; nothing is trained here.")
    else:
        made = them.train_anyway(
            device=args.device,
            precision=args.precision or parts[0].profile.precision,
            budget=end - time.monotonic(),
            part=args.shard,
            workers=args.workers,
            max_runs=args.max_runs,
            cluster=args.ray,
            gpus=args.gpus,
            tracker=tracker(args.track) if args.track else None,
        )
        print(f"{made} new records in {them.store.folder}")
        trained = set(runs)
        for part in () if args.pipeline else parts:
            if here := tuple(run for run in part.runs if run in trained):
                print(f"\n{main_table(replace(part, runs=here))}")
        rest = left(them)
        print(rest and f"{rest}\nThe same command goes on from the last checkpoints.")
    # A verdict is corrected for all registered claims, so a page that has one reads every record.
    there = parts[0].store
    every = there.digests(sorted(there.keys())) if args.profile == LAB else {}
    for part in () if args.set else parts:
        part.write_index(every if part.declared.claims else {})
    if args.all and not args.set:
        write_headlines(parts)


def show(args: argparse.Namespace) -> None:
    study = section(args.section, args.profile)
    if not study.runs:
        raise FptError(f"Section {study.name!r} has no runs, and so no table.")
    print(main_table(study))


def tasks(args: argparse.Namespace) -> None:
    for name in TASKS:
        task = get_task(name)
        sizes = ", ".join(f"{k} {v or 'endless'}" for k, v in task.sizes.items())
        form = f"{task.length} tokens of {task.dim}" + (" symbols" if task.kind == "token" else "")
        out = f"reads {task.reads}, {task.answers} x {task.classes} classes"
        print(f"{name:12} {form}, {out}; {sizes}")


def params(args: argparse.Namespace) -> None:
    architecture = choose_backbone(args.backbone)
    counts = parameter_counts(architecture, parse_task(args.task))
    for name, count in counts.items():
        print(f"{name:12} {count:>13,}")
    print(f"{'fpt trains':12} {sum(counts.get(group, 0) for group in FROZEN):>13,}")
    entry = entry_of(split_layers(architecture.name)[0])
    if entry and entry.note:
        print(f"{entry.name}: {entry.note}")


def verify(args: argparse.Namespace) -> int:
    device, check = devices.choose(args.device), retrained if args.retrain else retested
    states: list[bool] = []
    failed = [FptError(f"Profile {args.profile!r} has no record here.")]
    for part in sections_of(args.profile, args.section):
        done = [record for record in part.records().values() if record.status == "done"]
        random.Random(args.seed).shuffle(done)
        most = len(states) + args.count
        while done and len(states) < most:
            try:
                found = check(done.pop(), part.store, device)
            except FptError as error:  # its parameters, data or weights are not here
                failed.append(error)
            else:
                print(found)
                states.append(found.matches)
    if not states:
        raise failed[-1]
    same, other = states.count(True), states.count(False)
    reason = f", such as: {failed[-1]}" if failed[1:] else ""
    print(f"{same} match, {other} differ, {len(failed) - 1} could not be checked{reason}")
    return int(other > 0)


def corpus(args: argparse.Namespace) -> None:
    for line in streams.build_english():
        print(line)


def pretrain(args: argparse.Namespace) -> None:
    if args.objective is not None:
        seed, name = args.seed or 0, args.backbone or "nano"
        plan = plans.make_plan(args.objective, name, seed)
        folder = local_folder() / plan.name
        done = ensure.pretrain(plan, folder, budget=args.budget)
        print(f"{plan.name} is in {folder}" if done else "the budget is over; call again to go on")
        return
    if any((args.backbone, args.seed is not None, args.budget < math.inf)):
        raise FptError("Options of fpt pretrain need an OBJECTIVE, such as english; name one.")
    loaded, parts = config.load(args.profile), sections_of(args.profile)
    read = {weights for part in parts for weights in part.weights}
    print(*ensure.ensure_weights(sorted(read), devices.choose().type in loaded.train_on), sep="\n")
