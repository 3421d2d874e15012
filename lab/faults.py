"""The fault harness: a process meets a fault, is started again, and must lose nothing.

`python lab/faults.py --trials 50` prints the fault matrix as Markdown. Each trial forks a real
process that trains two packs on a store of its own. It kills itself with SIGKILL just before or
after the n-th call that changes what is on the disk, or is killed at a random moment; or the disk
is full, or a second process does the same work; or one of the files that it has left is damaged.
Then the work is done again, and its records must be those of an undisturbed run: none lost, none
torn, none more.
"""

import argparse
import json
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from fpt import records
from fpt.files import FptError
from fpt.records import Store, to_content
from fpt.spec import RunSpec, canonical
from fpt.tasks import datasets, get_task
from fpt.training import loop, train

CALLS = ("fsync", "rename", "unlink")
MOMENT = "a random moment"
FULL, SECOND = "disk full", "a second process"
DAMAGES = ("a bit flipped", "truncated", "swapped")
POINTS = (
    *(f"{when} {call}" for call in CALLS for when in ("before", "after")),
    MOMENT,
    FULL,
    SECOND,
    *DAMAGES,
)
# Passages of a call that there are at least.
PASSAGES = {"fsync": 16, "rename": 16, "unlink": 2}
CRASHED, REFUSED = 3, 4  # exit status of a child that an exception ended, or a sentence


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

    @property
    def clean(self) -> bool:
        return not (self.lost or self.torn or self.extra)


def specs() -> list[RunSpec]:
    """Two packs of two runs on a small backbone; the second pack loses a member on the way."""
    shared: dict[str, Any] = {
        "data": canonical(get_task("bit-xor", n=2).identity), "backbone": "attention-pico",
        "init": "random", "weights": None, "batch": 4, "steps": 12, "eval_every": 3,
        "trainable": ("input", "output", "layernorm", "positions"), "augment": False,
    }  # fmt: skip
    return [
        RunSpec(**shared, seed=seed, lr=lr, patience=patience)
        for seed, patience in ((0, 0), (1, 1))
        for lr in (0.01, 0.02)
    ]


def work(folder: Path) -> None:
    store, runs = Store(folder / "store" / "records"), specs()
    loop.CHECKPOINT_SECONDS = 0.0
    for pack in (runs[:2], runs[2:]):
        keep = {spec.key for spec in runs}
        train.train(pack, train.Job(store, keep, "cpu", cache=folder / "cache"))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, nth: int) -> None:
    """Kill this process at the n-th passage of `point`, or fill its disk after `nth` bytes."""
    if point == FULL:
        resource.setrlimit(resource.RLIMIT_FSIZE, (nth, resource.RLIM_INFINITY))
    if point.split()[-1] not in CALLS:
        return
    when, call = point.split()
    place, name = (Path, "unlink") if call == "unlink" else (os, call.replace("rename", "replace"))
    real, passed = getattr(place, name), 0

    def fatal(*args: Any, **options: Any) -> Any:
        nonlocal passed
        passed += 1
        if passed == nth and when == "before":
            die()
        result = real(*args, **options)
        if passed == nth:
            die()
        return result

    setattr(place, name, fatal)


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
            os._exit(CRASHED)
        os._exit(0)
    return child


def ended(child: int, kill_after: float = 0.0) -> int:
    """The exit status of a child, negative for the signal that ended it."""
    if kill_after:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def damage(folder: Path, how: str, draw: random.Random) -> int:
    """Damage a file that a work has left under `folder`, of the store or (if there is none yet)
    a checkpoint; the number of files damaged."""
    there = sorted((folder / "store").rglob("*.*")) or sorted((folder / "cache").rglob("*.*"))
    there = [path for path in there if path.is_file() and not path.name.startswith(".")]
    pairs = [(a, b) for a in there for b in there if a < b and a.suffix == b.suffix]
    if not (pairs if how == "swapped" else there):
        return 0
    if how == "swapped":
        one, other = draw.choice(pairs)
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)
        return 2
    path = draw.choice(there)
    content = bytearray(path.read_bytes())
    if how == "truncated":
        del content[draw.randrange(len(content)) :]
    else:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return 1


def measured(store: Store) -> dict[str, Any]:
    """What is in the store, without what differs between two undisturbed runs (time, memory)."""
    found = store.read_all(sorted(store.keys()), store.keys())
    return {
        key: {
            **{name: getattr(record, name) for name in ("status", "metrics", "curve")},
            "parameters": record.parameters,
            "spec": to_content(record)["spec"],
            "pack": record.pack,
        }
        for key, record in found.items()
    }


def agrees(found: Any, expected: Any) -> bool:
    """Bit for bit; a run that lost its record may be trained again without its pack mates, and then
    sums come in another order."""
    if found is None or found["pack"] == expected["pack"]:
        return found == expected
    return found["spec"] == expected["spec"] and all(
        math.isclose(found["metrics"][name], value, rel_tol=1e-3)
        for name, value in expected["metrics"].items()
    )


def trial(point: str, moment: float, draw: random.Random, reference: Any) -> Outcome:
    most = PASSAGES.get(point.split()[-1], PASSAGES["rename"])
    most = {FULL: 6000}.get(point, 2 * most if point in DAMAGES else most)
    nth = draw.randint(1, most)  # of the passages, or bytes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        at = "after rename" if point in DAMAGES else point
        children = [begin(folder, lambda: arm(at, nth)) for _ in range(1 + (point == SECOND))]
        kill_after = draw.uniform(0.0, moment) if point == MOMENT else 0.0
        statuses = [ended(child, kill_after) for child in children]
        allowed = {FULL: (0, REFUSED), SECOND: (0,)}.get(point, (0, -signal.SIGKILL))
        torn = sum(status not in allowed for status in statuses)
        if point in (FULL, SECOND):
            torn += len(list(folder.rglob("*.partial")))
        damaged = damage(folder, point, draw) if point in DAMAGES else 0
        injected = bool(damaged) if point in DAMAGES else any(statuses) or point == SECOND
        torn += ended(begin(folder)) != 0
        found = measured(Store(folder / "store" / "records"))
        lost = sum(not agrees(found.get(key), value) for key, value in reference.items())
        torn += max(0, len(list(folder.rglob("*.corrupt"))) - damaged)
        extra = len(set(found) - set(reference))
        return Outcome(point, injected, lost, torn, extra)


def campaign(trials: int, seed: int, prepare: Callable[[], None] = lambda: None) -> list[Outcome]:
    """`trials` outcomes, each kind of fault in turn; where it strikes, at random by `seed`.

    `prepare` may spoil something in this process first: its children inherit it.
    """
    torch.set_num_threads(1)
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        for folder in (Path(name) / "warm-up", Path(name) / "timed"):
            began = time.monotonic()
            work(folder)
            moment = time.monotonic() - began
        reference = measured(Store(folder / "store" / "records"))
    assert len(reference) == len(specs())
    prepare()
    points = [POINTS[index % len(POINTS)] for index in range(trials)]
    return [trial(point, moment, draw, reference) for point in points]


def matrix(outcomes: Sequence[Outcome]) -> str:
    """Trials, injected faults and losses by kind of fault, as a Markdown table."""
    lines = [
        "| fault | trials | faults injected | lost | torn | too many |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for point in (*POINTS, "all"):
        found = [it for it in outcomes if point in (it.point, "all")]
        numbers = [
            sum(getattr(it, name) for it in found) for name in ("injected", "lost", "torn", "extra")
        ]
        lines.append(f"| {point} | " + " | ".join(map(str, [len(found), *numbers])) + " |")
    return "\n".join(lines) + "\n"


def plant() -> None:
    """A write that is not atomic: what the harness must catch."""

    def careless(path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            os.fsync(file.fileno())
            file.write(content[len(content) // 2 :])

    for module in (records, datasets):
        module.write_atomic = careless  # type: ignore[attr-defined]


HEAD = """# Faults

Written by `make faults` ({trials} trials, seed {seed}). In each trial a real process meets a fault
while it trains two packs; then the same work is done again.

The process is killed with SIGKILL just before or after the n-th call of a kind, or at a random
moment. Or the *disk is full*: no file may grow beyond a random size; the process has to end in one
sentence and leave no half of a file. Or *a second process* does the same work on one store at once.
Or the process is killed after a rename, and then a file that it left, a record, kept parameters or
a checkpoint, has *a bit flipped*, is *truncated* or *swapped* with another.

*Lost*: runs whose record or kept parameters are not those of an undisturbed process, bit for bit. A
run whose record was damaged is trained again without its pack mates, so that sums come in another
order: it has to agree to three digits. *Torn*: files that a reader could not use (other than the
damaged ones), work that ended in another way, or that could not be done again. *Too many*: records
of no run. If the work had ended before its fault came, none was injected.

`tests/test_ray.py` kills Ray's workers. `tests/test_limits.py` has devices without the memory for a
pack. `tests/test_faults.py` plants a write that is not atomic, which the harness catches.

"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plant", action="store_true", help="with a write that is not atomic")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the matrix with its head")
    given = parser.parse_args()
    outcomes = campaign(given.trials, given.seed, plant if given.plant else lambda: None)
    if given.write:
        given.write.write_text(HEAD.format(trials=given.trials, seed=given.seed) + matrix(outcomes))
    print(json.dumps([asdict(it) for it in outcomes]) if given.json else matrix(outcomes))
    return int(not all(it.clean for it in outcomes))


if __name__ == "__main__":
    sys.exit(main())
