"""The standard deviation of every matrix of the models that are here, by layer.

`python -m lab.weight_sd` writes data/weight_sd.csv, which notebook 07 draws. The weights are
read as a run reads them, SmolLM2's from 4 bits; embeddings and positions are left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from fpt.reading.live import load

PATH = Path(__file__).parents[1] / "data" / "weight_sd.csv"
MODELS = {
    "whole SmolLM2": "smollm2-135m-instruct-q4_1",
    "MiniLM": "minilm-l6-v2",
    "nano GPT-2": "nano",
}
# layers.3.mlp.up_proj.weight, h.3.mlp.c_fc.weight
IN_A_LAYER = re.compile(r"\.(?:layers|layer|h)\.(\d+)\.(.+)\.weight$")


def deviations(model: str, backbone: str) -> Iterator[tuple[str, int, str, float]]:
    """A row for each matrix in a layer of a model: layer, counted from 1, and matrix."""
    for name, weight in load(backbone).items():
        place = IN_A_LAYER.search(name)
        if place and weight.dim() == 2:
            yield model, int(place[1]) + 1, place[2], round(weight.std().item(), 4)


if __name__ == "__main__":
    rows = [row for model in MODELS.items() for row in deviations(*model)]
    table = pd.DataFrame(rows, columns=["model", "layer", "matrix", "sd"])
    table.to_csv(PATH, index=False)
