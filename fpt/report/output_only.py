"""Tables of section 3.9: the output net alone, on cached features and on a budget of steps."""

import math
import statistics

import pandas as pd

from ..analysis.arrivals import Histories, histories
from ..analysis.cells import best_floor, cells, section_tasks, titles
from ..paper import reader as paper
from ..sections.claims import points, signed
from ..sections.section import Section
from ..tasks import Task
from .basis import coverage
from .cached import PROBES, epochs, flops_ratio, printed, printed_speedup, probes
from .efficiency import arrived, steps_text
from .table import NONE, Table, label, percent, si
from .tables import cell_text


def epochs_table(section: Section) -> Table:
    """How much longer an epoch through the body takes than one over cached features, per task and
    probe: both times are of one run, on one machine, so their ratio bears a machine that is
    shared."""
    shown: dict[str, list[str]] = {}
    numbers: list[dict[str, object]] = []
    specs = {(run.arm, run.task): run.spec for run in section.runs if run.arm in PROBES}
    names = titles(section_tasks(section))
    for (arm, task), spec in specs.items():
        records = probes(section, arm, task)
        made = epochs(records)
        bound = flops_ratio(spec)
        row: dict[str, object] = {"arm": arm, "task": task, "flops_ratio": bound}
        texts = ["not run", *[NONE] * 2]
        if made:
            ratios = [it.speedup for it in made]
            median = {
                name: statistics.median(getattr(it, name) for it in made)
                for name in ("count", "speedup")
            }
            row |= median | {"least": min(ratios), "most": max(ratios), "runs": len(made)}
            spread = f" [{min(ratios):.3g}, {max(ratios):.3g}]" if len(made) > 1 else ""
            texts = [
                f"{median['speedup']:.3g}×{spread}",
                f"{median['count']:,.0f}",
                ", ".join(sorted({str(record.environment["device"]) for record in records})),
            ]
        shown[f"{names[task]}: {label(arm)}"] = [*texts, f"{si(bound).strip()}×"]
        numbers.append(row)
    least, most = printed_speedup()
    columns = ["speed-up", "epochs", "device", "by FLOPs"]
    notes = (
        "Speed-up: time of the first epoch (the training set through the frozen body, and one pass "
        "over its features) over that of a cached epoch (a pass, forward and gradient, over all "
        "features in double precision), both of one run. Medians over runs, with the least and the "
        "most.",
        f"The paper gives {least:g}× to {most:g}× per epoch after the first, on GPT-2, for ListOps "
        "and CIFAR-10 LRA; not on what machine.",
        "By FLOPs: what the speed-up would be if only computing took time.",
        "An endless task has no epoch: the examples drawn once stand for it.",
    )
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=columns)
    title = "Speed-up per epoch after the first, output net alone"
    return Table("epochs", title, frame, pd.DataFrame(numbers), notes)


def conflict_table(section: Section) -> Table:
    """Conflict E: which of the paper's accuracies of the output net alone fits which budget."""
    found, arrivals = cells(section.frame()), histories(section)
    shown: dict[str, list[str]] = {}
    numbers: list[dict[str, object]] = []
    names = titles(section_tasks(section))
    for probe, plain in PROBES.items():
        for name, task in section_tasks(section).items():
            if not {(probe, name), (plain, name)} <= {(r.arm, r.task) for r in section.runs}:
                continue
            converged, budget = found.get((probe, name)), found.get((plain, name))
            known, floor = printed(probe, name), best_floor(task)
            both = converged.minus(budget) if converged and budget else None
            spread = max(known.values()) - min(known.values()) if len(known) > 1 else None
            body = "random" if probe.startswith("random") else "language"
            shown[f"{names[name]}, {body}"] = [
                "; ".join(f"{paper.called(table)}: {value:g}" for table, value in known.items())
                or NONE,
                cell_text(budget),
                cell_text(converged),
                NONE if spread is None else signed(spread / 100),
                "not run" if both is None else points(both),
                _steps_to_probe(section, arrivals, probe, plain, name, task),
                NONE if floor is None else percent(floor),
            ]
            row: dict[str, object] = {"task": name, "body": body, "floor": floor}
            row |= {"printed_spread": spread, **known}
            for side, cell in (("budget", budget), ("converged", converged)):
                if cell is not None and cell.interval is not None:
                    row[side] = cell.interval.mean
            if both is not None:
                row |= {n: getattr(both, n) for n in ("effect", "low", "high", "p")}
            numbers.append(row)
    columns = [
        "the paper",
        "on a budget",
        "converged",
        "spread in the paper",
        "converged minus budget",
        "steps to the converged accuracy",
        "best floor",
    ]
    notes = (
        coverage(section),
        "Test accuracy, %, of the output net alone. On a budget: steps with augmentation and "
        "dropout as in the other arms; converged: fitted to clean cached features.",
        "Steps to the converged accuracy: when the arm on a budget reaches the mean accuracy of "
        "the converged one on validation.",
        "Compare the spread between the paper's numbers with that between our budgets.",
    )
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=columns)
    title = "The output net alone: the paper's two answers"
    return Table("conflict_e", title, frame, pd.DataFrame(numbers), notes)


def _steps_to_probe(
    section: Section, arrivals: Histories, probe: str, plain: str, name: str, task: Task
) -> str:
    """When the arm on a budget is as good as the converged one, and what its budget is."""
    fitted = [record.metrics["valid_accuracy"] for record in probes(section, probe, name)]
    spec = next(run.spec for run in section.runs if (run.arm, run.task) == (plain, name))
    budget = f"{spec.steps:,} steps"
    if task.sizes["train"]:
        budget += f", {spec.steps * spec.batch / task.sizes['train']:.3g} epochs"
    runs = arrivals.get((plain, name), ())
    if not fitted or not runs:
        return f"not run (budget {budget})"
    target = math.fsum(fitted) / len(fitted)
    return f"{steps_text(arrived(runs, target), len(runs))} (budget {budget})"
