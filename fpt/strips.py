"""Single values as a strip of points, such as the seeds behind a mean."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes


def strip(axes: Axes, points: Sequence[tuple[float, float]], orient: str, **look: Any) -> None:
    """Values at their places on the axis `orient`. A call takes time: one is enough for a panel."""
    places, values = np.reshape(points, (-1, 2)).T
    x, y = (places, values) if orient == "x" else (values, places)
    sns.stripplot(
        x=x, y=y, orient=orient, native_scale=True, jitter=False, legend=False, ax=axes, **look
    )
