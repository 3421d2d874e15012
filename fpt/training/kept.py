"""Trained parameters that are kept beside a record: the file, and the model made of it again."""

from collections.abc import Container

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..backbones.weights import file_digest, find
from ..files import FptError
from ..records import Record, Store
from ..tasks import get_task
from .model import Model, assemble
from .packing import PackedParameters


def stored_parameters(rows: PackedParameters, row: Tensor, trainable: Container[str]) -> bytes:
    """The groups `trainable` of a run's `row` (P,): float32 tensors by the names of their
    parameters, in a safetensors file."""
    parts = zip(rows.slices, rows.columns().values(), strict=True)
    trained = [(part, columns) for part, columns in parts if part.group in trainable]
    return save({part.stored: row[at].view(part.shape).clone() for part, at in trained})


def trained_model(record: Record, store: Store, device: torch.device | str = "cpu") -> Model:
    """The run's model as it was selected on validation, in evaluation mode.

    FptError if the parameters were not kept or do not fit, or if the weights of the backbone are
    missing or not those that the run saw.
    """
    spec, content = record.spec, store.parameters(record)
    if content is None:
        raise FptError(
            f"The parameters of run {spec.key} are not in {store.folder}: give the block of its "
            "section `keep: true` in params.yaml and train it (fpt run), or merge them."
        )
    if spec.weights is not None:
        path = find(spec.weights)
        if file_digest(path) != record.environment.get("weights_digest"):
            raise FptError(
                f"The weights {spec.weights!r} in {path} are not those that run {spec.key} was "
                "trained on; fetch those, or train it again."
            )
    model, rows, _ = assemble([spec], get_task(spec.task, **spec.options), device)
    try:
        kept = load(content)
        row = [kept[part.stored].view(part.shape).flatten() for part in rows.slices]
    except (SafetensorError, KeyError, RuntimeError) as error:
        raise FptError(
            f"The file {store.parameters_path(spec.key).name} does not hold the parameters of its "
            f"run ({error}); train it again."
        ) from error
    rows.bind(torch.cat(row)[None].to(device))
    return model.eval()
