"""Every command and code block of the documents is executed, in a copy of tests/project that has
the committed records.

One process does them all, in reading order; called in a copy, this file lists what it does. What
takes minutes, a GPU or a network has a stand-in: see INSTEAD. The tiers `own`, `hour` and `day` are
small there, and live runs have four steps.
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
    r"^\"\"\"reviews.py": "parsed: it is a module of the reader's; test_own_data.py trains it",
    r"task=\"reviews\"": "parsed: it needs the runs of that module",
    r"^pip install": "parsed: it installs",
    r"^make ": "make -n: it installs, or takes minutes",
    r"^\S*dvc ": "parsed by DVC: it renders all notebooks; test_pipeline.py executes it",
    r"^#!/bin/bash|^apiVersion|--ray": "parsed: it needs a cluster; test_ray.py has one of Ray",
    r"^\S+:( |\n)|^ +arms:": "parsed: it is a part of a file",
    r"^\S*fpt render": "parsed: it executes a notebook; test_pipeline.py executes it",
    r"^\S*fpt replicate": "parsed: it trains a record; test_cli.py has small ones",
    r"^\S*fpt .*--device cuda": "with --device cpu: there may be no GPU",
    r"^\S*fpt .*--tier (hour|day)": "on a small tier: it takes hours or a GPU",
    r"mine@40960": "with 4,096 tokens instead of 40,960: it takes a minute",
    r"^\S*fpt audit": "parsed: test_audit.py has files to audit",
    r"fpt\.audit\(": "parsed: an audit takes minutes; test_audit.py has small ones",
    r"lab\.land": "parsed: it needs the records of a second machine",
    r"corpus english": "with a local file of two rows: it needs the hub",
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
    own = shutil.ignore_patterns("own", "none", "smoke")
    shutil.copytree(ROOT / "reports/experiments", root / "reports/experiments", ignore=own)
    env = os.environ | {"FPT_ROOT": str(root), "FPT_CORPORA": str(root), "PYTHONPATH": str(ROOT)}
    done = subprocess.check_output([sys.executable, __file__], cwd=root, env=env, text=True)
    assert not re.findall(".* FAILED.*", done)


def prepare():
    """Small tiers, a text to pretrain on, a file of the hub."""
    import huggingface_hub
    import pandas as pd

    params = yaml.safe_load(Path("params.yaml").read_text())
    small = {"steps": 2, "eval_every": 1, "eval_items": 8}
    params["own"]["defaults"] |= small
    arms = {"tasks": ["bit-xor"], "models": ["nano GPT-2"], "arms": ["language", "N(0, 0.02)"]}
    sections = {"transfer": [arms], "initialization": [arms]}
    for tier in ("hour", "day"):
        params[tier] = params["own"] | {"sections": sections}
        # The plan of the whole tier.
        Path(f"reports/experiments/{tier}/index.json").unlink(missing_ok=True)
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

    is_python = language in ("python", "pycon")
    for command in re.findall("(?:^|[ /])fpt ([a-z].*)", text * (not is_python), re.M):
        parser().parse_args(shlex.split(command, comments=True))
    parsed = instead(text).startswith("parsed")
    text = text.replace("mine@40960", "mine@4096").replace("cuda", "cpu")
    if language == "pycon":
        text = re.sub(r"^(>>>|\.\.\.) ?", "", text, flags=re.M)
    if "fpt.learn" in text:
        text = re.sub(r"steps=\d+", "steps=4", text)
    first, *words = shlex.split(text, comments=True) if language == "sh" else [language]
    assert language != "yaml" or yaml.safe_load(text)
    if language in ("bash", "yaml", "text"):
        assert parsed or language == "text", f"nobody says how to try {text}"
    elif is_python and not parsed:
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
