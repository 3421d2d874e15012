"""GGUF, the format of llama.cpp: transformers converts such a file into a folder of
safetensors."""

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import torch
from safetensors.torch import save

from ...errors import FptError
from ...files import write_atomic, write_folder, write_json
from ...tasks.sources import WEIGHTS, file_digest
from ..base import State
from .skeleton import (
    first_line,
    quiet,
)

GGUF = ".gguf"


def converted(path: Path, parent: Path) -> Path:
    """The folder in `parent` of the model in the GGUF file `path`, which is converted if it
    is not there. It is named by the file's name and digest, so that a changed file is
    another model. FptError as `convert`, and if the folder cannot be written."""
    target = parent / f"{path.stem[:60]}-{file_digest(path)[:16]}"
    with write_folder(target, Path.is_dir) as partial:
        if partial:
            convert(path, partial)
    return target


def check_packages(name: str) -> None:
    """FptError if the packages that read a GGUF file are missing."""
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise FptError(
            f"{name} is a GGUF file, which the package {error.name} reads: pip install "
            "'fpt[gguf]'."
        ) from error


def convert(path: Path, folder: Path) -> None:
    """Write the model in the GGUF file `path` to `folder`: config.json, and its tensors in
    bfloat16 as model.safetensors. transformers multiplies quantised tensors out to
    floating-point numbers.

    FptError if the packages are missing, if transformers cannot read the file, or if the
    file lacks a tensor.
    """
    check_packages(path.name)
    from transformers import AutoModel, GgufConfig

    try:
        # No setting switches its progress bar off, which goes to standard error.
        with quiet(), redirect_stderr(StringIO()):
            model, report = AutoModel.from_pretrained(
                path.parent,
                gguf_file=path.name,
                quantization_config=GgufConfig(dequantize=True),
                dtype=torch.float32,
                output_loading_info=True,
            )
    except Exception as error:  # whatever transformers or gguf raised of the file
        raise FptError(
            f"transformers cannot read the GGUF file {path} ({first_line(error)})."
        ) from error
    # transformers would draw what is not there.
    lacking = sorted(report["missing_keys"])
    if lacking:
        raise FptError(
            f"{path} lacks {lacking[0]}; if it is one part of a file that was split, join "
            "the parts (llama-gguf-split --merge)."
        )
    config = model.config.to_dict()
    # Both depend on this machine; the folder is to have the same content everywhere.
    config.pop("_name_or_path", None)
    config.pop("transformers_version", None)
    write_json(folder / "config.json", config)
    save_rounded(model.state_dict(), folder / WEIGHTS)


def save_rounded(tensors: State, path: Path) -> None:
    """Write tensors as safetensors, floating-point numbers in bfloat16."""
    # Not `save_pretrained`: the order and the names of its files may change with its
    # version, and the digest of the file is compared.
    rounded = {
        name: (tensor.bfloat16() if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in tensors.items()
    }
    write_atomic(path, save(rounded, {"format": "pt"}))
