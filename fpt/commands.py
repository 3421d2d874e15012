"""The verbs of the command line; `fpt.__main__` has their options."""

import argparse
import math
import random
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec

from .auditing.command import show as show_audit
from .errors import FptError, check_names
from .names import model
from .plan import Plan, cost, in_training, left, plan
from .plan import status as counted
from .pretraining import ensure, plans, streams
from .price import corrected, memory, quoted
from .project import import_modules, project, seconds
from .reading import pages
from .reading.front import main as write_front
from .reading.made import made_here, write_outputs
from .reading.replicate import recorded, train_sample
from .spec import canonical
from .tasks import REGISTRY, get_task, parse_task, prepare, shown_tasks
from .training import device as devices


def chosen(full_plan: Plan, only: Sequence[str], seeds: Sequence[int]) -> Plan:
    """The runs whose model, arm or task is named in every `only`, and that have one of
    `seeds`, or any if there are none."""
    names = sorted(
        {name for run in full_plan.runs for name in (run.model, run.arm, run.task)}
    )
    check_names("--only", only, names)
    check_names("--seed", seeds, sorted({run.spec.seed for run in full_plan.runs}))
    selected = [
        run
        for run in full_plan.runs
        if set(only) <= {run.model, run.arm, run.task}
        and (not seeds or run.spec.seed in seeds)
    ]
    if full_plan.runs and not selected:
        names_given = ", ".join([*only, *(f"seed {seed}" for seed in seeds)])
        raise FptError(
            f"No run here is all of {names_given}: every --only narrows the choice, so "
            "give one model, one arm and one task at most."
        )
    return full_plan.only(run.key for run in selected)


def data(args: argparse.Namespace) -> None:
    tasks = [parse_task(text) for text in args.tasks]
    # An output of the pipeline, even if it is empty.
    project().prepared.mkdir(parents=True, exist_ok=True)
    if not tasks:
        # What the notebook's table of the tasks needs, if it is generated: so the notebook
        # adds nothing to the prepared data, which are an output of this stage.
        tasks = [task for task in shown_tasks().values() if task.needs is None]
        full_plan = plan(args.tier)
        if args.pipeline and not full_plan.may_train():
            if full_plan.runs:
                tier = full_plan.tier.name
                print(f"Tier {tier!r} trains nothing here: no data are fetched.")
        else:
            specs = {run.spec.data: run.spec for run in full_plan.runs}
            tasks += [get_task(spec.task, **spec.options) for spec in specs.values()]
    for task in {canonical(task.identity): task for task in tasks}.values():
        try:
            print(prepare(task))
        except FptError as error:
            if not args.pipeline:
                raise
            print(f"Not here, so its runs are left out: {error}")


def run(args: argparse.Namespace) -> None:
    if bool(args.section) == args.all:
        raise FptError(
            "fpt run takes one section, or --all; see fpt status for the sections."
        )
    if not 0 < args.gpus <= 1:
        raise FptError(f"--gpus must be above 0 and at most 1, not {args.gpus:g}.")
    start = time.monotonic()
    if len(dict(args.set)) < len(args.set):
        raise FptError("--set: a setting appears twice; give it once.")
    full_plan = plan(args.tier, args.section, **dict(args.set))
    tier = full_plan.tier
    if not full_plan.runs and args.section:
        raise FptError(
            f"Section {args.section!r} has no runs in tier {tier.name!r}; fpt status lists "
            "those that have some."
        )
    budget = args.budget
    if args.pipeline and budget == math.inf:
        budget = seconds(tier.budget or "inf")
    selection = chosen(full_plan, args.only, args.seed)
    in_shard = (
        selection.shard(args.shard, args.max_runs, args.device) if args.shard else selection
    )
    if args.dry_run:
        print(left(in_shard) or "Nothing is missing.")
        return
    if args.pipeline:  # its output, even if there is no record
        project().records(tier.name).mkdir(parents=True, exist_ok=True)
    if args.pipeline and not full_plan.may_train(args.device):
        if full_plan.runs:
            allowed = " or ".join(tier.train_on) or "no device"
            print(f"Tier {tier.name!r} trains on {allowed}; nothing is trained here.")
    else:
        train(args, full_plan, selection, in_shard, start + budget)
    selection.write_index()
    if args.pipeline:
        write_outputs(full_plan)


def train(
    args: argparse.Namespace, full_plan: Plan, selection: Plan, in_shard: Plan, end: float
) -> None:
    """Train what is missing, and print the results and what is left."""
    precision = args.precision or full_plan.tier.precision
    # Of all runs that are compared, not of those alone that are chosen now.
    devices.check_one_arithmetic(full_plan.records().values(), precision)
    before = len(selection.records())
    try:
        selection.train(
            device=args.device,
            precision=precision,
            budget=end - time.monotonic(),
            part=args.shard,
            workers=args.workers,
            max_runs=args.max_runs,
            cluster=args.ray,
            gpus=args.gpus,
        )
    except FptError as error:
        if not args.pipeline:
            raise
        # Data or weights that are missing cost their runs, not the report.
        print(f"Not trained: {error}")
    print(f"{len(selection.records()) - before} new records")
    if not args.pipeline:
        print(results_of(selection))
    missing = left(in_shard)
    if missing:
        print(f"{missing}\nThe same command resumes from the last checkpoints.")
    elsewhere = len(selection.missing()) - len(in_shard.missing())
    if elsewhere:
        print(f"{elsewhere} more runs are those of other shards.")


def results_of(full_plan: Plan) -> str:
    """A line for each model, arm and task: the mean test accuracy of its records."""
    records = full_plan.records()
    accuracies: dict[str, list[float]] = {}
    for run in full_plan.runs:
        if run.key in records and not run.search:
            of_place = accuracies.setdefault(f"{run.title}, rate {run.spec.lr:g}", [])
            of_place.append(100 * records[run.key].metrics["test_accuracy"])
    lines = [
        f"  {sum(values) / len(values):5.1f}% ({len(values)} runs)  {title}"
        for title, values in accuracies.items()
    ]
    return "\n".join(["Test accuracy:", *lines])


def show(args: argparse.Namespace) -> None:
    print(made_here(args.section))


def status(args: argparse.Namespace) -> None:
    full_plan = plan(args.tier)
    print(f"tier {full_plan.tier.name}")
    for counts in counted(full_plan):
        recorded = counts["done"] + counts["diverged"]
        line = f"  {counts['section']:24} {recorded:5d} of {counts['expected']} runs"
        if counts["diverged"]:
            line += f", {counts['diverged']} diverged"
        if counts["missing"] and counts["hours_left"] is not None:
            line += f", {cost(counts)}"
        print(line)
    begun = list(in_training(full_plan))
    if begun:
        print("in training, or stopped there:", *begun, sep="\n")
    missing = [run.spec for run in full_plan.missing()]
    if missing and "cuda" in full_plan.tier.train_on:
        print("what is missing takes at most, computed for GPUs:")
        lines = [*quoted(missing), *corrected(missing, full_plan.records().values())]
        print(*lines, memory(missing), sep="\n")


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


def render(args: argparse.Namespace) -> None:
    if find_spec("papermill") is None:
        raise FptError("papermill is not installed: pip install 'fpt[pipeline]'.")
    # jsonschema would compile a grammar of addresses, which no notebook has, for a second.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    print(pages.render(args.section))


def front(args: argparse.Namespace) -> None:
    write_front()


def audit(args: argparse.Namespace) -> None:
    show_audit(args)


def replicate(args: argparse.Namespace) -> int:
    device = devices.choose(args.device)
    choice = recorded(args.experiment, args.longest)
    if args.key:
        choice = [pair for pair in choice if pair[1].key == args.key]
        if not choice:
            raise FptError(f"No experiment has a record {args.key}.")
    if not choice:
        limit = f" that took at most {args.longest:g} processor seconds"
        raise FptError(f"There is no record{limit if args.longest < math.inf else ''}.")
    seed = random.randrange(10**6) if args.seed is None else args.seed
    count = min(args.count, len(choice))
    print(f"Training again {count} of {len(choice)} records, drawn with --seed {seed}:")
    for sample in train_sample(choice, count, seed, device, args.workers):
        print(sample.checks[-1])
    print(sample)
    return int(sample.differing > 0)


def corpus(args: argparse.Namespace) -> None:
    for line in streams.build_english():
        print(line)


def weights(args: argparse.Namespace) -> None:
    if args.models:
        rows = [model(name) for name in args.models]
        bare = [row.name for row in rows if not row.reads]
        if bare:
            raise FptError(f"{', '.join(bare)} has no pretrained weights to fetch.")
        print(*ensure.ensure_weights([row.reads for row in rows], True), sep="\n")
        return
    # Where the tier may not train, what can be fetched is fetched and the rest is named.
    full_plan = plan(args.tier)
    sentences = ensure.ensure_weights(sorted(full_plan.weights), full_plan.may_train())
    if sentences:
        print(*sentences, sep="\n")


def pretrain(args: argparse.Namespace) -> None:
    chosen_plan = plans.make_plan(args.objective, args.backbone, args.seed)
    folder = project().backbones / chosen_plan.name
    done = ensure.pretrain(chosen_plan, folder, budget=args.budget)
    print(
        f"{chosen_plan.name} is in {folder}"
        if done
        else "the budget is over; call again to resume"
    )
