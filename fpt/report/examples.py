"""One example of each task, as a person sees it."""

import textwrap
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..files import FptError
from ..tasks import Task
from ..tasks.bits import BitTask
from ..tasks.images import ImageTask
from .style import MUTED, panels_of, styled

MOST_BITS = 24  # of a sample
MOST_LETTERS = 250


def samples(tasks: Mapping[str, Task]) -> Figure:
    """One test example of each task as a person sees it, with its answer. Blue lines separate
    tokens. A task whose data are not here is named without one."""
    with styled():
        figure, panels = panels_of(len(tasks), 2.7, 2.6)
        for axes, (name, task) in zip(panels, tasks.items(), strict=True):
            axes.set_axis_off()
            axes.set_anchor("NW")  # pictures of all shapes begin at one height
            title = f"{name}: {task.length} tokens"
            try:
                title += f"\nanswer: {_sample(axes, task)}"
            except FptError:
                axes.text(0, 0.98, f"Fetch it with\nfpt data {task.name}", va="top", color=MUTED)
            axes.set_title(title, fontsize=9)
    return figure


def _sample(axes: Axes, task: Task) -> str:
    """Draw example 0 of the test split, of a bit task one in its midst, as the first is all zeros;
    returns its answer."""
    example = task.example("test", 3 * task.sizes["test"] // 5 if isinstance(task, BitTask) else 0)
    answer = example.answer[:MOST_BITS] + "..." * (len(example.answer) > MOST_BITS)
    if example.image is None:
        text = textwrap.fill((example.text or "")[:MOST_LETTERS], 36)
        axes.text(0, 0.98, text, va="top", fontsize=7, family="DejaVu Sans Mono")
        return answer
    image = example.image.numpy()[:, :MOST_BITS]
    if isinstance(task, ImageTask):
        sides = (task.pad, task.pad)
        image = np.pad(example.image.numpy(), (sides, sides, (0, 0)))
        if task.patch > 1:
            for edge in range(0, image.shape[0] + 1, task.patch):
                axes.axhline(edge - 0.5, color="#0072B2", lw=0.5)
            for edge in range(0, image.shape[1] + 1, task.patch):
                axes.axvline(edge - 0.5, color="#0072B2", lw=0.5)
    axes.imshow(image.squeeze(-1) if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=1)
    return answer
