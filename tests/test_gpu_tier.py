"""The tier `hour` from a clone to its pages, on a CPU: its GPT-2 is tiny and random, in a cache."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import transformers
import yaml
from processes import until

from fpt.files import read_yaml
from fpt.project import PACKAGE

HERE = PACKAGE.parent
REPOSITORY = "tests/gpt2"
COMMIT = "1" * 40
SETTINGS = {"steps": 60, "eval_every": 30, "eval_items": 32, "batch": 4, "test_items": 32}
TASKS = {
    "bit-xor": {"options": {"n": 2}},
    "bit-memory": {"options": {"n": 4, "patterns": 2, "patch": 2, "valid": 40, "test": 40}},
    "listops": {"options": {"variant": "released", "train": 40, "valid": 40, "test": 40}},
    "mnist": {"options": {"size": 32}},  # it needs the hub, whose cache lacks it
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The files of this checkout that Git knows, with a tier of seconds."""
    root = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=HERE, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is no Git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (HERE / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HERE / name, root / name)
    params = read_yaml(root / "params.yaml")
    params["tier"] = "hour"
    hour = params["hour"]
    hour |= {"train_on": ["cpu"], "seeds": [0, 1], "tasks": TASKS, "arms": {}}
    hour["defaults"] |= SETTINGS
    (root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    models = read_yaml(root / "fpt/models.yaml")
    models["GPT-2"] = {"backbone": f"hub:{REPOSITORY}@{COMMIT}", "weights": f"hub:{REPOSITORY}"}
    models["GPT-2"]["source"] = f"hub:{REPOSITORY}@{COMMIT}"
    models["GPT-2"]["size"] = "nano"
    (root / "fpt/models.yaml").write_text(yaml.safe_dump(models, sort_keys=False))
    # It lists the runs of the real GPT-2; those of another belong to `own`.
    (root / "reports/experiments/hour/index.json").unlink()
    folder = root / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
    config = transformers.GPT2Config(
        n_layer=2, n_embd=16, n_head=2, vocab_size=50, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2Model(config).save_pretrained(folder / "snapshots" / COMMIT)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text(COMMIT)
    return root


# What tests set, and a newcomer does not.
ALONE = ("FPT_ROOT", "PYTHONPATH", "TQDM_DISABLE")


def start(clone, *arguments):
    """`fpt` of the clone, in a process."""
    environment = {k: v for k, v in os.environ.items() if k not in ALONE}
    environment |= {"HF_HUB_CACHE": str(clone / "hub"), "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "fpt", *arguments],
        cwd=clone,
        env=environment | {"PYTHONPATH": str(clone), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(clone, *arguments):
    """Its exit status and its two outputs."""
    process = start(clone, *arguments)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def records(clone):
    return {path.stem for path in (clone / "reports/experiments/hour").glob("?" * 16 + ".json")}


TRAIN = ("run", "--all", "--pipeline", "--workers", "1")


def test_a_tier_is_trained_in_parts_and_shown(clone):
    # What it costs, before anything starts.
    code, out, _ = call(clone, "weights", "GPT-2")
    assert (code, out) == (0, f"hub:{REPOSITORY}@{COMMIT}: present\n")
    # A budget that is over: nothing is trained, and that is no error.
    code, out, _ = call(clone, *TRAIN, "--budget", "0")
    assert (code, records(clone)) == (0, set())
    assert out.startswith("0 new records\nmissing: 32 of 32 runs")

    # Interrupted in the middle, as by a machine that is taken away.
    process = start(clone, *TRAIN)
    until(lambda: len(records(clone)) >= 2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    kept = records(clone)
    assert process.returncode == 128 + signal.SIGTERM
    assert "the same command goes on" in err
    assert "step 60 of 60" in err  # a log has a line for each evaluation
    assert 2 <= len(kept) < 24
    before = {key: (clone / f"reports/experiments/hour/{key}.json").read_bytes() for key in kept}
    # First the first seed of each cell, and what shares its frozen body.
    first = {key for key, content in before.items() if not json.loads(content)["spec"]["seed"]}
    assert all({*json.loads(content)["pack"]} & first for content in before.values())

    # The same command trains the rest; what lacks its data is left out, with a sentence.
    code, out, _ = call(clone, *TRAIN)
    assert code == 0
    assert len(records(clone)) == 24
    assert "Not trained: " in out
    assert "missing: 8 of 32 runs" in out
    assert "mnist" in out
    for key, content in before.items():
        assert (clone / f"reports/experiments/hour/{key}.json").read_bytes() == content

    # Pages show what is there, and rendering trains nothing.
    code, _, err = call(clone, "render", "transfer")
    assert code == 0, err
    page = (clone / "reports/01_transfer.md").read_text()
    own = page.partition("## Trained here")[2]
    rows = [line for line in own.splitlines() if line.startswith("| hour")]
    assert len(rows) == 2 * 3  # language and fully trained on three tasks
    assert all(" (2) " in row for row in rows)
    assert len(records(clone)) == 24
    code, out, _ = call(clone, "status", "--tier", "hour")
    assert "24 of 32 runs" in out
