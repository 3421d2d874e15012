"""The one optimisation loop: it trains a pack from its first step, or its checkpoint, to
the end.

Every `eval_every` steps the runs are evaluated on validation. A run ends at its last step,
after `patience` evaluations without a better validation accuracy, at its threshold, or when
it diverges; then it leaves the pack, and the test set is read once, for the values chosen
on validation.
"""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..backbones import Backbone
from ..spec import RunSpec
from ..tasks import Task
from ..training.device import AUTO, arithmetic
from ..training.progress import (
    Progress,
    log_line,
    pack_bar,
    read_checkpoint,
    write_checkpoint,
)
from .evaluation import evaluate, start_facts, tested
from .runs import Runs

CHECKPOINT_SECONDS = 60.0
SUMS = ("train_loss", "gradient_norm", "clipped")  # per run, since the last evaluation
Metrics = Callable[[Runs, RunSpec], Sequence[dict[str, Any]]]  # of each run that ends


class Loop:
    """One pack in training. `runs.alive` are the indices of the runs still in it."""

    def __init__(
        self,
        specs: Sequence[RunSpec],
        task: Task,
        device: str,
        path: Path | None = None,  # of the checkpoint; None: without one
        titles: Sequence[str] = ("",),  # of the runs: arm and task
        quiet: bool = False,  # without a bar
        architecture: Backbone | None = None,  # of all runs; None: that of their name
        precision: str = AUTO,  # one of `fpt.training.device.PRECISIONS`
        metrics: Metrics | None = tested,  # of the runs that end; None: no test
        weights: str | None = None,  # the SHA-256 of the pretrained ones
    ) -> None:
        self.specs = list(specs)
        self.task = task
        self.path = path
        self.titles = titles
        self.quiet = quiet
        self.metrics = metrics
        self.weights = weights
        self.shared = specs[0]  # for the settings that all runs of a pack have in common
        self.runs = Runs(specs, task, device, architecture, precision)
        self.arithmetic = arithmetic(device, precision)
        self.progress = [Progress() for _ in specs]
        self.selected: dict[int, Mapping[str, Tensor]] = {}  # values of runs that have left
        self.count = 0  # steps made
        self.reset_sums()

    def reset_sums(self) -> None:
        """Begin to add up `SUMS` anew."""
        shape = (len(SUMS), len(self.runs.alive))
        self.sums = torch.zeros(shape, dtype=torch.float32, device=self.runs.device)
        self.summed = 0

    # ----------------------------------------------------------------------------- training

    def run(self, deadline: float = math.inf) -> bool:
        """Train until all runs end (True) or `time.monotonic()` passes `deadline`."""
        self.resume()
        if self.count == 0 and self.metrics:
            for progress, facts in zip(self.progress, start_facts(self.runs), strict=True):
                progress.start = facts
        ending = f", last of {len(self.specs)}" if len(self.specs) > 1 else ""
        title = self.titles[-1] + ending
        with pack_bar(self.shared.steps, title, self.count, self.quiet) as bar:
            saved = time.monotonic()
            while self.runs.alive:
                self.timed_step(bar)
                now = time.monotonic()
                is_late = now > deadline
                if not self.runs.alive or is_late or now - saved > CHECKPOINT_SECONDS:
                    self.save()
                    saved = now
                if is_late and self.runs.alive:
                    return False
        return True

    def timed_step(self, bar: Any) -> None:
        """A step and the evaluation that is due after it, whose time is that of all runs
        that were in it, those that left it included."""
        members = self.runs.alive
        start, process_start = time.monotonic(), time.process_time()
        self.train_step()
        bar.update()
        if self.shared.evaluates_at(self.count):
            self.validate()
            self.finish()
            self.report(members, bar)
        seconds, process_seconds = (
            time.monotonic() - start,
            time.process_time() - process_start,
        )
        for index in members:
            progress = self.progress[index]
            progress.seconds += seconds / len(members)
            progress.process_seconds += process_seconds / len(members)

    def train_step(self) -> None:
        """One update of every run that is left."""
        shared = self.shared
        batch = self.task.train_batch(
            self.runs.seeds, self.count, shared.batch, self.runs.device, shared.augment
        )
        length = batch.inputs.shape[2] + (shared.prefix is not None)
        for index in self.runs.alive:
            self.progress[index].tokens += shared.batch * length
        self.count += 1
        losses, norms = self.runs.update(batch, self.count)
        clipped = norms > self.runs.step.settings.clip
        self.sums += torch.stack([losses, norms, clipped])
        self.summed += 1

    # --------------------------------------------------------------------------- evaluation

    def validate(self) -> None:
        """Add a point to every learning curve, from the validation set."""
        validated = evaluate(self.runs, "valid", self.shared.eval_items)
        means = (self.sums / max(1, self.summed)).T.tolist()
        for row, index in enumerate(self.runs.alive):
            progress = self.progress[index]
            accuracy = validated[row]["accuracy"]
            point = dict(zip(SUMS, means[row], strict=True))
            point["step"] = self.count
            point["valid_loss"] = validated[row]["loss"]
            point["valid_accuracy"] = accuracy
            # A record holds finite numbers alone, so the curve ends before the first that
            # is not.
            if not all(map(math.isfinite, point.values())):
                progress.status = "diverged"
                continue
            progress.curve.append(point)
            progress.waited += 1
            if accuracy > progress.best_accuracy:  # of equals, the first
                progress.best_accuracy = accuracy
                progress.best_step = self.count
                progress.waited = 0
                self.runs.keep_best(row)
        self.reset_sums()

    def finish(self) -> None:
        """Test the runs that end here and let the others go on without them."""
        alive = self.runs.alive
        ends = [self.progress[i].ends(self.specs[i], self.count) for i in alive]
        ending = [row for row, is_over in enumerate(ends) if is_over]
        if not ending:
            return
        last = self.runs.chosen(ending, "values")
        best = self.runs.chosen(ending, "best")
        measured: Sequence[dict[str, Any]] = [{} for _ in ending]
        if self.metrics:
            measured = self.metrics(best, self.shared)
        for row, (index, metrics) in enumerate(zip(best.alive, measured, strict=True)):
            progress = self.progress[index]
            values = [part.state["values"] for part in (last, best)]
            is_last = all(
                torch.equal(values[0][name][row], values[1][name][row])
                for name in values[0]
            )
            if "test_accuracy" in metrics and is_last:
                metrics["last_test_accuracy"] = metrics["test_accuracy"]
            metrics["valid_accuracy"] = max(0.0, progress.best_accuracy)
            metrics["best_step"] = progress.best_step
            metrics["steps"] = self.count
            metrics |= progress.start
            progress.metrics = metrics
            if progress.status == "running":
                progress.status = "done"
            groups = self.specs[index].trainable
            self.selected[index] = best.chosen([row], "values").stored(groups)
        self.runs = self.runs.chosen(
            [row for row, over in enumerate(ends) if not over], "values"
        )
        self.reset_sums()

    def report(self, indices: Sequence[int], bar: Any) -> None:
        """Show the last evaluation of the runs in the bar, and in a log as a line."""
        for index in indices:
            curve = self.progress[index].curve
            # A run that diverges is not evaluated at this step.
            point = curve[-1] if curve and curve[-1]["step"] == self.count else {}
            loss, accuracy = point.get("train_loss"), point.get("valid_accuracy")
            bar.set_postfix(loss=loss, accuracy=accuracy)
            if accuracy is not None:
                title = self.titles[index % len(self.titles)]
                line = f"{title}, seed {self.specs[index].seed}: step {self.count:,} of "
                line += f"{self.shared.steps:,}, loss {loss:.3f}, accuracy {accuracy:.3f}"
                log_line(line, self.quiet)

    # -------------------------------------------------------------------------- checkpoints

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must have in common with this pack to go on with it."""
        return {
            "keys": [spec.key for spec in self.specs],
            # Rounding is no treatment: a run is trained in one arithmetic from end to end.
            "arithmetic": self.arithmetic,
            # A name may stand for other weights than before.
            "weights": self.weights,
        }

    def save(self) -> None:
        """Write the checkpoint. Draws are keyed by run and step, not by a generator."""
        if self.path is None:
            return
        tensors = {
            f"{kind}/{name}": tensor
            for kind, rows in self.runs.state.items()
            for name, tensor in rows.items()
        }
        for index, values in self.selected.items():
            tensors |= {f"selected {index}/{name}": part for name, part in values.items()}
        history: dict[str, Any] = {
            **self.identity,
            "threads": torch.get_num_threads(),
            "progress": [vars(progress) for progress in self.progress],
            "alive": self.runs.alive,
            "step": self.count,
            "summed": self.summed,
        }
        write_checkpoint(self.path, {**tensors, "sums": self.sums}, history)

    def resume(self) -> None:
        """Go on from the checkpoint of this very pack; warns of another's."""
        saved = read_checkpoint(self.path) if self.path else None
        if saved is None:
            return
        tensors, history = saved
        if "summed" not in history or history != history | self.identity:
            warnings.warn(
                f"The checkpoint {self.path} is of other runs or weights than these, in "
                f"another precision ({history.get('arithmetic')} there, {self.arithmetic} "
                "here) or of another version of this package; its pack starts again.",
                stacklevel=2,
            )
            return
        self.count = history["step"]
        self.progress = [Progress(**values) for values in history["progress"]]
        self.runs = self.runs.chosen(history["alive"], "values")
        self.reset_sums()
        self.summed = history["summed"]
        self.sums = tensors.pop("sums").to(self.runs.device)
        for name, tensor in tensors.items():
            kind, _, own = name.partition("/")
            if kind.startswith("selected"):
                index = int(kind.removeprefix("selected "))
                self.selected[index] = {**self.selected.get(index, {}), own: tensor}
            else:
                # Copied even on a CPU: as aligned in memory as it was before.
                self.runs.state[kind][own] = tensor.to(self.runs.device, copy=True)
