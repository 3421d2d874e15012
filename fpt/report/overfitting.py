"""Training beside test accuracy, and both against the number of training examples (section 3.6)."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ..analysis.cells import Cell, best_floor, section_arms, section_tasks, titles
from ..analysis.fit import Fit, fits, whole_task
from ..paper import reader as paper
from ..sections.claims import points, signed
from ..sections.comparisons import COMPARISONS
from ..sections.section import Section
from ..training.loop import TRAIN_ITEMS
from .basis import coverage
from .style import LOOKS
from .table import NONE, Table, label
from .tables import cell_text
from .trends import Series, trends

ALIKE = (
    "Both accuracies are of the parameters chosen on validation, on clean inputs without dropout; "
    f"training accuracy is of {TRAIN_ITEMS:,} fixed random training examples, "
    "or all that there are.",
    "Gap: training minus test in points, paired by run, with the 95% interval over seeds.",
)
PAPERS = (
    "The paper's training accuracies are not comparable, with each other or with ours: FPT's is of "
    "augmented images with dropout, the others are quoted from work without augmentation."
)


def by_size(section: Section) -> dict[str, int]:
    """The tasks of a section with their numbers of training examples, few first."""
    sizes = {name: task.sizes["train"] for name, task in section_tasks(section).items()}
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def printed(arm: str, task: str, column: str) -> float | None:
    """What the paper's Table 7 has, in percent (layers: a count); None where it has nothing."""
    comparison = COMPARISONS["overfitting"]
    row = comparison.row(arm)
    if task != comparison.task or row not in paper.table("T7").rows:
        return None
    return paper.cell("T7", row, column).value


def fit_table(section: Section) -> Table:
    """The paper's Table 7, on each task with all its training examples."""
    found = fits(section)
    tasks = [task for task in by_size(section) if whole_task(task) is None]
    called = titles(section_tasks(section))
    rows: list[list[str]] = []
    names, numbers = [], []
    for task in tasks:
        for arm in section_arms(section):
            it = found.get((arm, task))
            test, train = printed(arm, task, "test"), printed(arm, task, "train")
            gap = None if test is None or train is None else train - test
            theirs = [NONE if v is None else f"{v:g}" for v in (train, test)]
            names.append(label(arm))
            ours = _fit_texts(it)
            rows.append([called[task], *ours, *theirs, NONE if gap is None else signed(gap / 100)])
            numbers += [] if it is None else [_numbers(arm, task, it)]
    columns = ["task", "training", "test", "gap", "paper: training", "paper: test", "paper: gap"]
    frame = pd.DataFrame(rows, index=names, columns=columns)
    notes = (coverage(section), *ALIKE, PAPERS)
    return Table("fit", "Over- and underfitting", frame, pd.DataFrame(numbers), notes)


def gaps_table(section: Section) -> Table:
    """Training accuracy and gap by the number of training examples."""
    found, sizes = fits(section), by_size(section)
    shown: dict[str, list[str]] = {}
    numbers = []
    for arm in section_arms(section):
        texts = [_fit_texts(found.get((arm, task))) for task in sizes]
        shown[f"{label(arm)}: training"] = [training for training, _, _ in texts]
        shown[f"{label(arm)}: gap"] = [gap for _, _, gap in texts]
        numbers += [
            _numbers(arm, task, found[arm, task]) | {"examples": size}
            for task, size in sizes.items()
            if (arm, task) in found
        ]
    columns = [f"{size:,} examples" for size in sizes.values()]
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=columns)
    title = "Training accuracy and gap by training examples"
    return Table("gaps", title, frame, pd.DataFrame(numbers), ALIKE)


def sizes_figure(section: Section) -> Figure:
    """Test and training accuracy against the number of training examples."""
    found, sizes = fits(section), by_size(section)
    largest = section_tasks(section)[list(sizes)[-1]]

    def series(side: str) -> Sequence[Series]:
        lines = []
        for arm in section_arms(section):
            ours: list[tuple[float, Cell | None]] = []
            theirs: list[tuple[float, str, float]] = []
            for task, size in sizes.items():
                it = found.get((arm, task))
                ours.append((size, None if it is None else getattr(it, side)))
                value = printed(arm, task, side)
                theirs += [] if value is None else [(size, arm, value)]
            lines.append(Series(label(arm), LOOKS[arm], ours, theirs))
        return lines

    panels = {"on test examples": series("test"), "on training examples": series("train")}
    floors = {"on test examples": best_floor(largest), "on training examples": None}
    ticks = [(size, f"{size:,}") for size in sizes.values()]
    figure = trends(panels, floors, "training examples", ticks)
    for axes in figure.axes:
        axes.set_ylim(0, 104)
        for word in list(axes.texts):  # five lines leave no room for them; the legend counts runs
            word.remove()
    figure.axes[0].set_ylabel("accuracy, %")
    counted = {it.label: _counted(it) for it in panels["on test examples"]}
    for text in figure.legends[0].get_texts():
        text.set_text(counted.get(text.get_text(), text.get_text()))
    return figure


def _counted(series: Series) -> str:
    """`FPT (frozen, language), 3 of 6 runs`."""
    known = [cell for _, cell in series.ours if cell]
    done, expected = sum(len(c.values) for c in known), sum(c.expected for c in known)
    diverged = sum(cell.diverged for cell in known)
    counts = f"{done} of {expected} runs" if done or diverged else "not run"
    return f"{series.label}, {counts}" + (f", {diverged} diverged" if diverged else "")


def _fit_texts(it: Fit | None) -> tuple[str, str, str]:
    """Training accuracy, test accuracy and gap."""
    if it is None:
        return (NONE,) * 3
    gap = it.gap()
    return cell_text(it.train), cell_text(it.test), NONE if gap is None else points(gap)


def _numbers(arm: str, task: str, it: Fit) -> dict[str, object]:
    row: dict[str, object] = {"arm": arm, "task": task, "runs": len(it.test.values)}
    for name, cell in (("training", it.train), ("test", it.test)):
        if cell.interval is not None:
            row[name] = cell.interval.mean
    gap = it.gap()
    if gap is not None:
        row |= {"gap": gap.effect, "low": gap.low, "high": gap.high}
    return row
