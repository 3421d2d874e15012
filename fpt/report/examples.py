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

SHOWN_BITS, SHOWN_LETTERS = 24, 250  # of a sample


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
    answer = example.answer[:SHOWN_BITS] + "..." * (len(example.answer) > SHOWN_BITS)
    if example.image is None:
        text = textwrap.fill((example.text or "")[:SHOWN_LETTERS], 36)
        axes.text(0, 0.98, text, va="top", fontsize=7, family="DejaVu Sans Mono")
        return answer
    image, patch = example.image.numpy(), 0
    if isinstance(task, ImageTask):
        image = np.pad(image, ((task.pad,) * 2, (task.pad,) * 2, (0, 0)))
        patch = task.patch if task.patch > 1 else 0
    else:
        image = image[:, :SHOWN_BITS]
    axes.imshow(image[..., 0] if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=1)
    for line, extent in ((axes.axhline, image.shape[0]), (axes.axvline, image.shape[1])):
        for edge in range(0, extent + 1, patch) if patch else ():
            line(edge - 0.5, color="#0072B2", lw=0.5)
    return answer
