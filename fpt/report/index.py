"""The first page of a report, README.md and index.html, which reads like a short paper.

It is put together from what the notebooks left in reports/<profile> and computes nothing anew but
the cost of all runs. A section's page has more tables and figures, and how they were made.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import REPORTS, SHIPPED, FptError, notebooks, read_json, read_params
from ..records import Record, Store, store
from . import findings
from .pages import html_page, read_cells
from .table import NONE, si

QUESTION = (
    "Lu et al. (2021, arXiv:2103.05247) freeze a transformer that was pretrained on language, all "
    "but its layer norms and positions, give it a new input and output net, and let it classify "
    "bits, images and proteins. It does so about as well as one that is trained whole, they say, "
    "and better than a frozen random one: a universal computation engine. Their critics hold that "
    "one learning rate, one run and a small test set decided it (Rothermel et al. 2021), and that "
    "anything with structure would do in place of language (Chiang and Lee 2022). Which of these "
    "claims hold when each is a test over seeds, with an interval?"
)
METHOD = (
    "The systems of a table are trained on the same data of a task, once per seed; a probe alone "
    "is fitted on kept features instead. Learning rates may differ between frozen and fully "
    "trained systems, and a run may stop early once validation no longer improves: each section's "
    "protocol and notes say so. The parameters with the best validation accuracy are tested. A "
    "cell of a table is the mean over its runs, with a 95% interval over seeds (with their "
    "backbones) alone: the test set is fixed. If runs are missing, the cell is the mean of those "
    "that are there (n = 1 of 3), has no interval and enters no comparison. A task is called "
    "fitting if training sees every input of its test set. Every claim is a test with a direction "
    "or a margin, and all p-values are adjusted together."
)
# What stands on the first page of each section: tables, and one figure.
MAIN: Mapping[str, tuple[tuple[str, ...], str]] = {
    "tasks": (("tasks",), "samples"),
    "transfer": (("transfer", "effects"), "transfer_bars"),
    "modality": (("modality",), "modality_effects"),
    "architecture": (("lstm", "architectures"), "lstm"),
    "efficiency": (("steps", "speedup", "output_only"), "steps"),
    "overfitting": (("fit",), "sizes"),
    "scaling": (("scaling",), "scaling"),
    "initialization": (("initialization",), "initialization"),
    "finetuning": (("successive", "individual", "unfreezing", "layernorm", "input"), "individual"),
    "attention": (("mass_mean", "mass_best"), "mass"),
    "learning_rate": (("learning_rate_rates", "controls_rates"), "curves"),
    "synthetic_pretraining": (("held_out", "corpora"), "corpora"),
}
LEDGER = ("ledger", "verdicts", "effects")  # of section `verdict`: its table, and its figures


@dataclass(frozen=True)
class Page:
    """A notebook of the report: its section, title and question, and its runs where they are
    known."""

    section: str
    title: str
    question: str
    present: int | None
    expected: int | None

    @property
    def count(self) -> str:
        return NONE if self.present is None else f"{self.present} of {self.expected}"


def index(profile: str) -> Path:
    """Write reports/<profile>/README.md and index.html from what lies there; returns the latter."""
    from nbconvert.filters import markdown2html

    folder = REPORTS / profile
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(paragraphs(profile)) + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")
    page = folder / "index.html"
    page.write_text(html_page(markdown2html(text), f"fpt: {profile}"), encoding="utf-8")
    return page


def paragraphs(profile: str) -> Iterator[str]:
    """The page as Markdown."""
    folder, head = REPORTS / profile, REPORTS / profile / "headline.md"
    pages = [page_of(path, folder) for path in notebooks()]
    yield f"# Frozen pretrained transformers: the report of profile `{profile}`"
    yield QUESTION
    if profile == findings.PROFILE:
        yield "## Findings"
        yield findings.block("../../").strip()
    elif head.exists():
        yield "## Findings"
        yield head.read_text(encoding="utf-8").strip()
        yield from figure(folder, "transfer", "transfer_bars", "FPT against other bodies")
    yield "## Method"
    yield METHOD
    yield set_up(profile)
    if profile != findings.PROFILE:
        yield from ledger(folder)
    for page in pages:
        if page.section != "verdict":
            yield from about(folder, page)
    path = folder / "tables" / "verdict" / "exploratory.md"
    if path.exists():
        yield "## Exploratory runs"
        yield path.read_text(encoding="utf-8").strip()
    yield from cost(profile)
    yield "## Pages"
    yield listing(folder, pages)


def page_of(path: Path, folder: Path) -> Page:
    section = path.stem[3:]
    summary = summary_of(section, folder)
    heading, question = opening(path)
    return Page(section, heading, question, summary.get("present"), summary.get("expected"))


def summary_of(section: str, folder: Path) -> dict[str, Any]:
    """What the notebook of `section` wrote about its runs, {} if it has not been rendered; FptError
    if that is damaged."""
    path = folder / "runs" / f"{section}.json"
    if not path.exists():
        return {}
    summary, kinds = read_json(path), {"present": int, "expected": int, "runs": dict}
    if any(type(summary.get(name)) is not kind for name, kind in kinds.items()):
        raise FptError(f"{path} is damaged; render its section again (fpt render {section}).")
    return summary


def opening(path: Path) -> tuple[str, str]:
    """The first heading of a notebook, and the bold question below it; empty where none is."""
    for kind, text in read_cells(path):
        if kind == "markdown" and text.startswith("# "):
            heading, _, rest = text[2:].partition("\n")
            _, _, bold = rest.partition("**")
            return heading.strip(), " ".join(bold.partition("**")[0].split())
    return path.stem, ""


def set_up(profile: str) -> str:
    """What the profile trains, from params.yaml."""
    block = read_params().get(profile) or {}
    seeds = ", ".join(str(seed) for seed in block.get("seeds", ()))
    bodies, weights = block.get("bodies", {}), block.get("weights", {})
    return (
        f"Here the transformer is `{bodies.get('transformer', NONE)}`, with the weights "
        f"`{weights.get('language', NONE)}` where it is pretrained on language; seeds "
        f"{seeds or NONE}. All settings stand in the block of this profile in `params.yaml`."
    )


def ledger(folder: Path) -> Iterator[str]:
    """The claims of which something has been run, and where the rest are listed."""
    name, *figures = LEDGER
    path = folder / "tables" / "verdict" / f"{name}.md"
    if not path.exists():
        return
    yield "## Claims"
    for drawn in figures:
        yield from figure(folder, "verdict", drawn, "Verdicts")
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    tried = [row for row in rows[2:] if " | not run | " not in row]
    if tried:
        yield "\n".join([*rows[:2], *tried])
    verdicts = [row.split(" | ")[1].rstrip(" |") for row in tried]
    decided = sum(verdict in ("supported", "contradicted") for verdict in verdicts)
    yield (
        f"{decided} of {len(rows) - 2} claims are decided, {len(tried) - decided} inconclusive, "
        f"{len(rows) - 2 - len(tried)} not run. All of them: "
        f"[{path.name}]({path.relative_to(folder).as_posix()})."
    )
    yield "\n".join(line for line in lines if line.startswith("- "))


def about(folder: Path, page: Page) -> Iterator[str]:
    """A section: its question, its main tables and figure, and links to the others."""
    made = {
        kind: sorted(it for it in (folder / kind / page.section).glob("*") if it.is_file())
        for kind in ("tables", "figures")
    }
    if page.present is None and not any(made.values()):
        return
    yield f"## {page.title}"
    yield page.question
    if page.expected and not page.present:
        yield f"Not run: 0 of {page.expected} runs are here."
    else:
        tables, drawn = MAIN.get(page.section, ((), ""))
        for name in tables:
            path = folder / "tables" / page.section / f"{name}.md"
            if path.exists():
                yield path.read_text(encoding="utf-8").strip()
        yield from figure(folder, page.section, drawn, page.title)
    for kind, files in made.items():
        if files:
            yield f"All {kind}: " + ", ".join(link(path, folder) for path in files)


def figure(folder: Path, section: str, name: str, text: str) -> Iterator[str]:
    path = folder / "figures" / section / f"{name}.png"
    if path.exists():
        yield f"![{text}]({path.relative_to(folder).as_posix()})"


def cost(profile: str) -> Iterator[str]:
    """What all recorded runs took, the planned and the exploratory ones."""
    groups: dict[tuple[str, str], list[Record]] = {}
    planned, others = store(profile), Store(store(profile).folder / "exploratory")
    for of, there in (("planned", planned), ("exploratory", others)):
        for record in there.read_all(sorted(there.keys())).values():
            groups.setdefault((of, record.environment["kind"]), []).append(record)
    if not groups:
        return
    yield "## Cost"
    rows = [
        "| runs | device | number | processor hours | tokens | FLOPs |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for (of, kind), mine in groups.items():
        work = [si(math.fsum(it.cost[name] for it in mine)) for name in ("tokens", "flops")]
        rows.append(f"| {of} | {kind} | {len(mine)} | {hours(mine)} | {' | '.join(work)} |")
    yield "\n".join(rows)
    yield (
        "Processor time, unlike wall-clock time, does not grow if a machine is shared; it is shown "
        "if every run of a row has it. FLOPs are those of the matrices of the bodies, in training. "
        + beside(profile)
    )


def hours(records: Sequence[Record]) -> str:
    """Processor hours of runs; none if one of them has no processor time."""
    if not all("process_seconds" in it.cost for it in records):
        return NONE
    return f"{math.fsum(it.cost['process_seconds'] for it in records) / 3600:.1f}"


def beside(profile: str) -> str:
    """What else was trained: the pretrained backbones that runs may be on."""
    folder = store(profile).folder
    found = {path.parent.name: path for path in SHIPPED.glob("*/pretraining.json")}
    found |= {path.stem: path for path in (folder / "bodies").glob("*.json")}
    bodies = [read_json(path)["tokens"] for path in found.values()]
    return (
        f"Not in it are the pretraining of {len(bodies)} bodies that ship with the package or have "
        f"runs here ({si(math.fsum(bodies))} tokens)."
    )


def listing(folder: Path, pages: list[Page]) -> str:
    """A line per notebook."""
    lines = ["| section | runs present | page |", "|---|---|---|"]
    for path, page in zip(notebooks(), pages, strict=True):
        made = folder / "notebooks" / f"{path.stem}.html"
        state = page.count if page.present is not None else "failed" if made.exists() else None
        lines.append(f"| {page.title} | {state or 'not rendered'} | {link(made, folder)} |")
    return "\n".join(lines)


def link(path: Path, folder: Path) -> str:
    return f"[{path.name}]({path.relative_to(folder).as_posix()})" if path.exists() else NONE
