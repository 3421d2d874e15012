"""K runs in training or evaluation: what of a batch each step is handed, and the state that
a checkpoint holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..backbones import Backbone
from ..backbones.dropout import Draws
from ..spec import RunSpec
from ..tasks import Batch, Task
from ..tasks.rng import shuffled
from ..training.device import AUTO
from .rows import assemble, settings_of
from .step import Rows, Step


class Runs:
    """K runs of one task on one frozen backbone.

    `state` has, by name and parameter, what changes while they train, a row for each run
    that is left: `values`, the values at the `best` validation so far, `first` and `second`
    moments, and `fixed`, what a run has drawn and does not train.
    """

    def __init__(
        self,
        specs: Sequence[RunSpec],
        task: Task,
        device: str,
        architecture: Backbone | None = None,
        precision: str = AUTO,
    ) -> None:
        assembled = assemble(specs, task, device, architecture, precision)
        self.specs = list(specs)
        self.task = task
        self.device = device
        self.step: Step = assembled.step
        self.groups = assembled.groups
        values = assembled.rows
        zeros = {name: torch.zeros_like(row) for name, row in values.items()}
        self.state: dict[str, Rows] = {
            "values": values,
            "best": dict(values),
            "first": zeros,
            "second": dict(zeros),
            "fixed": assembled.fixed,
        }
        self.alive = list(range(len(specs)))  # of which the state has rows
        self.sites = 0  # places where dropout falls, once a batch has come by

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of the runs that are left, which key all their draws."""
        return tuple(self.specs[index].seed for index in self.alive)

    def update(self, batch: Batch, count: int) -> tuple[Tensor, Tensor]:
        """Training step `count` (from 1) on a batch: losses and norms, (K,)."""
        tokens = self.tokens(batch)
        masks, noise = self.draws(batch, count - 1)
        self.step.begin()
        state = self.state
        state["values"], state["first"], state["second"], losses, norms = self.step(
            state["values"], state["first"], state["second"],
            torch.full((), float(count), device=self.device),
            state["fixed"], *tokens, batch.targets, masks, noise,
        )  # fmt: skip
        return losses, norms

    def tokens(self, batch: Batch) -> tuple[Tensor, Tensor | None, Tensor]:
        """Inputs (K, B, T, ...), which tokens are real (K, B, T), and the positions read
        (K, B, R): an evaluation batch is one for all runs."""
        runs = len(self.alive)
        inputs = batch.inputs.expand(runs, *batch.inputs.shape[1:])
        size, length = inputs.shape[1:3]
        if self.specs[0].order == "shuffled":
            inputs = shuffled(inputs, batch.last, self.task.reads, self.seeds)
        places = torch.arange(length - self.task.reads, length, device=inputs.device)
        read = places.expand(runs, size, -1)
        if batch.last is not None:
            read = batch.last[..., None].expand(runs, -1, -1)
        real = None if batch.mask is None else batch.mask.expand(runs, -1, -1)
        return inputs, real, read

    def draws(
        self, batch: Batch, step: int, first: int | None = None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Dropout masks (K, sites, B, T, width) and noise of a training step, or only the
        noise of an evaluation batch whose first example has the number `first` in its
        split."""
        spec = self.specs[0]
        body = self.step.net.backbone
        width = self.step.net.width
        size = batch.inputs.shape[1]
        drawn = Draws(self.seeds)
        if first is None:
            # Masks as long as the task allows, however far this batch is padded: that
            # depends on the neighbours in the pack.
            longest = self.task.length + (spec.prefix is not None)
            drawn.begin(step, (size, longest, width), self.device)
        masks = None
        if first is None and spec.dropout:
            drawn.sites = [spec.dropout] * self.count_sites(batch)
            kept = [drawn.kept(site) for site in range(len(drawn.sites))]
            masks = torch.stack(kept, 1) if kept else None
        noise = None
        if body.noisy_layers:
            drawn.first = first or 0
            layers = body.noisy_layers
            like = torch.empty(0, device=self.device)
            noise = drawn.normal(
                "lstm state", (layers, 2, size, width), like, first is None
            )
        return masks, noise

    def count_sites(self, batch: Batch) -> int:
        """How many places of dropout a pass comes by: one is made without any."""
        if not self.sites:
            with torch.no_grad():
                self.logits(batch, 0)
            self.sites = self.step.net.backbone.masks.next
        return self.sites

    def logits(self, batch: Batch, first: int) -> Tensor:
        """(K, B, R, classes) of an evaluation batch, whose first example has the number
        `first` in its split, without dropout."""
        return self.computed(self.step.logits, batch, first)

    def features(self, batch: Batch, first: int) -> Tensor:
        """What the output nets read of an evaluation batch, (K, B, R, width)."""
        return self.computed(self.step.features, batch, first)

    @torch.no_grad()
    def computed(self, function: Any, batch: Batch, first: int) -> Tensor:
        """A function of one run, of its rows and a batch, for each run."""
        _, noise = self.draws(batch, 0, first)
        self.step.begin()
        rows = {**self.state["fixed"], **self.state["values"]}
        return self.step.each(function, rows, *self.tokens(batch), None, noise)

    # ---------------------------------------------------------------------------- its rows

    def keep_best(self, row: int) -> None:
        """The values of a run, by its row, are its best so far."""
        for name, best in self.state["best"].items():
            if best is self.state["values"][name]:
                best = self.state["best"][name] = best.clone()
            best[row] = self.state["values"][name][row]

    def chosen(self, rows: Sequence[int], which: str) -> "Runs":
        """The runs in some rows alone, with their `which` values: `values` or `best`."""
        part = object.__new__(Runs)
        part.__dict__ |= vars(self)
        part.alive = [self.alive[row] for row in rows]
        index = torch.tensor(rows, dtype=torch.int64, device=self.device)
        state = {
            kind: {name: tensor[index] for name, tensor in of_kind.items()}
            for kind, of_kind in self.state.items()
        }
        part.state = {**state, "values": state[which]}
        specs = [self.specs[run] for run in part.alive]
        part.step = self.step.with_settings(settings_of(specs, self.groups, self.device))
        return part

    def stored(self, trainable: Sequence[str]) -> Mapping[str, Tensor]:
        """The trained values of the one run that is left, on the CPU, by the names that
        files of kept parameters have: those of the groups `trainable`."""
        names = self.step.net.state_names
        return {
            names[name].replace("backbone.", "body.", 1): row[0].cpu()
            for name, row in self.state["values"].items()
            if self.groups[name] in trainable
        }
