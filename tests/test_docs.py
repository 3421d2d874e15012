"""What the documents name exists, and code and notebooks have the layout that they describe."""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pydoc import locate

import nbformat

from fpt.__main__ import parser

ROOT = Path(__file__).parents[1]
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("docs/**/*.md")})
NOT_COMMITTED = ("data/prepared", "data/backbones", "data/corpora", "reports/smoke")
NOT_COMMITTED += ("reports/paper", "reports/language")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = re.findall(r"^\| `fpt\.(\w+)` \|", ARCHITECTURE, re.MULTILINE)  # the highest first
MODULES = sorted((ROOT / "fpt").rglob("*.py"))
MOST_LINES, MOST_FLAT_MODULES = 300, 8
MOST_CELLS, MOST_LINES_OF_AN_IDEA = 25, 15


def missing(page: Path) -> Iterator[str]:
    """Commands, options, targets of make, files, links and names of Python that a page has, and
    this repository has not."""
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        if not link.startswith("http") and not (page.parent / link).exists():
            yield link
    prose = "".join(re.split(r"^```.*$", text, flags=re.MULTILINE)[::2])
    for code in re.findall(r"`([^`]+)`", prose):
        yield from missing_commands(code)
        for word in code.split():
            is_file = re.match(
                r"(fpt|tests|benchmarks|docs|notebooks|data|reports)/[\w./-]+$", word
            )
            if is_file and not word.startswith(NOT_COMMITTED) and not (ROOT / word).exists():
                yield word
        if re.match(r"fpt(\.\w+)*$", code) and locate(code) is None:
            yield code


def missing_commands(code: str) -> Iterator[str]:
    (verbs,) = (each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for verb, rest in re.findall(r"(?:^|bin/| )fpt ([a-z]+)((?: [^#]*)?)", code.strip()):
        allowed = verbs.choices[verb]._option_string_actions if verb in verbs.choices else ()
        options = re.findall(r"(?<=[ \[])--[a-z-]+", rest)
        if verb not in verbs.choices or not set(options) <= set(allowed):
            yield f"fpt {verb}{rest}"
    yield from set(re.findall(r"^make ([a-z]+)", code)) - set(targets)


def test_what_pages_name_exists() -> None:
    lost = {str(page.relative_to(ROOT)): list(missing(page)) for page in PAGES}
    assert not {page: names for page, names in lost.items() if names}


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True)
    html = "".join(page.read_text() for page in tmp_path.rglob("*.html"))
    assert not re.search(r"<(script|img|link)[^>]*(src|sheet\"? href)=\"?(https?:)?//", html)


def test_the_page_of_costs_is_of_these_parameters() -> None:
    assert (ROOT / "docs/gpu.md").read_text() == import_module("lab.gpu").page()


def rooms_read(path: Path, node: ast.AST) -> Iterator[str]:
    """The rooms from which a `node` of a module imports, its own one too."""
    for statement in ast.walk(node):
        if not isinstance(statement, ast.ImportFrom):
            continue
        if statement.level == len(path.relative_to(ROOT / "fpt").parts):  # from the package
            names = [alias.name for alias in statement.names]
            yield from [statement.module.split(".")[0]] if statement.module else names
        elif statement.level:
            yield room(path)


def room(path: Path) -> str:
    return path.relative_to(ROOT / "fpt").with_suffix("").parts[0]


def test_a_room_imports_only_rooms_above_it_and_at_the_top_of_a_module() -> None:
    rooms = {room(path) for path in MODULES}
    assert rooms - {"__init__", "__main__"} == set(ROOMS)
    assert len(list(ROOT.glob("fpt/*.py"))) <= MOST_FLAT_MODULES + 2
    wrong = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        above = ROOMS[: ROOMS.index(room(path)) + 1] if room(path) in ROOMS else ROOMS
        wrong += [(path, name) for name in rooms_read(path, tree) if name not in above]
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        if room(path) in ROOMS:
            wrong += [(path, name) for node in functions for name in rooms_read(path, node)]
    assert not wrong


def test_no_module_is_long() -> None:
    assert not [path for path in MODULES if len(path.read_text().splitlines()) > MOST_LINES]


def test_notebooks_have_their_parts() -> None:
    """A question; one idea in a few lines; a result, and at most three exercises at the end."""
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        assert re.match(r"# \w.*\n\n\*\*[^*]+\?\*\*", cells[0].source), path
        assert len(cells) <= MOST_CELLS, path
        tags = [tag for cell in cells for tag in cell.metadata.get("tags", ())]
        ideas = [cell.source for cell in cells if "idea" in cell.metadata.get("tags", ())]
        lines = re.findall(r"^ *[^ #\n]", "\n".join(ideas), re.MULTILINE)
        assert len(lines) <= MOST_LINES_OF_AN_IDEA * len(ideas), path
        if path.stem[3:] not in ("tasks", "verdict"):
            heads = [cell.source.split("\n")[0] for cell in cells if cell.source.startswith("## ")]
            assert heads[-2:] == ["## What to conclude", "## Change one thing"], path
            assert (len(ideas), "result" in tags) == (1, True), path
            assert 2 <= tags.count("change") <= 3, path
