"""Tables of section 3.4: steps to convergence, speed-ups at equal ends, what a token costs."""

import math
from collections.abc import Sequence

import pandas as pd

from ..analysis.arrivals import Race, arrival, end_level, histories, race
from ..analysis.cells import section_arms, section_tasks, titles
from ..analysis.convergence import Convergence, Speedup, median_steps
from ..backbones import backbone
from ..paper import reader as paper
from ..records import Record
from ..sections.section import Section
from ..spec import RunSpec
from ..tasks import Task
from ..training.flops import flops_per_token, matrix_parameters
from .basis import coverage, rates_differ
from .protocol import trained_parameters
from .table import NONE, Table, label, percent, short

# The slow arm and the fast one. The paper compares the first two; a pair that differs in its
# learning rate compares recipes.
PAIRS = (("random", "fpt"), ("full", "fpt"), ("full", "random"), ("random-output", "output"))
CRITERION = (
    "Converged: the first evaluation at which the mean over the last 3 evaluations on the "
    "validation set is at most 1% of the level below it; for an arm's own level 3 evaluations must "
    "follow it, unless the run was stopped for its plateau. «>»: not by the end of the budget; "
    "«never»: diverged, or stopped below the level; «≤»: at the first evaluation that could show "
    "it."
)


def steps_table(section: Section) -> Table:
    """The paper's Table 6: steps until each arm reaches its own final level."""
    found, tasks = histories(section), section_tasks(section)
    arms = list(dict.fromkeys(arm for arm, _ in found))
    shown: dict[str, list[str]] = {}
    numbers: list[dict[str, object]] = []
    for arm in arms:
        shown[label(arm)] = []
        for name in tasks:
            runs = arrived(found.get((arm, name), ()))
            ends = end_level(found.get((arm, name), ()))
            shown[label(arm)].append(_steps_cell(section, arm, name, runs, ends))
            if runs:
                row = {"of": "ours", "row": arm, "task": name, "end": ends}
                numbers.append(row | vars(median_steps(runs)))
    table = paper.table("T6")
    for row_name in ("fpt", "random"):
        values = [table.cells[row_name, t].value if t in table.columns else None for t in tasks]
        shown[f"paper, T6: {row_name}"] = [NONE if v is None else f"{v:,.0f}" for v in values]
        numbers += [
            {"of": "paper", "row": row_name, "task": t, "median": v}
            for t, v in zip(tasks, values, strict=True)
            if v is not None
        ]
    levels = sorted({f"{row['level']:.0%}" for row in numbers if "level" in row})
    notes = (
        coverage(section),
        "Median gradient steps over runs [its interval] to the accuracy in brackets, at which the "
        "arm ends (validation).",
        CRITERION,
        "Intervals are of order statistics, without a distribution"
        + (f"; they cover {', '.join(levels)}." if levels else "."),
        "The arms end at unequal accuracies, as in the paper, so these steps are no speed-up: an "
        "arm may be sooner at a worse end. The next table has equal ends.",
        f"The paper: {table.note}.",
    )
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=list(titles(tasks).values()))
    return Table("steps", "Gradient steps to convergence", frame, pd.DataFrame(numbers), notes)


def arrived(records: Sequence[Record], target: float | None = None) -> list[Convergence]:
    return [arrival(record, target) for record in records]


def _steps_cell(
    section: Section, arm: str, task: str, runs: Sequence[Convergence], ends: float | None
) -> str:
    expected = len({r.spec.key for r in section.runs if (r.arm, r.task) == (arm, task)})
    if not expected:
        return NONE
    end = "" if ends is None else f" ({percent(ends)}%)"
    return steps_text(runs, expected) + end


def steps_text(runs: Sequence[Convergence], expected: int) -> str:
    """`300 [200, 400], 3 runs`, or a bound where the median run is censored."""
    if not runs:
        return "not run"
    found = median_steps(runs)
    counts = f"{len(runs)} of {expected} runs" if len(runs) < expected else f"{expected} runs"
    censored = sum(run.censored for run in runs)
    counts += f", {censored} censored" if censored else ""
    if math.isinf(found.median):
        budgets = [run.step for run in runs if run.censored and math.isfinite(run.step)]
        return f"> {min(budgets):,.0f}, {counts}" if budgets else f"never, {counts}"
    early = any(run.first and run.step == found.median for run in runs)
    text = ("≤ " if early else "") + f"{found.median:,.0f}"
    if found.n > 1:
        text += f" [{found.low:,.0f}, {'∞' if math.isinf(found.high) else f'{found.high:,.0f}'}]"
    return f"{text}, {counts}"


def speedup_text(found: Speedup | None) -> str:
    """`4.0× [2.0, 8.0]`, or a bound where censored runs leave it open."""
    if found is None:
        return "not run"
    if found.least == found.most and math.isfinite(found.most):
        text = f"{found.least:.2g}×" if found.least < 100 else f"{found.least:.0f}×"
    elif found.least > 0 and math.isinf(found.most):
        text = "never" if math.isinf(found.least) else f"≥ {found.least:.2g}×"
    elif math.isfinite(found.most):
        text = f"{found.least:.2g} to {found.most:.2g}×" if found.least else f"≤ {found.most:.2g}×"
    else:
        return "open"
    if found.runs == (1, 1):
        return text
    low, high = ("∞" if math.isinf(it) else f"{it:.2g}" for it in (found.low, found.high))
    return f"{text} [{low}, {high}]"


def pairs(section: Section) -> list[tuple[str, str]]:
    there = section_arms(section)
    return [pair for pair in PAIRS if set(pair) <= set(there)]


def races(section: Section) -> dict[tuple[str, str, str], Race | str]:
    """Every pair on every task, by slow arm, fast arm and task; or why there is no race."""
    found = histories(section)

    def run(task: Task, name: str, slow: str, fast: str) -> Race | str:
        diverged = all(found[arm, name] for arm in (slow, fast))
        return race(found, task, name, slow, fast) or ("diverged" if diverged else "not run")

    return {
        (slow, fast, name): run(task, name, slow, fast)
        for slow, fast in pairs(section)
        for name, task in section_tasks(section).items()
        if {(slow, name), (fast, name)} <= set(found)
    }


def speedup_table(section: Section) -> Table:
    """Speed-ups at equal ends: steps until every run reaches the lowest of their end accuracies."""
    found, tasks = races(section), section_tasks(section)
    specs = {(run.arm, run.task): run.spec for run in section.runs}
    shown: dict[str, list[str]] = {}
    numbers: list[dict[str, object]] = []
    for slow, fast in pairs(section):
        texts = []
        for name in tasks:
            if (slow, fast, name) not in found:
                texts.append(NONE)
                continue
            ran = found[slow, fast, name]
            texts.append(_race_text(ran))
            if not isinstance(ran, str):
                row = {"slow": slow, "fast": fast, "task": name, "target": ran.target}
                row |= {"at_floor": ran.at_floor}
                row |= {} if ran.at_floor else vars(ran.speedup)
                costs = [flops_per_token(specs[arm, name]) for arm in (slow, fast)]
                row |= {"flops_per_step_ratio": costs[0] / costs[1]}
                numbers.append(row)
        shown[f"{short(fast)} over {short(slow)}"] = texts
    table = paper.table("T6")
    values = [table.cells["speed-up", t].value if t in table.columns else None for t in tasks]
    shown["paper, T6: speed-up (unequal ends)"] = [NONE if v is None else f"{v:g}×" for v in values]
    levels = sorted({f"{row['level']:.0%}" for row in numbers if "level" in row})
    notes = (
        coverage(section),
        "How many times fewer steps the first arm needs to the accuracy behind it, the lowest at "
        "which a run of the two arms ends: median over pairs of runs with the interval of Mann and "
        "Whitney's test" + (f", which covers {', '.join(levels)}." if levels else "."),
        "«≥» and «≤»: a bound, if runs diverged, or arrived by the first evaluation that could "
        "show it; «never»: the slower arm diverged.",
        "«Not learned»: that accuracy is no better than a predictor's that fits nothing to its "
        "input, so no speed is compared.",
        *rates_differ(section, pairs(section)),
    )
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=list(titles(tasks).values()))
    return Table("speedup", "Speed-up at equal ends", frame, pd.DataFrame(numbers), notes)


def _race_text(ran: Race | str) -> str:
    if isinstance(ran, str):
        return ran
    if ran.at_floor:
        return f"not learned ({percent(ran.target)}%)"
    return f"{speedup_text(ran.speedup)} to {percent(ran.target)}%"


def token_table(section: Section) -> Table:
    """What a token costs in training, by arm, from the specs alone."""
    first: dict[str, RunSpec] = {}
    for run in section.runs:
        first.setdefault(run.arm, run.spec)
    base = flops_per_token(first["fpt"]) if "fpt" in first else None
    rows, numbers = {}, []
    for arm, spec in first.items():
        flops, matrices = flops_per_token(spec), matrix_parameters(backbone(spec.backbone))
        trained, _ = trained_parameters(spec)
        rows[label(arm)] = [
            spec.backbone,
            f"{trained:,}",
            f"{matrices:,}",
            f"{flops // matrices} P",
            f"{flops:,}",
            NONE if base is None else f"{flops / base:.2g}",
        ]
        numbers.append({"arm": arm, "matrices": matrices, "trained": trained, "flops": flops})
    columns = ["body", "trained", "P: matrices of the body", "FLOPs", "per token", "beside FPT"]
    notes = (
        "A forward pass costs 2 P, the gradient by what lies before the output net 2 P more, the "
        "gradient by the body's weights another 2 P. The output net alone needs no gradient "
        "through the body; a probe needs its forward pass once.",
        f"Trained parameters on {section.runs[0].task}.",
    )
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return Table("token_cost", "Cost of a token", frame, pd.DataFrame(numbers), notes)
