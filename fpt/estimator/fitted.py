"""A run on examples in memory: trained, used to predict, stored without the backbone.

The frozen weights are up to a gigabyte, and the same in every run on them. So neither a
pickle nor a saved estimator holds them: it holds their digest, their identity and the
absolute folder that they came from, and every use compares the digest before it computes
anything.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..backbones import Backbone
from ..backbones.weights import digest, files
from ..errors import FptError
from ..files import read_json, write_atomic, write_json
from ..project import project
from ..spec import RunSpec, canonical, from_dict
from ..tasks.datasets import Dataset
from ..tasks.own.arrays import InputError
from ..tasks.own.examples import ExamplesTask
from ..tasks.sequences import Sequences, batch
from ..training import device as devices
from ..training.evaluation import EVAL_TOKENS
from ..training.kept import with_parameters
from ..training.loop import Loop

DESCRIPTION, PARAMETERS = "estimator.json", "parameters.safetensors"
# Of a task, as a fitted run needs them.
SHAPES = ("kind", "dim", "length", "reads", "classes")


@dataclass(frozen=True)
class Fitted:
    """A trained run: its spec, its backbone, the shapes of its task, its trained parameters
    as a safetensors file, the digest of the frozen weights (None: they are drawn), and its
    learning curve."""

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
        """(N, R, classes) on the CPU, from sequences as the run was trained on. They may be
        longer than those, and have symbols that are not among `symbols`, the ones that it
        was trained on. A run with an answer per token has one for each of theirs.
        InputError if the answers are not finite numbers."""
        place = devices.choose(device)
        longest = int(inputs.lengths.max())
        task = replace(
            self.task,
            length=max(longest, self.shapes["length"]),
            reads=longest if self.shapes["reads"] > 1 else 1,
        )
        if self.shapes["reads"] > 1 and (inputs.lengths != longest).any():
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
        values, starts = inputs.tensors()
        answers = []
        with torch.no_grad(), devices.autocast(place):
            for rows in torch.arange(len(inputs)).split(size):
                # A part at a time: a device may not hold all that is to be predicted.
                examples = batch(values, starts, rows[None], rows[None, :, None])
                logits = model(examples.to(place), first=int(rows[0]))
                answers.append(logits[0].float().cpu())
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
        if they are missing, and if what lies there are other weights."""
        if self.weights_digest is None:
            return self.architecture
        name = str(self.spec.weights)
        origin = self.architecture.folder
        reason = f"there are none in {origin}"
        # The folder they came from, then (empty) wherever their identity finds them.
        for folder in [origin, ""] if origin else [""]:
            try:
                paths = files(name, folder)
            except FptError:
                if not origin:
                    raise  # it says where they were looked for
                continue
            if digest(paths) == self.weights_digest:
                return replace(self.architecture, folder=folder)
            reason = f"{paths[0].parent} holds others"
        raise FptError(
            f"The weights {name!r} that this estimator was trained on are missing "
            f"({reason}); put them back, copy their folder under its name into "
            f"{project().backbones}, or fit again."
        )

    def save(self, folder: Path, description: Mapping[str, Any]) -> None:
        """Write the trained parameters and, with the description, what they belong to."""
        run = {
            "spec": self.spec.to_dict(),
            "architecture": asdict(self.architecture),
            "shapes": self.shapes,
            "weights_digest": self.weights_digest,
            "curve": list(self.curve),
        }
        content = json.loads(json.dumps({**run, **description}, default=as_json))
        write_atomic(folder / PARAMETERS, self.parameters)
        write_json(
            folder / DESCRIPTION, {"seal": seal(self.parameters, content), **content}
        )


def add_unknown(table: nn.Module, symbols: np.ndarray) -> None:
    """Append a row to the embedding `table` for all symbols that training has not seen: the
    mean of the rows of those that it has seen, `symbols`. So an unknown symbol says that
    there is a token and where, and nothing else."""
    rows = table.get_parameter("weight").detach()  # (1, symbols, width)
    unknown = rows[:, torch.from_numpy(symbols)].mean(1, keepdim=True)
    table.weight = nn.Parameter(torch.cat([rows, unknown], 1), requires_grad=False)


def as_json(value: Any) -> Any:
    """A path, an array or a NumPy scalar as JSON has it."""
    if isinstance(value, Path):
        return str(value.absolute())
    if not isinstance(value, np.ndarray):
        return value.tolist()
    dtype = value.dtype
    # JSON has no bytes, which labels may be. Latin-1 has a character for each byte.
    if dtype.kind == "S":
        value = np.char.decode(value, "latin-1")
    return {"dtype": dtype.str, "values": value.tolist()}


def from_json(value: Any) -> Any:
    """What a fit learned, from what `as_json` made of it."""
    if isinstance(value, list):
        return [from_json(part) for part in value]
    if not isinstance(value, Mapping) or "dtype" not in value:
        return value
    dtype = np.dtype(value["dtype"])
    if dtype.kind == "S":
        return np.char.encode(value["values"], "latin-1")
    return np.array(value["values"], dtype)


def seal(parameters: bytes, description: Mapping[str, Any]) -> str:
    """The SHA-256 of all that `Fitted.save` writes."""
    return hashlib.sha256(parameters + canonical(description).encode()).hexdigest()


def load_fitted(folder: Path) -> tuple[Fitted, dict[str, Any]]:
    """What `Fitted.save` wrote, and its description. FptError if it is missing or damaged,
    or if the weights of its backbone are others than those that it was trained on."""
    description: dict[str, Any] = read_json(folder / DESCRIPTION)
    path = folder / PARAMETERS
    content = path.read_bytes() if path.is_file() else b""
    if description.pop("seal", None) != seal(content, description):
        raise FptError(f"{folder} holds no complete estimator; save it again.")
    try:
        spec = from_dict(description["spec"])
        architecture = Backbone(**description["architecture"])
    except (KeyError, TypeError) as error:
        raise FptError(
            f"{folder} was saved by another version of this package; fit the estimator "
            "again."
        ) from error
    fitted = Fitted(
        spec,
        architecture,
        description["shapes"],
        content,
        description["weights_digest"],
        tuple(description.get("curve", ())),
    )
    fitted.located()
    return fitted, description


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
        metrics=None,
    )
    loop.run()
    (run,) = loop.progress
    if run.status == "diverged":
        raise FptError(f"Training diverged at a learning rate of {spec.lr:g}; lower it.")
    parameters = loop.rows.stored(loop.selected[0], spec.trainable)
    shapes = {name: getattr(task, name) for name in SHAPES}
    return Fitted(spec, architecture, shapes, parameters, weights_digest, run.curve)
