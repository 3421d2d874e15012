"""One judge: what runs say of the paper's claims, and of registered ones."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

import pandas as pd

from ..errors import FptError
from ..files import read_yaml
from ..names import MODELS, in_order
from ..project import PACKAGE
from .beside import Table, label_of, paper, tasks
from .effect import Comparison, Measure, Word, compare, together

# The steps of a task whose runs do not end at a threshold.
STEPS: Mapping[str, Measure] = {"bit-xor": "steps_to_99", "bit-memory": "steps_to_95"}


@cache
def claims() -> list[Mapping[str, Any]]:
    """The rows of paper/claims.yaml."""
    rows: list[Mapping[str, Any]] = read_yaml(PACKAGE / "paper" / "claims.yaml")
    return rows


def comparisons(claim: Mapping[str, Any], runs: pd.DataFrame) -> Iterator[Comparison]:
    """What `runs` (rows of `fpt.results`) say of a claim, for each experiment, model and
    task on which both of its arms have runs that can answer it."""
    for (_, model, task), rows in runs.groupby(["experiment", "model", "task"], sort=False):
        has_both = {claim["first"], claim["second"]} <= {*rows["arm"]}
        measure = measure_of(claim, rows)
        if not has_both or measure is None:
            continue
        try:
            yield compare(
                rows,
                claim["first"],
                claim["second"],
                str(task),
                measure,
                as_good=claim.get("as_good", False),
                equal=is_equal(claim, str(task)),
                model=str(model),
            )
        except FptError:
            continue  # the two arms share no seed, or no trivial rule is known here


def measure_of(claim: Mapping[str, Any], rows: pd.DataFrame) -> Measure | None:
    """The column that answers a claim for runs of one model on one task. None if none does:
    the accuracies of runs that ended at a threshold are no end points, and a task without a
    threshold has no steps."""
    has_threshold = rows["threshold"].notna().any()
    if claim["measure"] == "accuracy":
        return None if has_threshold else "test_accuracy"
    if has_threshold:
        return "steps_to_threshold"
    return STEPS.get(rows["column"].iloc[0])


def verdicts(runs: pd.DataFrame) -> Table:
    """The paper's claims in one table: a row for each claim and model, with ours and the
    paper's by task, and one of five words."""
    rows = []
    for claim in claims():
        by_model: dict[str, list[Comparison]] = {}
        for comparison in comparisons(claim, runs):
            by_model.setdefault(comparison.model, []).append(comparison)
        for model in in_order(by_model, MODELS):
            found = by_model[model]
            theirs = [printed(claim, comparison.task) for comparison in found]
            rows.append(
                {
                    "claim": claim["claim"],
                    "model": model,
                    "ours": "; ".join(f"{label_of(c.task)} {c.values}" for c in found),
                    "the paper": "; ".join(filter(None, theirs)),
                    "word": together([c.word for c in found]),
                }
            )
    frame = pd.DataFrame(rows).set_index(["claim", "model"])
    caption = (
        "Accuracies in %, steps to the threshold of each task; the first arm of the claim "
        f"stands first. Words: {', '.join(get_args(Word))}."
    )
    return Table(frame, caption)


def is_equal(claim: Mapping[str, Any], task: str) -> bool:
    """Whether the paper prints the same number for both arms of a claim, as 100% on Bit
    XOR: then it is replicated if one is as good as the other."""
    pair = pair_of(claim, task)
    return pair is not None and pair[0] == pair[1]


def pair_of(claim: Mapping[str, Any], task: str) -> tuple[float, float] | None:
    """The paper's two numbers for a claim on a task; None if it prints none."""
    column = tasks().get(task, {}).get("column")
    if not claim["table"] or column is None:
        return None
    table = paper(claim["table"])
    arms = [claim["first"], claim["second"]]
    if not {*arms} <= {*table.index} or table.loc[arms, column].isna().any():
        return None
    first, second = table.loc[arms, column]
    return float(first), float(second)


def printed(claim: Mapping[str, Any], task: str) -> str:
    """The paper's two numbers as text; empty if it prints none."""
    pair = pair_of(claim, task)
    return f"{label_of(task)} {pair[0]:,g} / {pair[1]:,g}" if pair else ""
