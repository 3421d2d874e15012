"""The pipeline finds its Python: without an activated environment, in any shell, in a copy of the
checkout, and in a folder of any name."""

import os
import shutil
import subprocess
import sys

import pytest
from refusals import one_sentence
from test_pipeline import HERE, Checkout

LAUNCHER = HERE / ".dvc/fpt.sh"
SHELLS = [path for name in ("sh", "bash", "zsh", "fish", "tcsh") if (path := shutil.which(name))]
BARE = {"PATH": os.defpath}  # no environment is activated


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    root = tmp_path_factory.mktemp("folder") / "my {project} of ${two} words"
    root.mkdir()
    return Checkout(root)


@pytest.mark.parametrize("shell", ["", *SHELLS])
def test_a_stage_runs_in_any_shell(checkout, shell):
    output = checkout.dvc_says("repro", "--force", "data", SHELL=shell, **BARE)
    assert "Running stage 'data'" in output


def launched(folder, **variables):
    """The launcher, called by two shells, so that no Python calls it."""
    line = f'bash -c \'sh "{LAUNCHER}" a "b c"; exit $?\'; exit $?'
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**BARE, **variables},
        capture_output=True,
        text=True,
    )


def put_python(path, packages):
    """A Python that has the packages or not, and says how it was called."""
    path.parent.mkdir(parents=True)
    says = f"printf '%s|' {path.parent.name} \"$@\""
    path.write_text(f"#!/bin/sh\n[ $1 = -c ] && exit {int(not packages)}\n{says}\n")
    path.chmod(0o755)


def test_the_environment_of_the_checkout_comes_before_one_on_the_path(tmp_path):
    root, path = tmp_path / "my root", tmp_path / "active"
    put_python(path / "python", packages=True)
    put_python(root / ".venv/bin/python", packages=True)
    variables = {"PATH": f"{path}:{os.defpath}", "DVC_ROOT": str(root)}
    assert launched(tmp_path, **variables).stdout == "bin|-m|fpt|a|b c|"
    put_python(tmp_path / "empty/.venv/bin/python", packages=False)  # half made
    variables["DVC_ROOT"] = str(tmp_path / "empty")
    assert launched(tmp_path, **variables).stdout == "active|-m|fpt|a|b c|"
    del variables["DVC_ROOT"]  # called by hand
    assert launched(root, **variables).stdout == "bin|-m|fpt|a|b c|"


def test_no_environment_is_one_sentence(tmp_path):
    put_python(tmp_path / "active/python", packages=False)
    put_python(tmp_path / "active3/python3", packages=False)
    done = launched(tmp_path, PATH=f"{tmp_path}/active:{tmp_path}/active3:{os.defpath}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "make setup" in one_sentence(done.stderr.strip())


BARE_GPU = """
import sys, warnings
from pathlib import Path
for name in ("fastjsonschema", "joblib", "sklearn", "statsmodels", "dvc", "papermill"):
    sys.modules[name] = None
from fpt import config
from fpt.training import sweep
from fpt.records import Store
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    runs = config.expand(config.load("own"), "initialization", {"steps": 2, "eval_every": 2})
    assert "fastjsonschema" in str(caught[0].message)
specs = [run.spec for run in runs if run.arm == "language"][:1]
print(sweep.run(specs, Store(Path(sys.argv[1])), device="cpu"))
"""


def test_a_machine_with_torch_and_transformers_alone_trains(tmp_path):
    """As the GPUs of others have it: no package of the pipeline, the tables or the estimator."""
    process = subprocess.run(
        [sys.executable, "-c", BARE_GPU, str(tmp_path / "records")],
        cwd=HERE,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )
    assert process.stdout.strip() == "1", process.stderr
