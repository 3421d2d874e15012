"""Models in GGUF files, the format of llama.cpp, as folders that every other module reads.

The library transformers reads the file: it multiplies quantised tensors out to floating-point
numbers, puts rotated queries and keys into its own order, and translates the configuration. It
needs the packages gguf and accelerate, the extra `fpt[gguf]`.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ..files import FptError, write_json


def convert(path: Path, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the model in the GGUF file `path` to `folder`: config.json, and its tensors in bfloat16
    as model.safetensors. `facts` are settings that a GGUF file does not hold, such as
    `initializer_range`, and go into the configuration.

    FptError if the packages are missing, or if transformers cannot read the file.
    """
    model = read(path)
    model.config.update(dict(facts))
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", model.config.to_dict())
    # Not `save_pretrained`: the order and the names of its files may change with its version, and
    # the digest of the file is compared.
    tensors = {name: tensor.bfloat16().contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def read(path: Path) -> Any:
    """The model in the GGUF file `path`, in float32 and without a head."""
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise FptError(
            f"{path} is a GGUF file, which the package {error.name} reads: install fpt[gguf]."
        ) from error
    from transformers import AutoModel, GgufConfig

    try:
        with quiet():
            return AutoModel.from_pretrained(
                path.parent,
                gguf_file=path.name,
                quantization_config=GgufConfig(dequantize=True),
                dtype=torch.float32,
            )
    except Exception as error:  # whatever transformers or gguf raised of the file
        said = str(error).partition("\n")[0]
        raise FptError(f"transformers cannot read the GGUF file {path} ({said}).") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars and warnings of transformers."""
    from transformers.utils import logging as messages

    bars = messages.is_progress_bar_enabled()
    level = messages.get_verbosity()
    messages.disable_progress_bar()
    messages.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        messages.set_verbosity(level)
        if bars:
            messages.enable_progress_bar()
