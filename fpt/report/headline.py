"""What the ledger says in a few lines: the head of a profile's report."""

from collections.abc import Sequence

from ..files import write_atomic
from ..paper import reader as paper
from ..sections.claims import LABELS, effect_text
from ..sections.section import Section, section
from ..sections.verdicts import Entry, by_claim, count_claims
from .outputs import renders

SECTION = "transfer"  # the claims that are said one by one


def headline(found: Sequence[Entry], profile: str) -> str:
    """Markdown: verdicts counted over the ledger, then the claims of `transfer` in words."""
    counts = count_claims(found)
    tested = sum(entry.finding.measured.ran for entry in found)
    asked = sum(entry.finding.claim.asked for entry in found)
    said = ", ".join(f"{number} {name}" for name, number in counts.items())
    lines = [
        f"Profile `{profile}`: {sum(counts.values())} claims in {len(found)} tests, {tested} of "
        f"which have all their runs. Claims: {said}.",
        "",
    ]
    for (part, _), mine in by_claim(found).items():
        if part == SECTION:
            parts = (_on(mine, name) for name in LABELS)
            text = mine[0].finding.claim.text
            lines.append(f"- **{text}**: " + "; ".join(filter(None, parts)))
    bodies = "; ".join(dict.fromkeys(entry.bodies for entry in found if entry.section == SECTION))
    lines += [
        "",
        f"Bodies: {bodies}. Effects in points with their 95% interval over seeds, each for itself; "
        f"a verdict holds at 5% over all {asked} tests, so a claim can be inconclusive although "
        "its interval is on one side. An effect without an interval is of runs without any spread "
        "and is not tested.",
    ]
    short = shorter(section(SECTION, profile))
    if short:
        lines[-1] += (
            " Budgets are shorter than what the paper's FPT took to converge (steps, its Table 6): "
            f"{', '.join(short)}."
        )
    return "\n".join(lines) + "\n"


def shorter(part: Section) -> list[str]:
    """`bit-memory 1,000 of 10,000` for each task on which FPT has fewer steps than the paper's
    FPT took to converge (its Table 6)."""
    table = paper.table("T6").cells
    steps = {run.task: run.spec.steps for run in part.runs if run.arm == "fpt"}
    printed = {task: table["fpt", task].value for task in steps if ("fpt", task) in table}
    return [
        f"{task} {steps[task]:,} of {value:,.0f}"
        for task, value in printed.items()
        if value is not None and steps[task] < value
    ]


def save(part: Section, found: Sequence[Entry]) -> str:
    """Write the headline beside the report's index if `fpt render` asked, and return it."""
    text = headline(found, part.profile.name)
    if renders():
        write_atomic(part.folder / "headline.md", text.encode())
    return text


def _on(mine: Sequence[Entry], name: str) -> str:
    """`supported on mnist (+3.0 [+1.0, +5.0])`; empty if on none."""
    texts = []
    for entry in mine:
        it = entry.finding
        if it.verdict.label == name:
            texts.append(it.title + (f" ({effect_text(it.measured)})" if it.measured.ran else ""))
    return f"{name} on {', '.join(texts)}" if texts else ""
