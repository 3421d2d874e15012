"""A run on examples in memory: trained, used to predict, stored without the backbone.

The frozen weights are up to a gigabyte, and the same in every run on them. So neither a
pickle nor a saved estimator holds them: it holds their digest, their identity and the
absolute folder that they came from, and every use compares the digest before it computes
anything.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..backbones import Backbone
from ..backbones.weights import digest, files
from ..errors import FptError
from ..files import read_json, write_atomic, write_json
from ..project import project
from ..records import sha256
from ..records.content import check_digest
from ..records.content import digest as digest_of
from ..spec import RunSpec, from_dict
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
SHAPES = ("kind", "dim", "length", "classes")


@dataclass(frozen=True, repr=False)
class Fitted:
    """A trained run: its spec, its backbone, the shapes of its task, its trained parameters
    as a safetensors file, the digest of the frozen weights (None: they are drawn), and its
    learning curve."""

    spec: RunSpec
    architecture: Backbone
    shapes: Mapping[str, Any]
    parameters: bytes
    weights_digest: str | None
    curve: Sequence[Mapping[str, float]]

    @property
    def task(self) -> ExamplesTask:
        """The task of the run without its examples."""
        dataset = Dataset("", {}, dict)
        return ExamplesTask(
            name=self.spec.task, options={}, dataset=dataset, sizes={}, **self.shapes
        )

    def logits(self, inputs: Sequences, device: str) -> torch.Tensor:
        """(N, classes) on the CPU, from sequences as the run was trained on. InputError if
        they are not finite numbers."""
        place = devices.choose(device)
        model = with_parameters(
            self.spec, self.task, self.parameters, place, self.located()
        )
        size = max(1, EVAL_TOKENS // self.shapes["length"])
        values, starts = inputs.tensors()
        answers = []
        with torch.no_grad(), devices.autocast(place):
            for rows in torch.arange(len(inputs)).split(size):
                # A part at a time: a device may not hold all that is to be predicted.
                examples = batch(values, starts, rows[None], rows[None, :, None])
                logits = model(examples.to(place), first=int(rows[0]))
                answers.append(logits[0, :, 0].float().cpu())
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
        reason = "their digest is another"
        # The folder they came from, then (empty) wherever their identity finds them.
        for folder in dict.fromkeys([origin, ""]):
            try:
                if digest(files(name, folder)) == self.weights_digest:
                    return replace(self.architecture, folder=folder)
            except FptError as error:
                reason = str(error).rstrip(".")
        raise FptError(
            f"The weights {name!r} that this estimator was trained on are missing or "
            f"others ({reason}); put them back into {origin or project().backbones}, or "
            "fit again."
        )

    def save(self, folder: Path, attributes: Mapping[str, Any]) -> None:
        """Write the trained parameters, and what they belong to: the rest of the run, and
        the `attributes` of an estimator."""
        run = asdict(self) | {"spec": self.spec.to_dict()}
        parameters = run.pop("parameters")
        write_atomic(folder / PARAMETERS, parameters)
        description = {"run": run, "attributes": attributes, "sha256": sha256(parameters)}
        content = json.loads(json.dumps(description, default=as_json))
        write_json(folder / DESCRIPTION, content | {"digest": digest_of(content)})


def as_json(value: Any) -> Any:
    """An array, a NumPy scalar or a path as JSON has it."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def load_fitted(folder: Path) -> tuple[Fitted, dict[str, Any]]:
    """What `Fitted.save` wrote, and the attributes. FptError if it is missing or damaged,
    or if the weights of its backbone are others than those that it was trained on."""
    content = read_json(folder / DESCRIPTION)
    try:
        check_digest(content)
        parameters = (folder / PARAMETERS).read_bytes()
        if sha256(parameters) != content["sha256"]:
            raise ValueError("the parameters have another digest")
        run = content["run"]
        run["spec"] = from_dict(run["spec"])
        run["architecture"] = Backbone(**run["architecture"])
        fitted = Fitted(parameters=parameters, **run)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FptError(
            f"{folder} holds no complete estimator of this version; fit and save it again."
        ) from error
    fitted.located()
    return fitted, content["attributes"]


def train(
    spec: RunSpec, architecture: Backbone, task: ExamplesTask, device: str, progress: bool
) -> Fitted:
    """Train a run on its backbone. FptError if it diverges."""
    # Of what is read now: a folder may hold other weights when the training ends.
    weights = digest(files(spec.weights, architecture.folder)) if spec.weights else None
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
    return Fitted(spec, architecture, shapes, parameters, weights, run.curve)
