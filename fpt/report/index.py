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
from .table import NONE, si


def index(profile: str) -> None:
    """Write reports/<profile>/README.md, index.html and appendix.html."""
    studies = [section(name, profile) for name in NAMES]
    text = "\n\n".join(paragraphs(profile, studies)) + "\n"
    appendix = "\n\n".join(appendix_paragraphs(studies)) + "\n"
    files = {"README.md": text}
    for name, content in (("index", text), ("appendix", appendix)):
        files[f"{name}.html"] = html_page(markdown(content), f"fpt: {profile}, {name}")
    for name, content in files.items():  # once all are made
        write_atomic(REPORTS / profile / name, content.encode())


def paragraphs(profile: str, studies: list[Study]) -> Iterator[str]:
    """The front page as Markdown."""
    prose, by_name = findings.prose(), {study.name: study for study in studies}
    yield f"# Frozen pretrained transformers: profile `{profile}`"
    yield prose["question"]
    if profile == LAB:
        found = findings.every_finding()
        yield from findings.in_words(found)
        yield from findings.pictures(REPORTS / LAB, findings.FIGURES)
        yield f"> **What this lab cannot say.** {prose['limits']} {prose['cannot_say']}"
    else:
        yield from [prose[profile]] if profile in prose else []
        yield "\n".join(differences_in_words(by_name["transfer"]))
        yield from findings.pictures(REPORTS / profile, {"transfer/results": "Scores of each arm"})
    links = []
    for path in notebooks():
        missing, title = by_name[path.stem[3:]].missing(), opening(path)
        lacking = f" ({len(missing)} runs are missing)" if missing else ""
        links.append(f"[{title}](notebooks/{path.stem}.html){lacking}")
    yield f"**Pages.** {' · '.join(links)} · [Settings and costs](appendix.html)"
    if profile == LAB:
        yield findings.table([it for it in found if it.claim.name in registration()["primary"]])
        yield from unregistered.paragraphs()


def opening(path: Path) -> str:
    """The title of a notebook."""
    return str(read_json(path)["cells"][0]["source"][0]).removeprefix("# ").strip()


def appendix_paragraphs(studies: list[Study]) -> Iterator[str]:
    """Markdown: for each section, what its runs are, cost, and how their last parameters did."""
    yield "# Appendix: how everything was made"
    links = [f"[{study.name}](#{study.name})" for study in studies if study.runs]
    yield " · ".join(["[index](index.html)", *links])
    yield findings.prose()["appendix"]
    for study in studies:
        if study.runs:
            yield f"## {study.name}"
            yield coverage(study)
            yield protocol(study)


def coverage(study: Study) -> str:
    """A sentence: runs, devices, time, FLOPs and weights of a study."""
    tally, records = study.tally(), study.records().values()
    devices = ", ".join(f"{in_markdown(it)} ({count})" for it, count in tally["devices"].items())
    spent = [it.cost["process_seconds"] for it in records if "process_seconds" in it.cost]
    hours = f"{si(sum(spent) / 3600)} processor hours, " if len(spent) == len(records) else ""
    flops = si(sum(it.cost["flops"] for it in records))
    notes = sorted({note for it in records for note in it.notes})
    return (
        f"{tally['present']} of {tally['expected']} runs are recorded"
        + (f" on {devices}: {hours}{flops}FLOPs" if records else "")
        + (f". Weights: {in_markdown(', '.join(study.weights))}" if study.weights else "")
        + (f". Notes: {in_markdown('; '.join(notes))}" if notes else "")
        + "."
    )


def protocol(study: Study) -> str:
    """A row per arm and task: backbone, initialisation, learning rates, batch, steps, seeds."""
    found = summary(study.results(), "last_test_accuracy").dropna(subset="mean")
    last = {(it.arm, it.task): f"{100 * it.mean:.1f}" for it in found.itertuples()}
    rows = [
        "| arm | task | backbone | initialisation | rate | batch | steps | seeds | last |",
        "|---|---|---|---|---|---:|---:|---:|---:|",
    ]
    for (arm, task), runs in study.frame().groupby(["arm", "task"], sort=False):
        spec = next(run.spec for run in study.runs if (run.arm, run.task) == (arm, task))
        rates = ", ".join(f"{lr:g}" for lr in sorted(set(runs["lr"])))
        seeds, end = runs["seed"].nunique(), last.get((arm, task), NONE)
        cells = [label(str(arm)), study.title(str(task)), spec.backbone, spec.init, rates]
        cells += [str(spec.batch), f"{spec.steps:,}", str(seeds), end]
        rows.append(f"| {' | '.join(map(in_markdown, cells))} |")
    return "\n".join(rows)
