"""The fault harness: a process meets a fault, is started again, and must lose nothing.

`python lab/faults.py --trials 50` prints the fault matrix as Markdown. Each trial forks a real
process that trains two packs on a store of its own. It kills itself with SIGKILL just before or
after the n-th call that changes what is on the disk, or is killed at a random moment; or the disk
is full, or a second process does the same work; or one of the files that it has left is damaged.
Then the work is done again, and its records must be those of an undisturbed run: none lost, none
torn, none more.

*Lost* are runs whose record or kept parameters are not those of an undisturbed process, bit for
bit; a run that is trained again without its pack mates has to agree to three digits. *Torn* are
files that a reader could not use, other than the damaged ones, and work that ended without a
sentence. *Extra* are records of no run. A fault that came after the end of the work was not
injected.
"""

import argparse
import itertools
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from fpt import records
from fpt.errors import FptError
from fpt.records import Store, to_content
from fpt.spec import RunSpec, canonical
from fpt.tasks import datasets, get_task
from fpt.training import loop, train

# Calls that change the disk: where they are, and how many passages of each there are at least.
CALLS = {"fsync": (os, "fsync", 16), "rename": (os, "replace", 16), "unlink": (Path, "unlink", 2)}
MOMENT = "a random moment"
FULL = "disk full"
SECOND = "a second process"
DAMAGES = ("a bit flipped", "truncated", "swapped")
BEFORE_DAMAGE = "after rename"  # where a process is killed whose files are damaged then
POINTS = (
    *(f"{when} {call}" for call in CALLS for when in ("before", "after")),
    *(MOMENT, FULL, SECOND, *DAMAGES),
)
REFUSED = 4  # exit status of a child that a sentence ended


@dataclass(frozen=True)
class Outcome:
    """What one trial gave. `injected`: the fault was met; `lost`: runs without the record of an
    undisturbed process; `torn`: files that a reader could not use and that nobody had damaged, left
    halves, or work that ended in anything but a sentence; `extra`: records too many."""

    point: str
    injected: bool
    lost: int
    torn: int
    extra: int


def specs() -> list[RunSpec]:
    """Two packs of two runs on a small backbone; the second pack loses a member on the way."""
    shared: dict[str, Any] = {
        "data": canonical(get_task("bit-xor", n=2).identity), "backbone": "attention-pico",
        "init": "random", "weights": None, "batch": 4, "steps": 12, "eval_every": 3,
        "trainable": ("input", "output", "layernorm", "positions"), "augment": False,
    }  # fmt: skip
    return [
        RunSpec(**shared, seed=seed, lr=lr, patience=seed) for seed in (0, 1) for lr in (0.01, 0.02)
    ]


def work(folder: Path) -> None:
    """Train both packs, with a checkpoint after each step."""
    store = Store(folder / "store" / "records")
    runs = specs()
    loop.CHECKPOINT_SECONDS = 0.0
    job = train.Job(store, {spec.key for spec in runs}, "cpu", cache=folder / "cache")
    train.train(runs[:2], job)
    train.train(runs[2:], job)


def arm(point: str, nth: int) -> None:
    """Kill this process at the n-th passage of `point`, or fill its disk after `nth` bytes."""
    if point == FULL:
        resource.setrlimit(resource.RLIMIT_FSIZE, (nth, resource.RLIM_INFINITY))
    when, _, call = point.partition(" ")
    if call not in CALLS:
        return
    owner, name, _ = CALLS[call]
    real = getattr(owner, name)
    passages = itertools.count(1)

    def fatal(*args: Any, **options: Any) -> Any:
        is_last = next(passages) == nth
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **options)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, fatal)


def begin(folder: Path, before: Callable[[], None] = lambda: None) -> int:
    """Begin the work in a forked process; its id."""
    child = os.fork()
    if child == 0:
        try:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            before()
            work(folder)
        except FptError:
            os._exit(REFUSED)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def ended(child: int) -> int:
    """The exit status of a child, negative for the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def damage(folder: Path, how: str, draw: random.Random) -> int:
    """Damage a file that a work has left under `folder`, of the store or (if there is none yet)
    a checkpoint; the number of files damaged."""
    visible = "[!.]*.*"
    files = sorted((folder / "store").rglob(visible)) or sorted((folder / "cache").rglob(visible))
    if how == "swapped":
        pairs = [
            pair for pair in itertools.combinations(files, 2) if pair[0].suffix == pair[1].suffix
        ]
        if not pairs:
            return 0
        first, second = draw.choice(pairs)
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
        return 2
    if not files:
        return 0
    path = draw.choice(files)
    damaged = bytearray(path.read_bytes())
    place = draw.randrange(len(damaged))
    if how == "truncated":
        del damaged[place:]
    else:
        damaged[place] ^= 1 << draw.randrange(8)
    path.write_bytes(damaged)
    return 1


def measured(folder: Path) -> dict[str, Any]:
    """What is in the store, without what differs between two undisturbed runs (time, memory)."""
    store = Store(folder / "store" / "records")
    return {
        key: {
            **{name: getattr(record, name) for name in ("status", "metrics", "curve", "pack")},
            "parameters": record.parameters,
            "spec": to_content(record)["spec"],
        }
        for key, record in store.read_all(sorted(store.keys()), store.keys()).items()
    }


def agrees(content: Any, expected: Any) -> bool:
    """Bit for bit; a run that lost its record may be trained again without its pack mates, and then
    sums come in another order."""
    if content is None or content["pack"] == expected["pack"]:
        return content == expected
    return content["spec"] == expected["spec"] and all(
        math.isclose(content["metrics"][name], value, rel_tol=1e-3)
        for name, value in expected["metrics"].items()
    )


def trial(point: str, moment: float, draw: random.Random, reference: Any) -> Outcome:
    """One fault, and the same work again."""
    stop = BEFORE_DAMAGE if point in DAMAGES else point
    passages = CALLS.get(stop.split()[-1], (None, "", 16))[2]
    most = {FULL: 6000}.get(point, 2 * passages if point in DAMAGES else passages)
    nth = draw.randint(1, most)  # of the passages, or bytes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = 2 if point == SECOND else 1
        children = [begin(folder, lambda: arm(stop, nth)) for _ in range(count)]
        if point == MOMENT:
            time.sleep(draw.uniform(0.0, moment))
            os.kill(children[0], signal.SIGKILL)
        statuses = [ended(child) for child in children]
        allowed = {FULL: (0, REFUSED), SECOND: (0,)}.get(point, (0, -signal.SIGKILL))
        torn = sum(status not in allowed for status in statuses)
        if point in (FULL, SECOND):
            torn += len(list(folder.rglob("*.partial")))
        injected = any(statuses) or point == SECOND
        damaged = 0
        if point in DAMAGES:
            damaged = damage(folder, point, draw)
            injected = damaged > 0
        torn += ended(begin(folder)) != 0
        torn += max(0, len(list(folder.rglob("*.corrupt"))) - damaged)
        content = measured(folder)
    lost = sum(not agrees(content.get(key), value) for key, value in reference.items())
    return Outcome(point, injected, lost, torn, extra=len(content.keys() - reference.keys()))


def campaign(trials: int, seed: int, planted: bool) -> list[Outcome]:
    """`trials` outcomes, each kind of fault in turn; where it strikes, at random by `seed`. With
    `planted`, a write is not atomic, which the trials have to find."""
    torch.set_num_threads(1)
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        for folder in (Path(name) / "warm-up", Path(name) / "timed"):
            began = time.monotonic()
            work(folder)
            moment = time.monotonic() - began
        reference = measured(folder)
    assert len(reference) == len(specs())
    if planted:  # the children of this process inherit it
        for module in (records, datasets):
            module.write_atomic = careless  # type: ignore[attr-defined]
    points = itertools.islice(itertools.cycle(POINTS), trials)
    return [trial(point, moment, draw, reference) for point in points]


def careless(path: Path, content: bytes) -> None:
    """A write that is not atomic: what the harness must catch."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])
        file.flush()
        os.fsync(file.fileno())
        file.write(content[len(content) // 2 :])


def matrix(outcomes: pd.DataFrame) -> str:
    """Trials, injected faults and losses by kind of fault, as a Markdown table."""
    counts = outcomes.assign(trials=1).groupby("point").sum()
    counts = counts.reindex(POINTS, fill_value=0)
    counts.loc["all"] = counts.sum()
    return str(counts.rename_axis("fault").reset_index().to_markdown(index=False))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plant", action="store_true", help="with a write that is not atomic")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    outcomes = pd.DataFrame(campaign(args.trials, args.seed, args.plant))
    print(outcomes.to_json(orient="records") if args.json else matrix(outcomes))
    return int(outcomes[["lost", "torn", "extra"]].to_numpy().any())


if __name__ == "__main__":
    sys.exit(main())
