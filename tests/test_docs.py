"""What the documents name is there: commands with their options, files, make targets, links."""

import argparse
import re
from pathlib import Path

import pytest

from fpt.__main__ import parser

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "benchmarks/README.md", "data/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
MADE = ("data/prepared", "data/backbones", "data/corpora", "reports/smoke")  # not committed
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda it: str(it.relative_to(ROOT)))


def blocks(page: Path) -> list[str]:
    """The lines of the blocks of code."""
    text = page.read_text()
    return re.findall(r"^    .+", text, re.MULTILINE) + [
        line
        for block in re.split(r"^```.*$", text, flags=re.MULTILINE)[1::2]
        for line in block.splitlines()
    ]


def inline(page: Path) -> list[str]:
    """The code inside sentences."""
    text = "".join(re.split(r"^```.*$", page.read_text(), flags=re.MULTILINE)[::2])
    return re.findall(r"`([^`]+)`", text)


@every_page
def test_commands_and_their_options_are_there(page: Path) -> None:
    (verbs,) = (it for it in parser()._actions if isinstance(it, argparse._SubParsersAction))
    for text in blocks(page) + inline(page):
        for verb, rest in re.findall(r"(?:^|bin/| )fpt ([a-z]+)((?: [^#]*)?)", text.strip()):
            assert verb in verbs.choices, text
            options = set(re.findall(r"(?<=[ \[])--[a-z-]+", rest))
            assert options <= set(verbs.choices[verb]._option_string_actions), text


@every_page
def test_files_are_there(page: Path) -> None:
    for word in " ".join(inline(page)).split():
        if re.fullmatch(r"(fpt|tests|benchmarks|docs|notebooks|data|reports)/[\w./-]+", word):
            assert word.startswith(MADE) or (ROOT / word).exists(), word
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists(), link


@every_page
def test_make_has_the_targets_named(page: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for text in blocks(page) + inline(page):
        for target in re.findall(r"^make ([a-z]+)", text):
            assert target in targets, text
