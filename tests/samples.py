"""Small files in the forms that tasks and corpora read."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def png(pixels):
    """Pixels (H, W) or (H, W, 3), uint8, as a column of images holds them."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def write_parquet(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def words(seed, documents):
    """Documents of 60 words, some of them frequent, with a letter of two bytes."""
    draws = np.random.default_rng(seed).zipf(1.3, (documents, 60)) % 300
    return [" ".join(f"wörd{word}" for word in row) for row in draws]
