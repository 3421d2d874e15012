"""The one optimisation loop: a pack from its first step, or its checkpoint, to its numbers.

Every `eval_every` steps the runs are evaluated on validation. A run ends at its last step, after
`patience` evaluations without a better validation accuracy, or when it diverges; then it leaves the
pack by index, and the test set is read once, for the parameters chosen on validation.
"""

import math
import time
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ..backbones.layers import round_frozen
from ..spec import RunSpec
from ..tasks import Task
from . import checkpoint
from .checkpoint import Progress
from .device import autocast, keep_memory
from .model import assemble
from .packing import Adam, losses

EVAL_TOKENS = 1 << 15  # tokens of all runs together in one evaluation batch
TRAIN_ITEMS = 1000  # training examples, without augmentation, that a run is scored on
CHECKPOINT_SECONDS = 60.0
AFTER_THRESHOLD = 2  # evaluations that a run goes on for


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
        path: Path | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> None:
        keep_memory()
        self.specs, self.task, self.device, self.path = list(specs), task, device, path
        self.checkpoint_seconds = checkpoint_seconds
        first = specs[0]
        self.batch, self.steps, self.every = first.batch, first.steps, first.eval_every
        self.model, self.rows, self.frozen = assemble(specs, task, device)
        self.alive = list(range(len(specs)))
        self.adam = Adam(
            self.rows,
            self._column([spec.lr for spec in specs]),
            self._column([spec.clip for spec in specs]),
            self._mask(),
        )
        if device.type == "cuda":
            round_frozen(self.model.backbone)
        self.best = self.rows.values.clone()
        self.selected: dict[int, Tensor] = {}  # rows of the runs that have left, on the CPU
        self.progress = [Progress() for _ in specs]
        self.step, self.summed = 0, 0
        self.sums = torch.zeros(3, len(specs), device=device)

    def _column(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, device=self.device, dtype=torch.float32)[:, None]

    def _mask(self) -> Tensor | None:
        """(K, P), 0 where a run does not train a column that a pack mate trains; None: all do."""
        if len({spec.trainable for spec in self.specs}) == 1:
            return None
        mask = torch.zeros_like(self.rows.values)
        columns = self.rows.columns()
        for row, spec in zip(mask, self.specs, strict=True):
            for part in self.rows.slices:
                if part.group in spec.trainable:
                    row[columns[part.name]] = 1
        return mask

    def _reset_sums(self) -> None:
        """Sums since the last evaluation, per run: loss, gradient norm, clipped steps."""
        self.sums = torch.zeros(3, len(self.alive), device=self.device)
        self.summed = 0

    # ---------------------------------------------------------------------------------- training

    def run(self, deadline: float = math.inf, bar: tqdm | None = None) -> bool:
        """Train until all runs have ended (True) or `time.monotonic()` passes `deadline`."""
        self.resume()
        if bar is not None:
            bar.update(self.step - bar.n)
        saved = time.monotonic()
        before = (saved, time.process_time())
        while self.alive:
            sharing = self.alive
            self.train_step()
            if bar is not None:
                bar.update()
            if self.step % self.every == 0 or self.step == self.steps:
                self.validate()
                self.finish_runs()
            now = time.monotonic()
            after = (now, time.process_time())
            for index in sharing:
                progress = self.progress[index]
                progress.seconds += (after[0] - before[0]) / len(sharing)
                progress.process_seconds += (after[1] - before[1]) / len(sharing)
            before = after
            if self.alive and now > deadline:
                self.save()
                return False
            if now - saved > self.checkpoint_seconds:
                self.save()
                saved = now
        self.save()
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
        with autocast(self.device):
            logits = self.model(batch)
        loss = losses(logits, batch.targets)
        with warnings.catch_warnings():
            # Gradients are added up in place, in rows as wide as the pack's; torch warns once per
            # process that this may be slower.
            warnings.filterwarnings("ignore", "grad and param do not obey the gradient layout")
            loss.sum().backward()
        self.step += 1
        norms = self.adam.step(self.step)
        self.sums += torch.stack([loss.detach(), norms, (norms > self.adam.clip[:, 0]).float()])
        self.summed += 1

    # -------------------------------------------------------------------------------- evaluation

    @torch.no_grad()
    def evaluate(
        self, split: str, indices: Sequence[int], at_most: int = 0
    ) -> list[dict[str, float]]:
        """Accuracy, loss and the task's own scores on `split`, on its fixed subset of `at_most`
        examples (`Task.subset`) or (0) all; `indices` are bound. No dropout, no augmentation."""
        runs = len(indices)
        self.model.eval()
        draws = self.model.draws
        draws.seeds = tuple(self.specs[index].seed for index in indices)
        size = max(1, EVAL_TOKENS // (runs * self.task.length))
        totals: dict[str, Tensor] = {}
        counts: dict[str, Tensor] = {}

        def add(name: str, values: Tensor, applies: Tensor) -> None:  # each (K, B, R)
            zero = torch.zeros(runs, device=self.device, dtype=torch.float64)
            total = values.where(applies, 0).double().sum((1, 2))
            totals[name] = totals.get(name, zero) + total
            counts[name] = counts.get(name, zero) + applies.double().sum((1, 2))

        items = 0
        for batch in self.task.eval_batches(split, size, self.device, at_most):
            draws.first = items
            with autocast(self.device):
                logits = self.model(batch).float()
            targets = batch.targets.expand(runs, -1, -1)
            right = (logits.argmax(-1) == targets).float()
            each = torch.nn.functional.cross_entropy(
                logits.flatten(0, 2), targets.flatten(), reduction="none"
            )
            always = torch.ones_like(right, dtype=torch.bool)
            add("accuracy", right, always)
            add("loss", each.view(targets.shape), always)
            for name, values in self.task.scores(logits, batch).items():
                add(name, values, ~values.isnan())
            items += targets.shape[1]
        applied = [name for name in totals if bool(counts[name].all())]  # some depths have no item
        means = {name: (totals[name] / counts[name]).tolist() for name in applied}
        rows = [{name: values[run] for name, values in means.items()} for run in range(runs)]
        return [row | {"items": items} for row in rows]

    def validate(self) -> None:
        """One point of every learning curve, from the validation set."""
        seen = self.evaluate("valid", self.alive, self.specs[0].eval_items)
        sums = (self.sums / max(1, self.summed)).tolist()
        for row, index in enumerate(self.alive):
            progress = self.progress[index]
            train_loss, norm, clipped = (values[row] for values in sums)
            accuracy, loss = seen[row]["accuracy"], seen[row]["loss"]
            if not all(map(math.isfinite, (train_loss, norm, loss))):
                progress.status = "diverged"
                continue
            progress.curve.append(
                {
                    "step": self.step,
                    "train_loss": train_loss,
                    "valid_loss": loss,
                    "valid_accuracy": accuracy,
                    "gradient_norm": norm,
                    "clipped": clipped,
                }
            )
            progress.waited += 1
            if accuracy > progress.best_accuracy:
                progress.best_accuracy, progress.best_step = accuracy, self.step
                progress.waited = 0
                self.best[row] = self.rows.values[row]
        self._reset_sums()

    def finish_runs(self) -> None:
        """Test the runs that end here and let the others go on without them."""
        leaving = [row for row, index in enumerate(self.alive) if self._ends(index)]
        if not leaving:
            return
        index = torch.tensor(leaving, device=self.device)
        stay = torch.tensor(
            [row for row in range(len(self.alive)) if row not in leaving],
            device=self.device,
            dtype=torch.long,
        )
        values, frozen = self.rows.values, self.frozen.values
        indices = [self.alive[row] for row in leaving]
        self.frozen.bind(frozen[index])
        self.rows.bind(self.best[index])
        unchanged = (values[index] == self.best[index]).all(1).tolist()  # the last were the best
        tested = self.evaluate("test", indices, self.specs[0].test_items)
        endless = not self.task.sizes["train"]  # then training and test examples are of one kind
        seen = [{}] * len(indices) if endless else self.evaluate("train", indices, TRAIN_ITEMS)
        for row, at_test, at_train, is_last in zip(leaving, tested, seen, unchanged, strict=True):
            progress = self.progress[self.alive[row]]
            self.selected[self.alive[row]] = self.best[row].to("cpu", copy=True)
            if progress.status == "running":
                progress.status = "done"
            progress.metrics = {f"test_{name}": value for name, value in at_test.items()}
            if "accuracy" in at_train:
                progress.metrics["train_accuracy"] = at_train["accuracy"]
                progress.metrics["train_items"] = at_train["items"]
            if is_last:
                progress.metrics["last_test_accuracy"] = at_test["accuracy"]
            progress.metrics |= {
                "valid_accuracy": max(0.0, progress.best_accuracy),
                "best_step": progress.best_step,
                "steps": self.step,
            }
        self.frozen.bind(frozen[stay])
        self.rows.bind(values[stay])
        self.best = self.best[stay]
        self.adam.keep(stay)
        self.alive = [index for row, index in enumerate(self.alive) if row not in leaving]
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

    # -------------------------------------------------------------------------------- checkpoint

    def save(self) -> None:
        if self.path is None:
            return
        tensors = {
            "values": self.rows.values,
            "frozen": self.frozen.values,
            "best": self.best,
            "first": self.adam.first,
            "second": self.adam.second,
            "sums": self.sums,
            **{f"selected.{index}": row for index, row in self.selected.items()},
        }
        history: dict[str, Any] = {
            "keys": [spec.key for spec in self.specs],
            "alive": self.alive,
            "step": self.step,
            "summed": self.summed,
            "progress": [vars(progress) for progress in self.progress],
        }
        checkpoint.write(self.path, tensors, history)

    def resume(self) -> None:
        """Go on from the checkpoint of this very pack, if there is one; warns of another's."""
        if self.path is None or (found := checkpoint.read(self.path)) is None:
            return
        if found[1].get("keys") != [spec.key for spec in self.specs]:
            warnings.warn(
                f"The checkpoint {self.path} is of other runs than those that are trained here; "
                "their pack starts again.",
                stacklevel=2,
            )
            return
        tensors, history = found
        self.progress = [Progress(**values) for values in history["progress"]]
        self.selected = {
            index: tensors.pop(name)
            for index in range(len(self.specs))
            if (name := f"selected.{index}") in tensors
        }
        # Copied even on a CPU: as aligned in memory as they were before.
        tensors = {name: tensor.to(self.device, copy=True) for name, tensor in tensors.items()}
        self.alive, self.step, self.summed = (history[it] for it in ("alive", "step", "summed"))
        self.adam.keep(torch.tensor(self.alive, device=self.device, dtype=torch.long))
        self.rows.bind(tensors["values"])
        self.frozen.bind(tensors["frozen"])
        self.best, self.sums = tensors["best"], tensors["sums"]
        self.adam.first, self.adam.second = tensors["first"], tensors["second"]
