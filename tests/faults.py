"""The fault harness: a process is killed at a chosen point, started again, and must lose nothing.

`python tests/faults.py --trials 50` prints the fault matrix as Markdown. Each trial forks a real
process that does its work (train a sweep, or merge a folder of records) on a store of its own, and
kills itself with SIGKILL just before or after the n-th call that changes what is on the disk, or is
killed at a random moment. Then the work is done again, and its records must be those of an
undisturbed run: none lost, none torn, none more.
"""

import argparse
import json
import os
import random
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

from fpt import files, train
from fpt.records import Store, to_content
from fpt.spec import RunSpec, canonical
from fpt.tasks import get_task

CALLS = ("fsync", "rename", "unlink")
MOMENT = "a random moment"
POINTS = (*(f"{when} {call}" for call in CALLS for when in ("before", "after")), MOMENT)
SCENES = ("train", "merge")
CASES = [  # a merge deletes nothing
    (scene, point)
    for scene in SCENES
    for point in POINTS
    if not (scene == "merge" and point.endswith("unlink"))
]
CRASHED = 3  # exit status of a child that an exception ended


@dataclass(frozen=True)
class Outcome:
    """What one trial gave. `injected`: the process was killed; `lost`: runs without the record of
    an undisturbed process; `torn`: files that a reader could not use; `extra`: records too many."""

    scene: str
    point: str
    injected: bool
    lost: int
    torn: int
    extra: int

    @property
    def clean(self) -> bool:
        return not (self.lost or self.torn or self.extra)


def specs() -> list[RunSpec]:
    """Two packs of two runs on a small body; the second pack loses a member on the way."""
    shared: dict[str, Any] = {
        "data": canonical(get_task("bit-xor", n=2).identity), "backbone": "pico", "init": "random",
        "weights": None, "trainable": ("input", "output", "layernorm", "positions"), "batch": 4,
        "steps": 12, "eval_every": 3, "augment": False,
    }  # fmt: skip
    return [
        RunSpec(**shared, seed=seed, lr=lr, patience=patience)
        for seed, patience in ((0, 0), (1, 1))
        for lr in (0.01, 0.02)
    ]


def do_train(folder: Path) -> None:
    store, runs = Store(folder / "store" / "records"), specs()
    for pack in (runs[:2], runs[2:]):
        train.train(
            pack,
            store,
            device=torch.device("cpu"),
            keep={spec.key for spec in runs},
            checkpoint_seconds=0.0,
            cache=folder / "cache",
        )


def do_merge(folder: Path, source: Path) -> None:
    Store(folder / "store" / "records").merge(source)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, nth: int) -> None:
    """Kill this process at the n-th passage of `point`."""
    if point == MOMENT:
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


def in_child(work: Callable[[], None], before: Callable[[], None], kill_after: float = 0.0) -> int:
    """Do `work` in a forked process; its exit status, negative for the signal that ended it."""
    child = os.fork()
    if child == 0:
        try:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            before()
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(CRASHED)
        os._exit(0)
    if kill_after:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def measured(store: Store) -> dict[str, Any]:
    """What is in the store, without what differs between two undisturbed runs (time, memory)."""
    found = store.read_all(sorted(store.keys()), store.keys())
    return {
        key: (record.measured(), record.parameters, to_content(record)["spec"])
        for key, record in found.items()
    }


def trial(
    scene: str, point: str, nth: int, moment: float, reference: dict[str, Any], source: Path
) -> Outcome:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = (lambda: do_train(folder)) if scene == "train" else lambda: do_merge(folder, source)
        status = in_child(work, lambda: arm(point, nth), moment if point == MOMENT else 0.0)
        again = in_child(work, lambda: None)
        found = measured(Store(folder / "store" / "records"))
        lost = sum(found.get(key) != value for key, value in reference.items())
        torn = len(list(folder.rglob("*.corrupt"))) + (again != 0)
        extra = len(set(found) - set(reference))
        return Outcome(scene, point, status == -signal.SIGKILL, lost, torn, extra)


def campaign(trials: int, seed: int, prepare: Callable[[], None] = lambda: None) -> list[Outcome]:
    """`trials` outcomes, points and scenes in turn; where in a point, at random by `seed`.

    `prepare` may spoil something in this process first: its children inherit it.
    """
    torch.set_num_threads(1)
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, times = folder / "store" / "records", {}
        works = {"train": do_train, "merge": lambda it: do_merge(it / "merged", source)}
        for scene, work in works.items():
            began = time.monotonic()
            work(folder)
            times[scene] = time.monotonic() - began
        reference = measured(Store(source))
        assert len(reference) == len(specs())
        prepare()
        outcomes = []
        for index in range(trials):
            scene, point = CASES[index % len(CASES)]
            most = 2 if point.endswith("unlink") else 16  # passages that there are at least
            nth = draw.randint(1, most if scene == "train" else 8)
            moment = draw.uniform(0.0, times[scene])
            outcomes.append(trial(scene, point, nth, moment, reference, source))
    return outcomes


def matrix(outcomes: Sequence[Outcome]) -> str:
    """Trials, injected faults and losses by scene and point, as a Markdown table."""
    lines = [
        "| work | killed | trials | faults injected | lost | torn | too many |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for scene in SCENES:
        for point in POINTS:
            mine = [it for it in outcomes if (it.scene, it.point) == (scene, point)]
            if mine:
                numbers = [len(mine), sum(it.injected for it in mine)]
                numbers += [
                    sum(getattr(it, name) for it in mine) for name in ("lost", "torn", "extra")
                ]
                lines.append(f"| {scene} | {point} | " + " | ".join(map(str, numbers)) + " |")
    totals = [len(outcomes), sum(it.injected for it in outcomes)]
    totals += [sum(getattr(it, name) for it in outcomes) for name in ("lost", "torn", "extra")]
    return "\n".join([*lines, "| all | | " + " | ".join(map(str, totals)) + " |"]) + "\n"


def plant() -> None:
    """A write that is not atomic: what the harness must catch."""

    def careless(path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            os.fsync(file.fileno())
            file.write(content[len(content) // 2 :])

    atomic = files.write_atomic
    for module in list(sys.modules.values()):
        if getattr(module, "write_atomic", None) is atomic:
            module.write_atomic = careless  # type: ignore[attr-defined]


HEAD = """# Faults

Written by `make faults` ({trials} trials, seed {seed}). Each trial is a real process that is killed
with SIGKILL just before or after the n-th call of a kind, or at a random moment, while it trains
two packs or merges a folder of records; then the same work is done again.

*Lost*: runs whose record or kept parameters are not those of an undisturbed process, bit for bit.
*Torn*: files that a reader could not use, or work that could not be done again. *Too many*: records
of no run. Where the work had ended before its moment came, no fault was injected.

`tests/test_ray.py` kills Ray's workers; `tests/test_faults.py` plants a write that is not atomic,
which the harness catches.

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
