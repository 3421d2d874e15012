"""What the verbs of the command line do, but for those that need no model (`fpt.__main__`)."""

import argparse
import time
from collections.abc import Sequence
from typing import Any

from . import config
from .analysis import grid
from .backbones import backbone
from .files import PREPARED, FptError
from .params import instead
from .records import store
from .sections.arms import ARMS
from .sections.section import Section, planned, seconds
from .spec import canonical
from .tasks import TASKS, get_task, shown_tasks
from .training import device as devices
from .training import sweep
from .training.flops import parameter_counts

SMALLEST_PART = 0.0001  # of a GPU, that Ray knows


def planned_of(profile: str, name: str | None = None) -> list[Section]:
    names = [name] if name else list(config.load(profile).sections)
    return [planned(each, profile) for each in names]


def sections_of(profile: str, name: str | None = None) -> list[Section]:
    return [part.reached() for part in planned_of(profile, name)]


def chosen(
    runs: Sequence[config.Run], only: Sequence[str], seeds: Sequence[int]
) -> list[config.Run]:
    """The runs whose arm or task is named in every `only` given, `--only fpt --only mnist`, and
    that have one of `seeds`, or any where none is given."""
    known = {run.arm for run in runs} | {run.task for run in runs}
    for word in only:
        if word not in known:
            raise FptError(
                f"--only {word!r} names no arm or task here{instead(word, sorted(known))}."
            )
    there = {run.spec.seed for run in runs}
    for seed in seeds:
        if seed not in there:
            names = ", ".join(map(str, sorted(there)))
            raise FptError(f"--seed {seed} is not a seed of these runs; choose from {names}.")
    named = [run for run in runs if all(word in (run.arm, run.task) for word in only)]
    found = [run for run in named if not seeds or run.spec.seed in seeds]
    if runs and not found:
        raise FptError(
            f"No run here is all of {', '.join([*only, *map('seed {}'.format, seeds)])}: every "
            "--only narrows the choice, so give one arm and one task at most."
        )
    return found


def data(args: argparse.Namespace) -> None:
    """Prepare the data that a profile's sections need, or the tasks named."""
    from .tasks.manifest import parse_task, prepare

    wanted: list[Any] = [parse_task(text) for text in args.tasks]
    loaded = config.load(args.profile)
    try:
        PREPARED.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FptError(f"Cannot make the folder {PREPARED}: {error.strerror}.") from error
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
    """Train what is missing of a section (or of all with --all, and then teach too) and write the
    index files."""
    if bool(args.section) == args.all:
        raise FptError("fpt run takes one section, or --all; see fpt status for the sections.")
    if args.workers is not None and args.workers < 1:
        raise FptError(f"--workers must be at least 1, not {args.workers}.")
    cluster = None
    if args.executor == "ray":
        from .training.ray_executor import Cluster

        gpus = 1.0 if args.gpus is None else args.gpus
        if not SMALLEST_PART <= gpus <= 1:
            raise FptError(f"--gpus must be from {SMALLEST_PART} to 1, not {gpus:g}.")
        if args.address is not None and args.workers is not None:
            raise FptError(
                "--workers is for a cluster on this machine alone, and --address names another; "
                "give one of them."
            )
        cluster = Cluster(args.address, args.workers, gpus)
    elif args.address is not None:
        raise FptError("--address is the address of a Ray cluster; give --executor ray with it.")
    elif args.gpus is not None:
        raise FptError("--gpus is for packs on a Ray cluster; give --executor ray with it.")
    whole = planned_of(args.profile, args.section)
    parts = [part.reached() for part in whole]
    runs = chosen([run for part in parts for run in part.runs], args.only, args.seed)
    end = time.monotonic() + (float("inf") if args.budget is None else seconds(args.budget))
    if args.pipeline and not parts[0].may_train(args.device):
        allowed = " or ".join(parts[0].profile.train_on)
        print(f"Profile {args.profile!r} trains on {allowed} only; nothing is trained here.")
    else:
        made, tried = 0, set[str]()
        while fresh := [
            some for some in grid.sweeps(runs) if any(run.key not in tried for run in some)
        ]:
            mine = fresh[0]
            made += sweep.run(
                [run.spec for run in mine],
                store(args.profile),
                keep={run.key for run in mine if run.keep},
                device=args.device,
                budget=end - time.monotonic(),
                part=args.shard,
                workers=args.workers,
                cluster=cluster,
            )
            tried |= {run.key for run in mine}
            parts = [part.reached() for part in whole]
            runs = chosen([run for part in parts for run in part.runs], args.only, args.seed)
        print(f"{made} new records in {store(args.profile).folder}")
        if args.all and len(runs) == sum(len(part.runs) for part in parts) and not args.shard:
            _teach(parts, end)
            return
    for part in parts:
        part.write_index()


def teach(args: argparse.Namespace) -> None:
    """Teach bodies English where a section asks for it, and write the index files."""
    parts = sections_of(args.profile)
    budget = float("inf") if args.budget is None else seconds(args.budget)
    if not _teach(parts, time.monotonic() + budget):
        print(f"Profile {args.profile!r} teaches no body English.")


def _teach(parts: Sequence[Section], end: float) -> bool:
    """Give the missing lessons of the sections until `time.monotonic()` passes `end`, and write the
    index files, also where a lesson fails; whether any section has lessons."""
    from .sections import lessons

    wanted = {part.name: lessons.planned(part.profile, part.name) for part in parts}
    try:
        for part in filter(lambda part: wanted[part.name], parts):
            made = lessons.teach(part.profile, wanted[part.name], end - time.monotonic())
            left = len(lessons.missing(part.profile, part.name))
            said = f"{made} of {len(wanted[part.name])} lessons given now, {left} missing"
            print(f"{part.name}: {said}")
    finally:
        for part in parts:
            part.write_index()
    return any(wanted.values())


def bench(args: argparse.Namespace) -> None:
    """Measure in a minute how fast this machine trains packs, against a plain loop."""
    from . import bench

    if args.rounds < 1 or not 0 < args.seconds < float("inf"):
        raise FptError(
            f"--rounds must be at least 1 and --seconds above 0, not {args.rounds} and "
            f"{args.seconds:g}."
        )
    for found in bench.run(devices.choose().type, args.rounds, args.seconds):
        print(*bench.lines(found), sep="\n", flush=True)


def tasks(args: argparse.Namespace) -> None:
    """The tasks: token form, positions read, classes, examples, floors."""
    for name in TASKS:
        task = get_task(name)
        sizes = ", ".join(f"{k} {v or 'endless'}" for k, v in task.sizes.items())
        form = f"{task.length} tokens of {task.dim}" + (" symbols" if task.kind == "token" else "")
        out = f"reads {task.reads}, {task.answers} x {task.classes} classes"
        print(f"{name:12} {form}, {out}; {sizes}")


def params(args: argparse.Namespace) -> None:
    """Trainable groups of a backbone on a task, with their counts."""
    from .tasks.manifest import parse_task

    spec, task = backbone(args.backbone), parse_task(args.task)
    counts = parameter_counts(spec, task)
    for name, count in counts.items():
        print(f"{name:12} {count:>13,}")
    arms = {arm.name: arm for arm in ARMS.values() if arm.body == "transformer"}
    frozen = arms["fpt"].trainable or ()
    print(f"{'fpt trains':12} {sum(counts.get(group, 0) for group in frozen):>13,}")


def verify(args: argparse.Namespace) -> int:
    """Recompute random cells of a report and say whether they match; status 1 if one does not, or
    if what any printed cell rests on is not here."""
    from . import verify as again
    from .analysis.rates import tuned

    if args.cells < 1:
        raise FptError(f"--cells must be at least 1, not {args.cells}.")
    device = devices.choose(args.device)
    checks = []
    for part in sections_of(args.profile, args.section):
        shown = tuned(part)  # where there are several rates, tables show the runs at the chosen one
        checks += again.verify(shown, args.cells, args.seed, device, args.retrain)
    if not checks:
        raise FptError(
            f"The report of profile {args.profile!r} prints no number here; render its section "
            "first (fpt render)."
        )
    print(*again.report(checks), sep="\n")
    return int(any(check.fails for check in checks))


def corpus(args: argparse.Namespace) -> None:
    """Write a text corpus from files of a data set on the hub."""
    from .pretraining.from_hub import take

    print(take(args.name, args.repo, args.revision, args.files, args.column))


def pretrain(args: argparse.Namespace) -> None:
    """Pretrain a backbone on a corpus or task; without OBJECTIVE, what the profile reads."""
    from .backbones.weights import local_folder
    from .pretraining.provide import make_plan, pretrain, provide
    from .sections.lessons import planned

    if args.objective is None:
        options = {name: getattr(args, name) for name in ("backbone", "tokens", "seed", "budget")}
        given = [f"--{name}" for name, value in options.items() if value is not None]
        given += ["--compile"] if args.compile else []
        if given:
            raise FptError(
                f"{', '.join(given)}: of which body? Name what it is pretrained on, such as "
                "`fpt pretrain english`; without OBJECTIVE the bodies that the profile reads are "
                "provided as they are named there."
            )
        loaded = config.load(args.profile)
        parts = sections_of(args.profile)
        read = {run.spec.weights for part in parts for run in part.runs}
        read |= {it.plan.weights for part in parts for it in planned(loaded, part.name)}
        here = devices.choose().type in loaded.train_on
        print(*provide(sorted(filter(None, read)), here), sep="\n")
        return
    plan = make_plan(args.objective, args.backbone or "nano", args.seed or 0, args.tokens)
    budget = float("inf") if args.budget is None else seconds(args.budget)
    folder = local_folder() / plan.name
    done = pretrain(plan, folder, budget=budget, compiled=args.compile)
    print(f"{plan.name} is in {folder}" if done else "the budget is used up; call again to go on")
