"""The front page of a report, README.md and index.html, and its appendix: one screen of
findings, then a line for each section. How everything was made stands in the appendix."""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from ..analysis.study import Study, section
from ..analysis.summary import summary
from ..claims import contrasts, sensitivity
from ..claims.claim import LAB, REGISTERED, claims
from ..claims.finding import Finding
from ..claims.verdicts import registered_claims, runs_of
from ..files import write_atomic
from ..project import project
from ..sections import NAMES
from ..sections.arms import label
from . import answers, findings
from .escape import in_markdown
from .page import text_page
from .render import title_of
from .results import cell_text
from .show import differences_in_words
from .table import NONE, markdown_table


def index(profile: str) -> None:
    """Write reports/<profile>/README.md and appendix.md, and the same in HTML."""
    studies = [section(name, profile) for name in NAMES]
    by_name: dict[str, Finding] = {}
    # Only registered claims have verdicts: elsewhere a front page shows effects.
    if profile in REGISTERED:
        answers.write_figure()
        by_name = answers.every_finding()
    # A Git host shows the pages in Markdown, a browser those in HTML.
    text, page = (
        "\n\n".join(paragraphs(profile, studies, by_name, ending)) + "\n"
        for ending in (".md", ".html")
    )
    appendix = "\n\n".join(appendix_paragraphs(studies)) + "\n"
    # All are made before any is written: a page that fails leaves the report as it was.
    files = {
        "README.md": text,
        "index.html": text_page(page),
        "appendix.md": f"[Index](README.md)\n\n{appendix}",
        "appendix.html": text_page(appendix, {"index": "index.html"}),
    }
    for name, content in files.items():
        write_atomic(project().reports / profile / name, content.encode())


def paragraphs(
    profile: str, studies: list[Study], by_name: Mapping[str, Finding], ending: str
) -> Iterator[str]:
    """The front page as Markdown, with the verdicts on registered claims `by_name`, whose
    links lead to pages of this ending."""
    sections = {study.name: study for study in studies}
    yield f"# Frozen pretrained transformers: profile `{profile}`"
    yield answers.prose()["question"]
    if by_name:
        yield from answers.block(by_name, "../", ending)
    else:
        if profile in answers.prose():
            yield answers.prose()[profile]
        yield from first_findings(studies)
    links = []
    for path in project().notebooks:
        name = path.stem[3:]
        # A notebook whose section is not declared is an error, in one sentence.
        study = sections.get(name) or section(name, profile)
        count = len(study.missing())
        lacking = f" ({count} of {len(study.keys)} runs are missing)" if count else ""
        title, page = title_of(path), f"notebooks/{path.stem}{ending}"
        # A profile whose runs are few has few pages.
        if (project().reports / profile / page).exists():
            title = f"[{title}]({page})"
        links.append(title + lacking)
    yield f"**Pages.** {' · '.join(links)} · [Settings and costs](appendix{ending})"
    if by_name:
        yield "## The primary claims"
        primary = registered_claims("primary", profile)
        yield findings.table([by_name[claim.name] for claim in primary])
    if profile == LAB:
        yield from unregistered()


def first_findings(studies: list[Study]) -> Iterator[str]:
    """Markdown: what the first section with runs says, and its figures."""
    for study in studies:
        lines = differences_in_words(study)
        if not lines:
            continue
        yield "\n".join(lines)
        for comparison in study.compared:
            picture = f"figures/{study.name}/{comparison.name}.png"
            if (study.folder / picture).exists():
                yield f"![{comparison.title}]({picture})"
        return


def appendix_paragraphs(studies: list[Study]) -> Iterator[str]:
    """Markdown: for each section, what its runs are, cost, and how their last parameters
    did."""
    yield "# Appendix: how everything was made"
    yield answers.prose()["appendix"]
    for study in studies:
        # A plan without a record is in params.yaml, and would be most of the page.
        if study.records():
            yield f"## {study.name}"
            yield coverage(study)
            yield protocol(study)


def coverage(study: Study) -> str:
    """Sentences: runs, devices, time, FLOPs, weights and notes of a study."""
    records = study.records().values()
    text = f"{len(records)} of {len(study.keys)} runs are recorded"
    if records:
        counts = Counter(record.environment["device"] for record in records)
        devices = [f"{in_markdown(name)} ({count})" for name, count in counts.items()]
        text += f" on {', '.join(devices)}: "
        # Not wall time, which grows if the machine is shared.
        if all("process_seconds" in record.cost for record in records):
            hours = sum(record.cost["process_seconds"] for record in records) / 3600
            text += f"{hours:.3g} processor hours, "
        text += f"{sum(record.cost['flops'] for record in records):.3g} FLOPs"
    if study.weights:
        text += f". Weights: {in_markdown(', '.join(study.weights))}"
    notes = sorted({note for record in records for note in record.notes})
    if notes:
        text += f". Notes: {in_markdown('; '.join(notes))}"
    return f"{text}."


def protocol(study: Study) -> str:
    """A row per arm and task: backbone, initialisation, learning rates, batch, steps,
    seeds."""
    results = study.results().reindex(columns=["arm", "task", "last_test_accuracy"])
    means = results.groupby(["arm", "task"])["last_test_accuracy"].mean()
    # Runs of one arm and task share all settings of this table but rate and seed.
    specs = {(run.arm, run.task): run.spec for run in reversed(study.runs)}
    rows = []
    for (arm, task), runs in study.frame().groupby(["arm", "task"], sort=False):
        spec = specs[arm, task]
        last = 100 * means.get((arm, task), np.nan)
        row = {
            "arm": label(arm),
            "task": study.title(task),
            "backbone": spec.backbone,
            "initialisation": spec.init,
            "rate": ", ".join(f"{rate:g}" for rate in sorted(set(runs["lr"]))),
            "batch": spec.batch,
            "steps": f"{spec.steps:,}",
            "seeds": runs["seed"].nunique(),
            "last": NONE if np.isnan(last) else f"{last:.1f}",
        }
        rows.append({name: in_markdown(cell) for name, cell in row.items()})
    return markdown_table(rows, right=("batch", "steps", "seeds", "last"))


def unregistered() -> Iterator[str]:
    """Markdown of what stands beside the registered claims: ratios at lower thresholds, and
    other learning rates, each with a sentence that says how to read it. Nothing until all
    runs are recorded."""
    parts = [*_thresholds(), *_rates()]
    if parts:
        yield "## Beside the registered claims"
        yield (
            "None of this was registered, so it supports no verdict; a verdict that a "
            "better rate would change is undecided. The 95% intervals are not corrected "
            "for their number. A ratio below 1 means that the first arm needs fewer steps."
        )
        yield from parts


def _thresholds() -> Iterator[str]:
    """The ratio of each pair at each threshold."""
    rows = []
    for name, pair in contrasts.PAIRS.items():
        frame = contrasts.by_threshold(pair)
        for task, ratios in frame.groupby("task", sort=False):
            cells = []
            for row in ratios.itertuples():
                registered = " (registered)" if row.registered else ""
                ratio = ratio_text(row.ratio, row.low, row.high)
                cells.append(f"{100 * row.threshold:g}%{registered}: {ratio}")
            text = "; ".join(cells)
            rows.append(
                {"pair": name, "task": task, "validation accuracy: ratio of steps": text}
            )
    if rows:
        yield (
            "**Ratios of steps by threshold**, from the curves of the same runs. Learning "
            "rates were chosen for the registered threshold, the highest one that random "
            "and full training reached in the pilot."
        )
        yield markdown_table(rows)


def _rates() -> Iterator[str]:
    """Each block of sensitivity.yaml beside the registered runs on the same seeds."""
    study = runs_of(claims("primary"))
    rows = []
    for block, usual, tried in sensitivity.compared(study.frame()):
        measure = study.measures(block["task"])
        row = {
            "arm": block["arm"],
            "task": block["task"],
            "registered": f"lr {usual['lr'].iloc[0]:g}",
            "other": f"lr {block['lr']:g}",
            "registered runs": cell_text(summary(usual).iloc[0], measure),
            "other runs": cell_text(summary(tried).iloc[0], measure),
            "why": block["why"],
        }
        rows.append(row)
    if rows:
        yield (
            "**Other learning rates**, tried on the registered seeds after the registered "
            "results had been seen, so the better of two looks too good."
        )
        yield markdown_table(rows)


def ratio_text(ratio: float, low: float, high: float) -> str:
    """`0.60× [0.46, 0.79]`, or the ratio alone if it has no interval."""
    text = f"{ratio:.2f}×"
    return text if np.isnan(low) else f"{text} [{low:.2f}, {high:.2f}]"
