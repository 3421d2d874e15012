"""Models in GGUF files, the format of llama.cpp, as folders that every other module reads.

The library transformers reads the file: it multiplies quantised tensors out to floating-point
numbers, puts rotated queries and keys into its own order, and translates the configuration. It
needs the packages gguf and accelerate, the extra `fpt[gguf]`.
"""

from collections.abc import Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from ..files import FptError, write_atomic, write_folder, write_json
from ..tasks.sources import file_digest
from .generic import quiet

SUFFIX = ".gguf"


def converted(path: Path, parent: Path) -> Path:
    """The folder in `parent` of the model in the GGUF file `path`, which is converted if it is not
    there. It is named by the file's name and digest, so that a changed file is another model.
    FptError as `convert`, and if the folder cannot be written."""
    target = parent / f"{path.stem[:60]}-{file_digest(path)[:16]}"
    with write_folder(target, Path.is_dir) as partial:
        if partial:
            convert(path, partial)
    return target


def convert(path: Path, folder: Path) -> None:
    """Write the model in the GGUF file `path` to `folder`: config.json, and its tensors in bfloat16
    as model.safetensors.

    FptError if the packages are missing, or if transformers cannot read the file.
    """
    model = read(path)
    # Without what is of this machine, so that the folder has the same content everywhere.
    kept = {
        name: value
        for name, value in model.config.to_dict().items()
        if name not in ("_name_or_path", "transformers_version")
    }
    write_json(folder / "config.json", kept)
    save_rounded(model.state_dict(), folder / "model.safetensors")


def save_rounded(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors as safetensors, floating-point numbers in bfloat16."""
    # Not `save_pretrained`: the order and the names of its files may change with its version, and
    # the digest of the file is compared.
    rounded = {
        name: (tensor.bfloat16() if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in tensors.items()
    }
    write_atomic(path, save(rounded, {"format": "pt"}))


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
        # Its bar does not heed the setting of transformers.
        with quiet(), redirect_stderr(StringIO()):
            return AutoModel.from_pretrained(
                path.parent,
                gguf_file=path.name,
                quantization_config=GgufConfig(dequantize=True),
                dtype=torch.float32,
            )
    except Exception as error:  # whatever transformers or gguf raised of the file
        reason = str(error).partition("\n")[0]
        raise FptError(f"transformers cannot read the GGUF file {path} ({reason}).") from error
