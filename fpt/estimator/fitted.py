"""A run on examples in memory: trained, used to predict, stored without the backbone.

The frozen weights are up to a gigabyte, and the same in every run on them. So a pickle does
not hold them: it holds their digest, their identity and the absolute folder that they came
from, and every use compares the digest before it computes anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import nn

from ..backbones import Backbone
from ..backbones.weights import digest, files
from ..errors import FptError
from ..project import project
from ..spec import RunSpec
from ..tasks.own.arrays import InputError
from ..tasks.own.examples import ExamplesTask
from ..tasks.sequences import Sequences, batch
from ..training import device as devices
from ..training.kept import with_parameters
from ..training.loop import Loop, untested
from ..training.model import EVAL_TOKENS


@dataclass(frozen=True)
class Fitted:
    """A trained run: its spec, its backbone, its task without the examples, its trained
    parameters as a safetensors file, the digest of the frozen weights (None: they are
    drawn), and its learning curve."""

    spec: RunSpec
    architecture: Backbone = field(repr=False)
    task: ExamplesTask = field(repr=False)
    parameters: bytes = field(repr=False)
    weights_digest: str | None
    curve: Sequence[Mapping[str, float]] = field(default=(), repr=False)

    def logits(
        self, inputs: Sequences, device: str, symbols: np.ndarray | None = None
    ) -> torch.Tensor:
        """(N, R, classes) on the CPU, from sequences as the run was trained on. They may be
        longer than those, and have symbols that are not among `symbols`, the ones that it
        was trained on. A run with an answer per token has one for each of theirs.
        InputError if the answers are not finite numbers."""
        place = devices.choose(device)
        longest = int(inputs.lengths.max())
        task = replace(
            self.task,
            length=max(longest, self.task.length),
            reads=longest if self.task.reads > 1 else 1,
        )
        if self.task.reads > 1 and inputs.starts is not None:
            raise InputError(
                "The fit had an answer per token, which needs sequences of equal length; "
                "predict those of each length on their own."
            )
        if symbols is not None:
            inputs = inputs.with_unknown(symbols, task.dim)
        model = with_parameters(self.spec, task, self.parameters, place, self.located())
        if symbols is not None:
            add_unknown(model.input, symbols)
        size = max(1, EVAL_TOKENS // task.length)
        answers = []
        with torch.no_grad(), devices.autocast(place):
            for first in range(0, len(inputs), size):
                part = inputs[first : first + size]
                values, starts = part.tensors()
                rows = torch.arange(len(part))[None]
                examples = batch(values.to(place), starts, rows, rows[..., None])
                answers.append(model(examples, first=first)[0].float().cpu())
        logits = torch.cat(answers)
        if not logits.isfinite().all():
            raise InputError(
                "The predictions are not finite numbers; bring X to the scale of the "
                "examples that were fitted."
            )
        return logits

    def located(self) -> Backbone:
        """The backbone, with the folder in which its weights lie now: the one that they
        were read from, or one that has their identity, so that a folder may move. FptError
        if neither has these weights."""
        if self.weights_digest is None:
            return self.architecture
        name, origin = str(self.spec.weights), self.architecture.folder
        for folder in dict.fromkeys((origin, "")):
            try:
                present = digest(files(name, folder))
            except FptError:
                if not origin:
                    raise
                continue
            if present == self.weights_digest:
                return replace(self.architecture, folder=folder)
        raise FptError(
            f"The weights {name!r} that this estimator was trained on are not in "
            f"{origin or 'their place'} any more: put those back, copy them into "
            f"{project().backbones}, or fit again."
        )


def add_unknown(table: nn.Module, symbols: np.ndarray) -> None:
    """Append a row to the embedding `table` for all symbols that training has not seen: the
    mean of the rows of those that it has seen, `symbols`. So an unknown symbol says that
    there is a token and where, and nothing else."""
    rows = table.get_parameter("weight").detach()  # (1, symbols, width)
    unknown = rows[:, torch.from_numpy(symbols)].mean(1, keepdim=True)
    table.weight = nn.Parameter(torch.cat([rows, unknown], 1), requires_grad=False)


def train(
    spec: RunSpec, architecture: Backbone, task: ExamplesTask, device: str, progress: bool
) -> Fitted:
    """Train a run on its backbone. FptError if it diverges."""
    weights_digest = None
    if spec.weights:
        weights_digest = digest(files(spec.weights, architecture.folder))
    loop = Loop(
        [spec],
        task,
        devices.choose(device),
        quiet=not progress,
        architecture=architecture,
        metrics=untested,
    )
    loop.run()
    (run,) = loop.progress
    if run.status == "diverged":
        raise FptError(f"Training diverged at a learning rate of {spec.lr:g}; lower it.")
    parameters = loop.rows.stored(loop.selected[0], spec.trainable)
    bare = replace(task, splits={}, sizes={}, weights=None)
    return Fitted(spec, architecture, bare, parameters, weights_digest, run.curve)
