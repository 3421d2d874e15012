"""The findings of the lab: the same sentences and figures on its front page and in the README.

`python -m fpt.report.findings` writes the README's block anew.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from ..analysis.claims import KINDS, LAB, Finding, claims, findings
from ..analysis.summary import INTERVALS
from ..files import REPORTS, ROOT, read_yaml, write_atomic
from .table import NONE

BEGIN = "<!-- findings: made by python -m fpt.report.findings -->"
END = "<!-- end of findings -->"
FIGURES = {
    "verdict/steps": "Steps to the threshold by backbone and task, a dot for each seed",
    "synthetic_pretraining/learned": "Mean steps of each corpus against nats learned from context",
}


@cache
def prose() -> dict[str, Any]:
    """The prose of the front pages (front.yaml)."""
    found: dict[str, Any] = read_yaml(Path(__file__).with_name("front.yaml"))
    return found


def pictures(folder: Path, figures: Mapping[str, str], link: str = "") -> Iterator[str]:
    """Markdown: those of the `figures` (name: what it shows) that are in the report's `folder`, to
    which `link` leads from the page."""
    for name, alt in figures.items():
        path = f"figures/{name}.png"
        if (folder / path).exists():
            yield f"![{alt}]({link}{path})"


def in_words(found: Sequence[Finding]) -> list[str]:
    """A sentence for each finding whose claims all have their runs, and how to read them."""
    said = {it.claim.name: it.in_numbers for it in found if it.is_judged}
    said |= {f"{it.claim.name} verdict": it.label.capitalize() for it in found if it.is_judged}
    made = [
        text.format_map(said)
        for text in prose()["findings"]
        if said.keys() >= set(re.findall(r"\{(.+?)\}", text))
    ]
    # What most of them share is said once.
    usual = f"n = {registration_size()} each"
    short = [text.replace(f"({usual}; ", "(") for text in made]
    return [*short, f"{prose()['reading']} {usual}, unless given. {INTERVALS}"] if made else []


def registration_size() -> int:
    """The most backbones that a primary claim has of an arm."""
    return max(count for it in claims("primary") for count in it.backbones.values())


def table(found: Sequence[Finding]) -> str:
    """Markdown: a row per claim."""
    rows = ["| claim | verdict | effect | n | adjusted p |", "|---|---|---|---|---|"]
    for it in found:
        because = f": {it.reason}" if it.reason and it.reason != it.instead else ""
        numbers = f"{it.effect_text} | {it.n_text} | {_p_text(it)}" if it.is_judged else "| |"
        rows.append(f"| {it.claim.statement} | {it.label}{because} | {numbers} |")
    return "\n".join(rows)


def _p_text(found: Finding) -> str:
    """The adjusted p of what the verdict rests on."""
    if found.label == "neither learned":
        return NONE
    if found.label == "depends on the task":
        return f"{found.heterogeneity:.2g} (of equal effects)"
    return f"{found.adjusted:.2g}"


def every_finding() -> list[Finding]:
    """The findings of all registered claims."""
    return [it for kind in KINDS for it in findings(kind)]


def in_readme(text: str, made: str) -> str:
    """The README's text with its block replaced."""
    pattern = re.escape(BEGIN) + ".*?" + re.escape(END)
    return re.sub(pattern, lambda _: f"{BEGIN}\n{made}\n{END}", text, flags=re.DOTALL)


def main() -> None:
    path = ROOT / "README.md"
    first = islice(pictures(REPORTS / LAB, FIGURES, f"reports/{LAB}/"), 1)
    made = "\n\n".join([*in_words(every_finding()), *first])
    write_atomic(path, in_readme(path.read_text(encoding="utf-8"), made).encode())


if __name__ == "__main__":
    main()
