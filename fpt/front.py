"""The first page of a report, README.md and index.html, which reads like a short paper.

It is put together from what the notebooks left in reports/<profile> and computes nothing anew but
the cost of all runs. A section's page has more tables and figures, and how they were made.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import FptError
from .expected import expected
from .files import read_json
from .pages import html_page, notebooks, read_cells
from .params import read_params
from .paths import REPORTS, SHIPPED
from .records import store
from .status import held_against
from .summaries import Summary, summaries
from .table import NONE

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
    "The systems of a table are trained on a task with the same data, steps and batch, once per "
    "seed; a probe alone is fitted on kept features instead. The parameters with the best "
    "validation accuracy are tested on the whole test set. A cell of a table is the mean over its "
    "runs, with a 95% interval that holds the spread over seeds and that of a finite test set; it "
    "is `not run` before all its runs are there. Every claim is a test with a direction or a "
    "margin, and all p-values are adjusted together. Each section's page has its protocol, "
    "learning curves and cost."
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
    "synthetic_pretraining": (("held_out", "corpora", "english"), "corpora"),
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
    if head.exists():
        yield "## Findings"
        yield head.read_text(encoding="utf-8").strip()
        yield from figure(folder, "transfer", "transfer_bars", "FPT against other bodies")
    yield "## Method"
    yield METHOD
    yield set_up(profile)
    yield from ledger(folder)
    for page in pages:
        if page.section != "verdict":
            yield from about(folder, page)
    yield from cost(profile, pages)
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
    yield (
        f"{len(tried)} of {len(rows) - 2} claims have a verdict. All of them: "
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


def cost(profile: str, pages: list[Page]) -> Iterator[str]:
    """What all runs of the report took, each counted once whatever the number of its sections."""
    keys: dict[str, None] = {}
    for page in pages:
        keys |= dict.fromkeys(summary_of(page.section, REPORTS / profile).get("runs", {}))
    found = summaries(store(profile), keys)
    if not found:
        return
    yield "## Cost"
    rows = [
        "| device | runs | hours | PFLOPs | predicted / actual |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for kind in sorted({it.kind for it in found.values()}):
        mine = [it for it in found.values() if it.kind == kind]
        hours, work = sum(it.seconds for it in mine) / 3600, sum(it.flops for it in mine) / 1e15
        near = predicted(profile, kind, found)
        rows.append(f"| {kind} | {len(mine)} | {hours:.1f} | {work:.2f} | {near} |")
    yield "\n".join(rows)
    yield (
        "Hours are of processes, several of which may have shared a machine. FLOPs are those of "
        "the matrices of the bodies, in training. "
        f"{pretraining(profile)} "
        "Predicted is what `fpt status` would have said of each run, from all the steps it was "
        "planned for and the FLOPs per second of the others on its body: the median of the ratios, "
        "and their quartiles. A run that stopped early is above 1."
    )


def pretraining(profile: str) -> str:
    """What the bodies took that runs may be on."""
    found = {path.parent.name: path for path in SHIPPED.glob("*/pretraining.json")}
    found |= {path.stem: path for path in (store(profile).folder / "bodies").glob("*.json")}
    spent = [read_json(path)["seconds"] for path in found.values()]
    return (
        f"Not in it is the pretraining of bodies, {sum(spent) / 3600:.1f} hours for the "
        f"{len(spent)} that ship with the package or have runs here."
    )


def predicted(profile: str, kind: str, found: Mapping[str, Summary]) -> str:
    """How near the cost model comes to the runs on one kind of device."""
    mine = {key: it for key, it in found.items() if it.kind == kind}
    model = held_against(expected(profile), mine)
    if model is None:
        return NONE
    return f"{model['median']:.2f} [{model['low']:.2f}, {model['high']:.2f}]"


def listing(folder: Path, pages: list[Page]) -> str:
    """A line per notebook."""
    lines = ["| section | runs present | page | notebook |", "|---|---|---|---|"]
    for path, page in zip(notebooks(), pages, strict=True):
        made, executed = (folder / "notebooks" / f"{path.stem}.{end}" for end in ("html", "ipynb"))
        state = page.count if page.present is not None else "failed" if made.exists() else None
        lines.append(
            f"| {page.title} | {state or 'not rendered'} | {link(made, folder)} | "
            f"{link(executed, folder)} |"
        )
    return "\n".join(lines)


def link(path: Path, folder: Path) -> str:
    return f"[{path.name}]({path.relative_to(folder).as_posix()})" if path.exists() else NONE
