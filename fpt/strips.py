"""Single values as a strip of points, such as the seeds behind a mean."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes


def strip(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    orient: str,
    size: float,
    colours: str | Sequence[str],
    **look: Any,
) -> None:
    """Values at their places on the axis `orient`, `size` points wide, in one colour or each in its
    own. It is what seaborn's `stripplot` draws; to import seaborn takes longer than a figure."""
    places, values = np.reshape(points, (-1, 2)).T
    x, y = (places, values) if orient == "x" else (values, places)
    for place in np.unique(places):
        here = np.flatnonzero(places == place).tolist()
        if isinstance(colours, str):
            look["color"] = colours
        else:
            look["c"] = [colours[index] for index in here]
        axes.scatter(x[here], y[here], s=size**2, **look)
