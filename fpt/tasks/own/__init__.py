"""A reader's own data as a task of the pipeline: arrays, a table, or a
`datasets.Dataset`."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...errors import FptError, check_names
from .arrays import check_present, labels
from .examples import ExamplesTask, check_paired, divided_task, hold_out
from .inputs import read_inputs

# Of the examples, for validation; as many are the test.
SHARE_HELD_OUT = 0.15
# As pandas names what a column holds.
NO_NUMBERS = ("string", "bytes", "date", "datetime", "datetime64", "timedelta", "period")


def own_task(name: str, X: Any, y: Any) -> ExamplesTask:
    """The task `name` of classifying `X` (as in `fpt.FrozenTransformer`), whose labels are
    `y` (N,).

    X may be a table instead, of which `y` names the column of labels: the path of a CSV
    file, a DataFrame, or a `datasets.Dataset`. Its other columns are the numbers of a
    sequence, or one column has whole sequences. A fixed 15% of the examples are validation,
    15% the test. The digest of the content identifies the task, so that other data are
    other runs. FptError for data that cannot be read or do not fit.
    """
    if isinstance(y, str):
        X, y = columns(name, X, y)
    sequences = read_inputs(X)
    classes, codes = np.unique(labels(y), return_inverse=True)
    codes = codes[:, None]
    check_paired(sequences, codes)
    count = len(sequences)
    if count < 10 or not 2 <= len(classes) <= count / 2:
        raise FptError(
            f"The task {name!r} has {count} examples of {len(classes)} classes; it needs "
            "ten examples at least, and two or more classes, each of which comes again: "
            "cut numbers into classes, or predict them by "
            "FrozenTransformer(task='regression')."
        )
    # Drawn with one seed: a table may be sorted by label, and its parts are the same in
    # each call. A class that few test examples have would move the trivial baselines.
    training, held_out = hold_out(codes, 2 * SHARE_HELD_OUT, 0)
    valid, test = hold_out(codes[held_out], 0.5, 0)
    rows = {"train": training, "valid": held_out[valid], "test": held_out[test]}
    return divided_task((sequences, codes), rows, len(classes), name)


def columns(name: str, table: Any, label: str) -> tuple[Any, Any]:
    """Inputs and labels of a table (see `own_task`), whose labels are in the column
    `label`."""
    try:
        header = []
        if isinstance(table, str | Path):
            # pandas would number a name that comes again.
            header = [*pd.read_csv(table, header=None, nrows=1).iloc[0].dropna()]
            table = pd.read_csv(table)
        frame = table.to_pandas() if hasattr(table, "to_pandas") else pd.DataFrame(table)
    except (OSError, ValueError) as error:
        reason = str(error).strip()  # pandas ends some with a new line
        raise FptError(f"The data of task {name!r} cannot be read ({reason}).") from error
    names = header or [*frame.columns]
    for column in names:
        if names.count(column) > 1:
            raise FptError(
                f"The data of task {name!r} have two columns {column!r}; rename one."
            )
    place = f"The column of labels of {name!r} (separate columns by commas)"
    check_names(place, [label], frame.columns)
    # The order of the rows would be a predictor, and rows may be sorted by label.
    if str(frame.columns[0]).startswith("Unnamed:"):
        raise FptError(
            f"The first column of the data of task {name!r} has no name, as the row "
            "numbers that pandas writes; write the table with index=False, or name it."
        )
    labels = frame[label]
    frame = frame.drop(columns=label)
    if frame.shape[1] == 1 and frame.dtypes.iloc[0].kind == "O":
        # A single column of objects holds sequences.
        return list(frame.iloc[:, 0]), labels
    for column in frame:
        check_column(name, frame[column])
    return frame, labels


def check_column(name: str, column: pd.Series) -> None:
    """FptError for one of several columns of the data of a task that is no column of
    numbers, or has missing values."""
    check_present(f"column {column.name!r}", column.isna().to_numpy())
    kind = pd.api.types.infer_dtype(column)
    if kind in NO_NUMBERS:
        raise FptError(
            f"The column {column.name!r} of the data of task {name!r} holds {kind} values; "
            "leave it out, or give numbers in its place."
        )
