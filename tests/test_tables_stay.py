"""Every table of the lab, computed from its records, is the committed file.

Called as a program, this file prints the tables: another process has the lab as its project.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

import fpt
from fpt.report.findings import claims_table, exploratory_table
from fpt.report.results import results_table
from fpt.report.table import paper_table

ROOT = Path(__file__).parents[1]
LAB = ROOT / "reports" / "lab"
RECORDS = ROOT / "reports" / "experiments" / "lab"

# A table that shows only the tasks on which this arm has runs.
TASKS_OF = {
    "architecture/architectures": "random-bidirectional",
    "efficiency/output_only": "probe",
    "finetuning/input": "fpt",
    "finetuning/layernorm": "fpt",
    "finetuning/results": "fpt",
    "finetuning/unfreezing": "fpt",
    "learning_rate/controls": "no-transformer-mean",
}
# Tables that show only arms with a partner to be compared with.
PAIRED = ("synthetic_pretraining/statistics", "synthetic_pretraining/whole")


def part(study, comparison):
    """The runs that the notebook shows in the table of a comparison."""
    name = f"{study.name}/{comparison.name}"
    if name in TASKS_OF:
        return study.part({run.task for run in study.runs if run.arm == TASKS_OF[name]})
    if name in PAIRED:
        pairs = [pair for pair in comparison.pairs if set(pair) <= set(study.arms)]
        return study.part(study.tasks, {arm for pair in pairs for arm in pair})
    return study


def table(section, name):
    """The table that the notebook of a section writes under a name."""
    if name.startswith("paper-"):
        return paper_table(name.removeprefix("paper-"))
    if name == "exploratory":
        return exploratory_table()
    if section == "verdict":
        return claims_table(name)
    study = fpt.section(section, "lab")
    comparisons = {comparison.name: comparison for comparison in study.declared.comparisons}
    comparison = comparisons[name]
    return results_table(part(study, comparison), comparison)


def committed():
    """Section and name of each committed table."""
    for path in sorted(LAB.glob("tables/*/*.csv")):
        yield path.parent.name, path.stem


def test_every_table_of_the_lab_is_the_committed_one(tmp_path):
    if not RECORDS.exists():
        pytest.skip("needs the lab's records")
    shutil.copytree(ROOT / "tests" / "project", tmp_path, dirs_exist_ok=True)
    shutil.copytree(RECORDS, tmp_path / "reports" / "lab" / "records")
    program = [sys.executable, __file__]
    printed = subprocess.check_output(program, env=environment(tmp_path), text=True)
    tables = json.loads(printed)
    assert len(tables) >= 40
    for name, files in tables.items():
        for ending, text in files.items():
            path = LAB / "tables" / f"{name}.{ending}"
            assert text == path.read_text(encoding="utf-8"), path


if __name__ == "__main__":
    tables = {}
    for section, name in committed():
        recomputed = table(section, name)
        tables[f"{section}/{name}"] = {"csv": recomputed.csv(), "md": recomputed.markdown()}
    print(json.dumps(tables))
