"""What shows a training while it runs: progress bars, and trackers such as TensorBoard.

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
    writer = _writer(Path(folder) / title / f"seed-{spec.seed}-{spec.key}")
    for name in point.keys() - {"step"}:
        writer.add_scalar(name, point[name], point["step"])
    writer.flush()


@lru_cache
def _writer(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder)


def mlflow(place: str, spec: RunSpec, title: str, point: Mapping[str, float]) -> None:
    """Runs of the default experiment in a folder, or on a server `http://...`."""
    client, run = _mlflow_run(place, spec, f"{title}, seed {spec.seed}")
    for name in point.keys() - {"step"}:
        client.log_metric(run, name, point[name], step=int(point["step"]))
    if "end/steps" in point:
        client.set_terminated(run)


@lru_cache
def _mlflow_run(place: str, spec: RunSpec, name: str) -> tuple[Any, str]:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient

    client, tags = MlflowClient(place), {key: str(it) for key, it in spec.to_dict().items()}
    found = client.search_runs(["0"], f"tags.key = '{spec.key}'")
    run = found[0] if found else client.create_run("0", None, {"key": spec.key, **tags}, name)
    return client, run.info.run_id


TRACKERS = {"tensorboard": tensorboard, "mlflow": mlflow}


def tracker(text: str) -> Tracker:
    """The tracker of `tensorboard` or `mlflow:FOLDER`, by default in runs/NAME; FptError if its
    package is not installed."""
    name, _, place = text.partition(":")
    check_names("tracker", [name], TRACKERS)
    if find_spec(name) is None:
        raise FptError(f"The tracker {name} is not installed: pip install 'fpt[{name}]'.")
    return partial(TRACKERS[name], place or str(ROOT / "runs" / name))
