"""The one optimisation loop: it trains a pack from its first step, or its checkpoint, to the end.

Every `eval_every` steps the runs are evaluated on validation. A run ends at its last step, after
`patience` evaluations without a better validation accuracy, or when it diverges; then it leaves the
pack by index, and the test set is read once, for the parameters chosen on validation.
"""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..backbones import Backbone
from ..spec import RunSpec
from ..tasks import Task
from . import checkpoint
from .checkpoint import Progress
from .device import AUTO, arithmetic, autocast
from .evaluation import evaluate
from .model import assemble
from .packing import Adam
from .trackers import Tracker, pack_bar

TRAIN_ITEMS = 1000  # training examples, without augmentation, that a run is scored on
CHECKPOINT_SECONDS = 60.0
AFTER_THRESHOLD = 2  # evaluations that a run goes on for
SUMS = ("train_loss", "gradient_norm", "clipped")  # per run, since the last evaluation
COUNTS = ("alive", "step", "summed")  # of a loop, as a checkpoint has them


def reached(accuracies: Sequence[float], threshold: float) -> int | None:
    """Index of the first of two consecutive evaluations at or above `threshold`, if any."""
    pairs = enumerate(pairwise(accuracies))
    return next((index for index, pair in pairs if min(pair) >= threshold), None)


class Loop:
    """One pack in training. `alive` are the indices of the runs still in it."""

    def __init__(
        self,
        specs: Sequence[RunSpec],
        task: Task,
        device: torch.device,
        path: Path | None = None,  # of the checkpoint; None: without one
        titles: Sequence[str] = ("",),  # of the runs: arm and task
        tracker: Tracker | None = None,
        quiet: bool = False,  # without a bar
        architecture: Backbone | None = None,  # of all runs; None: that of their name
        precision: str = AUTO,  # one of `fpt.training.device.PRECISIONS`
    ) -> None:
        self.quiet = quiet
        self.specs, self.task, self.device, self.path = list(specs), task, device, path
        self.titles, self.tracker = titles, tracker
        first = specs[0]
        self.batch, self.steps, self.every = first.batch, first.steps, first.eval_every
        self.model, self.rows, self.frozen = assemble(specs, task, device, architecture)
        self.model.compute_in(precision, device.type)
        self.arithmetic = arithmetic(device.type, precision)
        self.alive = list(range(len(specs)))
        values = self.rows.values
        moments = {"first": torch.zeros_like(values), "second": torch.zeros_like(values)}
        self._hold(
            {"values": values, "frozen": self.frozen.values, "best": values.clone(), **moments}
        )
        self.selected: dict[int, Tensor] = {}  # rows of the runs that have left, on the CPU
        self.progress = [Progress() for _ in specs]
        self.step = 0
        self._reset_sums()

    def _hold(self, state: Mapping[str, Tensor]) -> None:
        """Go on with this state of training, one row per run that is alive: trained and frozen
        values, the trained values at the best validation so far, and Adam's two moments."""
        specs = [self.specs[index] for index in self.alive]
        self.state = state
        self.rows.bind(state["values"])
        self.frozen.bind(state["frozen"])
        lr = torch.tensor([[spec.lr] for spec in specs], dtype=torch.float32, device=self.device)
        clip = torch.tensor(
            [[spec.clip] for spec in specs], dtype=torch.float32, device=self.device
        )
        mask = self.rows.mask([spec.trainable for spec in specs])
        self.adam = Adam(self.rows, lr, clip, mask, state["first"], state["second"])

    def _reset_sums(self) -> None:
        """Begin to add up `SUMS` anew."""
        self.sums = torch.zeros(len(SUMS), len(self.alive), dtype=torch.float32, device=self.device)
        self.summed = 0

    # ---------------------------------------------------------------------------------- training

    def run(self, deadline: float = math.inf) -> bool:
        """Train until all runs have ended (True) or `time.monotonic()` passes `deadline`."""
        self.resume()
        others = f", last of {len(self.specs)}" if len(self.specs) > 1 else ""
        with pack_bar(self.steps, self.titles[-1] + others, self.step, self.quiet) as bar:
            now = saved = time.monotonic()
            process = time.process_time()
            while self.alive:
                indices = self.alive
                sharing = [self.progress[index] for index in indices]
                self.train_step()
                bar.update()
                if self.step % self.every == 0 or self.step == self.steps:
                    self.validate()
                    self.finish_runs()
                    self.report(indices, bar)
                before, now = now, time.monotonic()
                process_before, process = process, time.process_time()
                for progress in sharing:
                    progress.seconds += (now - before) / len(sharing)
                    progress.process_seconds += (process - process_before) / len(sharing)
                late = now > deadline
                if not self.alive or late or now - saved > CHECKPOINT_SECONDS:
                    self.save()
                    saved = now
                if late and self.alive:
                    return False
        return True

    def train_step(self) -> None:
        seeds = [self.specs[i].seed for i in self.alive]
        augment = self.specs[0].augment
        batch = self.task.train_batch(seeds, self.step, self.batch, self.device, augment)
        if not self.model.training:  # to say so to every module takes as long as a block
            self.model.train()
        # Masks as long as the task allows, however far this batch is padded: that depends on the
        # neighbours in the pack.
        shape = (self.batch, self.task.length, self.model.width)
        self.model.draws.begin(seeds, self.step, shape, self.device)
        with autocast(self.device, self.model.precision):
            logits = self.model(batch)
        loss = self.task.losses(logits, batch.targets).flatten(1).mean(1)
        self.rows.differentiate(loss.sum())
        self.step += 1
        norms = self.adam.step(self.step)
        clipped = norms > self.adam.clip[:, 0]
        self.sums += torch.stack([loss.detach(), norms, clipped])
        self.summed += 1

    # -------------------------------------------------------------------------------- evaluation

    def evaluate(
        self, split: str, indices: Sequence[int], at_most: int = 0
    ) -> list[dict[str, float]]:
        """`fpt.training.evaluation.evaluate` of the runs `indices`, whose rows are bound."""
        seeds = [self.specs[index].seed for index in indices]
        return evaluate(self.model, split, seeds, at_most)

    def validate(self) -> None:
        """Add a point to every learning curve, from the validation set."""
        seen = self.evaluate("valid", self.alive, self.specs[0].eval_items)
        means = (self.sums / max(1, self.summed)).T.tolist()
        for row, index in enumerate(self.alive):
            progress, accuracy = self.progress[index], seen[row]["accuracy"]
            point = dict(zip(SUMS, means[row], strict=True)) | {"step": self.step}
            point |= {"valid_loss": seen[row]["loss"], "valid_accuracy": accuracy}
            if not all(map(math.isfinite, point.values())):
                progress.status = "diverged"
                continue
            progress.curve.append(point)
            progress.waited += 1
            if accuracy > progress.best_accuracy:
                progress.best_accuracy, progress.best_step = accuracy, self.step
                progress.waited = 0
                self.state["best"][row] = self.rows.values[row]
        self._reset_sums()

    def finish_runs(self) -> None:
        """Test the runs that end here and let the others go on without them."""
        indices = [index for index in self.alive if self._ends(index)]
        if not indices:
            return
        leave = torch.tensor([index in indices for index in self.alive], device=self.device)
        state = self.state
        last, best = state["values"][leave], state["best"][leave]
        self.rows.bind(best)
        self.frozen.bind(state["frozen"][leave])
        last_is_best = (last == best).all(1).tolist()
        tested = self.evaluate("test", indices, self.specs[0].test_items)
        seen = []
        if self.task.sizes["train"]:  # if it is endless, its examples are like those of the test
            seen = self.evaluate("train", indices, TRAIN_ITEMS)
        for row, index in enumerate(indices):
            progress = self.progress[index]
            self.selected[index] = best[row].to("cpu", copy=True)
            if progress.status == "running":
                progress.status = "done"
            metrics = {f"test_{name}": value for name, value in tested[row].items()}
            if seen:
                metrics |= {f"train_{name}": seen[row][name] for name in ("accuracy", "items")}
            if last_is_best[row]:
                metrics["last_test_accuracy"] = tested[row]["accuracy"]
            metrics["valid_accuracy"] = max(0.0, progress.best_accuracy)
            progress.metrics = metrics | {"best_step": progress.best_step, "steps": self.step}
        self.alive = [index for index in self.alive if index not in indices]
        self._hold({name: tensor[~leave] for name, tensor in state.items()})
        self._reset_sums()

    def _ends(self, index: int) -> bool:
        progress, spec = self.progress[index], self.specs[index]
        accuracies = [point["valid_accuracy"] for point in progress.curve]
        first = reached(accuracies, spec.threshold) if spec.threshold else None
        return (
            progress.status == "diverged"
            or self.step >= self.steps
            or 0 < spec.patience <= progress.waited
            or (first is not None and len(accuracies) > first + AFTER_THRESHOLD)
        )

    def report(self, indices: Sequence[int], bar: Any) -> None:
        """Show the last evaluation of some runs: to the tracker, and the last run's in the bar."""
        for index in indices:
            progress = self.progress[index]
            point = {**(progress.curve or [{}])[-1], "step": self.step}
            bar.set_postfix(loss=point.get("train_loss"), accuracy=point.get("valid_accuracy"))
            point |= {f"end/{name}": value for name, value in progress.metrics.items()}
            if self.tracker:
                self.tracker(self.specs[index], self.titles[index], point)

    # -------------------------------------------------------------------------------- checkpoint

    def save(self) -> None:
        if self.path is None:
            return
        left = {f"selected.{index}": row for index, row in self.selected.items()}
        history: dict[str, Any] = {
            "keys": [spec.key for spec in self.specs],
            "arithmetic": self.arithmetic,
            "progress": [vars(progress) for progress in self.progress],
            **{name: getattr(self, name) for name in COUNTS},
        }
        checkpoint.write(self.path, {**self.state, "sums": self.sums, **left}, history)

    def resume(self) -> None:
        """Go on from the checkpoint of this very pack, if there is one; warns of another's."""
        if self.path is None or (found := checkpoint.read(self.path)) is None:
            return
        tensors, history = found
        runs = [spec.key for spec in self.specs]
        if history.get("keys") != runs or not self.state.keys() < tensors.keys():
            warnings.warn(
                f"The checkpoint {self.path} is of other runs than those that are trained here, or "
                "of another version of this package; their pack starts again.",
                stacklevel=2,
            )
            return
        # A checkpoint that does not say so was written when each kind of device had but one.
        before = history.get("arithmetic", arithmetic(self.device.type))
        if before != self.arithmetic:
            warnings.warn(
                f"The checkpoint {self.path} was trained in {before}, and here it is "
                f"{self.arithmetic}; its pack starts again.",
                stacklevel=2,
            )
            return
        for name in COUNTS:
            setattr(self, name, history[name])
        self.progress = [Progress(**values) for values in history["progress"]]
        ended = set(range(len(runs))) - set(self.alive)
        self.selected = {index: tensors.pop(f"selected.{index}") for index in ended}
        # Copied even on a CPU: as aligned in memory as they were before.
        tensors = {name: tensor.to(self.device, copy=True) for name, tensor in tensors.items()}
        self.sums = tensors.pop("sums")
        self._hold(tensors)
