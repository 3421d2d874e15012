"""dvc.yaml, params.yaml and notebooks/ as a pipeline.

The stages are run with a stand-in for the package that takes no time, so that what is tested is
dvc.yaml itself: what runs again after which change.
"""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from dvc.utils.hydra import apply_overrides

from fpt.files import read_yaml
from fpt.project import PACKAGE, project
from fpt.report.render import read_source
from lab.renew import clean

HERE = PACKAGE.parent
PARAMS = project().params
PIPELINE = yaml.safe_load((HERE / "dvc.yaml").read_text())
SECTIONS = {k: v for block in PIPELINE["vars"] for k, v in block.items()}["sections"]
PARTS = {name: SECTIONS[name] for name in ("tasks", "transfer")}  # DVC is slow

STAND_IN = """
import json, sys, yaml
from pathlib import Path

params = yaml.safe_load(Path("params.yaml").read_text())
profile, verb = params["profile"], sys.argv[1]
block, report = params[profile], Path("reports") / profile


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def record(section):
    rates = [part.get("lr") for part in block["sections"][section]]
    return report / "records" / f"{section}-{rates}.json"


if verb == "data":
    write(Path("data/prepared/arrays"), 0)
elif verb == "pretrain":
    write(Path("data/backbones/body"), 0)
elif verb == "run":
    for section in block["sections"]:
        if not record(section).exists() and profile == "smoke":
            print("TRAINING", section)
            write(record(section), 0)
        listed = [str(record(section)), record(section).exists()]
        write(report / "index" / f"{section}.json", listed)
    rate = block["sections"]["transfer"][0].get("lr", 0)
    write(report / "metrics.json", {"transfer": {"fpt - random": rate}})
    rows = ["panel,arm,step,accuracy", f"transfer: bit-xor,fpt,1,{rate}"]
    (report / "curves.csv").write_text("\\n".join(rows))
elif verb == "render":
    section = sys.argv[2]
    listed = json.loads((report / "index" / f"{section}.json").read_text())
    notebook = next(Path("notebooks").glob(f"*_{section}.ipynb")).stem
    if "FAIL" in Path(f"notebooks/{notebook}.ipynb").read_text():
        sys.exit(f"{notebook} failed")
    for path in (f"notebooks/{notebook}.ipynb", f"notebooks/{notebook}.html",
                 f"notebooks/{notebook}.md",
                 f"tables/{section}/t.md", f"figures/{section}/f.png"):
        write(report / path, listed)
elif verb == "index":
    for name in ("README.md", "index.html", "appendix.md", "appendix.html"):
        write(report / name, 0)
"""


def sources():
    """The files and folders of this repository that stages depend on."""
    stages = [stage.get("do", stage) for stage in PIPELINE["stages"].values()]
    paths = {path for stage in stages for path in stage.get("deps", [])}
    for section, notebook in SECTIONS.items():
        paths |= {path.replace("${key}", section).replace("${item}", notebook) for path in paths}
    made_by_stages = ("reports/$", "data/prepared", "data/backbones")
    return {path for path in paths if "${" not in path and not path.startswith(made_by_stages)}


class Checkout:
    """A Git checkout of this project's pipeline with a stand-in for its package."""

    def __init__(self, root):
        self.root = root
        shutil.copytree(HERE / ".dvc", root / ".dvc", ignore=shutil.ignore_patterns("tmp", "cache"))
        for path in (PARAMS, *(HERE / name for name in ("dvc.yaml", ".gitignore", ".dvcignore"))):
            shutil.copy(path, root)
        self.keep_parts()
        for name in {"fpt"} | sources():
            path = root / name if Path(name).suffix else root / name / "__init__.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("# stand-in")
        (root / "fpt/__main__.py").write_text(STAND_IN)
        (root / ".gitconfig").write_text("[user]\nname = fpt\nemail = fpt@localhost\n")
        self.run("git", "init", "-q")
        self.commit()

    def commit(self):
        self.run("git", "add", "-A")
        self.run("git", "commit", "-qm", "a state")

    def keep_parts(self):
        """Leave only the sections of PARTS in the pipeline and in its parameters."""
        pipeline = yaml.safe_load((self.root / "dvc.yaml").read_text())
        next(block for block in pipeline["vars"] if "sections" in block)["sections"] = PARTS
        params = yaml.safe_load((self.root / "params.yaml").read_text())
        for profile in ("smoke", "lab", "paper"):
            sections = params[profile]["sections"]
            params[profile]["sections"] = {name: sections[name] for name in PARTS}
        for name, content in (("dvc.yaml", pipeline), ("params.yaml", params)):
            (self.root / name).write_text(yaml.safe_dump(content, sort_keys=False))

    def run(self, *command, expect=0, **variables):
        own = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.root),
            "GIT_CONFIG_GLOBAL": str(self.root / ".gitconfig"),
        }
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**os.environ, **own, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == expect, done.stdout
        return done.stdout

    def dvc_says(self, *arguments, expect=0, **variables):
        return self.run(sys.executable, "-m", "dvc", *arguments, expect=expect, **variables)

    def dvc(self, *arguments, expect=0):
        """The stages that ran, and the sections that were trained."""
        lines = self.dvc_says(*arguments, expect=expect).splitlines()
        ran = {line.split("'")[1] for line in lines if line.startswith("Running stage")}
        return ran, {line.split()[1] for line in lines if line.startswith("TRAINING")}

    def records(self, profile):
        return sorted((self.root / "reports" / profile / "records").glob("*.json"))


def test_what_the_stages_depend_on_exists():
    assert {"fpt/sections", "notebooks/12_verdict.ipynb"} < sources()
    assert not [path for path in sources() if not (HERE / path).exists()]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Reproduced once, from nothing."""
    checkout = Checkout(tmp_path_factory.mktemp("checkout"))
    ran, trained = checkout.dvc("repro")
    rendered = {f"section@{section}" for section in PARTS}
    assert ran == {"data", "pretrain", "train", "index"} | rendered
    assert trained == set(PARTS)
    return checkout


def test_a_second_repro_does_nothing(checkout):
    assert checkout.dvc("repro") == (set(), set())
    assert checkout.run("git", "status", "--porcelain") == "?? dvc.lock\n"


def test_experiments_are_compared(checkout):
    rate = "smoke.sections.transfer.0.lr"
    checkout.dvc("exp", "run", "-n", "before")
    ran, trained = checkout.dvc("exp", "run", "-n", "faster", "-S", f"+{rate}=0.25")
    # Other sections may need other data and weights, so both stages look.
    providing = {"data", "pretrain"}
    assert (ran, trained) == ({*providing, "train", "section@transfer", "index"}, {"transfer"})
    assert checkout.run("git", "status", "--porcelain") == " M params.yaml\n?? dvc.lock\n"
    difference = checkout.dvc_says("metrics", "diff", "before", "faster", "--json")
    change = {"old": 0, "new": 0.25, "diff": 0.25}
    assert json.loads(difference) == {
        "reports/smoke/metrics.json": {"transfer.fpt - random": change}
    }
    checkout.dvc_says("plots", "diff", "before", "faster")
    page = (checkout.root / "dvc_plots/index.html").read_text()
    assert not re.search(r"(src|href)=", page)  # it fetches nothing
    checkout.dvc("exp", "apply", "before")
    assert checkout.dvc("repro")[1] == set()


def test_a_deleted_and_a_merged_record_are_noticed(checkout):
    checkout.records("smoke")[0].unlink()
    ran, trained = checkout.dvc("repro")
    assert ran == {"train"}  # the record is the same as before, so no section changes
    assert len(trained) == 1
    (checkout.root / "reports/smoke/records/merged.json").write_text("1")
    assert checkout.dvc("repro") == ({"train"}, set())


def test_a_change_of_a_notebook_renders_that_section_alone(checkout):
    (checkout.root / "notebooks/01_transfer.ipynb").write_text("another text")
    changed = checkout.dvc_says("status", "section", "data", "pretrain")
    assert "section@transfer:" in changed
    assert "section@tasks" not in changed
    assert checkout.dvc("repro", "section")[0] == {"section@transfer"}


def test_switching_profiles_trains_nothing(checkout):
    checkout.commit()
    before = {path.name: path.stat().st_mtime_ns for path in checkout.records("smoke")}
    committed = checkout.root / f"reports/lab/records/{next(iter(PARTS))}-None.json"
    committed.parent.mkdir(parents=True)
    committed.write_text("0")
    checkout.commit()
    by_hand = checkout.root / "data/prepared/by-hand"
    by_hand.write_text("not known to dvc.lock")

    ran, trained = checkout.dvc("exp", "run", "-S", "profile=lab")
    assert ran >= {f"section@{section}" for section in PARTS}
    assert trained == set()
    assert checkout.records("lab") == [committed]
    assert checkout.dvc("exp", "run", "-S", "profile=smoke")[1] == set()
    assert {path.name: path.stat().st_mtime_ns for path in checkout.records("smoke")} == before
    assert by_hand.exists()
    assert checkout.dvc("repro") == (set(), set())
    # What is committed and what is not.
    untracked = checkout.run("git", "status", "--porcelain", "--untracked-files=all")
    assert "reports/lab/tables/" in untracked
    assert "reports/lab/README.md" in untracked
    assert ".html" not in untracked
    assert "reports/smoke" not in untracked
    assert "data/" not in untracked


@pytest.mark.parametrize(
    ("change", "values", "lines"),
    [
        ("smoke.defaults.lr=1e-5", 1e-5, 2),
        ("smoke.sections.learning_rate.0.lrs=[1e-3,1e-4,1e-7]", [1e-3, 1e-4, 1e-7], 6),
        ("profile=lab", "lab", 2),
    ],
)
def test_dvc_changes_one_value(change, values, lines, tmp_path):
    """`dvc exp run -S` writes params.yaml anew: the value arrives, and no other line changes."""
    path = Path(shutil.copy(PARAMS, tmp_path))
    apply_overrides(path, [change])
    before, after = PARAMS.read_text().splitlines(), path.read_text().splitlines()
    assert sum(line[0] in "+-" for line in difflib.ndiff(before, after)) <= lines
    block = read_yaml(path)
    for name in change.partition("=")[0].strip("+").split("."):
        block = block[int(name) if name.isdigit() else name]
    assert block == values


def test_parameters_have_no_alias_and_every_profile_has_every_section():
    """DVC would write the old value of each alias over the changed value of the block it repeats,
    without a word."""
    tokens = yaml.scan(PARAMS.read_text())
    assert [token.value for token in tokens if isinstance(token, yaml.AliasToken)] == []
    params = read_yaml(PARAMS)
    assert params.pop("profile") == "smoke"
    for block in params.values():
        assert set(block["sections"]) == set(SECTIONS)


def test_notebooks_are_the_sections_take_a_profile_and_are_stored_clean():
    paths = sorted(HERE.glob("notebooks/*.ipynb"))
    assert [path.stem for path in paths] == sorted(SECTIONS.values())
    assert all(notebook[3:] == section for section, notebook in SECTIONS.items())
    for path in paths:
        read_source(path)
        content = nbformat.read(path, as_version=4)
        assert content == clean(nbformat.read(path, as_version=4)), "run `make notebooks`"
