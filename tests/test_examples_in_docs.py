"""Every command and code block of the documents is executed, in a copy of tests/project.

One process does them all, in reading order; called in a copy, this file lists what it does. What
takes minutes, a GPU or a network has a stand-in: see INSTEAD. The profiles `lab` and `paper` are
small there: one arm on bit-xor, for two steps.
"""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import yaml
from test_docs import PAGES, ROOT

# What an example has in it: what is done instead of executing it as it stands, and why.
INSTEAD = {
    r"^pip install": "parsed: it installs",
    r"^make ": "make -n: it installs, or takes minutes",
    r"^\S*dvc ": "parsed by DVC: it renders all notebooks; test_pipeline.py executes it",
    r"^#!/bin/bash|^apiVersion|--ray": "parsed: it needs a cluster; test_ray.py has one of Ray",
    r"^\S+:( |\n)": "parsed: it is a part of a file",
    r"^\S*fpt .*--device cuda": "with --device cpu: there may be no GPU",
    r"^\S*fpt .*--profile (lab|paper)": "on a small profile: it takes hours or a GPU",
    r"mine@40960": "with 4,096 tokens instead of 40,960: it takes a minute",
    r"^\S*fpt audit": "parsed: test_audit.py has files to audit",
    r"fpt\.audit\(": "parsed: an audit takes minutes; test_audit.py has small ones",
    r"lab\.backbones": "parsed: it needs 67 backbones; test_released.py packs two",
    r"corpus english": "with a local file of two rows: it needs the hub",
    r"^\"\"\"reviews.py": "parsed: it is a module of the reader's; test_own_data.py trains it",
}


SEEN = {}  # what earlier blocks of Python have defined


def examples():
    """The page, language and text of each: a command of a block of sh, or a whole block."""
    for page in PAGES:
        blocks = re.findall(r"^ *```(\w+)\n(.*?)^ *```$", page.read_text(), re.M | re.S)
        for language, block in blocks:
            text = dedent(block).replace("\\\n", " ")
            commands = re.findall("^[^#\n].*", text, re.M) if language == "sh" else [text]
            yield from ((page.name, language, command) for command in commands)


def instead(text):
    return next((how for pattern, how in INSTEAD.items() if re.search(pattern, text)), "executed")


def test_every_example_in_the_documents_runs(tmp_path):
    root = shutil.copytree(ROOT / "tests/project", tmp_path / "fpt")
    env = os.environ | {"FPT_ROOT": str(root), "FPT_CORPORA": str(root), "PYTHONPATH": str(ROOT)}
    done = subprocess.check_output([sys.executable, __file__], cwd=root, env=env, text=True)
    assert not re.findall(".* FAILED.*", done)


def prepare():
    """Small profiles, records of a second machine, a text to pretrain on, a file of the hub."""
    import huggingface_hub
    import pandas as pd

    experiments = yaml.safe_load((ROOT / "reports/experiments/profiles.yaml").read_text())
    params = yaml.safe_load(Path("params.yaml").read_text())
    block = {"tasks": ["bit-xor"], "arms": ["fpt"], "keep": True, "steps": 2, "eval_every": 1}
    other = Path("../machine-2/reports/experiments")
    for name in ("lab", "paper"):
        sections = dict.fromkeys(params[name]["sections"], []) | {"transfer": [block]}
        params[name] = params["smoke"] | {"sections": sections}
        shutil.copytree("reports/smoke/records", other / experiments[name])
    Path("params.yaml").write_text(yaml.safe_dump(params))
    Path("mine.txt").write_text(4 * "".join(path.read_text() for path in ROOT.glob("fpt/*/*.py")))
    rows = Path("snapshots/commit/data/rows.parquet")  # as the hub's cache has it
    rows.parent.mkdir(parents=True)
    pd.DataFrame({"text": ["A book.", "Another."]}).to_parquet(rows)
    huggingface_hub.hf_hub_download = lambda *args, **more: rows


def perform(language, text):
    """Execute an example, or do what INSTEAD says."""
    from dvc.cli.parser import get_main_parser

    from fpt.__main__ import main, parser

    for command in re.findall("(?:^|[ /])fpt ([a-z].*)", text * (language != "python"), re.M):
        parser().parse_args(shlex.split(command, comments=True))
    parsed = instead(text).startswith("parsed")
    text = text.replace("mine@40960", "mine@4096").replace("cuda", "cpu")
    first, *words = shlex.split(text, comments=True) if language == "sh" else [language]
    assert language != "yaml" or yaml.safe_load(text)
    if language == "python" and not parsed:
        Path("block.py").write_text(text)
        SEEN.update(runpy.run_path("block.py", SEEN, "__main__"))
    elif first == "make":
        subprocess.run(["make", "-n", *words], cwd=ROOT, check=True, stdout=sys.stderr)
    elif first.endswith("shtab"):
        import_module("shtab.main").main(words)
    elif first.endswith("dvc"):
        get_main_parser().parse_args(words)
    elif not parsed:
        assert first.endswith("fpt"), f"nobody says how to try {first}"
        assert main(words) == 0


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr
    prepare()
    for page, language, text in examples():
        done = instead(text)
        try:
            perform(language, text)
        except (Exception, SystemExit) as error:
            done = f"FAILED: {error!r}"
        print(page, text.splitlines()[0], done, sep=" | ", file=out)
