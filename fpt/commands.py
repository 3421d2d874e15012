"""The verbs of the command line that need torch; `fpt.__main__` has their options."""

import argparse
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import config
from .analysis.replicate import recorded, train_sample
from .analysis.status import left
from .analysis.study import Study, section
from .backbones.choice import choose_backbone
from .backbones.names import split_layers
from .backbones.published import MODELS
from .claims.claim import KINDS, REGISTERED
from .claims.headlines import write_headlines
from .errors import FptError, check_names
from .pretraining import ensure, plans, streams
from .profile import Run
from .project import import_modules, project
from .records import digest, store
from .report.findings import claims_table
from .report.results import main_table
from .sections.arms import FROZEN
from .spec import canonical
from .tasks import REGISTRY, get_task, parse_task, prepare, shown_tasks
from .training import device as devices
from .training.flops import parameter_counts
from .training.kept import retrained
from .training.progress import tracker
from .training.settings import check_settings
from .training.sweep import check_one_arithmetic


def sections_of(profile: str, name: str | None = None, **settings: Any) -> list[Study]:
    names = [name] if name else config.load(profile).sections
    return [section(name, profile, **settings) for name in names]


def chosen(runs: Sequence[Run], only: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """The runs whose arm or task is named in every `only`, `--only fpt --only mnist`, and
    that have one of `seeds`, or any if there are none."""
    check_names(
        "--only", only, sorted({name for run in runs for name in (run.arm, run.task)})
    )
    check_names("--seed", seeds, sorted({run.spec.seed for run in runs}))
    named = [run for run in runs if set(only) <= {run.arm, run.task}]
    selected = [run for run in named if not seeds or run.spec.seed in seeds]
    if runs and not selected:
        names = ", ".join([*only, *(f"seed {seed}" for seed in seeds)])
        raise FptError(
            f"No run here is all of {names}: every --only narrows the choice, so give one "
            "arm and one task at most."
        )
    return selected


def data(args: argparse.Namespace) -> None:
    tasks = [parse_task(text) for text in args.tasks]
    profile = config.load(args.profile)
    # An output of the pipeline, even if it is empty.
    project().prepared.mkdir(parents=True, exist_ok=True)
    if not tasks:
        # What the notebook's pictures of the tasks need, if it is generated: so the
        # notebook adds nothing to the prepared data, which are an output of this stage.
        tasks = [task for task in shown_tasks().values() if task.needs is None]
        if args.pipeline and devices.choose().type not in profile.train_on:
            print(
                f"Profile {args.profile!r} trains nothing here, so its data are not "
                "fetched."
            )
        else:
            runs = [run for study in sections_of(args.profile) for run in study.runs]
            specs = {run.spec.data: run.spec for run in runs}
            tasks += [get_task(spec.task, **spec.options) for spec in specs.values()]
    for task in {canonical(task.identity): task for task in tasks}.values():
        print(prepare(task))


def run(args: argparse.Namespace) -> None:
    if bool(args.section) == args.all:
        raise FptError(
            "fpt run takes one section, or --all; see fpt status for the sections."
        )
    if not 0 < args.gpus <= 1:
        raise FptError(f"--gpus must be above 0 and at most 1, not {args.gpus:g}.")
    end = time.monotonic() + args.budget
    # Checked here, where no name can be taken for an argument of a function.
    settings = check_settings("--set", dict(args.set))
    if len(settings) < len(args.set):
        raise FptError("--set: a setting appears twice; give it once.")
    studies = sections_of(args.profile, args.section, **settings)
    first = studies[0]
    planned = [run for study in studies for run in study.runs]
    if not planned and args.section:
        raise FptError(
            f"Section {args.section!r} has no runs in profile {args.profile!r}; fpt status "
            "lists those that have some."
        )
    runs = chosen(planned, args.only, args.seed)
    # One sweep over all sections: its packs train side by side, whatever section they
    # belong to.
    together = replace(first, runs=tuple(runs))
    in_shard = together.shard(args.shard, args.max_runs) if args.shard else together
    if args.dry_run:
        print(left(in_shard) or "Nothing is missing.")
        return
    if args.pipeline:  # its output, even if there is no record
        (together.folder / "records").mkdir(parents=True, exist_ok=True)
    if args.pipeline and not first.may_train(args.device):
        allowed = " or ".join(first.profile.train_on)
        rule = f"trains on {allowed} only" if allowed else "is not trained by the pipeline"
        print(f"Profile {args.profile!r} {rule}; nothing is trained here.")
    else:
        precision = args.precision or first.profile.precision
        # Of all runs that are compared, not of those alone that are chosen now.
        recorded = together.store.read_all({run.key for run in planned})
        check_one_arithmetic(recorded.values(), precision)
        count = together.train_anyway(
            device=args.device,
            precision=precision,
            budget=end - time.monotonic(),
            part=args.shard,
            workers=args.workers,
            max_runs=args.max_runs,
            cluster=args.ray,
            gpus=args.gpus,
            tracker=tracker(project().root / args.track) if args.track else None,
        )
        print(f"{count} new records in {together.store.folder}")
        if not args.pipeline:
            show_trained(studies, runs)
        missing = left(in_shard)
        if missing:
            print(f"{missing}\nThe same command resumes from the last checkpoints.")
        elsewhere = len(together.missing()) - len(in_shard.missing())
        if elsewhere:
            print(f"{elsewhere} more runs are those of other shards.")
    # Runs with other settings are no part of the report.
    if not args.set:
        write_outputs(studies, args.all)


def show_trained(studies: Sequence[Study], runs: Sequence[Run]) -> None:
    """Print the main table of each section, of `runs` alone."""
    for study in studies:
        part = replace(study, runs=tuple(run for run in study.runs if run in set(runs)))
        if part.runs:
            print(f"\n{main_table(part)}")


def write_outputs(studies: Sequence[Study], are_all: bool) -> None:
    """Write the files that stand for the records of each section in the pipeline, and those
    that sum up all sections."""
    records = studies[0].store
    # A verdict is corrected for all registered claims, so a page that has one reads every
    # record.
    is_registered = studies[0].profile.name in REGISTERED
    every = records.digests(sorted(records.keys())) if is_registered else {}
    # The page of a section that compares nothing shows the tasks of all sections.
    tasks = {run.task: run.spec.data for study in studies for run in study.runs}
    for study in studies:
        further: Mapping[str, str | None] = {}
        if study.declared.is_summary:
            # And the front page beside it.
            profiles = sorted(set(REGISTERED) - {study.profile.name})
            further = every | {name: digest_of_records(name) for name in profiles}
        elif study.declared.claims:
            further = every
        elif not study.declared.comparisons:
            further = tasks
        study.write_index(further)
    if are_all:
        write_headlines(studies)


def digest_of_records(profile: str) -> str:
    """The digest of all records of a profile."""
    records = store(profile)
    return digest(records.digests(sorted(records.keys())))


def show(args: argparse.Namespace) -> None:
    study = section(args.section, args.profile)
    if study.declared.is_summary:
        for kind in KINDS:
            print(claims_table(kind, args.profile))
        return
    if not study.runs:
        raise FptError(f"Section {study.name!r} has no runs, and so no table.")
    print(main_table(study))


def tasks(args: argparse.Namespace) -> None:
    import_modules()
    for name in REGISTRY:
        try:
            task = get_task(name)
        except FptError as error:  # a reader's own may need options, or data
            print(f"{name:12} {error}")
            continue
        sizes = ", ".join(
            f"{split} {size or 'endless'}" for split, size in task.sizes.items()
        )
        unit = " symbols" if task.kind == "token" else ""
        print(
            f"{name:12} {task.length} tokens of {task.dim}{unit}, reads {task.reads}, "
            f"{task.answers} x {task.classes} classes; {sizes}"
        )


def params(args: argparse.Namespace) -> None:
    architecture = choose_backbone(args.backbone)
    counts = parameter_counts(architecture, parse_task(args.task))
    trained = sum(counts.get(group, 0) for group in FROZEN)
    for name, count in {**counts, "fpt trains": trained}.items():
        print(f"{name:12} {count:>13,}")
    entry = MODELS.get(split_layers(architecture.name)[0])
    if entry and entry.note:
        print(f"{entry.name}: {entry.note}")


def replicate(args: argparse.Namespace) -> int:
    device = devices.choose(args.device)
    records = store(args.profile)
    if args.key:
        record = records.read(args.key)
        if record is None:
            raise FptError(f"There is no record {args.key} in {records.folder}.")
        check = retrained(record, records, device)
        print(check)
        return int(not check.matches)
    choice = recorded(sections_of(args.profile, args.section), args.longest)
    if not choice:
        limit = f" that took at most {args.longest:g} processor seconds"
        raise FptError(
            f"Profile {args.profile!r} has no record here"
            f"{limit if args.longest < math.inf else ''}."
        )
    seed = random.randrange(10**6) if args.seed is None else args.seed
    count = min(args.count, len(choice))
    print(f"Training again {count} of {len(choice)} records, drawn with --seed {seed}:")
    for sample in train_sample(choice, count, seed, records, device, args.workers):
        print(sample.checks[-1])
    print(sample)
    return int(sample.differing > 0)


def corpus(args: argparse.Namespace) -> None:
    for line in streams.build_english():
        print(line)


def pretrain(args: argparse.Namespace) -> None:
    if args.objective is not None:
        plan = plans.make_plan(args.objective, args.backbone or "nano", args.seed or 0)
        folder = project().backbones / plan.name
        done = ensure.pretrain(plan, folder, budget=args.budget)
        print(
            f"{plan.name} is in {folder}"
            if done
            else "the budget is over; call again to resume"
        )
        return
    if args.backbone or args.seed is not None or args.budget < math.inf:
        raise FptError(
            "Options of fpt pretrain need an OBJECTIVE, such as english; name one."
        )
    # Where the profile may not train, what can be fetched is fetched and the rest is named.
    weights = {name for study in sections_of(args.profile) for name in study.weights}
    may_train = devices.choose().type in config.load(args.profile).train_on
    print(*ensure.ensure_weights(sorted(weights), may_train), sep="\n")
