"""The front page of a report, README.md and index.html, and its appendix: one screen of findings,
then a line for each section. How everything was made stands in the appendix."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ..analysis import contrasts, sensitivity
from ..analysis.claims import LAB, claims, runs_of
from ..analysis.effects import Effect
from ..analysis.study import Study, section
from ..analysis.summary import summary
from ..files import REPORTS, notebooks, read_json, write_atomic
from ..sections import NAMES
from ..sections.arms import label
from ..sections.registration import registration
from . import findings
from .escape import in_markdown
from .page import text_page
from .results import cell_text
from .show import differences_in_words
from .table import NONE, markdown_table, si

THRESHOLD_PAIRS = (
    "English / random",
    "English / random at English's scale",
    "random at English's scale / random",
)


def index(profile: str) -> None:
    """Write reports/<profile>/README.md, index.html and appendix.html."""
    studies = [section(name, profile) for name in NAMES]
    text = "\n\n".join(paragraphs(profile, studies)) + "\n"
    appendix = "\n\n".join(appendix_paragraphs(studies)) + "\n"
    # All are made before any is written: a page that fails leaves the report as it was.
    files = {
        "README.md": text,
        "index.html": text_page(text),
        "appendix.html": text_page(appendix, {"index": "index.html"}),
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
    # Only the lab has registered claims; elsewhere a front page shows effects and no verdicts.
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
        yield findings.table(
            [finding for finding in every_finding if finding.claim.name in primary]
        )
        yield from unregistered()


def opening(path: Path) -> str:
    """The title of a notebook."""
    return str(read_json(path)["cells"][0]["source"][0]).removeprefix("# ").strip()


def appendix_paragraphs(studies: list[Study]) -> Iterator[str]:
    """Markdown: for each section, what its runs are, cost, and how their last parameters did."""
    studies = [study for study in studies if study.runs]
    yield "# Appendix: how everything was made"
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
        # Not wall time, which grows if the machine is shared.
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
    # Runs of one arm and task share all settings of this table but rate and seed.
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


def unregistered() -> Iterator[str]:
    """Markdown of what stands beside the registered claims: ratios at lower thresholds, other
    contrasts and other learning rates, each with a sentence that says how to read it. Nothing until
    all runs are recorded."""
    parts = [*_thresholds(), *_contrasts(), *_rates()]
    if parts:
        yield "## Beside the registered claims"
        yield (
            "Nothing in this part was registered, and it supports no verdict; a verdict that a "
            "better rate would change is undecided. Intervals are 95%, each for itself. A ratio "
            "below 1 means that the first arm needs fewer steps."
        )
        yield from parts


def _thresholds() -> Iterator[str]:
    """The ratio of each pair at each threshold."""
    rows = []
    for name in THRESHOLD_PAIRS:
        frame = contrasts.by_threshold(contrasts.PAIRS[name])
        for task, ratios in frame.groupby("task", sort=False):
            cells = []
            for row in ratios.itertuples():
                registered = " (registered)" if row.registered else ""
                ratio = ratio_text(row.ratio, row.low, row.high)
                cells.append(f"{100 * row.threshold:g}%{registered}: {ratio}")
            rows.append([name, str(task), "; ".join(cells)])
    if rows:
        yield (
            "**Ratios of steps by threshold**, from the curves of the same runs. Learning rates "
            "were chosen for the registered threshold, the highest one that random and full "
            "training reached in the pilot."
        )
        yield markdown_table(["pair", "task", "validation accuracy: ratio of steps"], rows)


def _contrasts() -> Iterator[str]:
    """Each pair on each task, over all tasks, and the interaction with the learning rate."""
    pairs = contrasts.contrasts()
    if not pairs:
        return
    tasks = list(pairs[0].by_task)
    rows = []
    for pair in pairs:
        effects = [_effect_text(pair.by_task[task]) for task in tasks]
        dagger = " †" if pair.depends else ""
        rows.append([pair.name, *effects, _effect_text(pair.mean) + dagger])
    yield (
        "**Contrasts on the four tasks**, at the registered rates. If tasks differ in the sign of "
        "their effects (test of equal ratios, 5%), their mean is no finding and is marked †."
    )
    yield markdown_table(["pair", *tasks, "mean of the four"], rows)
    quotient = contrasts.interaction()
    if quotient is not None:
        yield (
            "English / random at one rate for both, divided by the same at the registered rates: "
            f"{_effect_text(quotient)} over the four tasks. Below 1, one rate flatters English."
        )


def _rates() -> Iterator[str]:
    """Each block of sensitivity.yaml beside the registered runs on the same seeds."""
    exploratory = sensitivity.results()
    if exploratory.empty:
        return
    study = runs_of(claims("primary"))
    specs = {run.key: run.spec for run in study.runs}
    registered = study.frame()
    rows = []
    for block in sensitivity.declared()["runs"]:
        settings = block["settings"]
        tried = _of_block(exploratory, block)
        tried = tried[tried["settings"] == "+".join(settings)]
        usual = _of_block(registered, block)
        usual = usual[usual["seed"].isin(tried["seed"])]
        # Half a set would show the first seeds alone.
        if len(tried) < block["count"] or len(usual) < block["count"]:
            continue
        spec = specs[usual["key"].iloc[0]]
        before = ", ".join(f"{name} {getattr(spec, name):g}" for name in settings)
        after = ", ".join(f"{name} {value:g}" for name, value in settings.items())
        steps = bool((tried["threshold"] > 0).any())
        means = [summary(runs).to_dict("records")[0] for runs in (usual, tried)]
        cells = [cell_text(mean, steps) for mean in means]
        rows.append([block["arm"], block["task"], before, after, *cells, block["why"]])
    yield (
        "**Other learning rates**, tried on the registered seeds after the registered results had "
        "been seen, so the better of two is flattered."
    )
    head = ["arm", "task", "registered", "other", "registered runs", "other runs", "why"]
    yield markdown_table(head, rows)


def _of_block(runs: pd.DataFrame, block: dict[str, object]) -> pd.DataFrame:
    return runs[(runs["arm"] == block["arm"]) & (runs["task"] == block["task"])]


def _effect_text(effect: Effect) -> str:
    return ratio_text(*np.exp([effect.estimate, effect.low, effect.high]))


def ratio_text(ratio: float, low: float, high: float) -> str:
    """`0.60× [0.46, 0.79]`, or the ratio alone if it has no interval."""
    text = f"{ratio:.2f}×"
    return text if np.isnan(low) else f"{text} [{low:.2f}, {high:.2f}]"
