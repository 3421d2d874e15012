"""Blocks of docs/own-data.md that scripts write from their results, so that no number is typed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "own-data.md"
RESULTS = Path(__file__).with_name("results")


def write(name: str, content: Mapping[str, Any], lines: Sequence[str]) -> None:
    """Keep the results as results/audit_`name`.json, and show `lines` in the block of that name."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (RESULTS / f"audit_{name}.json").write_text(text + "\n")
    begin = f"<!-- {name}: made by python benchmarks/audit_{name}.py -->"
    end = f"<!-- end of {name} -->"
    page = PAGE.read_text()
    head, _, rest = page.partition(begin)
    if end not in rest:
        raise SystemExit(f"{PAGE} has no block {begin!r} ... {end!r}")
    tail = rest.partition(end)[2]
    block = "\n".join(lines)
    PAGE.write_text(f"{head}{begin}\n{block}\n{end}{tail}")
