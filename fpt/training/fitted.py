"""Runs on examples in memory: trained in packs, used to predict, stored without the backbone.

The frozen weights are up to a gigabyte, and the same in every run on them. So neither a pickle nor
a saved estimator holds them: it holds their digest, their identity and the absolute folder that
they came from, and every use compares the digest before it computes anything.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from ..backbones import Backbone
from ..backbones.weights import digest, files, local_folder
from ..files import FptError, read_json, write_atomic, write_json
from ..spec import RunSpec, canonical, from_dict
from ..tasks.datasets import Dataset
from ..tasks.own.arrays import InputError
from ..tasks.own.examples import Data, ExamplesTask
from ..tasks.sequences import Sequences, batch
from . import device as devices
from .kept import with_parameters
from .loop import Loop
from .model import EVAL_TOKENS
from .sweep import packs

DESCRIPTION, PARAMETERS = "estimator.json", "parameters.safetensors"
SHAPES = ("kind", "dim", "length", "reads", "classes")  # of a task, as a fitted run needs them


@dataclass(frozen=True)
class Fitted:
    """A trained run: its spec, its backbone, the shapes of its task, its trained parameters as a
    safetensors file, the digest of the frozen weights (None: they are drawn), and its learning
    curve."""

    spec: RunSpec
    architecture: Backbone = field(repr=False)
    shapes: Mapping[str, Any]
    parameters: bytes = field(repr=False)
    weights_digest: str | None
    curve: Sequence[Mapping[str, float]] = field(default=(), repr=False)

    @property
    def task(self) -> ExamplesTask:
        """The task of the run without its examples."""
        dataset = Dataset("", json.loads(self.spec.data)["data"], dict)
        return ExamplesTask(
            name=self.spec.task, options={}, dataset=dataset, sizes={}, **self.shapes
        )

    def logits(
        self, inputs: Sequences, device: str, symbols: np.ndarray | None = None
    ) -> torch.Tensor:
        """(N, R, classes) on the CPU, from sequences as the run was trained on. They may be longer
        than those, and have symbols that are not among `symbols`, the ones that it was trained on.
        A run with an answer per token has one for each of theirs. InputError if the answers are not
        finite numbers."""
        where, answers = devices.choose(device), []
        longest = int(inputs.lengths.max())
        task = replace(
            self.task,
            length=max(longest, self.shapes["length"]),
            reads=longest if self.shapes["reads"] > 1 else 1,
        )
        if self.shapes["reads"] > 1 and inputs.starts is not None:
            raise InputError(
                "The fit had an answer per token, which needs sequences of equal length; predict "
                "those of each length on their own."
            )
        if symbols is not None:
            inputs = inputs.with_unknown(symbols, task.dim)
        model = with_parameters(self.spec, task, self.parameters, where, self.located())
        if symbols is not None:
            add_unknown(model.input, symbols)
        size = max(1, EVAL_TOKENS // task.length)
        with torch.no_grad(), devices.autocast(where):
            for first in range(0, len(inputs), size):
                part = inputs[first : first + size]
                values, starts = part.tensors()
                rows = torch.arange(len(part))[None]
                examples = batch(values.to(where), starts, rows, rows[..., None])
                logits = model(examples, first=first)
                answers.append(logits[0].float().cpu())
        whole = torch.cat(answers)
        if not whole.isfinite().all():
            raise InputError(
                "The predictions are not finite numbers; bring X to the scale of the examples that "
                "were fitted."
            )
        return whole

    def located(self) -> Backbone:
        """The backbone, with the folder in which its weights lie now: the one that they were read
        from, or one that has their identity, so that a folder may move. FptError if they are
        missing, and if what lies there are other weights."""
        if self.weights_digest is None:
            return self.architecture
        name, origin = str(self.spec.weights), self.architecture.folder
        changed: list[str] = []
        for folder in dict.fromkeys((origin, "")):
            try:
                paths = files(name, folder)
            except FptError:
                if not origin:
                    raise
                continue
            if digest(paths) == self.weights_digest:
                return replace(self.architecture, folder=folder)
            changed.append(str(paths[0].parent))
        remedy = f"put those back, copy them into {local_folder()}, or fit again"
        if changed:
            raise FptError(
                f"The weights {name!r} in {changed[0]} are not those that this estimator was "
                f"trained on: {remedy}."
            )
        raise FptError(
            f"The weights {name!r} that this estimator was trained on are not in {origin} any "
            f"more: {remedy}."
        )

    def save(self, folder: Path, description: Mapping[str, Any]) -> None:
        """Write the trained parameters and, with the description, what they belong to."""
        run = {
            "spec": self.spec.to_dict(),
            "architecture": asdict(self.architecture),
            "shapes": self.shapes,
            "weights_digest": self.weights_digest,
        }
        whole = plain({**run, **description})
        write_atomic(folder / PARAMETERS, self.parameters)
        write_json(folder / DESCRIPTION, {"seal": seal(self.parameters, whole), **whole})


def add_unknown(table: nn.Module, symbols: np.ndarray) -> None:
    """Append a row to the embedding `table` for all symbols that training has not seen: the mean of
    the rows of those that it has seen, `symbols`. So an unknown symbol says that there is a token
    and where, and nothing else."""
    rows = table.get_parameter("weight").detach()  # (1, symbols, width)
    unknown = rows[:, torch.from_numpy(symbols)].mean(1, keepdim=True)
    table.weight = nn.Parameter(torch.cat([rows, unknown], 1), requires_grad=False)


def plain(value: Any) -> Any:
    """`value` as JSON has it; values by names that are no text, as pairs."""
    if isinstance(value, Mapping):
        named = {name: plain(it) for name, it in value.items()}
        return named if all(isinstance(it, str) for it in named) else plain([*value.items()])
    if isinstance(value, tuple | list):
        return [plain(it) for it in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value.absolute()) if isinstance(value, Path) else value


def seal(parameters: bytes, description: Mapping[str, Any]) -> str:
    """The SHA-256 of all that `Fitted.save` writes."""
    return hashlib.sha256(parameters + canonical(description).encode()).hexdigest()


def load(folder: Path) -> tuple[Fitted, dict[str, Any]]:
    """What `Fitted.save` wrote, and its description. FptError if it is missing or damaged, or if
    the weights of its backbone are others than those that it was trained on."""
    found: dict[str, Any] = read_json(folder / DESCRIPTION)
    path = folder / PARAMETERS
    content = path.read_bytes() if path.is_file() else b""
    if found.pop("seal", None) != seal(content, found):
        raise FptError(f"{folder} holds no whole estimator as it was saved; save it again.")
    try:
        spec, architecture = from_dict(found["spec"]), Backbone(**found["architecture"])
    except (KeyError, TypeError) as error:
        raise FptError(
            f"{folder} was saved by another version of this package; fit the estimator again."
        ) from error
    fitted = Fitted(spec, architecture, found["shapes"], content, found["weights_digest"])
    fitted.located()
    return fitted, found


def train(
    runs: Sequence[tuple[RunSpec, Backbone]], task: ExamplesTask, device: str, progress: bool
) -> list[Fitted]:
    """Train runs, each on its backbone, on one task; those that share a backbone, batch and steps
    as one pack. FptError for a run that diverged."""
    shapes = {name: getattr(task, name) for name in SHAPES}
    architectures = dict(runs)
    done = {}
    for pack in packs(architectures, length=task.length):
        architecture = architectures[pack[0]]
        weights = pack[0].weights
        weights_digest = digest(files(weights, architecture.folder)) if weights else None
        titles = [f"seed {it.seed}, rate {it.lr:g}" for it in pack]
        where, quiet = devices.choose(device), not progress
        loop = Loop(pack, task, where, titles=titles, quiet=quiet, architecture=architecture)
        loop.run()
        for index, (spec, seen) in enumerate(zip(pack, loop.progress, strict=True)):
            if seen.status == "diverged":
                raise FptError(f"Training diverged at a learning rate of {spec.lr:g}; lower it.")
            content = loop.rows.stored(loop.selected[index], spec.trainable)
            done[spec] = Fitted(spec, architecture, shapes, content, weights_digest, seen.curve)
    return [done[spec] for spec, _ in runs]


@dataclass(frozen=True)
class Control:
    """The scores of a fitted backbone and of its random twin on the held-out examples, and the 95%
    interval of the first minus the second. It reflects variation over these examples, not over
    seeds; the parameters of both were chosen on them."""

    score: float
    random: float
    low: float
    high: float

    def __repr__(self) -> str:
        difference = f"{self.score - self.random:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
        return f"{self.score:.3f}, random twin {self.random:.3f}, difference {difference}"


def compared(
    own: Fitted,
    twin: Fitted,
    valid: Data,
    task: ExamplesTask,
    device: str,
    symbols: np.ndarray | None = None,
) -> Control:
    """A fitted run and its random twin on the held-out examples."""
    targets = torch.from_numpy(valid[1])
    scores = [task.correct(it.logits(valid[0], device, symbols), targets) for it in (own, twin)]
    ours, theirs = (it.double().mean(1).numpy() for it in scores)
    apart = ours - theirs
    low = high = float(apart.mean())
    if apart.std() > 0:
        low, high = map(float, stats.ttest_1samp(apart, 0).confidence_interval())
    return Control(float(ours.mean()), float(theirs.mean()), low, high)
