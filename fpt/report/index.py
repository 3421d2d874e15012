"""The front page of a report, README.md and index.html, and its appendix: one screen of findings,
then a line for each section. How everything was made stands in the appendix."""

from collections.abc import Iterator
from pathlib import Path

from ..analysis.claims import LAB
from ..analysis.study import Study, section
from ..analysis.summary import summary
from ..files import REPORTS, notebooks, read_json
from ..sections import NAMES
from ..sections.arms import label
from . import findings
from .page import html_page, markdown
from .show import differences_in_words
from .table import NONE, si

QUESTION = (
    "Lu et al. (2021, arXiv:2103.05247) freeze a transformer that was pretrained on language, "
    "train only its input and output nets, layer norms and positions, and let it classify bits, "
    "images and proteins. Does language pretraining make it a universal computation engine?"
)
NO_VERDICT = (
    "This profile is a quick check on small data: a few seeds show effects with intervals and "
    "decide nothing. The profile `lab` has registered claims; see the [findings](../../README.md)."
)
NOT_PLANNED = """\
CIFAR-10-LRA, remote homology and ListOps of 1,024 tokens, the sizes above `micro`, and BERT, T5 and
Longformer with published weights belong to the profile `paper`, which needs a GPU (`fpt status
--profile paper`): a run of the first three takes hours on a CPU core, and published weights have no
random twin that saw the same data. Apart from the correlation over all corpora, no claim
rests on repeated segments or on a bigram at a distance of 16 tokens: in the pilot, backbones of
this size learned neither from two million tokens (held-out losses above the unigram entropy)."""


def index(profile: str) -> None:
    """Write reports/<profile>/README.md, index.html and appendix.html."""
    folder = REPORTS / profile
    folder.mkdir(parents=True, exist_ok=True)
    studies = [section(name, profile) for name in NAMES]
    text = "\n\n".join(paragraphs(profile, studies)) + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")
    appendix = "\n\n".join(appendix_paragraphs(studies)) + "\n"
    for name, content in (("index", text), ("appendix", appendix)):
        page = html_page(markdown(content), f"fpt: {profile}, {name}")
        (folder / f"{name}.html").write_text(page, encoding="utf-8")


def paragraphs(profile: str, studies: list[Study]) -> Iterator[str]:
    """The front page as Markdown."""
    yield f"# Frozen pretrained transformers: the report of profile `{profile}`"
    yield QUESTION
    if profile == LAB:
        yield findings.block("../../").strip()
    elif profile == "smoke":
        yield NO_VERDICT
    by_name = {study.name: study for study in studies}
    if profile != LAB:
        yield "\n".join(differences_in_words(by_name["transfer"]))
    folder = REPORTS / profile
    yield from figure(folder, "transfer", "results", "Scores of each arm on each task")
    if profile == LAB:
        text = "Nats learned from context against mean score, by corpus"
        yield from figure(folder, "synthetic_pretraining", "learned", text)
        yield f"**What this lab cannot say.** {NOT_PLANNED}"
    rows = ["| section | question | runs |", "|---|---|---:|"]
    for path in notebooks():
        study = by_name[path.stem[3:]]
        title, question = opening(path)
        tally = study.tally()
        count = f"{tally['present']}\u00a0of\u00a0{tally['expected']}" if study.runs else NONE
        rows.append(f"| [{title}](notebooks/{path.stem}.html) | {question} | {count} |")
    yield "\n".join(rows)
    yield "Settings, costs and last-checkpoint accuracies are in the [appendix](appendix.html)."


def opening(path: Path) -> tuple[str, str]:
    """The title of a notebook, and the bold question below it."""
    text = "".join(read_json(path)["cells"][0]["source"])
    heading, _, rest = text.removeprefix("# ").partition("\n")
    return heading.strip(), " ".join(rest.partition("**")[2].partition("**")[0].split())


def figure(folder: Path, section: str, name: str, text: str) -> Iterator[str]:
    path = folder / "figures" / section / f"{name}.png"
    if path.exists():
        yield f"![{text}]({path.relative_to(folder).as_posix()})"


def appendix_paragraphs(studies: list[Study]) -> Iterator[str]:
    """Markdown: for each section, what its runs are, cost, and how their last parameters did."""
    yield "# Appendix: how everything was made"
    links = [f"[{study.name}](#{study.name})" for study in studies if study.runs]
    yield " · ".join(["[index](index.html)", *links])
    yield (
        "Each run trains on one task with one seed, and the parameters with the best validation "
        "accuracy are tested once. `last` is the accuracy of the last parameters on the same test "
        "set, if it was measured. Processor time, which does not grow if a machine is shared, "
        "stands here if every run has it. FLOPs count the backbone's matrices, forward and "
        "backward."
    )
    for study in studies:
        if study.runs:
            yield f"## {study.name}"
            yield coverage(study)
            yield protocol(study)


def coverage(study: Study) -> str:
    """A sentence: runs, devices, time, FLOPs and weights of a study."""
    tally, records = study.tally(), study.records().values()
    devices = ", ".join(f"{name} ({count})" for name, count in tally["devices"].items())
    spent = [it.cost["process_seconds"] for it in records if "process_seconds" in it.cost]
    hours = f"{si(sum(spent) / 3600)} processor hours, " if len(spent) == len(records) else ""
    flops = si(sum(it.cost["flops"] for it in records))
    notes = sorted({note for it in records for note in it.notes})
    return (
        f"{tally['present']} of {tally['expected']} runs are recorded"
        + (f" on {devices}: {hours}{flops}FLOPs" if records else "")
        + (f". Weights: {', '.join(study.weights)}" if study.weights else "")
        + (f". Notes: {'; '.join(notes)}" if notes else "")
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
        end, title = last.get((arm, task), NONE), study.title(str(task))
        rows.append(
            f"| {label(str(arm))} | {title} | {spec.backbone} | {spec.init} | {rates} "
            f"| {spec.batch} | {spec.steps:,} | {runs['seed'].nunique()} | {end} |"
        )
    return "\n".join(rows)
