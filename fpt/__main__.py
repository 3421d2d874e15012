"""The command line: `fpt VERB`, the same as `python -m fpt VERB`.

Wrong input is one sentence on standard error and exit status 2; nothing has been written then.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import config, sweep
from . import device as devices
from .arms import ARMS
from .backbones import BACKBONES, backbone
from .counts import parameter_counts
from .errors import FptError
from .paths import PREPARED
from .records import store
from .section import Section, section
from .spec import canonical
from .tasks import TASKS, get_task, shown_tasks


def sections_of(profile: str, name: str | None = None) -> list[Section]:
    names = [name] if name else list(config.load(profile).sections)
    return [section(each, profile) for each in names]


def seconds(text: str) -> float:
    """`90s`, `9m`, `2h` or a plain number of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise FptError(f"The budget {text!r} is not a time; write 90s, 9m or 2h.")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def chosen(
    runs: Sequence[config.Run], only: Sequence[str], seeds: Sequence[int]
) -> list[config.Run]:
    """The runs whose arm or task is named in every `only` given, `--only fpt --only mnist`, and
    that have one of `seeds`, or any where none is given."""
    known = {run.arm for run in runs} | {run.task for run in runs}
    for word in only:
        if word not in known:
            names = ", ".join(sorted(known))
            raise FptError(f"--only {word!r} names no arm or task here; choose from {names}.")
    there = {run.spec.seed for run in runs}
    for seed in seeds:
        if seed not in there:
            names = ", ".join(map(str, sorted(there)))
            raise FptError(f"--seed {seed} is not a seed of these runs; choose from {names}.")
    named = [run for run in runs if all(word in (run.arm, run.task) for word in only)]
    return [run for run in named if not seeds or run.spec.seed in seeds]


def cmd_data(args: argparse.Namespace) -> None:
    """Prepare the data that a profile's sections need, or the tasks named."""
    from .prepare import parse_task, prepare

    wanted: list[Any] = [parse_task(text) for text in args.tasks]
    loaded = config.load(args.profile)
    PREPARED.mkdir(parents=True, exist_ok=True)
    if not wanted:
        # What the pictures of the tasks show, as far as it is generated; so the notebook adds
        # nothing to the prepared data, which are an output of this stage.
        wanted = [task for task in shown_tasks().values() if "revision" not in task.source()]
        if args.pipeline and devices.choose().type not in loaded.train_on:
            print(f"Profile {args.profile!r} trains nothing here, so its data are not fetched.")
        else:
            specs = [run.spec for part in sections_of(args.profile) for run in part.runs]
            pairs = {spec.data: (spec.task, spec.options) for spec in specs}
            wanted += [get_task(name, **options) for name, options in pairs.values()]
    for done in prepare({canonical(task.identity): task for task in wanted}.values()):
        note = f" ({done.note})" if done.note else ""
        print(f"{done.task}: {done.data}, {done.digest[:12]}{note}")


def cmd_run(args: argparse.Namespace) -> None:
    """Train what is missing of a section (or of all with --all) and write the index files."""
    if bool(args.section) == args.all:
        raise FptError("fpt run takes one section, or --all; see fpt status for the sections.")
    if args.workers is not None and args.workers < 1:
        raise FptError(f"--workers must be at least 1, not {args.workers}.")
    parts = sections_of(args.profile, args.section)
    runs = chosen([run for part in parts for run in part.runs], args.only, args.seed)
    budget = seconds(args.budget) if args.budget else float("inf")
    if args.pipeline and not parts[0].may_train(args.device):
        allowed = " or ".join(parts[0].profile.train_on)
        print(f"Profile {args.profile!r} trains on {allowed} only; nothing is trained here.")
    else:
        made = sweep.run(
            [run.spec for run in runs],
            store(args.profile),
            keep={run.spec.key for run in runs if run.keep},
            device=args.device,
            budget=budget,
            part=args.shard,
            workers=args.workers,
        )
        print(f"{made} new records in {store(args.profile).folder}")
    for part in parts:
        part.write_index()


def cmd_merge(args: argparse.Namespace) -> None:
    """Take over records that were made elsewhere."""
    taken, present = store(args.profile).merge(Path(args.folder))
    print(f"{taken} records taken, {present} were here already")


def cmd_status(args: argparse.Namespace) -> None:
    """Expected, present and missing runs of every section, and the estimated cost of the rest."""
    from dataclasses import asdict

    from .coverage import by_row, coverage
    from .paper import missing
    from .status import status

    sections = sections_of(args.profile)
    rows, cells = status(sections), coverage(sections)
    if args.json:
        print(json.dumps({"sections": rows, "cells": [asdict(cell) for cell in cells]}, indent=1))
        return
    print(f"profile {args.profile}")
    for row in rows:
        line = f"  {row['section']:24} {row['present']:5d} of {row['expected']} runs"
        if row["missing"] and row["hours_left"] is None:
            line += ", cost unknown: no run on this backbone was measured yet"
        elif row["missing"]:
            line += f", {row['hours_left']:.1f} h left at the rate measured on {row['basis']}"
        print(line)
    print("cells of the paper's tables: runs present/expected")
    for (table, name), found in by_row(cells).items():
        print(f"  {table:4} {name:32} " + ", ".join(f"{it.column} {it.text}" for it in found))
    for table, why in missing().items():
        print(f"  {table:4} no printed number: {why}")


def cmd_bench(args: argparse.Namespace) -> None:
    """Measure in a minute how fast this machine trains packs, against a plain loop."""
    from . import bench

    for found in bench.run(devices.choose().type, args.rounds, args.seconds):
        print(*bench.lines(found), sep="\n", flush=True)


def cmd_tasks(args: argparse.Namespace) -> None:
    """The tasks: token form, positions read, classes, examples, floors."""
    for name in TASKS:
        task = get_task(name)
        sizes = ", ".join(f"{k} {v or 'endless'}" for k, v in task.sizes.items())
        form = f"{task.length} tokens of {task.dim}" + (" symbols" if task.kind == "token" else "")
        out = f"reads {task.reads}, {task.answers} x {task.classes} classes"
        print(f"{name:12} {form}, {out}; {sizes}")


def cmd_params(args: argparse.Namespace) -> None:
    """Trainable groups of a backbone on a task, with their counts."""
    spec, task = backbone(args.backbone), get_task(args.task)
    counts = parameter_counts(spec, task)
    for name, count in counts.items():
        print(f"{name:12} {count:>13,}")
    arms = {arm.name: arm for arm in ARMS.values() if arm.body == "transformer"}
    frozen = arms["fpt"].trainable or ()
    print(f"{'fpt trains':12} {sum(counts.get(group, 0) for group in frozen):>13,}")


def cmd_render(args: argparse.Namespace) -> None:
    """Execute a section's notebook and write it, its page, tables and figures to reports/."""
    from .report import render

    render(args.section, args.profile)


def cmd_index(args: argparse.Namespace) -> None:
    """Write the page that links a profile's notebooks, tables and figures."""
    from .report import index

    index(args.profile)


def cmd_sheet(args: argparse.Namespace) -> None:
    """Lay all figures of a profile on contact sheets, in colour and in grey."""
    from .sheet import contact_sheet

    for path in contact_sheet(args.profile):
        print(path)


def cmd_pretrain(args: argparse.Namespace) -> None:
    """Pretrain a backbone on a corpus or task; without OBJECTIVE, what the profile reads."""
    from .pretrain.provide import make_plan, pretrain, provide
    from .weights import local_folder

    if args.objective is None:
        loaded = config.load(args.profile)
        runs = [run for part in sections_of(args.profile) for run in part.runs]
        read = sorted({run.spec.weights for run in runs if run.spec.weights is not None})
        print(*provide(read, devices.choose().type in loaded.train_on), sep="\n")
        return
    plan = make_plan(args.objective, args.backbone, args.seed, args.tokens)
    budget = seconds(args.budget) if args.budget else float("inf")
    folder = local_folder() / plan.name
    done = pretrain(plan, folder, budget=budget, compiled=args.compile)
    print(f"{plan.name} is in {folder}" if done else "the budget is used up; call again to go on")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    top = Parser("fpt", description=__doc__.splitlines()[0])
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, function: Any, profile: bool = True) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=function.__doc__, description=function.__doc__)
        sub.set_defaults(function=function)
        if profile:
            names = ", ".join(config.PROFILES)
            sub.add_argument("--profile", help=f"one of {names}; by default params.yaml's")
        return sub

    data = verb("data", cmd_data)
    data.add_argument("tasks", nargs="*", metavar="TASK", help="mnist or listops:max_length=64")
    data.add_argument("--pipeline", action="store_true", help="obey the profile's train_on")
    run = verb("run", cmd_run)
    run.add_argument("section", nargs="?", metavar="SECTION")
    run.add_argument("--all", action="store_true", help="every section of the profile")
    run.add_argument("--seed", action="append", type=int, default=[], help="repeatable")
    run.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="an arm or a task; repeatable"
    )
    run.add_argument("--budget", metavar="TIME", help="such as 9m; a later call goes on")
    run.add_argument("--shard", metavar="I/N", help="this part of the packs only")
    run.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    run.add_argument("--workers", type=int, help="packs side by side; default one per CPU core")
    run.add_argument("--pipeline", action="store_true", help="obey the profile's train_on")
    merge = verb("merge", cmd_merge)
    merge.add_argument("folder", metavar="DIR")
    status = verb("status", cmd_status)
    status.add_argument("--json", action="store_true")
    bench = verb("bench", cmd_bench, profile=False)
    bench.add_argument("--rounds", type=int, default=8, help="medians are over these")
    bench.add_argument("--seconds", type=float, default=0.3, help="of each part in a round")
    verb("tasks", cmd_tasks, profile=False)
    params = verb("params", cmd_params, profile=False)
    params.add_argument("--backbone", default="gpt2", help=f"one of {', '.join(BACKBONES)}")
    params.add_argument("--task", default="cifar10", help=f"one of {', '.join(TASKS)}")
    verb("render", cmd_render).add_argument("section", metavar="SECTION")
    verb("index", cmd_index)
    verb("sheet", cmd_sheet)
    pretrain = verb("pretrain", cmd_pretrain)
    pretrain.add_argument(
        "objective", nargs="?", metavar="OBJECTIVE", help="such as english, bit-memory or shapes"
    )
    pretrain.add_argument("--backbone", default="nano")
    pretrain.add_argument("--tokens", type=int, help="by default those of the shipped weights")
    pretrain.add_argument("--seed", type=int, default=0)
    pretrain.add_argument("--budget", metavar="TIME")
    pretrain.add_argument("--compile", action="store_true", help="needs a C++ compiler")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        if "profile" in args:
            args.profile = args.profile or config.current_profile()
            config.check_names("profile", [args.profile], config.PROFILES)
        args.function(args)
    except FptError as error:
        print(f"fpt: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fpt: interrupted; what was finished is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
