"""No number of a report changes unseen: three lists, checked from files alone.

The lists of tests/guards were made from the reports' tables and records before any of them moved.
What is computed here is plain arithmetic on the files of records, wherever they lie below reports/.
"""

import csv
import hashlib
import json
import lzma
import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "reports"
GUARDS = Path(__file__).parent / "guards"
KEY = re.compile(r"[0-9a-f]{16}")
LEVELS = (0.8, 0.95, 0.99)  # of validation accuracy, in the tables beside areas


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def close(number):
    """Tables have twelve digits; a spread of nothing was printed as the rounding of a sum."""
    return number if number is None else pytest.approx(number, rel=1e-9, abs=1e-12)


# --------------------------------------------------------------------------------- what is there


@cache
def lists():
    """The keys of records by where they were, and the cells of tables."""
    with lzma.open(GUARDS / "recomputed.jsonl.xz") as file:
        keys, *cells = map(json.loads, file)
    return keys, cells


def guard(name):
    return json.loads((GUARDS / f"{name}.json").read_bytes())


def lines():
    """Every line or file below reports/ that may be a record."""
    for path in sorted(REPORTS.rglob("*.jsonl.xz")):
        yield from lzma.decompress(path.read_bytes()).splitlines()
    for path in sorted(REPORTS.rglob("*.json")):
        if KEY.fullmatch(path.stem):
            yield path.read_bytes()


@cache
def records():
    """The recorded runs of the lists by key: what cells are made of, and a digest."""
    keys, _ = lists()
    wanted = {key for of_place in keys.values() for key in of_place}
    found = {}
    for line in lines():
        values = json.loads(line)
        key = values.get("key")
        if key not in wanted:
            continue
        record = read(values)
        # A second copy may lie elsewhere, but not a second result.
        assert found.setdefault(key, record) == record, f"two results of {key}"
    return found


def read(values):
    """What a record says: a digest of all but its specification, which the key stands for, and what
    is read off its curve."""
    curve, spec = values["curve"], values["spec"]
    rest = {name: value for name, value in values.items() if name not in ("spec", "digest")}
    return {
        "digest": sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()),
        "done": values["status"] == "done",
        "test": values["metrics"]["test_accuracy"],
        "valid": values["metrics"]["valid_accuracy"],
        "seconds": values["cost"].get("process_seconds", math.nan),
        "threshold": spec.get("threshold", 0.0),
        "budget": spec["steps"],
        "evaluations": spec["steps"] // spec["eval_every"],
        "steps": curve["step"],
        "accuracies": curve["valid_accuracy"],
        "losses": curve["valid_loss"],
    }


# ------------------------------------------------------------------------- arithmetic of a run


def steps_to(run, level):
    """Steps to the first of two consecutive evaluations at a validation accuracy, and whether the
    budget ended before."""
    for step, pair in zip(run["steps"], pairwise(run["accuracies"]), strict=False):
        if run["done"] and min(pair) >= level:
            return step, False
    return run["budget"], True


def area(run, classes):
    """The mean height of the validation loss, from a guess at step 0 to the end of the budget; a
    run that diverged guesses from there on."""
    guess = math.log(classes)
    losses = run["losses"][: run["evaluations"]]
    heights = [guess, *losses, *[guess] * (run["evaluations"] - len(losses))]
    return (sum(heights) - (heights[0] + heights[-1]) / 2) / (len(heights) - 1)


def falls_again(run):
    step, _ = steps_to(run, LEVELS[-1])
    after = zip(run["steps"], run["accuracies"], strict=True)
    return any(accuracy < LEVELS[-1] for at, accuracy in after if at > step)


# ------------------------------------------------------------------------- numbers of a cell


def mean(values):
    return float(np.mean(values)) if len(values) else None


def numbers(runs, classes):
    """Accuracies, steps and area of the runs of a cell."""
    done = [run for run in runs if run["done"]]
    (threshold,) = {run["threshold"] for run in runs}
    log_steps = {}
    for level in [threshold] if threshold else LEVELS:
        steps, censored = zip(*(steps_to(run, level) for run in runs), strict=True)
        log_steps[f"{level:g}"] = [close(mean(np.log(steps))), sum(censored)]
    found = {
        "accuracy": close(mean([run["test"] for run in done])),
        "valid_accuracy": close(mean([run["valid"] for run in done])),
        "log_steps": log_steps,
    }
    if not threshold:
        found["log_area"] = close(mean([math.log(area(run, classes)) for run in runs]))
    return found


def printed(runs, cell):
    """What a table shows of the runs of a cell."""
    done = [run for run in runs if run["done"]]
    accuracies = [100 * run["test"] for run in done]
    areas = [area(run, cell["classes"]) for run in runs]
    if cell["measure"] == "progress":
        found = {"accuracy": mean(accuracies), "runs": len(runs)}
        for level in LEVELS:
            steps = [step for step, ended in (steps_to(run, level) for run in runs) if not ended]
            found[f"steps to {level:.0%}"] = mean(steps)
        found["falls again"] = mean([falls_again(run) for run in runs])
        found["processor seconds"] = mean([run["seconds"] for run in runs])
        return {name: close(number) for name, number in found.items()}
    if cell["measure"] == "mean area":
        return {"mean": close(mean(areas))}
    values, censored, unit = accuracies, 0, "percent"
    if cell["measure"] == "steps":
        steps, ended = zip(*(steps_to(run, run["threshold"]) for run in runs), strict=True)
        values, censored, unit = np.log(steps), sum(ended), "ln(steps)"
    elif cell["measure"] == "area":
        values, unit = np.log(areas), "ln(nats)"
    return {
        "mean": close(mean(values)),
        "sd": close(float(np.std(values, ddof=1)) if len(values) > 1 else None),
        "runs": len(values),
        "diverged": len(runs) - len(done),
        "censored": censored,
        "unit": unit,
    }


# ----------------------------------------------------------------------------------------- tests


def test_cells_follow_from_their_records():
    """Means, counts and spreads as printed, and accuracy, steps and area beside them."""
    _, cells = lists()
    assert len(cells) == 566
    wrong = []
    for cell in cells:
        runs = [records()[key] for key in cell["keys"]]
        found = printed(runs, cell)
        shown = {name: cell["printed"][name] for name in found}
        if shown != found or cell["numbers"] != numbers(runs, cell["classes"]):
            wrong.append(f"{cell['table']}: {cell['arm']} on {cell['task']}")
    assert not wrong


def test_every_record_is_here_and_as_it_was():
    keys, _ = lists()
    missing = {place: {*of_place} - records().keys() for place, of_place in keys.items()}
    assert not any(missing.values()), missing
    for place, expected in guard("keys")["records"].items():
        results = [f"{key} {records()[key]['digest']}" for key in keys[place]]
        assert len(results) == expected["count"], place
        assert sha256("\n".join(keys[place]).encode()) == expected["keys"], place
        assert sha256("\n".join(results).encode()) == expected["results"], place


@pytest.mark.parametrize("kind", ["parameters", "bodies", "english"])
def test_files_beside_records_are_here_and_as_they_were(kind):
    for name, digests in guard("keys")["files"][kind].items():
        found = {sha256(path.read_bytes()) for path in REPORTS.rglob(name)}
        assert {*digests} <= found, name


SEALED = {table["table"]: table for table in guard("sealed")["tables"]}


def copies(table):
    """The files below reports/ that have the name of a table."""
    return sorted(REPORTS.rglob(Path(table["table"]).name))


@pytest.mark.parametrize("table", SEALED.values(), ids=SEALED)
def test_verdicts_are_as_they_were(table):
    assert table["sha256"] in {sha256(path.read_bytes()) for path in copies(table)}


@pytest.mark.parametrize("table", SEALED.values(), ids=SEALED)
def test_claims_and_columns_stay(table):
    """Also of a table whose digest may change."""
    found = []
    for path in copies(table):
        with path.open(encoding="utf-8", newline="") as file:
            columns, *rows = csv.reader(file)
        first = [row[0] for row in rows]
        found.append((columns, first if "claims" in table else None))
    assert (table["columns"], table.get("claims")) in found


@pytest.mark.parametrize("name", guard("sealed")["lines"])
def test_pooled_claims_and_second_tests_stay_on_a_page(name):
    sealed = guard("sealed")["lines"][name]
    assert sealed
    for path in REPORTS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        if {*sealed} <= {" ".join(line.split()) for line in text.splitlines()}:
            return
    raise AssertionError(f"no page has all lines of the {name}")
