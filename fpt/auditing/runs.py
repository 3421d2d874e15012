"""The runs of an audit: a pack is trained, tested example by example, and written to its
folder.

Each run is one JSON file that its key names, as the records of the pipeline are. So an
audit that was stopped goes on, and the same audit again only reads.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..backbones import Backbone
from ..files import read_json, write_json
from ..isolation import usual_settings
from ..spec import RunSpec
from ..tasks import Task
from ..training import device as devices
from ..training.loop import Loop
from ..training.model import EVAL_TOKENS, Model


@dataclass(frozen=True)
class Pack:
    """Runs that are trained together: one fold, one arm, one body; they differ in seed and
    rate. Those that are not reported never read the test examples."""

    fold: int
    arm: str
    architecture: Backbone
    specs: tuple[RunSpec, ...]
    is_reported: bool

    @property
    def run_steps(self) -> int:
        return sum(spec.steps for spec in self.specs)


@dataclass(frozen=True)
class Result:
    """A trained run: the score of each test example (1 for right, or 1 minus the squared
    error), the best validation score with its loss and step, and whether training
    diverged."""

    correct: np.ndarray
    valid_score: float
    valid_loss: float
    best_step: int
    curve: tuple[Mapping[str, float], ...]
    diverged: bool
    seconds: float = 0.0  # since the result before, by the clock

    @property
    def score(self) -> float:
        """The mean over the test examples: accuracy or, of a regression, R²."""
        return float(self.correct.mean())


def train_pack(
    pack: Pack, task: Task, device: str, precision: str, threads: int, deadline: float
) -> list[dict[str, Any]] | None:
    """The contents of the runs' files; None if the pack is not done by `deadline`, a time
    of `time.time()`, which all processes share."""
    torch.set_num_threads(threads)
    place = devices.choose(device)
    with usual_settings(gradients=True):
        loop = Loop(
            pack.specs,
            task,
            place,
            quiet=True,
            architecture=pack.architecture,
            precision=precision,
        )
        while loop.step < loop.shared.steps:
            loop.train_step()
            if loop.step % loop.shared.eval_every == 0 or loop.step == loop.shared.steps:
                loop.validate()
            # A pack that is late would bring the audit over its time; what was done is
            # lost.
            if time.time() > deadline:
                return None
        # The parameters that validation has chosen meet the test examples here, once.
        loop.bind(loop.alive, loop.state["best"], loop.state["frozen"])
        correct = np.empty((len(pack.specs), 0))
        if pack.is_reported:
            correct = correct_answers(loop.model, task, place, precision)
    contents = []
    for progress, answers in zip(loop.progress, correct, strict=True):
        chosen = [point for point in progress.curve if point["step"] == progress.best_step]
        contents.append(
            {
                "correct": answers.tolist(),
                "valid_score": chosen[0]["valid_accuracy"] if chosen else 0.0,
                "valid_loss": chosen[0]["valid_loss"] if chosen else 0.0,
                "best_step": progress.best_step,
                "curve": progress.curve,
                "diverged": progress.status == "diverged",
            }
        )
    return contents


def correct_answers(
    model: Model, task: Task, device: torch.device, precision: str
) -> np.ndarray:
    """(K, N): how right each run of `model` is on each test example. A run whose answers
    are no numbers is wrong."""
    runs = len(model.seeds)
    model.eval()
    parts = []
    first = 0
    with torch.no_grad():
        for batch in task.eval_batches(
            "test", max(1, EVAL_TOKENS // (runs * task.length)), device
        ):
            with devices.autocast(device, precision):
                logits = model(batch, first=first).float()
            targets = batch.targets.expand(runs, -1, -1)
            parts.append(task.correct(logits, targets)[..., 0].float().cpu())
            first += targets.shape[1]
    return torch.nan_to_num(torch.cat(parts, 1), nan=0.0).numpy()


class Results:
    """The results of an audit in a folder, one file for each run. Each has the seconds
    since the one before, so that an audit that is read again, or goes on, knows how long
    its runs took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last = time.time()

    def __contains__(self, key: str) -> bool:
        return self._path(key).exists()

    def read(self, key: str) -> Result:
        content = read_json(self._path(key))
        correct = np.array(content.pop("correct"), float)
        return Result(correct, curve=tuple(content.pop("curve")), **content)

    def write(self, key: str, content: Mapping[str, Any]) -> None:
        now = time.time()
        write_json(self._path(key), {**content, "seconds": now - self._last})
        self._last = now

    def minutes(self) -> float:
        """The time that all results took together, by the clock."""
        contents = map(read_json, self.folder.glob("*.json"))
        # The plan beside them has no time.
        return sum(content.get("seconds", 0.0) for content in contents) / 60

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


@dataclass(frozen=True)
class Machine:
    """Where an audit trains: a device, a precision, and how many packs side by side."""

    device: str
    precision: str
    workers: int

    def train(
        self,
        packs: Sequence[Pack],
        tasks: Sequence[Task],
        results: Results,
        deadline: float,
    ) -> Iterator[Pack]:
        """Train what is missing of `packs` until `deadline`; yield those that are done."""
        missing = []
        for pack in packs:
            if all(spec.key in results for spec in pack.specs):
                yield pack
            else:
                missing.append(pack)
        # Written as they end, so that an audit that is killed loses only the packs under
        # way.
        for pack, contents in self._trained(missing, tasks, deadline):
            if contents is None:
                continue
            for spec, content in zip(pack.specs, contents, strict=True):
                results.write(spec.key, content)
            yield pack

    def _trained(
        self, packs: Sequence[Pack], tasks: Sequence[Task], deadline: float
    ) -> Iterator[tuple[Pack, list[dict[str, Any]] | None]]:
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        settings = (self.device, self.precision, threads, deadline)
        if self.workers == 1 or len(packs) < 2:
            for pack in packs:
                yield pack, train_pack(pack, tasks[pack.fold], *settings)
            return
        # Needed only here, so that an audit on a GPU needs no joblib.
        from joblib import Parallel, delayed

        calls = (
            delayed(_numbered)(i, p, tasks[p.fold], settings) for i, p in enumerate(packs)
        )
        for index, contents in Parallel(self.workers, return_as="generator_unordered")(
            calls
        ):
            yield packs[index], contents


def _numbered(
    index: int, pack: Pack, task: Task, settings: tuple[Any, ...]
) -> tuple[int, Any]:
    """A pack's place among all, and its contents: packs end in any order."""
    return index, train_pack(pack, task, *settings)


def machine_for(device: str, workers: int | None, wide: bool) -> Machine:
    """One pack at a time on a GPU, else one for each core. Wide backbones compute in bf16
    on a processor that has instructions for it, where that is faster."""
    on_gpu = devices.choose(device).type == "cuda"
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    has_bf16 = devices.bf16_instructions() != "none"
    precision = "bf16" if wide and has_bf16 and not on_gpu else devices.AUTO
    return Machine(device, precision, workers or (1 if on_gpu else cores or 1))
