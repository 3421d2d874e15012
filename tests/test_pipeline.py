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
from fpt.project import PACKAGE, TIERS
from fpt.reading.made import sections
from lab.renew import clean

HERE = PACKAGE.parent
PARAMS = HERE / "params.yaml"
PIPELINE = yaml.safe_load((HERE / "dvc.yaml").read_text())
SECTIONS = {k: v for block in PIPELINE["vars"] for k, v in block.items()}["sections"]
PARTS = {name: SECTIONS[name] for name in ("transfer", "modality")}  # DVC is slow
RENDERED = {f"section@{section}" for section in PARTS}

STAND_IN = (
    f"""
SECTIONS = {[*PARTS]}
"""
    + """
import json, sys, yaml
from pathlib import Path

params = yaml.safe_load(Path("params.yaml").read_text())
tier, verb = params["tier"], sys.argv[1]
reports = Path("reports")
experiments = reports / "experiments"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def record(section):
    rates = [part.get("lr") for part in params[tier]["sections"][section]]
    return experiments / tier / f"{section}-{rates}.json"


def made_of(section):
    return sorted(str(path) for path in experiments.glob(f"*/{section}-*.json"))


if verb == "data":
    write(Path("data/prepared/arrays"), 0)
elif verb == "weights":
    write(Path("data/backbones/body"), 0)
elif verb == "run":
    rate = 0
    (experiments / tier).mkdir(parents=True, exist_ok=True)
    for section, blocks in params[tier]["sections"].items():
        if not record(section).exists() and params[tier]["train_on"]:
            print("TRAINING", section)
            write(record(section), 0)
        rate = blocks[0].get("lr", rate) if blocks else rate
    for section in SECTIONS:
        write(reports / "index" / f"{section}.json", made_of(section))
    write(reports / "metrics.json", {"transfer": {"model": {"arm": {"bit-xor": rate}}}})
    rows = ["panel,arm,step,accuracy", f"transfer: bit-xor,arm,1,{rate}"]
    (reports / "curves.csv").write_text("\\n".join(rows))
elif verb == "render":
    section = sys.argv[2]
    listed = json.loads((reports / "index" / f"{section}.json").read_text())
    stem = next(Path("notebooks").glob(f"*_{section}.ipynb")).stem
    for path in (f"{stem}.md", f"{stem}.html", f"figures/{stem}/f.png"):
        write(reports / path, listed)
elif verb == "front":
    for out in yaml.safe_load(Path("dvc.yaml").read_text())["stages"]["front"]["outs"]:
        path = Path(*out)
        write(path if path.suffix else path / "f.png", 0)
"""
)


def sources():
    """The files and folders of this repository that stages depend on."""
    stages = [stage.get("do", stage) for stage in PIPELINE["stages"].values()]
    paths = {path for stage in stages for path in stage.get("deps", [])}
    for section, notebook in SECTIONS.items():
        paths |= {path.replace("${key}", section).replace("${item}", notebook) for path in paths}
    made_by_stages = ("reports/index", "data/prepared", "data/backbones")
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
        for tier in ("smoke", "hour"):
            sections = params[tier]["sections"]
            params[tier]["sections"] = {name: sections.get(name, []) for name in PARTS}
        params["tier"] = "smoke"
        params["hour"]["train_on"] = []
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

    def records(self, tier):
        return sorted((self.root / "reports/experiments" / tier).glob("*.json"))


def test_what_the_stages_depend_on_exists():
    assert {"fpt/reading", "notebooks/11_synthetic_pretraining.ipynb"} < sources()
    assert [path for path in sources() if not (HERE / path).exists()] == []


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Reproduced once, from nothing."""
    checkout = Checkout(tmp_path_factory.mktemp("checkout"))
    ran, trained = checkout.dvc("repro")
    assert ran == {"data", "weights", "train", "front", *RENDERED}
    assert trained == set(PARTS)
    return checkout


def test_a_second_repro_does_nothing(checkout):
    assert checkout.dvc("repro") == (set(), set())


def test_experiments_are_compared(checkout):
    rate = "smoke.sections.transfer.0.lr"
    checkout.commit()
    checkout.dvc("exp", "run", "-n", "before")
    ran, trained = checkout.dvc("exp", "run", "-n", "faster", "-S", f"+{rate}=0.25")
    # Other sections may need other data and weights, so both stages look.
    providing = {"data", "weights"}
    assert (ran, trained) == ({*providing, "train", "section@transfer", "front"}, {"transfer"})
    difference = checkout.dvc_says("metrics", "diff", "before", "faster", "--json")
    change = {"old": 0, "new": 0.25, "diff": 0.25}
    assert json.loads(difference) == {
        "reports/metrics.json": {"transfer.model.arm.bit-xor": change}
    }
    checkout.dvc_says("plots", "diff", "before", "faster")
    page = (checkout.root / "dvc_plots/index.html").read_text()
    assert not re.search(r"(src|href)=", page)  # it fetches nothing
    checkout.dvc("exp", "apply", "before")
    assert checkout.dvc("repro")[1] == set()


def test_a_deleted_record_is_trained_again_and_an_added_one_is_noticed(checkout):
    checkout.dvc("repro")
    checkout.records("smoke")[0].unlink()
    ran, trained = checkout.dvc("repro")
    assert ran == {"train"}  # the record is the same as before, so no section changes
    assert len(trained) == 1
    (checkout.root / "reports/experiments/smoke/added.json").write_text("1")
    assert checkout.dvc("repro") == ({"train"}, set())


def test_a_record_of_a_sealed_experiment_renders_its_section(checkout):
    (checkout.root / "reports/experiments/converged/transfer-0.json").write_text("0")
    ran, trained = checkout.dvc("repro")
    assert (ran, trained) == ({"train", "section@transfer", "front"}, set())


def test_a_change_of_a_notebook_renders_that_section_alone(checkout):
    (checkout.root / "notebooks/01_transfer.ipynb").write_text("another text")
    changed = checkout.dvc_says("status", "section", "data", "weights")
    assert "section@transfer:" in changed
    assert "section@modality" not in changed
    assert checkout.dvc("repro", "section")[0] == {"section@transfer"}


def test_switching_tiers_keeps_what_is_there(checkout):
    checkout.commit()
    before = {path.name: path.stat().st_mtime_ns for path in checkout.records("smoke")}
    by_hand = checkout.root / "data/prepared/by-hand"
    by_hand.write_text("not known to dvc.lock")
    for tier in ("hour", "none", "smoke"):
        assert checkout.dvc("exp", "run", "-S", f"tier={tier}")[1] == set()
    assert {path.name: path.stat().st_mtime_ns for path in checkout.records("smoke")} == before
    assert by_hand.exists()
    # What is committed and what is not.
    listed = checkout.run("git", "ls-files", "reports", "data").split()
    assert {"reports/README.md", "reports/01_transfer.md", "reports/figures/front/f.png"} < {
        *listed
    }
    assert not [path for path in listed if path.endswith(".html") or path.startswith("data/")]


@pytest.mark.parametrize(
    ("change", "values", "lines"),
    [
        ("smoke.defaults.lr=1e-5", 1e-5, 2),
        ("smoke.sections.learning_rate.0.lrs=[1e-3,1e-4,1e-7]", [1e-3, 1e-4, 1e-7], 6),
        ("own.sections.initialization.0.models=[pico GPT-2]", ["pico GPT-2"], 2),
        ("tier=hour", "hour", 2),
    ],
)
def test_dvc_changes_one_value(change, values, lines, tmp_path):
    """`dvc exp run -S` writes params.yaml anew: the value arrives, and no other line changes."""
    path = Path(shutil.copy(PARAMS, tmp_path))
    apply_overrides(path, [change])
    before, after = PARAMS.read_text().splitlines(), path.read_text().splitlines()
    assert sum(line[0] in "+-" for line in difflib.ndiff(before, after)) <= lines
    block = read_yaml(path)
    for name in change.partition("=")[0].split("."):
        block = block[int(name) if name.isdigit() else name]
    assert block == values


def test_parameters_have_no_alias_and_the_tier_that_trains_nothing_is_chosen():
    """DVC would write the old value of each alias over the changed value of the block it repeats,
    without a word."""
    tokens = yaml.scan(PARAMS.read_text())
    assert [token.value for token in tokens if isinstance(token, yaml.AliasToken)] == []
    params = read_yaml(PARAMS)
    assert params.pop("tier") == "none"
    assert {*params} == {*TIERS}


def test_the_parameters_of_tests_are_those_of_the_checkout():
    params = read_yaml(HERE / "tests/project/params.yaml")
    assert params == {**read_yaml(PARAMS), "tier": "smoke"}


def test_notebooks_are_the_sections_and_are_stored_clean():
    paths = sorted(HERE.glob("notebooks/*.ipynb"))
    assert [path.stem for path in paths] == sorted(SECTIONS.values())
    assert all(notebook[3:] == section for section, notebook in SECTIONS.items())
    assert {*SECTIONS} == {*sections()}
    for path in paths:
        content = nbformat.read(path, as_version=4)
        assert content == clean(nbformat.read(path, as_version=4)), "run `make notebooks`"
        assert len(content.cells) <= 15
