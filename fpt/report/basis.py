"""What a table rests on: the runs that are there, and what their records and tasks need said."""

from collections.abc import Iterable

from ..analysis.cells import section_tasks, titles
from ..analysis.claim import known_to_paper
from ..analysis.provenance import plan_behind
from ..sections.section import Section
from ..tasks.datasets import listed_since
from .table import counted, label, short, si

ACCURACY = (
    "Test accuracy, %: mean ± half-width of the 95% interval over seeds, with their backbones "
    "(runs). The test set is fixed. If runs are missing, the mean of those that are there, "
    "without an interval; runs without any spread have none either. Diverged runs are counted, not "
    "averaged."
)
EFFECTS = (
    "Points of test accuracy with the 95% interval over seeds, with their backbones (Welch's "
    "test). The test set is fixed. Arms without any spread are not tested."
)


def coverage(section: Section) -> str:
    """Profile, seeds, runs present of expected, and of these (or of all, where none is present) the
    bodies, what they were pretrained on, the steps, and the devices."""
    tally, profile = section.tally(), section.profile
    present = section.records()
    ran = [run for run in section.runs if run.spec.key in present or not present]
    specs = [run.spec for run in ran]
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(run.spec.seed for run in section.runs))
    odd = "".join(f", {n} {name}" for name, n in tally["status"].items() if name != "done")
    bodies = ", ".join(dict.fromkeys(spec.backbone for spec in specs))
    weights = ", ".join(map(_origin, dict.fromkeys(s.weights for s in specs if s.weights)))
    steps: dict[str, int] = {}
    for run in ran:
        if run.spec.procedure == "sgd":
            steps[run.task] = max(steps.get(run.task, 0), run.spec.steps)
    said = {
        "Bodies": f"{bodies} ({weights or 'no weights'})",
        "Steps at most": ", ".join(f"{task} {count:,}" for task, count in steps.items()),
        "Runs by device": counted(tally["devices"]),
    }
    return (
        f"Profile {profile.name}, seeds {seeds}: {tally['present']} of {tally['expected']} runs "
        f"are present{odd}. " + " ".join(f"{name}: {it}." for name, it in said.items() if it)
    )


def _origin(weights: str) -> str:
    """`nano-english-0 of 21M tokens`, where that is known."""
    plan = plan_behind(weights)
    return weights if plan is None else f"{weights} of {si(plan.tokens)} tokens"


def remarks(section: Section) -> list[str]:
    """What the columns of a section need said, and what its records say of themselves."""
    said = []
    tested = {run.task: run.spec.test_items for run in section.runs}
    for name, task in section_tasks(section).items():
        if tested[name]:
            said.append(
                f"{name}: tested on {tested[name]:,} of {task.sizes['test']:,} examples, a fixed "
                "random subset that is the same for all runs."
            )
        if task.fitting:
            said.append(
                f"{titles({name: task})[name]}: training sees every input of the test set, so "
                "test accuracy is training accuracy."
            )
        if not known_to_paper(name):
            said.append(f"{name}: a task of this project, without a number in the paper.")
        if name == "listops" and task.options["variant"] == "intended":
            said.append(
                "listops: the intended variant with brackets; the paper ran the released one."
            )
    said += stops(section)
    noted = {note for record in section.records().values() for note in record.notes}
    return said + [f"Records say: {note}" for note in sorted(noted - set(listed_since()))]


def stops(section: Section) -> list[str]:
    """Which arms have runs that patience stopped, and from which step on. Runs with a threshold end
    once they are beyond it, by plan."""
    present = section.records()
    first: dict[tuple[str, str], int] = {}
    for run in section.runs:
        record = present.get(run.spec.key)
        if record is not None and record.status == "done":
            steps = int(record.metrics["steps"])
            if steps < record.spec.steps and not record.spec.threshold:
                at = (run.arm, run.task)
                first[at] = min(steps, first.get(at, steps))
    if not first:
        return []
    named = "; ".join(f"{short(arm)} on {task} ({step:,})" for (arm, task), step in first.items())
    return [f"Stopped early, as validation no longer improved (fewest steps of a run): {named}."]


def rates_differ(section: Section, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Which pairs of arms are compared at different learning rates."""
    rates = {(run.arm, run.task): run.spec.lr for run in section.runs}
    odd: dict[str, None] = {}
    for a, b in pairs:
        both = [task for task in section_tasks(section) if {(a, task), (b, task)} <= set(rates)]
        differ = [task for task in both if rates[a, task] != rates[b, task]]
        on = "" if len(differ) == len(both) else f" on {', '.join(differ)}"
        for one, other in dict.fromkeys((rates[a, task], rates[b, task]) for task in differ):
            odd[f"{short(a)} {one:g} and {short(b)} {other:g}{on}"] = None
    return [f"Compared at different learning rates: {'; '.join(odd)}."] if odd else []


def bodies(section: Section) -> list[str]:
    """What the intervals of a section say nothing about: pretrainings of which there is one."""
    found: dict[str, set[str]] = {}
    for run in section.runs:
        if run.spec.weights is not None:
            found.setdefault(run.arm, set()).add(run.spec.weights)
    one = [label(arm) for arm, weights in found.items() if len(weights) == 1]
    if not one:
        return []
    which = "" if len(one) == len(found) else f" of {', '.join(one)}"
    return [
        f"There is one pretrained body{which}: the intervals hold its training seeds, not what "
        "another pretraining would give."
    ]
