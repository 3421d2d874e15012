"""What the documents name is there: commands with their options, files, make targets, links."""

import argparse
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from fpt.__main__ import parser

ROOT = Path(__file__).parents[1]
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("docs/**/*.md")})
# Not committed.
MADE = ("data/prepared", "data/backbones", "data/corpora", "reports/smoke", "reports/paper")
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda it: str(it.relative_to(ROOT)))


def inline(page: Path) -> list[str]:
    """The code inside sentences."""
    text = "".join(re.split(r"^```.*$", page.read_text(), flags=re.MULTILINE)[::2])
    return re.findall(r"`([^`]+)`", text)


@every_page
def test_commands_their_options_and_targets_of_make_are_there(page: Path) -> None:
    (verbs,) = (it for it in parser()._actions if isinstance(it, argparse._SubParsersAction))
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for text in inline(page):
        for verb, rest in re.findall(r"(?:^|bin/| )fpt ([a-z]+)((?: [^#]*)?)", text.strip()):
            assert verb in verbs.choices, text
            options = set(re.findall(r"(?<=[ \[])--[a-z-]+", rest))
            assert options <= set(verbs.choices[verb]._option_string_actions), text
        assert set(re.findall(r"^make ([a-z]+)", text)) <= set(targets), text


@every_page
def test_files_are_there(page: Path) -> None:
    for word in " ".join(inline(page)).split():
        if re.fullmatch(r"(fpt|tests|benchmarks|docs|notebooks|data|reports)/[\w./-]+", word):
            assert word.startswith(MADE) or (ROOT / word).exists(), word
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists(), link


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True)
    html = "".join(page.read_text() for page in tmp_path.rglob("*.html"))
    assert not re.search(r"<(script|img|link)[^>]*(src|sheet\"? href)=\"?(https?:)?//", html)


def test_the_page_of_costs_is_of_these_parameters() -> None:
    assert (ROOT / "docs/gpu.md").read_text() == import_module("lab.gpu").page()
