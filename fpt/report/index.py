"""The front page of a report, README.md and index.html, and its appendix: one screen of findings,
then a line for each section. How everything was made stands in the appendix."""

from collections.abc import Iterator
from pathlib import Path

from ..analysis.claims import LAB
from ..analysis.study import Study, section
from ..analysis.summary import summary
from ..files import REPORTS, notebooks, read_json, write_atomic
from ..sections import NAMES
from ..sections.arms import label
from ..sections.registration import registration
from . import findings, unregistered
from .escape import in_markdown
from .page import html_page, markdown
from .show import differences_in_words
from .table import NONE, markdown_table, si


def index(profile: str) -> None:
    """Write reports/<profile>/README.md, index.html and appendix.html."""
    studies = [section(name, profile) for name in NAMES]
    text = "\n\n".join(paragraphs(profile, studies)) + "\n"
    appendix = "\n\n".join(appendix_paragraphs(studies)) + "\n"
    files = {
        "README.md": text,
        "index.html": html_page(markdown(text), f"fpt: {profile}, index"),
        "appendix.html": html_page(markdown(appendix), f"fpt: {profile}, appendix"),
    }
    for name, content in files.items():
        write_atomic(REPORTS / profile / name, content.encode())


def paragraphs(profile: str, studies: list[Study]) -> Iterator[str]:
    """The front page as Markdown."""
    prose = findings.prose()
    by_name = {study.name: study for study in studies}
    every_finding = findings.every_finding() if profile == LAB else []
    yield f"# Frozen pretrained transformers: profile `{profile}`"
    yield prose["question"]
    if profile == LAB:
        yield from findings.in_words(every_finding)
        yield from findings.pictures(REPORTS / LAB, findings.FIGURES)
        yield f"> **What this lab cannot say.** {prose['limits']} {prose['cannot_say']}"
    else:
        if profile in prose:
            yield prose[profile]
        yield "\n".join(differences_in_words(by_name["transfer"]))
        yield from findings.pictures(REPORTS / profile, {"transfer/results": "Scores of each arm"})
    links = []
    for path in notebooks():
        count = len(by_name[path.stem[3:]].missing())
        lacking = f" ({count} runs are missing)" if count else ""
        links.append(f"[{opening(path)}](notebooks/{path.stem}.html){lacking}")
    yield f"**Pages.** {' · '.join(links)} · [Settings and costs](appendix.html)"
    if profile == LAB:
        primary = registration()["primary"]
        yield findings.table([each for each in every_finding if each.claim.name in primary])
        yield from unregistered.paragraphs()


def opening(path: Path) -> str:
    """The title of a notebook."""
    return str(read_json(path)["cells"][0]["source"][0]).removeprefix("# ").strip()


def appendix_paragraphs(studies: list[Study]) -> Iterator[str]:
    """Markdown: for each section, what its runs are, cost, and how their last parameters did."""
    studies = [study for study in studies if study.runs]
    yield "# Appendix: how everything was made"
    yield " · ".join(
        ["[index](index.html)", *(f"[{study.name}](#{study.name})" for study in studies)]
    )
    yield findings.prose()["appendix"]
    for study in studies:
        yield f"## {study.name}"
        yield coverage(study)
        yield protocol(study)


def coverage(study: Study) -> str:
    """A sentence: runs, devices, time, FLOPs and weights of a study."""
    tally = study.tally()
    records = study.records().values()
    text = f"{tally['present']} of {tally['expected']} runs are recorded"
    if records:
        devices = [f"{in_markdown(name)} ({count})" for name, count in tally["devices"].items()]
        text += f" on {', '.join(devices)}: "
        if all("process_seconds" in record.cost for record in records):
            seconds = sum(record.cost["process_seconds"] for record in records)
            text += f"{si(seconds / 3600)} processor hours, "
        text += f"{si(sum(record.cost['flops'] for record in records))}FLOPs"
    if study.weights:
        text += f". Weights: {in_markdown(', '.join(study.weights))}"
    notes = sorted({note for record in records for note in record.notes})
    if notes:
        text += f". Notes: {in_markdown('; '.join(notes))}"
    return f"{text}."


def protocol(study: Study) -> str:
    """A row per arm and task: backbone, initialisation, learning rates, batch, steps, seeds."""
    means = summary(study.results(), "last_test_accuracy").set_index(["arm", "task"])["mean"]
    last = {place: f"{100 * mean:.1f}" for place, mean in means.dropna().items()}
    specs = {(run.arm, run.task): run.spec for run in reversed(study.runs)}
    rows = []
    for (arm, task), runs in study.frame().groupby(["arm", "task"], sort=False):
        spec = specs[arm, task]
        rates = ", ".join(f"{lr:g}" for lr in sorted(set(runs["lr"])))
        cells: list[object] = [label(arm), study.title(task), spec.backbone, spec.init, rates]
        cells += [
            spec.batch,
            f"{spec.steps:,}",
            runs["seed"].nunique(),
            last.get((arm, task), NONE),
        ]
        rows.append(map(in_markdown, cells))
    head = ["arm", "task", "backbone", "initialisation", "rate"]
    numbers = ["batch", "steps", "seeds", "last"]
    align = ["---"] * len(head) + ["---:"] * len(numbers)
    return markdown_table([*head, *numbers], rows, align)
