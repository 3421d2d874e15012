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
from pathlib import Path
from typing import Any, NoReturn

from .errors import FptError
from .project import TIERS, VERSION, project, seconds


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
    "help": "as dvc repro calls it: only on devices that the tier's train_on lists",
}
DEVICE: dict[str, Any] = {
    "default": "auto",
    "choices": ("auto", "cpu", "cuda"),
    "help": "by default auto: a GPU if there is one",
}
MANY: dict[str, Any] = {"action": "append", "default": []}
BUDGET: dict[str, Any] = {
    "type": seconds,
    "default": math.inf,
    "metavar": "TIME",
    "help": "stop after this time, such as 9m; the same command resumes later",
}


def parser() -> argparse.ArgumentParser:
    top = Parser(
        "fpt",
        description="Pretrained transformers as universal computation engines.",
        epilog="fpt VERB --help lists the options of a verb.",
    )
    top.add_argument("--version", action="version", version=f"fpt {VERSION}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, more: str = "", tier: bool = True) -> Any:
        """A function that adds arguments to a new verb."""
        sub = verbs.add_parser(name, help=text, description=f"{text} {more}")
        if tier:
            names = ", ".join(TIERS)
            sub.add_argument("--tier", help=f"{names}; by default that of params.yaml")
        return sub.add_argument

    data = verb("data", "Prepare the data of some tasks, by default of a whole tier.")
    data("tasks", nargs="*", metavar="TASK", help="such as mnist or listops:max_length=64")
    data("--pipeline", **PIPELINE)

    run = verb("run", "Train the runs that have no record yet, and print their results.")
    run("section", nargs="?", metavar="SECTION", help="such as transfer; see fpt status")
    run("--all", action="store_true", help="every section of the tier")
    run("--seed", **MANY, type=int, help="only this seed; repeatable")
    only = "only this arm or task; give one of each at most"
    run("--only", **MANY, metavar="NAME", help=only)
    changed = "change a setting of all these runs, such as lr=0.01; repeatable"
    run("--set", **MANY, type=setting, metavar="NAME=VALUE", help=changed)
    run("--dry-run", action="store_true", help="only list the missing runs")
    run("--budget", **BUDGET)
    run("--shard", metavar="I/N", help="part I of N parts, for several machines")
    run("--device", **DEVICE)
    precision = "by default the tier's; auto is fp32 on a CPU and bf16 on a GPU"
    run("--precision", choices=("auto", "fp32", "bf16"), help=precision)
    run("--workers", type=at_least_one, help="packs side by side; by default one per core")
    run("--max-runs", type=at_least_one, default=8, help="of one pack; by default 8")
    ray = (
        "train on the Ray cluster at ADDRESS, such as auto or 10.0.0.1:6379; "
        "without ADDRESS, on one that it starts here"
    )
    run("--ray", nargs="?", const="local", metavar="ADDRESS", help=ray)
    run("--gpus", type=float, default=1.0, help="for each pack, with --ray; by default 1")
    run("--pipeline", **PIPELINE)

    text = "Print what was trained here, beside the paper's numbers."
    show = verb("show", text, tier=False)
    show("section", nargs="?", metavar="SECTION", help="by default all")
    text = "Count finished and missing runs, and estimate what the missing ones cost."
    verb("status", text)

    text = "List the tasks: tokens, positions that are read, classes, examples."
    verb("tasks", text, tier=False)
    text = "Execute a section's notebook, and write its page."
    render = verb("render", text, tier=False)
    render("section", metavar="SECTION", help="such as transfer")
    verb("front", "Write reports/README.md, and the README's table.", tier=False)

    replicate = verb(
        "replicate",
        "Train random records again, and compare the accuracies.",
        "Exit status 1 if one differs, 2 if none can be trained here.",
        tier=False,
    )
    replicate("experiment", nargs="?", metavar="EXPERIMENT", help="by default all")
    replicate("--count", type=at_least_one, default=5, help="records; by default 5")
    replicate(
        "--seed", type=int, help="of the draw; by default a new one, which is printed"
    )
    limit = "draw only records that took at most this processor time, such as 90s"
    replicate("--longest", type=seconds, default=math.inf, metavar="TIME", help=limit)
    replicate("--workers", type=at_least_one, default=1, help="side by side; by default 1")
    replicate("--key", help="this record alone")
    replicate("--device", **DEVICE)

    audit = verb(
        "audit",
        "Find out whether pretraining helps on your data, and which part of it.",
        "If it was stopped, the same call resumes it; if not, it reads its results.",
        tier=False,
    )
    audit("file", metavar="FILE", help="an .npz with X, y and maybe groups, or a CSV")
    target = "of a CSV, to be predicted; by default target"
    audit("--target", default="target", metavar="COLUMN", help=target)
    audit("--backbone", default="nano", help="with pretrained weights; by default nano")
    audit("--minutes", type=float, default=30.0, help="a deadline; by default 30")
    audit("--steps", type=int, default=500, help="of each run; by default 500")
    audit("--draws", type=int, default=5, help="seeds of each arm; by default 5")
    kinds = ("auto", "classification", "regression")
    audit("--task", default="auto", choices=kinds, help="by default as y suggests")
    audit("--numbers", action="store_true", help="whole numbers in X are not symbols")
    audit("--device", **DEVICE)
    audit("--html", metavar="PAGE", help="write a page of the results")
    audit("--json", metavar="FILE", help="write all numbers")

    text = "Fetch the weights of some models, by default of a whole tier."
    more = "What cannot be fetched is pretrained, for a tier only where it trains."
    weights = verb("weights", text, more)
    weights("models", nargs="*", metavar="MODEL", help="such as GPT-2")

    text = "Download books and build a corpus for pretraining."
    corpus = verb("corpus", text, tier=False)
    corpus("name", choices=["english"], metavar="NAME", help="english")

    pretrain = verb("pretrain", "Pretrain a backbone.", tier=False)
    pretrain("objective", metavar="OBJECTIVE", help="english, nesting@5M, images ...")
    pretrain("--backbone", default="nano", help="by default nano")
    pretrain("--seed", type=int, default=0, help="by default 0")
    pretrain("--budget", **BUDGET)
    return top


def check_checkout(here: Path, root: Path) -> None:
    """FptError in a checkout that is not the one whose fpt this is."""
    if not here.samefile(root):
        raise FptError(
            f"This is the checkout {here}, and this fpt works on {root}: call its own fpt, "
            "or set FPT_ROOT."
        )


def dispatch(args: argparse.Namespace) -> int:
    """Carry out the verb; the exit status."""
    # First, since torch cannot be loaded in a directory that is gone.
    root = project().root
    is_checkout = os.path.exists("params.yaml") and os.path.exists("fpt/__main__.py")
    if is_checkout and not os.environ.get("FPT_ROOT"):
        check_checkout(Path.cwd(), root)
    # Here and not above: torch takes seconds, and a help text needs none.
    verb = getattr(import_module("fpt.commands"), args.verb)
    return verb(args) or 0


def terminate(number: int, frame: object) -> NoReturn:
    """Treat SIGTERM, which a machine that is taken away sends, like Ctrl-C."""
    raise KeyboardInterrupt(number)


def discard_stdout() -> None:
    """Discard what is left to print, which would fail once more at the end."""
    # Python has no stdout if it was started with a closed one.
    if sys.stdout is not None:
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
        return 128 + 13  # SIGPIPE, which Windows does not have
    except (OSError, MemoryError) as error:
        # The machine lacks disk or memory, which is nobody's mistake and needs no
        # traceback.
        discard_stdout()
        reason = " ".join(str(error).split()) or "it is out of memory"
        print(f"fpt: The machine cannot continue ({reason}).", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print(
            "fpt: interrupted; records are kept, and of what was in training all but its "
            "last minute: the same command goes on",
            file=sys.stderr,
        )
        return 128 + (error.args or (signal.SIGINT,))[0]
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
