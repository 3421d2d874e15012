"""The models of records, from the parameters that were kept, and recorded accuracies
against those of a training from scratch.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load

from ..backbones import Backbone
from ..backbones.weights import digest, files, find
from ..errors import FptError
from ..records import Record, Store
from ..spec import RunSpec
from ..tasks import Task, task_of
from .device import environment, precision_like, threads
from .model import Model, assemble
from .train import Job, train

SAME = ("device", "precision", "torch", "transformers")  # must agree for equal numbers
# If they differ, training amplifies rounding step by step and ends in another model that is
# as good: then only a large difference shows that a recorded number is wrong.
TRAINED_ELSEWHERE = 0.02
SUMMED = 1e-9  # equal numbers, computed in another order


def trained_model(
    record: Record, store: Store, device: torch.device | str = "cpu"
) -> Model:
    """The run's model as it was selected on validation, in evaluation mode.

    FptError if the parameters were not kept, or if the weights of the backbone are missing
    or not those that the run saw.
    """
    spec = record.spec
    content = store.parameters(record)
    if content is None:
        raise FptError(
            f"The parameters of run {spec.key} are not in {store.folder}: copy them there, "
            "or keep them (`keep: true` in params.yaml, then fpt run)."
        )
    check_weights(record)
    return with_parameters(spec, task_of(spec), content, device)


def with_parameters(
    spec: RunSpec,
    task: Task,
    content: bytes,
    device: torch.device | str = "cpu",
    architecture: Backbone | None = None,
) -> Model:
    """The model of a run in evaluation mode with the trained parameters in `content`, a
    file that `PackedParameters.stored` made; `architecture` as in `assemble`. The sequences
    of `task` may be longer than those of the run."""
    model, rows, _ = assemble([spec], task, device, architecture)
    kept = load(content)
    values = rows.values.clone()
    for part, columns in rows.parts():
        trained = kept[part.stored].flatten()
        # Positions after those of the training sequences keep their initial values.
        values[0, columns][: len(trained)] = trained
    rows.bind(values)
    return model.eval()


def check_weights(record: Record) -> None:
    """FptError if the weights that a run read are missing here, or not those that it
    saw."""
    weights = record.spec.weights
    if weights and digest(files(weights)) != record.environment.get("weights_digest"):
        raise FptError(
            f"The weights {weights!r} in {find(weights)} are not those that run "
            f"{record.key} was trained on; fetch those, or train it again."
        )


def check_data(record: Record) -> None:
    """FptError if the data of a run are missing here, or not those that it saw."""
    digest_here = task_of(record.spec).digest()
    if digest_here != record.environment.get("data_digest", digest_here):
        raise FptError(
            f"The data of the task {record.spec.task!r} are not those that run "
            f"{record.key} was trained on."
        )


@dataclass(frozen=True)
class Check:
    """The recorded test accuracy of a run, in [0, 1], against the one that was computed
    again. They may differ by `tolerance`, for `reason`."""

    record: Record
    accuracy: float
    tolerance: float = 0.0
    reason: str = ""

    @property
    def recorded(self) -> float:
        return self.record.metrics["test_accuracy"]

    @property
    def matches(self) -> bool:
        return abs(self.accuracy - self.recorded) <= self.tolerance + SUMMED

    def __str__(self) -> str:
        spec = self.record.spec
        word = "matches" if self.matches else "DIFFERS"
        name = (
            f"{spec.task} on {spec.init} {spec.backbone}, seed {spec.seed} ({spec.key[:8]})"
        )
        line = (
            f"  {word:11}  {name}: {100 * self.recorded:.2f}; training again gives "
            f"{100 * self.accuracy:.2f}"
        )
        if self.reason:
            line += (
                f"; up to {100 * self.tolerance:.2f} points allowed, since {self.reason}"
            )
        return line


def retrained(record: Record, store: Store, device: torch.device) -> Check:
    """Train the run from scratch, with the members of its pack if all are recorded;
    FptError if its data or weights are not here."""
    check_weights(record)
    check_data(record)
    reasons = [differences_of_machines(record, device)]
    mates = store.read_all(record.pack)
    specs = [mates[key].spec for key in record.pack if key in mates]
    if len(specs) < len(record.pack):  # rounding depends on the shape of the products
        specs = [record.spec]
        reasons.append("it trained without its pack")
    with tempfile.TemporaryDirectory() as folder:
        fresh = Store(Path(folder) / "verify" / "records")
        precision = precision_like(record.environment, device)
        job = Job(fresh, device=device.type, precision=precision, cache=Path(folder))
        with threads(record.environment.get("threads")):
            records = {new.key: new for new in train(specs, job)}
    accuracy = records[record.key].metrics["test_accuracy"]
    reason = "; ".join(filter(None, reasons))
    tolerance = TRAINED_ELSEWHERE if reason else 0.0
    return Check(record, accuracy, tolerance, reason)


def differences_of_machines(record: Record, device: torch.device) -> str:
    """How the machine of a record differs from this one; empty if it does not."""
    recorded = record.environment
    present = environment(device, precision_like(recorded, device))
    return "; ".join(
        f"{name} was {recorded.get(name)}, here {present[name]}"
        for name in SAME
        if recorded.get(name) != present[name]
    )
