"""docs/architecture.md says what the code is: names, rooms and their order."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = re.findall(r"^\| `(fpt\.\w+)` \|", PAGE, re.MULTILINE)  # the highest first
FREE = {"fpt", "fpt.__main__"}
MOST_LINES, MOST_FLAT = 300, 8


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted((ROOT / "fpt").rglob("*.py")):
        names = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(names[:-1] if names[-1] == "__init__" else names)] = path
    return found


def room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def imported(module: str, node: ast.AST) -> Iterator[str]:
    """The modules of fpt that are imported anywhere in `node`."""
    package = module.split(".")
    if modules()[module].name != "__init__.py":
        package.pop()
    for it in ast.walk(node):
        if isinstance(it, ast.Import):
            yield from (alias.name for alias in it.names if room(alias.name) in ROOMS)
        elif isinstance(it, ast.ImportFrom):
            above = package[: len(package) + 1 - it.level] if it.level else []
            base = ".".join([*above, *([it.module] if it.module else [])])
            for alias in it.names:
                full = f"{base}.{alias.name}"
                if base.split(".")[0] == "fpt":
                    yield full if full in modules() else base


@cache
def parsed() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text()) for name, path in modules().items()}


def test_every_room_is_named_and_there_are_few_flat_modules() -> None:
    assert sorted(ROOMS) == sorted({room(name) for name in modules()} - FREE)
    flat = [name for name in ROOMS if modules()[name].name != "__init__.py"]
    assert len(flat) <= MOST_FLAT


def test_a_room_imports_only_rooms_above_it() -> None:
    found = {
        (module, room(name))
        for module, tree in parsed().items()
        if module not in FREE
        for name in imported(module, tree)
        if room(name) in ROOMS and ROOMS.index(room(name)) > ROOMS.index(room(module))
    }
    assert not found


def test_no_module_of_ours_is_imported_inside_a_function() -> None:
    found = {
        f"{module} {name}"
        for module, tree in parsed().items()
        if module not in FREE
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for name in imported(module, node)
    }
    assert not found


def test_no_module_is_long() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    assert not {name for name, count in lines.items() if count > MOST_LINES}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(fpt(?:\.\w+)*)`", PAGE))))
def test_every_name_is_there(name: str) -> None:
    parts = name.split(".")
    most = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in modules())
    found: object = import_module(".".join(parts[:most]))
    for part in parts[most:]:
        found = getattr(found, part)


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= 90
