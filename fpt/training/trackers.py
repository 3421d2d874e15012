"""Progress bars, and trackers such as TensorBoard, which show a training while it runs.

A tracker is a function, called in the process that trains a pack, for each member after each of its
evaluations: with its spec, a title (its arm and task), and the point of its record's curve. The
metrics of its record follow with the last of them, called `end/` and their name. A run that was
stopped and goes on may repeat the points after its last checkpoint.
"""

import os
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib.util import find_spec
from multiprocessing import current_process
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from tqdm import auto, std

from ..files import ROOT, FptError, check_names
from ..spec import RunSpec

Tracker = Callable[[RunSpec, str, Mapping[str, float]], None]


def in_jupyter() -> bool:
    """Whether bars are widgets of a notebook, which only its own process can draw."""
    return auto.notebook_tqdm is not std.tqdm and "TQDM_DISABLE" not in os.environ


def progress_bar(total: int, title: str, quiet: bool = False, **options: Any) -> Any:
    """A tqdm bar in a terminal or in Jupyter, none in a log, if `quiet`, or if TQDM_DISABLE=1 is
    set. `options` are tqdm's."""
    if quiet or not in_jupyter():
        options["disable"] = quiet or None  # None: shown in a terminal alone
    # A terminal that does not know its size has no lines for tqdm.
    return auto.tqdm(total=total, desc=title, nrows=get_terminal_size().lines, **options)


def pack_bar(total: int, title: str, step: int, quiet: bool) -> Any:
    """The bar of a pack that goes on at `step`, below that of its sweep: one line per worker."""
    line = (current_process()._identity or (1,))[-1]
    return progress_bar(total, title, quiet, initial=step, position=line, leave=False)


def tensorboard(folder: str, spec: RunSpec, title: str, point: Mapping[str, float]) -> None:
    """Event files in a subfolder of `folder` for each run."""
    writer = writer_of(Path(folder) / title / f"seed-{spec.seed}-{spec.key}")
    for name in point.keys() - {"step"}:
        writer.add_scalar(name, point[name], point["step"])
    writer.flush()


@lru_cache
def writer_of(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder)


def tracker(text: str) -> Tracker:
    """The tracker `tensorboard:FOLDER`, by default in runs/tensorboard; FptError if TensorBoard is
    not installed."""
    name, _, folder = text.partition(":")
    check_names("tracker", [name], ["tensorboard"])
    if find_spec("tensorboard") is None:
        raise FptError("TensorBoard is not installed: pip install 'fpt[tensorboard]'.")
    return partial(tensorboard, folder or str(ROOT / "runs" / "tensorboard"))
