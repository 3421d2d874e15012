"""What a table rests on: the runs that are there, and what their records and tasks need said."""

from .cells import section_tasks
from .claim import known_to_paper
from .data import listed_since
from .origins import plan_behind
from .sections import Section
from .table import counted, label, si
from .tasks.bits import BitXor


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
    for name, task in section_tasks(section).items():
        if isinstance(task, BitXor) and not task.holds_out:
            said.append(
                f"{name}: training sees all {4 ** task.options['n']:,} inputs; it is fitting."
            )
        if not known_to_paper(name):
            said.append(f"{name}: a task of this project, without a number in the paper.")
        if name == "listops" and task.options["variant"] == "intended":
            said.append(
                "listops: the intended variant with brackets; the paper ran the released one."
            )
    noted = {note for record in section.records().values() for note in record.notes}
    return said + [f"Records say: {note}" for note in sorted(noted - set(listed_since()))]


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
        f"There is one pretrained body{which}: the intervals cover training seeds and test items, "
        "not what another pretraining would give."
    ]
