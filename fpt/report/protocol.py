"""Tables of what is known before any run: the paper's numbers, the tasks, what is to be trained."""

import pandas as pd

from ..analysis.cells import section_tasks, titles
from ..backbones import backbone
from ..files import FptError
from ..paper import reader as paper
from ..sections.section import Section
from ..spec import RunSpec
from ..tasks import Task
from ..training.flops import total_count, trained_count
from ..training.train import task_of
from .coverage import is_own
from .table import NONE, Table, label, percent


def validation_items(spec: RunSpec) -> int:
    """Validation examples of an evaluation."""
    whole = task_of(spec).sizes["valid"]
    return min(spec.eval_items or whole, whole)


def trained_parameters(spec: RunSpec) -> tuple[int, int]:
    """Trained parameters of a run, on the position rows that it uses, and all parameters of its
    model (`total_count`)."""
    body, task = backbone(spec.backbone), task_of(spec)
    return trained_count(body, task, spec.trainable), total_count(body, task)


def protocol_table(section: Section) -> Table:
    """What each run is, from params.yaml alone: no record is read."""
    rows, names = [], []
    names_of = titles(section_tasks(section))
    for (arm, task), first in {(r.arm, r.task): r.spec for r in reversed(section.runs)}.items():
        trained, total = trained_parameters(first)
        names.append(label(arm))
        rows.append(
            {
                "task": names_of[task],
                "body": first.backbone,
                "start": first.init,
                "trained": f"{trained:,}",
                "share": f"{100 * trained / total:.3g}%",
                "lr": _rates(section, arm, task),
                "batch": str(first.batch),
                "steps": f"{first.steps:,}",
                "evaluated every": str(first.eval_every),
                "on validation": f"{validation_items(first):,}",
                "on test": f"{first.test_items or task_of(first).sizes['test']:,}",
                "patience": str(first.patience) if first.patience else "off",
                "seeds": _seeds(section, arm, task),
                "first key": first.key[:8],
            }
        )
    shown = pd.DataFrame(rows[::-1], index=names[::-1])
    settings = "; ".join(_setting(section, name) for name in ("clip", "dropout"))
    augmented = {r.task for r in section.runs if r.spec.augment and task_of(r.spec).augmented}
    notes = (
        f"Adam at a constant learning rate; {settings}; augmented training images: "
        f"{', '.join(sorted(augmented)) or 'none'}.",
        "Steps at most: a run stops after `patience` evaluations without a better validation "
        "accuracy. What is evaluated in part is a fixed random subset of that many examples, the "
        "same for all runs; the test set is read once, for the parameters chosen on validation.",
        "Trained parameters count the position rows that the task uses. Share: of all parameters "
        "of the model, with every position row and the table of words, as the paper counts.",
        *(
            ("Seeds: those reported, and those that choose a learning rate on validation.",)
            if any(run.search for run in section.runs)
            else ()
        ),
    )
    return Table("protocol", "Protocol", shown, section.expected(), notes)


def _setting(section: Section, name: str) -> str:
    """`clip 1`, or `dropout 0 (mnist), 0.1 (all other tasks)`."""
    tasks: dict[float, dict[str, None]] = {}
    for run in section.runs:
        tasks.setdefault(getattr(run.spec, name), {})[run.task] = None
    if len(tasks) < 2:
        return f"{name} {', '.join(f'{value:g}' for value in tasks)}"
    said = [f"{value:g} ({', '.join(named)})" for value, named in sorted(tasks.items())]
    return f"{name} {', '.join(said)}"


def _rates(section: Section, arm: str, task: str) -> str:
    """`0.003`, or `7 from 1e-05 to 0.01`."""
    lrs = sorted({r.spec.lr for r in section.runs if (r.arm, r.task) == (arm, task)})
    return f"{lrs[0]:g}" if len(lrs) == 1 else f"{len(lrs)} from {lrs[0]:g} to {lrs[-1]:g}"


def _seeds(section: Section, arm: str, task: str) -> str:
    """`3`, or `3 and 2` with those that choose a rate."""
    mine = {(r.search, r.spec.seed) for r in section.runs if (r.arm, r.task) == (arm, task)}
    counts = [sum(search == which for search, _ in mine) for which in (False, True)]
    return " and ".join(str(count) for count in counts if count)


def paper_table(name: str) -> Table:
    """A table as the paper, or one of its critics, printed it, with the remarks on its cells."""
    source = paper.table(name)
    notes: dict[str, int] = {}
    shown = {}
    for row in source.rows:
        texts = []
        for column in source.columns:
            cell = source.cells[row, column]
            text = NONE if cell.value is None else f"{cell.value:g}"
            if cell.note:
                text += f" ({notes.setdefault(cell.note, len(notes) + 1)})"
            texts.append(text)
        shown[row] = texts
    said = [f"{source.unit}. Source: {source.source}."]
    said += [source.note] if source.note else []
    said += [f"({number}) {note}" for note, number in notes.items()]
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=list(source.columns))
    title = f"{f'The paper, {source.called}' if is_own(name) else source.section}: {source.title}"
    return Table(f"paper_{name}", title, frame, paper.frame(name), tuple(said))


def tasks_table(tasks: dict[str, Task]) -> Table:
    """Token form, positions read and splits of each task, from its definition."""
    rows = [
        {
            "task": name,
            "fitting": task.fitting,
            "tokens": task.length,
            "of": f"{task.dim} numbers" if task.kind == "vector" else f"{task.dim} symbols",
            "read": task.reads,
            "answers": task.reads * task.answers,
            "classes": task.classes,
            "train": f"{task.sizes['train']:,}" if task.sizes["train"] else "endless",
            "valid": f"{task.sizes['valid']:,}",
            "test": f"{task.sizes['test']:,}",
        }
        for name, task in tasks.items()
    ]
    numbers = pd.DataFrame(rows)
    notes = (
        "Positions are read at the end of the sequence, the last real token where lengths vary.",
        "Fitting: training sees every input of the test set.",
    )
    shown = numbers.drop(columns=["task", "fitting"]).astype(str)
    shown.index = pd.Index(titles(tasks).values())
    return Table("tasks", "Tasks", shown, numbers, notes)


def _floors(task: Task) -> dict[str, float]:
    try:
        return task.floors()
    except FptError:
        return {}


def floors_table(tasks: dict[str, Task]) -> Table:
    """Test accuracy of trivial predictors on each task, as far as its data are known here."""
    known = {name: _floors(task) for name, task in tasks.items()}
    columns = list(dict.fromkeys(floor for each in known.values() for floor in each))
    shown = pd.DataFrame(
        [[percent(each[c]) if c in each else NONE for c in columns] for each in known.values()],
        index=list(titles(tasks).values()),
        columns=columns,
    )
    numbers = [
        {"task": name, "floor": floor, "accuracy": value}
        for name, each in known.items()
        for floor, value in each.items()
    ]
    notes = ("Test accuracy, %. The linear classifier is a logistic regression.",)
    return Table("floors", "Trivial floors", shown, pd.DataFrame(numbers), notes)
