"""The command line: `fpt VERB`, the same as `python -m fpt VERB`.

Wrong input is one sentence on standard error and exit status 2; nothing has been written then.
Torch is loaded only by the verbs that need it (`fpt.commands`).
"""

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from .files import PROFILES, FptError, check_names, current_profile
from .records import store


def one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """A warning as the reader of a command line needs it: not where in the code it was given."""
    return f"fpt: {' '.join(str(message).split())}\n"


# Here and not in `main`: processes that train beside this one import this module too.
warnings.formatwarning = one_line


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    top = Parser("fpt", description="Pretrained transformers as universal computation engines.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    devices, pipeline = ("auto", "cpu", "cuda"), "only on the profile's train_on"
    budget = "such as 9m; a later call goes on"

    def verb(name: str, text: str, profile: bool = True) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        if profile:
            names = ", ".join(PROFILES)
            sub.add_argument("--profile", help=f"one of {names}; by default params.yaml's")
        return sub

    data = verb("data", "Prepare the data that a profile's sections need, or the tasks named.")
    data.add_argument("tasks", nargs="*", metavar="TASK", help="mnist or listops:max_length=64")
    data.add_argument("--pipeline", action="store_true", help=pipeline)

    run = verb("run", "Train what is missing of a section, or of all, and write index files.")
    run.add_argument("section", nargs="?", metavar="SECTION")
    run.add_argument("--all", action="store_true", help="every section of the profile")
    run.add_argument("--seed", action="append", type=int, default=[], help="repeatable")
    only = "an arm or a task; repeatable"
    run.add_argument("--only", action="append", default=[], metavar="NAME", help=only)
    run.add_argument("--budget", metavar="TIME", help=budget)
    run.add_argument("--shard", metavar="I/N", help="this part of the packs only")
    run.add_argument("--device", default="auto", choices=devices)
    run.add_argument("--workers", type=int, help="packs side by side; default one per CPU core")
    run.add_argument("--max-runs", type=int, help="of one pack; by default 8")
    run.add_argument("--executor", default="processes", choices=("processes", "ray"))
    run.add_argument("--address", help="of a Ray cluster, such as auto or 10.0.0.1:6379")
    run.add_argument("--gpus", type=float, default=1.0, help="part of a GPU per pack, with ray")
    run.add_argument("--pipeline", action="store_true", help=pipeline)

    merge = verb("merge", "Take over records that were made elsewhere.")
    merge.add_argument("folder", metavar="DIR")

    status = verb("status", "Count done and missing runs, and estimate the cost of the rest.")
    status.add_argument("--json", action="store_true")

    verb("tasks", "List the tasks: tokens, positions read, classes, examples.", profile=False)
    counts = verb("params", "Count the trainable groups of a backbone on a task.", profile=False)
    counts.add_argument("--backbone", default="gpt2", help="such as gpt2, nano or lstm-nano")
    counts.add_argument("--task", default="cifar10", help="such as mnist or mnist:size=28")

    render = verb("render", "Execute a section's notebook; write it, its tables and figures.")
    render.add_argument("section", metavar="SECTION")
    verb("index", "Write the page that links a profile's notebooks, tables and figures.")
    verb("sheet", "Lay all figures of a profile on contact sheets, in colour and in grey.")

    verify = verb("verify", "Compute random records again; exit status 1 if one differs.")
    verify.add_argument("section", nargs="?", metavar="SECTION", help="by default all")
    verify.add_argument("--count", type=int, default=3, help="records of each section")
    verify.add_argument("--seed", type=int, default=0, help="of the choice")
    verify.add_argument("--retrain", action="store_true", help="instead of testing parameters")
    verify.add_argument("--device", default="auto", choices=devices)

    pretrain = verb("pretrain", "Pretrain a backbone; without OBJECTIVE, what the profile reads.")
    objectives = "such as english, nesting@5M, english+nesting, images, bit-memory or shapes"
    pretrain.add_argument("objective", nargs="?", metavar="OBJECTIVE", help=objectives)
    pretrain.add_argument("--backbone", help="by default nano")
    pretrain.add_argument("--tokens", type=int, help="by default those of the shipped weights")
    pretrain.add_argument("--seed", type=int, help="by default 0")
    pretrain.add_argument("--budget", metavar="TIME", help=budget)
    pretrain.add_argument("--compile", action="store_true", help="needs a C++ compiler")

    corpus = verb("corpus", "Write a text corpus from files of a data set.", profile=False)
    corpus.add_argument("name", help="of the corpus: NAME.txt in the corpora folder")
    corpus.add_argument("repo", help="OWNER/NAME of the data set on the hub")
    corpus.add_argument("files", nargs="+", metavar="FILE", help=".parquet, .txt or .txt.xz")
    newest = "a commit; by default the newest at the first use"
    corpus.add_argument("--revision", default="locked", help=newest)
    corpus.add_argument("--column", default="text", help="of parquet files; by default text")
    return top


def dispatch(args: argparse.Namespace) -> int:
    if "profile" in args:
        if args.profile is None:
            args.profile = current_profile()
        check_names("profile", [args.profile], PROFILES)
    match args.verb:  # the verbs that need no torch, and thus start at once
        case "render":
            import_module("fpt.report.render").render(args.section, args.profile)
        case "index":
            import_module("fpt.report.index").index(args.profile)
        case "sheet":
            print(*import_module("fpt.report.sheet").contact_sheet(args.profile), sep="\n")
        case "merge":
            taken, present = store(args.profile).merge(Path(args.folder))
            print(f"{taken} files taken, {present} were here already")
        case verb:
            return getattr(import_module("fpt.commands"), verb)(args) or 0
    return 0


def terminated(number: int, frame: object) -> NoReturn:
    """SIGTERM, as of a machine that is taken away, ends a command as Ctrl-C does."""
    raise KeyboardInterrupt(number)


def discard_stdout() -> None:
    """Let what is left to print go nowhere, so that it does not fail once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    before = signal.signal(signal.SIGTERM, terminated)
    try:
        code = dispatch(parser().parse_args(argv))
        sys.stdout.flush()
        return code
    except FptError as error:
        print(f"fpt: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # as in `fpt status | head`: what is left to print has no reader
        discard_stdout()
        return 128 + signal.SIGPIPE
    except (OSError, MemoryError) as error:  # what the machine lacks, wherever it is missed
        discard_stdout()
        said = " ".join(str(error).split()) or "it is out of memory"
        print(f"fpt: The machine cannot go on ({said}).", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print("fpt: interrupted; what was finished is kept", file=sys.stderr)
        return 128 + (error.args or (signal.SIGINT,))[0]
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
