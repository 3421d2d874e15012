"""A reader's own data as a task of the pipeline: arrays, a table, or a `datasets.Dataset`."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..files import FptError
from .arrays import labels
from .examples import Data, ExamplesTask, check_paired, examples_task
from .inputs import inputs
from .rng import numpy_generator

SHARES = {"valid": 0.15, "test": 0.15}


def own_task(name: str, X: Any, y: Any) -> ExamplesTask:
    """The task `name` of classifying `X` (as in `fpt.FrozenTransformer`), whose labels are `y`:
    (N,), or (N, T) with one for each token.

    X may be a table instead, of which `y` names the column of labels: the path of a CSV file, a
    DataFrame, or a `datasets.Dataset`. Its other columns are the numbers of a sequence, or one
    column has whole sequences. A fixed 15% of the examples are validation, 15% the test. The digest
    of the content identifies the task, so that other data are other runs. FptError for data that
    cannot be read or do not fit.
    """
    if isinstance(y, str):
        X, y = _columns(name, X, y)
    read, y = inputs(X), labels(y)
    classes, codes = np.unique(y, return_inverse=True)
    codes = codes.reshape(len(y), -1)
    check_paired(read, codes)
    count = len(read)
    if count < 10 or len(classes) < 2:
        raise FptError(f"The task {name!r} needs two classes and ten examples at least.")
    if len(classes) > codes.size / 2:
        raise FptError(
            f"The task {name!r} has {len(classes)} different labels for {codes.size} answers; give "
            "labels of classes that come again: cut numbers into classes, or predict them by "
            "FrozenTransformerRegressor."
        )
    order = numpy_generator("own task", count).permutation(count)
    first, second = round(SHARES["test"] * count), round(sum(SHARES.values()) * count)
    rows = {"train": order[second:], "valid": order[first:second], "test": order[:first]}
    moments = read.moments(rows["train"]) if read.kind == "vector" else None
    splits: dict[str, Data] = {
        split: (read.prepared(at, moments), codes[at]) for split, at in rows.items()
    }
    return examples_task(splits, len(classes), read.limits["dim"], name)


def _columns(name: str, table: Any, label: str) -> tuple[Any, Any]:
    """Inputs and labels of a table."""
    try:
        read = pd.read_csv(table) if isinstance(table, str | Path) else table
        frame = read.to_pandas() if hasattr(read, "to_pandas") else pd.DataFrame(read)
        labels, frame = frame[label], frame.drop(columns=label)
    except (OSError, ValueError, KeyError) as error:
        raise FptError(f"The data of task {name!r} cannot be read ({error}).") from error
    whole = frame.shape[1] == 1 and frame.dtypes.iloc[0].kind == "O"
    return (list(frame.iloc[:, 0]) if whole else frame), labels
