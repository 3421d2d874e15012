"""Write the lists that guard the records and tables of the reports: `python -m lab.guards`.

recomputed.jsonl.xz names the records behind every cell of a table, and has what follows from them.
sealed.json has digests of what is not computed again, such as verdicts. keys.json counts the
records and names the files beside them. tests/test_guards.py checks these lists of tests/guards
from files alone: tables may be made in another way, and no number changes unseen.

It reads the reports and the package as they were at commit fca18986, before any record moved: copy
it into an export of that commit (`git archive`), and call it there.
"""

import csv
import hashlib
import json
import lzma
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fpt
from fpt.analysis.steps import area, guessing, steps_to
from fpt.analysis.study import Study
from fpt.analysis.tuning import _without_rate
from fpt.claims.claim import KINDS, LAB, claims
from fpt.claims.model_claims import planned_runs
from fpt.errors import FptError
from fpt.files import write_atomic, write_json
from fpt.records import Record, Store
from fpt.records.archive import COMPRESSION
from fpt.report.progress import LEVELS
from fpt.sections.arms import label
from fpt.spec import canonical

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "reports"
GUARDS = ROOT / "tests" / "guards"
# Where records are: the name of each place, and its files.
PLACES = {
    "language": ("language/records/records.jsonl.xz",),
    "language, search": ("language/search/records.jsonl.xz",),
    "lab": ("lab/records/records.jsonl.xz", "lab/records/*.json"),
    "lab, exploratory": ("lab/records/exploratory.jsonl.xz",),
    "paper": ("paper/records/records.jsonl.xz",),
    "converged, pilot": ("experiments/converged/pilot/records.jsonl.xz",),
}
# Files beside them: kept parameters, how backbones were pretrained, runs from before records.
BESIDE = {
    "parameters": "*/records/*.safetensors",
    "bodies": "*/records/bodies/*.json",
    "english": "*/records/exploratory-english/*.json",
}
COLUMNS = ("mean", "low", "high", "sd", "runs", "expected", "diverged", "censored", "unit")
# Tables have twelve digits.
CLOSE = 1e-9
Row = Mapping[str, str]
Cell = Mapping[str, Any]


# ------------------------------------------------------------------------------- recomputed


def cells() -> Iterator[Cell]:
    """Every cell with a record of every table that is made from records."""
    for path in sorted(REPORTS.glob("*/tables/*/*.csv")):
        profile, _, section, name = path.relative_to(REPORTS).with_suffix("").parts
        if name.startswith("paper-") or name in (*KINDS, "exploratory"):
            continue
        study = fpt.section(section, profile).with_lent_runs()
        cells_of = {"progress": progress_cells, "search": search_cells}.get(name, result_cells)
        for cell in cells_of(study, rows_of(path)):
            yield {"table": str(path.relative_to(REPORTS)), **cell}


def rows_of(path: Path) -> Sequence[Row]:
    """The rows of a table, as they were printed."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def result_cells(study: Study, rows: Sequence[Row]) -> Iterator[Cell]:
    """The cells of arms by tasks. Rows of baselines and of differences are none."""
    results = study.results()
    results = results[results["status"] != "not run"]
    for row in rows:
        runs = results[(results["arm"] == row["arm"]) & (results["task"] == row["task"])]
        if row["kind"] == "arm" and len(runs):
            measure = study.measures(row["task"])
            place = {"arm": row["arm"], "task": row["task"], "measure": measure}
            yield made(place, row, COLUMNS, study.store, runs["key"])


def progress_cells(study: Study, rows: Sequence[Row]) -> Iterator[Cell]:
    """The cells of a table beside areas, which has arms by their labels."""
    if study.name == "verdict":
        study = replace(study, runs=tuple(planned_runs()))
    recorded = study.records()
    for row in rows:
        runs = [
            run
            for run in study.runs
            if (run.task, label(run.arm)) == (row["task"], row["arm"]) and run.key in recorded
        ]
        (arm,) = {run.arm for run in runs}
        place = {"arm": arm, "task": row["task"], "measure": "progress"}
        columns = [name for name in row if name not in place]
        yield made(place, row, columns, study.store, [run.key for run in runs])


def search_cells(study: Study, rows: Sequence[Row]) -> Iterator[Cell]:
    """The cells of the search of rates: the mean area of the runs that were trained in full."""
    store = Store(study.folder / "search")
    trials = store.read_all(sorted(store.keys())).values()
    for row in rows:
        task, arm = row["task"], row["arm"]
        spec = next(run.spec for run in study.runs if (run.arm, run.task) == (arm, task))
        of_place = [
            trial
            for trial in trials
            if _without_rate(trial.spec) == _without_rate(spec) and trial.spec.steps == spec.steps
        ]
        for name in list(row)[2:]:  # a column for each rate
            if row[name]:
                keys = [trial.key for trial in of_place if trial.spec.lr == float(name)]
                place = {"arm": arm, "task": task, "lr": float(name), "measure": "mean area"}
                yield made(place, {"mean": row[name]}, ["mean"], store, keys)


def made(place: Cell, row: Row, columns: Iterable[str], store: Store, keys: Iterable[str]) -> Cell:
    """A cell: its place, what its row printed in some columns, and what its records say."""
    records = list(store.read_all(sorted(keys)).values())
    return {
        **place,
        "classes": round(math.exp(guessing(records[0].spec))),
        "printed": {name: value_of(row[name]) for name in columns},
        "numbers": numbers(records),
        "keys": [record.key for record in records],
    }


def value_of(field: str) -> float | str | None:
    """What a field of a table holds: a number, a text, or nothing."""
    try:
        return float(field) if field else None
    except ValueError:
        return field


def mean(values: Iterable[float]) -> float | None:
    """The mean, None of no value."""
    listed = list(values)
    return float(np.mean(listed)) if listed else None


def numbers(records: Sequence[Record]) -> Mapping[str, Any]:
    """Accuracies, steps and area of the runs of a cell."""
    # The accuracy of a run that diverged is that of whatever was best before.
    done = [record for record in records if record.status == "done"]
    threshold = records[0].spec.threshold
    log_steps = {}
    for level in [threshold] if threshold else LEVELS:
        steps = [steps_to(record, level) for record in records]
        censored = sum(one.censored for one in steps)
        log_steps[f"{level:g}"] = [mean(math.log(one.count) for one in steps), censored]
    found = {
        "accuracy": mean(record.metrics["test_accuracy"] for record in done),
        "valid_accuracy": mean(record.metrics["valid_accuracy"] for record in done),
        "log_steps": log_steps,
    }
    # Runs to a threshold end early, and an area over other steps is another measure.
    if not threshold:
        found["log_area"] = mean(math.log(area(record)) for record in records)
    return found


def check(cell: Cell) -> None:
    """FptError unless a cell's printed mean and count follow from the records that it lists."""
    found, printed = cell["numbers"], cell["printed"]
    measure = cell["measure"]
    if measure == "steps":
        ((value, _),) = found["log_steps"].values()
    elif measure == "area":
        value = found["log_area"]
    elif measure == "mean area":
        return  # of few runs, and not of their logarithms: the test computes it
    else:
        value = 100 * found["accuracy"]
    shown = printed["accuracy" if measure == "progress" else "mean"]
    if printed["runs"] != len(cell["keys"]) or not math.isclose(shown, value, rel_tol=CLOSE):
        raise FptError(f"{cell['table']}, {cell['arm']} on {cell['task']}: {shown} is {value}.")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ----------------------------------------------------------------------------------- sealed


def sealed() -> Mapping[str, Any]:
    """Digests of the tables of verdicts, their columns and claims, and lines of pages."""
    tables = []
    for path in sorted(REPORTS.glob("*/tables/verdict/*.csv")):
        rows = rows_of(path)
        table: dict[str, Any] = {
            "table": str(path.relative_to(REPORTS)),
            "sha256": sha256(path.read_bytes()),
            "columns": list(rows[0]),
        }
        if "claim" in rows[0]:
            table["claims"] = [row["claim"] for row in rows]
        tables.append(table)
    return {"tables": tables, "lines": {**pooled_lines(), **second_tests()}}


def pooled_lines() -> Mapping[str, Sequence[str]]:
    """The rows of claims over several tasks: their effect on each task stands in no CSV."""
    found = {}
    for kind in KINDS:
        pooled = {claim.name for claim in claims(kind) if len(claim.tasks) > 1}
        page = (REPORTS / LAB / "tables" / "verdict" / f"{kind}.md").read_text(encoding="utf-8")
        rows = [line.split(" | ") for line in page.splitlines() if line.startswith("|")]
        found[f"pooled claims, {kind}"] = [
            " | ".join(row) for row in rows if row[0].strip("| ") in pooled
        ]
    return found


def second_tests() -> Mapping[str, Sequence[str]]:
    """What the pages print of every primary claim by a second test."""
    found = {}
    for path in sorted(REPORTS.glob("*/notebooks/12_verdict.md")):
        text = re.search(r"^    both tests agree.*?(?=^#)", path.read_text(), re.M | re.S)
        if text is not None:
            lines = [" ".join(line.split()) for line in text[0].splitlines()]
            found[f"second tests, {path.parts[-3]}"] = list(filter(None, lines))
    return found


# ------------------------------------------------------------------------------------- keys


def places() -> Mapping[str, Mapping[str, str]]:
    """A digest of each record of a place, by key."""
    found: dict[str, dict[str, str]] = {}
    for place, patterns in PLACES.items():
        for path in (path for pattern in patterns for path in sorted(REPORTS.glob(pattern))):
            content = path.read_bytes()
            lines = (lzma.decompress(content) if path.suffix == ".xz" else content).splitlines()
            for record in map(json.loads, lines):
                found.setdefault(place, {})[record["key"]] = result_digest(record)
    return found


def result_digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of what a record holds beside its specification: the key stands for that, and where
    a record is written anew, fields that came later stand in it with their defaults."""
    rest = {name: value for name, value in record.items() if name not in ("spec", "digest")}
    return sha256(canonical(rest).encode())


def counted(digests: Mapping[str, str]) -> Mapping[str, Any]:
    """How many records a place has, with digests of their sorted keys and of their results."""
    results = [f"{key} {digests[key]}" for key in sorted(digests)]
    return {
        "count": len(digests),
        "keys": sha256("\n".join(sorted(digests)).encode()),
        "results": sha256("\n".join(results).encode()),
    }


def beside() -> Mapping[str, Any]:
    """The digests of each kind of file beside records, by name."""
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in BESIDE}
    for kind, pattern in BESIDE.items():
        for path in sorted(REPORTS.glob(pattern)):
            digests = found[kind].setdefault(path.name, [])
            digests += {sha256(path.read_bytes())} - {*digests}
    return found


def main() -> None:
    GUARDS.mkdir(exist_ok=True)
    recomputed = list(cells())
    for cell in recomputed:
        check(cell)
    records = places()
    # The keys stand in front of the cells, which have most of them again.
    lines = [{place: sorted(of_place) for place, of_place in records.items()}, *recomputed]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    archive = lzma.compress(content, check=lzma.CHECK_CRC64, filters=COMPRESSION)
    write_atomic(GUARDS / "recomputed.jsonl.xz", archive)
    write_json(GUARDS / "sealed.json", sealed())
    counts = {place: counted(of_place) for place, of_place in records.items()}
    write_json(GUARDS / "keys.json", {"records": counts, "files": beside()})


if __name__ == "__main__":
    main()
