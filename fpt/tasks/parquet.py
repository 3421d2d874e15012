"""Parquet files that others made: read, and checked where they come in."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..files import FptError


def read(path: Path, *columns: str) -> pa.Table:
    """The table in `path`; FptError where it is no whole parquet file or lacks one of `columns`."""
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise FptError(
            f"{path} is not a whole parquet file ({reason}); remove it and fetch it again."
        ) from error
    for column in columns:
        if column not in table.column_names:
            raise FptError(
                f"{path} has no column {column!r} but {', '.join(table.column_names)}; it is not "
                "the file that is expected there."
            )
    if not len(table):
        raise FptError(f"{path} has no rows; remove it and fetch it again.")
    return table


def labels(path: Path, table: pa.Table, column: str, classes: int) -> np.ndarray:
    """A column of whole numbers from 0 to below `classes`, (N,); FptError for any other value."""
    found = table[column].to_numpy()
    if found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= classes:
        raise FptError(
            f"{path}: column {column!r} has values other than the classes 0 to {classes - 1}."
        )
    return found


def texts(path: Path, table: pa.Table, column: str) -> list[str]:
    """A column of texts, none of them missing; FptError otherwise."""
    found = table[column].to_pylist()
    if not all(isinstance(text, str) for text in found):
        raise FptError(f"{path}: column {column!r} has values that are no text.")
    return found


def picture(path: Path, value: Any, mode: str | None = None) -> np.ndarray:
    """One encoded image, {"bytes": ...}, as (H, W) or (H, W, 3) uint8, converted to Pillow's `mode`
    if one is given; FptError where it is none."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(value["bytes"])) as image:
            return np.asarray(image.convert(mode) if mode else image)
    except (TypeError, LookupError, ValueError, OSError, Image.DecompressionBombError) as error:
        raise FptError(
            f"{path} holds something that is no image ({error}); remove it and fetch it again."
        ) from error
