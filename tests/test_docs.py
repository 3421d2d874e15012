"""What the documents name exists, and code has the layout that they describe."""

import ast
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from pydoc import locate

import pytest

from fpt.plan import plan
from fpt.price import GPUS, hours

ROOT = Path(__file__).parents[1]
# The report is one of them, at reports/README.md.
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("docs/**/*.md")})
# Of each section and each experiment. Those of `verdicts` stand as they were printed.
REPORTS = [*ROOT.glob("reports/[0-9]*.md"), *ROOT.glob("reports/experiments/*/README.md")]
OWN_FOLDERS = r"(fpt|tests|benchmarks|docs|notebooks|data|reports)/[\w./-]+$"
NOT_COMMITTED = ("data/prepared", "data/backbones", "data/corpora", "reports/experiments/own")
NEVER = (  # said of a table that this project had, or of a machine
    "one more draw", "no clear difference", "not planned", "runs missing", "Shown at the top",
    "no runs of its own", "@6",
)  # fmt: skip
MOST_WORDS = 14_000  # of all pages of docs/
ROOMS = re.findall(  # the highest first
    r"^\| `fpt\.(\w+)` \|", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE
)
MODULES = sorted((ROOT / "fpt").rglob("*.py"))
MOST_LINES = 300
MOST_MODULES = 13


def missing(page):
    """Links, files and names of Python that a page has and this repository has not."""
    prose = "".join(re.split(r"^```.*$", page.read_text(), flags=re.MULTILINE)[::2])
    for link in re.findall(r"\]\(([^)#]+)", prose):
        # Pages in HTML are made on every machine, so no page that is committed may lead to them.
        is_there = (page.parent / link).exists() and not link.endswith(".html")
        if not link.startswith("http") and not is_there:
            yield link
    if page.name == "CHANGELOG.md":  # it also names what has left
        return
    for code in re.findall(r"`([^`]+)`", prose):
        for word in code.split():
            is_own = re.match(OWN_FOLDERS, word) and not word.startswith(NOT_COMMITTED)
            is_own = is_own and not re.match(r"reports/.*\.html$", word)
            if is_own and not (ROOT / word).exists():
                yield word
        if re.match(r"fpt(\.\w+)*$", code) and locate(code) is None:
            yield code


def test_what_pages_name_exists():
    lost = {str(page.relative_to(ROOT)): list(missing(page)) for page in [*PAGES, *REPORTS]}
    assert not {page: names for page, names in lost.items() if names}


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True)
    html = "".join(page.read_text() for page in tmp_path.rglob("*.html"))
    assert not re.search(r"<(script|img|link)[^>]*(src|sheet\"? href)=\"?(https?:)?//", html)


def test_the_docs_are_short_and_speak_of_what_is_there():
    pages = {page.name: page.read_text() for page in ROOT.glob("docs/**/*.md")}
    assert sum(len(text.split()) for text in pages.values()) <= MOST_WORDS
    said = {(name, words) for name, text in pages.items() for words in NEVER if words in text}
    assert not said


@pytest.mark.parametrize("tier", ["hour", "day", "weekend"])
def test_the_page_of_tiers_has_their_runs_and_hours(tier):
    specs = [run.spec for run in plan(tier).runs]
    together = [hours(specs, gpu)[1] for gpu in GPUS]
    cells = [f"{value:.0f} h" if value >= 10 else f"{value:.1f} h" for value in together]
    row = f"| `{tier}` | {len(specs)} | {' | '.join(cells)} |"
    assert row in (ROOT / "docs/gpu.md").read_text()
    # The front page has those of the first and of the last tier.
    assert tier == "day" or cells[0].removesuffix(" h") in (ROOT / "README.md").read_text()


def test_the_page_of_data_and_weights_is_of_what_is_listed():
    page = (ROOT / "docs/data-and-weights.md").read_text()
    now = import_module("lab.data_page").page()
    for listed, line in zip(page.splitlines(), now.splitlines(), strict=True):
        # Whoever fetches a file gets its digest into data/hub.lock.json.
        assert line == listed or listed.endswith("fixed by the first use |")


def rooms_read(path, node):
    """The rooms from which a `node` of a module imports, its own one too."""
    for statement in ast.walk(node):
        if not isinstance(statement, ast.ImportFrom):
            continue
        if statement.level == len(path.relative_to(ROOT / "fpt").parts):  # from the package
            names = [alias.name for alias in statement.names]
            yield from [statement.module.split(".")[0]] if statement.module else names
        elif statement.level:
            yield room(path)


def room(path):
    return path.relative_to(ROOT / "fpt").with_suffix("").parts[0]


def test_a_room_imports_only_rooms_above_it_and_at_the_top_of_a_module():
    assert {room(path) for path in MODULES} - {"__init__", "__main__"} == set(ROOMS)
    wrong = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        above = ROOMS[: ROOMS.index(room(path)) + 1] if room(path) in ROOMS else ROOMS
        wrong += [(path, name) for name in rooms_read(path, tree) if name not in above]
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        if room(path) in ROOMS:
            wrong += [(path, name) for node in functions for name in rooms_read(path, node)]
    assert not wrong


def test_no_room_has_many_modules():
    rooms = Counter(path.parent for path in MODULES)
    assert not {path: count for path, count in rooms.items() if count > MOST_MODULES}


def test_no_module_is_long():
    assert not [path for path in MODULES if len(path.read_text().splitlines()) > MOST_LINES]
