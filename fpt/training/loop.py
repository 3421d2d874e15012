"""The one optimisation loop: it trains a pack from its first step, or its checkpoint, to
the end.

Every `eval_every` steps the runs are evaluated on validation. A run ends at its last step,
after `patience` evaluations without a better validation accuracy, or when it diverges; then
it leaves the pack by index, and the test set is read once, for the parameters chosen on
validation.
"""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..backbones import Backbone
from ..spec import RunSpec
from ..tasks import Task
from .device import AUTO, arithmetic, autocast
from .evaluation import evaluate, start_facts
from .model import assemble
from .packing import Adam
from .progress import (
    Metrics,
    Progress,
    log_line,
    pack_bar,
    read_checkpoint,
    tested,
    write_checkpoint,
)

CHECKPOINT_SECONDS = 60.0
SUMS = ("train_loss", "gradient_norm", "clipped")  # per run, since the last evaluation
COUNTS = ("alive", "step", "summed")  # of a loop, as a checkpoint has them


class Loop:
    """One pack in training. `alive` are the indices of the runs still in it."""

    def __init__(
        self,
        specs: Sequence[RunSpec],
        task: Task,
        device: torch.device,
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
        self.device = device
        self.path = path
        self.titles = titles
        self.quiet = quiet
        self.metrics = metrics
        self.weights = weights
        self.shared = specs[0]  # for the settings that all runs of a pack have in common
        self.model, self.rows, self.frozen = assemble(specs, task, device, architecture)
        self.model.compute_in(precision, device.type)
        self.arithmetic = arithmetic(device.type, precision)
        self.progress = [Progress() for _ in specs]
        self.selected: dict[int, Tensor] = {}  # rows of the runs that have left, on the CPU
        self.alive = list(range(len(specs)))
        self.step = 0
        values = self.rows.values
        self.hold(
            {
                "values": values,
                "frozen": self.frozen.values,
                "best": values.clone(),
                "first": torch.zeros_like(values),
                "second": torch.zeros_like(values),
            }
        )
        self.reset_sums()

    def hold(self, state: Mapping[str, Tensor]) -> None:
        """Continue from this state of training, one row per run that is alive: trained and
        frozen values, the trained values at the best validation so far, and Adam's two
        moments."""
        self.state = state
        self.bind(self.alive, state["values"], state["frozen"])
        specs = [self.specs[index] for index in self.alive]
        lr = self.column([spec.lr for spec in specs])
        clip = self.column([spec.clip for spec in specs])
        warmup = self.column([max(1, spec.warmup) for spec in specs])
        mask = self.rows.mask([spec.trainable for spec in specs])
        self.adam = Adam(self.rows, lr, clip, warmup, mask, state["first"], state["second"])

    def bind(self, indices: Sequence[int], values: Tensor, frozen: Tensor) -> None:
        """Let the model be that of the runs `indices`, with these values."""
        self.model.seeds = [self.specs[index].seed for index in indices]
        self.rows.bind(values)
        self.frozen.bind(frozen)

    def column(self, settings: Sequence[float]) -> Tensor:
        """A setting of the runs, (K, 1)."""
        return torch.tensor(settings, dtype=torch.float32, device=self.device)[:, None]

    def reset_sums(self) -> None:
        """Begin to add up `SUMS` anew."""
        shape = (len(SUMS), len(self.alive))
        self.sums = torch.zeros(shape, dtype=torch.float32, device=self.device)
        self.summed = 0

    # ----------------------------------------------------------------------------- training

    def run(self, deadline: float = math.inf) -> bool:
        """Train until all runs end (True) or `time.monotonic()` passes `deadline`."""
        self.resume()
        if self.step == 0 and self.metrics:
            for progress, facts in zip(self.progress, start_facts(self.model), strict=True):
                progress.start = facts
        ending = f", last of {len(self.specs)}" if len(self.specs) > 1 else ""
        steps = self.shared.steps
        with pack_bar(steps, self.titles[-1] + ending, self.step, self.quiet) as bar:
            now = saved = time.monotonic()
            process_now = time.process_time()
            while self.alive:
                before = now
                process_before = process_now
                members = self.alive
                self.train_step()
                bar.update()
                if self.shared.evaluates_at(self.step):
                    self.validate()
                    self.finish_runs()
                    self.report(members, bar)
                now = time.monotonic()
                process_now = time.process_time()
                # A step takes the time of all runs that were in it, those that left it
                # included.
                for index in members:
                    progress = self.progress[index]
                    progress.seconds += (now - before) / len(members)
                    process_seconds = (process_now - process_before) / len(members)
                    progress.process_seconds += process_seconds
                late = now > deadline
                if not self.alive or late or now - saved > CHECKPOINT_SECONDS:
                    self.save()
                    saved = now
                if late and self.alive:
                    return False
        return True

    def train_step(self) -> None:
        """One update of every run that is alive."""
        batch = self.task.train_batch(
            self.model.seeds, self.step, self.shared.batch, self.device, self.shared.augment
        )
        if not self.model.training:  # setting it in every module takes as long as a block
            self.model.train()
        length = batch.inputs.shape[2] + (self.shared.prefix is not None)
        for index in self.alive:
            self.progress[index].tokens += self.shared.batch * length
        with autocast(self.device, self.model.precision):
            logits = self.model(batch, step=self.step)
        loss = self.task.losses(logits, batch.targets).flatten(1).mean(1)
        # Rows never meet, so each gets its own gradient.
        self.rows.differentiate(loss.sum())
        self.step += 1
        norms = self.adam.step(self.step)
        clipped = norms > self.adam.clip[:, 0]
        self.sums += torch.stack([loss.detach(), norms, clipped])
        self.summed += 1

    # --------------------------------------------------------------------------- evaluation

    def validate(self) -> None:
        """Add a point to every learning curve, from the validation set."""
        validated = evaluate(self.model, "valid", self.shared.eval_items)
        means = (self.sums / max(1, self.summed)).T.tolist()
        for row, index in enumerate(self.alive):
            progress = self.progress[index]
            accuracy = validated[row]["accuracy"]
            point = dict(zip(SUMS, means[row], strict=True))
            point["step"] = self.step
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
                progress.best_step = self.step
                progress.waited = 0
                self.state["best"][row] = self.rows.values[row]
        self.reset_sums()

    def finish_runs(self) -> None:
        """Test the runs that end here and let the others go on without them."""
        ending = [
            index
            for index in self.alive
            if self.progress[index].ends(self.specs[index], self.step)
        ]
        if not ending:
            return
        # Rows leave, so that each step costs what the runs that are left cost.
        leave = torch.tensor([index in ending for index in self.alive], device=self.device)
        last = self.state["values"][leave]
        best = self.state["best"][leave]
        self.bind(ending, best, self.state["frozen"][leave])
        measured: Sequence[dict[str, Any]] = [{} for _ in ending]
        if self.metrics:
            measured = self.metrics(self.model, self.shared)
        for row, (index, metrics) in enumerate(zip(ending, measured, strict=True)):
            progress = self.progress[index]
            if "test_accuracy" in metrics and torch.equal(last[row], best[row]):
                metrics["last_test_accuracy"] = metrics["test_accuracy"]
            metrics["valid_accuracy"] = max(0.0, progress.best_accuracy)
            metrics["best_step"] = progress.best_step
            metrics["steps"] = self.step
            metrics |= progress.start
            progress.metrics = metrics
            if progress.status == "running":
                progress.status = "done"
            self.selected[index] = best[row].to("cpu", copy=True)
        self.alive = [index for index in self.alive if index not in ending]
        self.hold({name: tensor[~leave] for name, tensor in self.state.items()})
        self.reset_sums()

    def report(self, indices: Sequence[int], bar: Any) -> None:
        """Show the last evaluation of the runs in the bar, and in a log as a line."""
        for index in indices:
            curve = self.progress[index].curve
            # A run that diverges is not evaluated at this step.
            point = curve[-1] if curve and curve[-1]["step"] == self.step else {}
            loss, accuracy = point.get("train_loss"), point.get("valid_accuracy")
            bar.set_postfix(loss=loss, accuracy=accuracy)
            if accuracy is not None:
                title = self.titles[index % len(self.titles)]
                line = f"{title}, seed {self.specs[index].seed}: step {self.step:,} of "
                line += f"{self.shared.steps:,}, loss {loss:.3f}, accuracy {accuracy:.3f}"
                log_line(line, self.quiet)

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
        left = {f"selected.{index}": row for index, row in self.selected.items()}
        history: dict[str, Any] = {
            **self.identity,
            "threads": torch.get_num_threads(),
            "progress": [vars(progress) for progress in self.progress],
            **{name: getattr(self, name) for name in COUNTS},
        }
        write_checkpoint(self.path, {**self.state, "sums": self.sums, **left}, history)

    def resume(self) -> None:
        """Go on from the checkpoint of this very pack; warns of another's."""
        saved = read_checkpoint(self.path) if self.path else None
        if saved is None:
            return
        tensors, history = saved
        if self.state.keys() < tensors.keys() and history == history | self.identity:
            self.restore(tensors, history)
            return
        warnings.warn(
            f"The checkpoint {self.path} is of other runs or weights than these, in "
            f"another precision ({history.get('arithmetic')} there, {self.arithmetic} "
            "here) or of another version of this package; its pack starts again.",
            stacklevel=2,
        )

    def restore(self, tensors: dict[str, Tensor], history: Mapping[str, Any]) -> None:
        """Take over what `save` wrote."""
        for name in COUNTS:
            setattr(self, name, history[name])
        self.progress = [Progress(**values) for values in history["progress"]]
        ended = set(range(len(self.specs))) - set(self.alive)
        self.selected = {index: tensors.pop(f"selected.{index}") for index in ended}
        # Copied even on a CPU: as aligned in memory as they were before.
        tensors = {name: rows.to(self.device, copy=True) for name, rows in tensors.items()}
        self.sums = tensors.pop("sums")
        self.hold(tensors)
