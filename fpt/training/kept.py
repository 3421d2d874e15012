"""The model of a recorded run, with the parameters that were kept beside its record."""

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from ..backbones import backbone
from ..backbones.weights import file_digest, find
from ..files import FptError
from ..records import Record, Store
from .model import Model, assemble
from .packing import PackedParameters
from .train import task_of


def trained_model(record: Record, store: Store, device: torch.device | str = "cpu") -> Model:
    """The run's model as it was selected on validation, in evaluation mode.

    FptError if the parameters were not kept or do not fit, or if the weights of the backbone are
    missing or not those that the run saw.
    """
    model, rows, _ = assemble([record.spec], task_of(record.spec), device)
    rows.bind(kept_row(record, store, rows).to(device))
    return model.eval()


def kept_row(record: Record, store: Store, rows: PackedParameters) -> Tensor:
    """The kept parameters as the one row of `rows`, (1, P). Raises as `trained_model` does."""
    spec = record.spec
    content = store.parameters(record)
    if content is None:
        raise FptError(
            f"The parameters of run {spec.key} are not in {store.folder}: give the block of its "
            "section `keep: true` in params.yaml and train it (fpt run), or merge them."
        )
    if spec.weights is not None:
        path = find(backbone(spec.backbone), spec.weights)
        if file_digest(path) != record.environment.get("weights_digest"):
            raise FptError(
                f"The weights {spec.weights!r} in {path} are not those that run {spec.key} was "
                "trained on; fetch those, or train it again."
            )
    try:
        kept = load(content)
        return torch.cat([kept[part.stored].view(part.shape).flatten() for part in rows.slices])[
            None
        ]
    except (SafetensorError, KeyError, RuntimeError) as error:
        raise FptError(
            f"The file {store.parameters_path(spec.key).name} does not hold the parameters of its "
            f"run ({error}); train it again."
        ) from error
