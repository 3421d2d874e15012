"""The command line: `fpt VERB`, the same as `python -m fpt VERB`.

Wrong input is one sentence on standard error and exit status 2; nothing has been written
then. Torch is loaded only by the verbs that need it (`fpt.commands`).
"""

import argparse
import io
import json
import math
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from .errors import FptError, check_names
from .project import PROFILES, current_profile
from .records import ARCHIVE, store


def one_line(message: Warning | str, *place: object, **line: object) -> str:
    """A warning for the command line, without the place in the code that gave it."""
    return f"fpt: {' '.join(str(message).split())}\n"


# Here and not in `main`: processes that train beside this one import this module too.
warnings.formatwarning = one_line


def at_least_one(text: str) -> int:
    """The type of an option that counts something."""
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least 1, not {text}"
        )
    return int(text)


def seconds(text: str) -> float:
    """`90s`, `9m`, `2h` or a plain number of seconds."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text)
    if match is None:
        raise FptError(f"{text!r} is not a time; write 90s, 9m or 2h.")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def setting(text: str) -> tuple[str, Any]:
    """`lr=0.01`, its value in JSON."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        raise FptError(
            f"--set takes a number or true, as in lr=0.01, not {text!r}."
        ) from None


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


# Options that several verbs have, or that may be repeated.
PIPELINE: dict[str, Any] = {
    "action": "store_true",
    "help": "only on the profile's train_on",
}
DEVICE: dict[str, Any] = {"default": "auto", "choices": ("auto", "cpu", "cuda")}
MANY: dict[str, Any] = {"action": "append", "default": []}
BUDGET: dict[str, Any] = {
    "type": seconds,
    "default": math.inf,
    "metavar": "TIME",
    "help": "such as 9m; a later call goes on",
}


def parser() -> argparse.ArgumentParser:
    top = Parser(
        "fpt", description="Pretrained transformers as universal computation engines."
    )
    top.add_argument("--version", action="version", version=f"fpt {version('fpt')}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, more: str = "", profile: bool = True) -> Any:
        """A function that adds arguments to a new verb."""
        sub = verbs.add_parser(name, help=text, description=f"{text} {more}")
        if profile:
            names = ", ".join(PROFILES)
            sub.add_argument("--profile", help=f"one of {names}; by default params.yaml's")
        return sub.add_argument

    data = verb(
        "data", "Prepare the data that a profile's sections need, or the tasks named."
    )
    data("tasks", nargs="*", metavar="TASK", help="mnist or listops:max_length=64")
    data("--pipeline", **PIPELINE)

    run = verb(
        "run", "Train what is missing of a section, or of all, and write index files."
    )
    run("section", nargs="?", metavar="SECTION")
    run("--all", action="store_true", help="every section of the profile")
    run("--seed", **MANY, type=int, help="repeatable")
    run("--only", **MANY, metavar="NAME", help="an arm or a task; repeatable")
    changed = "such as lr=0.01; such runs are no part of the report; repeatable"
    run("--set", **MANY, type=setting, metavar="NAME=VALUE", help=changed)
    run("--dry-run", action="store_true", help="only list what is missing")
    run("--track", metavar="TRACKER", help="tensorboard[:FOLDER]")
    run("--budget", **BUDGET)
    run("--shard", metavar="I/N", help="this part of the packs only")
    run("--device", **DEVICE)
    once = (
        "of all runs of an experiment; by default the profile's, else fp32 on a CPU, "
        "bf16 on CUDA"
    )
    run("--precision", choices=("auto", "fp32", "bf16"), help=once)
    run("--workers", type=at_least_one, help="packs side by side; one per core")
    run("--max-runs", type=at_least_one, default=8, help="of one pack")
    ray = (
        "on the Ray cluster at ADDRESS (auto, 10.0.0.1:6379), "
        "by default one of this machine"
    )
    run("--ray", nargs="?", const="local", metavar="ADDRESS", help=ray)
    run("--gpus", type=float, default=1.0, help="part of a GPU per pack, with --ray")
    run("--pipeline", **PIPELINE)

    verb("show", "Print a section's main table; of `verdict`, the registered claims.")(
        "section", metavar="SECTION"
    )
    text = "Judge one registered claim anew from the records of its runs."
    decide = verb("decide", text, profile=False)
    decide("claim", metavar="CLAIM", help="as fpt show verdict names it")
    verb("merge", "Take over records that were made elsewhere.")("folder", metavar="DIR")
    verb(
        "pack",
        "Move the records of a profile into one compressed file.",
        "Every command reads records.jsonl.xz like the files. Call it between two runs or "
        "during one, again after more runs, and again if it was stopped: no record is "
        "lost.",
    )
    status = verb(
        "status", "Count done and missing runs, and estimate the cost of the rest."
    )
    status("--json", action="store_true")

    verb(
        "tasks", "List the tasks: tokens, positions read, classes, examples.", profile=False
    )
    params = verb(
        "params", "Count the trainable groups of a backbone on a task.", profile=False
    )
    params("--backbone", default="gpt2", help="such as gpt2, nano or lstm-nano")
    params("--task", default="cifar10", help="such as mnist or mnist:size=28")

    render = verb(
        "render", "Execute a section's notebook; write it, its tables and figures."
    )
    render("section", metavar="SECTION")
    verb("attention", "Write a page on which attention maps can be looked at.")
    verb("index", "Write the page that links a profile's notebooks, tables and figures.")

    replicate = verb(
        "replicate",
        "Train random records again.",
        "Exit status 1 if one differs from its record.",
    )
    replicate("section", nargs="?", metavar="SECTION", help="by default all")
    replicate("--count", type=at_least_one, default=5, help="records; by default 5")
    replicate("--seed", type=int, help="of the choice; by default another each time")
    limit = "only records that took no more processor time, such as 90s"
    replicate("--longest", type=seconds, default=math.inf, metavar="TIME", help=limit)
    beside = "runs side by side; by default 1"
    replicate("--workers", type=at_least_one, default=1, help=beside)
    replicate("--key", help="this record alone, as fpt decide names it")
    replicate("--device", **DEVICE)

    audit = verb(
        "audit",
        "Find out whether pretraining helps on your data, and what of it.",
        "A call that was stopped goes on, and the same call again reads its results.",
        profile=False,
    )
    audit("file", metavar="FILE", help="X, y and maybe groups in an .npz, or a CSV")
    audit(
        "--target", default="target", metavar="COLUMN", help="of a CSV: what is predicted"
    )
    audit("--backbone", default="nano", help="with pretrained weights")
    audit("--minutes", type=float, default=30.0, help="that it may take")
    audit("--steps", type=int, help="of a run; by default as many as the time allows")
    audit(
        "--draws", type=int, help="of each control, 3 to 6; by default as many as it allows"
    )
    audit("--task", default="auto", choices=("auto", "classification", "regression"))
    audit("--device", **DEVICE)
    audit("--html", metavar="PAGE", help="write the page of the audit")
    audit("--json", metavar="FILE", help="write all its numbers")

    corpus = verb(
        "corpus", "Build a corpus for pretraining from public sources.", profile=False
    )
    corpus("name", choices=["english"], metavar="NAME", help="english")

    pretrain = verb(
        "pretrain", "Pretrain a backbone; without OBJECTIVE, what the profile reads."
    )
    objectives = "such as english, nesting@5M, english+nesting, images or bit-memory"
    pretrain("objective", nargs="?", metavar="OBJECTIVE", help=objectives)
    pretrain("--backbone", help="by default nano")
    pretrain("--seed", type=int, help="by default 0")
    pretrain("--budget", **BUDGET)
    return top


def dispatch(args: argparse.Namespace) -> int:
    """Carry out the verb; the exit status."""
    if "profile" in args:
        args.profile = current_profile() if args.profile is None else args.profile
        check_names("profile", [args.profile], PROFILES)
    # Modules are imported by the verb that needs them: torch takes seconds.
    match args.verb:
        case "render":
            # jsonschema would compile a grammar of addresses, which no notebook has, for a
            # second.
            sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
            import_module("fpt.report.render").render(args.section, args.profile)
        case "attention":
            print(import_module("fpt.report.attention_page").write(args.profile))
        case "index":
            import_module("fpt.report.index").index(args.profile)
        case "decide":
            import_module("fpt.claims.decide").show(args.claim)
        case "status":
            import_module("fpt.analysis.status").show(args.profile, args.json)
        case "pack":
            packed, count = store(args.profile).pack()
            print(f"{packed} files packed; {ARCHIVE} holds {count} records")
        case "merge":
            taken, present = store(args.profile).merge(Path(args.folder))
            print(f"{taken} files taken, {present} were here already")
        case _:
            return getattr(import_module("fpt.commands"), args.verb)(args) or 0
    return 0


def terminate(number: int, frame: object) -> NoReturn:
    """Treat SIGTERM, which a machine that is taken away sends, like Ctrl-C."""
    raise KeyboardInterrupt(number)


def discard_stdout() -> None:
    """Discard what is left to print, which would fail once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    before = signal.signal(signal.SIGTERM, terminate)
    # A terminal that has no sign for ± or a name shows a question mark in its place.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        code = dispatch(parser().parse_args(argv))
        # Here, where an error of the output can still be told; nothing if stdout is closed.
        print(end="", flush=True)
        return code
    except FptError as error:
        print(f"fpt: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # As in `fpt status | head`.
        discard_stdout()
        return 128 + signal.SIGPIPE
    except (OSError, MemoryError) as error:
        # The machine lacks disk or memory, which is nobody's mistake and needs no
        # traceback.
        discard_stdout()
        reason = " ".join(str(error).split()) or "it is out of memory"
        print(f"fpt: The machine cannot go on ({reason}).", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print("fpt: interrupted; what was finished is kept", file=sys.stderr)
        return 128 + (error.args or (signal.SIGINT,))[0]
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
