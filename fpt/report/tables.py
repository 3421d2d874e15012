"""Tables of results, one function each, from the records of a section."""

import math
from collections.abc import Iterable, Sequence

import pandas as pd

from ..analysis.cells import Cell, Cells, cells, effect, floors, section_arms, section_tasks, titles
from ..analysis.provenance import unlearned
from ..analysis.stats import Difference
from ..paper.reader import called
from ..records import Record
from ..sections.claims import Finding, effect_text, p_text, points, signed
from ..sections.comparison import Comparison
from ..sections.comparisons import COMPARISONS
from ..sections.section import Section
from .basis import ACCURACY, EFFECTS, bodies, coverage, rates_differ, remarks
from .table import NONE, Table, duration, label, percent, short, si


def cell_text(cell: Cell | None) -> str:
    """`97.1 ± 0.8 (3)`: mean, half-width of the 95% interval and runs; `12.5 (n = 1 of 3)` without
    an interval if runs are missing; `not run` if all are."""
    if cell is None or cell.present == 0:
        return "not run"
    counts = f"{len(cell.values)}"
    if len(cell.values) < cell.expected:
        counts = (
            f"{counts} of {cell.expected}" if cell.complete else f"n = {counts} of {cell.expected}"
        )
    for count, what in ((cell.diverged, "diverged"), (cell.failed, "failed")):
        if count:
            counts += f", {count} {what}"
    if not cell.values:
        return f"{'diverged' if cell.diverged else 'failed'} ({counts})"
    interval = cell.interval
    if interval is None or math.isnan(interval.low):
        return f"{percent(math.fsum(cell.values) / len(cell.values))} ({counts})"
    return f"{percent(interval.mean)} ± {percent(interval.high - interval.mean)} ({counts})"


def compared(section: Section, comparison: Comparison) -> list[str]:
    """The arms of a comparison that the section has."""
    there = section_arms(section)
    return [arm for arm in comparison.arms if arm in there]


def contrasts(section: Section, comparison: Comparison) -> dict[str, list[tuple[str, str]]]:
    """The pairs of arms that a comparison subtracts, by task, as far as both have planned runs and
    their bodies learned what they were pretrained on; without the tasks that have none."""
    there = {(run.arm, run.task) for run in section.runs}
    arms, left_out = compared(section, comparison), unlearned(section)
    pairs = [pair for pair in comparison.pairs if left_out.isdisjoint(pair)]
    found = {
        task: [pair for pair in pairs if {(arm, task) for arm in pair} <= there]
        for task in section_tasks(section, arms)
    }
    return {task: pairs for task, pairs in found.items() if pairs}


def results_table(section: Section, comparison: Comparison) -> Table:
    """Arms by tasks, then trivial floors, then what the paper printed."""
    arms = compared(section, comparison)
    tasks = section_tasks(section, arms)
    frame = section.frame()
    found = cells(frame[frame["arm"].isin(arms)])
    shown: dict[str, list[str]] = {}
    numbers = []
    for arm in arms:
        shown[label(arm)] = [
            cell_text(found[arm, task]) if (arm, task) in found else NONE for task in tasks
        ]
        numbers += [_cell_numbers(found[arm, task]) for task in tasks if (arm, task) in found]
    known = {name: floors(task) for name, task in tasks.items()}
    for floor in dict.fromkeys(name for each in known.values() for name in each):
        values = [each.get(floor) for each in known.values()]
        shown[f"floor: {floor}"] = [NONE if v is None else percent(v) for v in values]
        numbers += _known_numbers("floor", floor, tasks, values)
    for arm in comparison.arms:
        values = [comparison.printed(arm, task) for task in tasks]
        name = paper_name(comparison, arm)
        if name is not None and name not in shown:
            shown[name] = [NONE if v is None else f"{v:.3g}" for v in values]
            fractions = [None if v is None else v / 100 for v in values]
            numbers += _known_numbers("paper", arm, tasks, fractions)
    notes = [
        coverage(section),
        f"{ACCURACY} Parameters chosen on validation.",
        *([_theirs(section)] if comparison.tables else []),
        *comparison.notes,
        *remarks(section),
    ]
    table = pd.DataFrame.from_dict(shown, orient="index", columns=list(titles(tasks).values()))
    return Table(comparison.name, comparison.title, table, pd.DataFrame(numbers), tuple(notes))


def _theirs(section: Section) -> str:
    said = "The paper's rows are GPT-2, one run each"
    if section.profile.name == "paper":
        return said + "."
    return said + "; its bodies, budgets and baselines differ from ours."


def transfer_table(section: Section) -> Table:
    """The paper's Table 1."""
    return results_table(section, COMPARISONS["transfer"])


def paper_name(comparison: Comparison, arm: str) -> str | None:
    """`paper, T1: fpt`; None if the paper does not have the arm."""
    table = comparison.source(arm)
    column = f", {comparison.columns[arm]}" if arm in comparison.columns else ""
    return None if table is None else f"paper, {called(table)}: {comparison.row(arm)}{column}"


def _cell_numbers(cell: Cell) -> dict[str, object]:
    row: dict[str, object] = {"of": "ours", "row": cell.arm, "task": cell.task}
    interval = cell.interval
    if interval is not None:
        row |= {name: getattr(interval, name) for name in ("mean", "low", "high", "sd")}
    elif cell.values:
        row["mean"] = math.fsum(cell.values) / len(cell.values)
    return row | {"runs": len(cell.values), "expected": cell.expected, "diverged": cell.diverged}


def _known_numbers(
    of: str, row: str, tasks: Iterable[str], values: Iterable[float | None]
) -> list[dict[str, object]]:
    return [
        {"of": of, "row": row, "task": task, "mean": value}
        for task, value in zip(tasks, values, strict=True)
        if value is not None
    ]


def differences_table(section: Section, comparison: Comparison) -> Table:
    """The differences of interest per task, ours above the paper's."""
    found, arms = cells(section.frame()), compared(section, comparison)
    tasks = contrasts(section, comparison)
    planned = list(dict.fromkeys(pair for pairs in tasks.values() for pair in pairs))
    shown: dict[str, list[str]] = {}
    numbers: list[dict[str, object]] = []
    sources: dict[str, None] = {}
    for a, b in (pair for pair in comparison.pairs if pair in planned):
        ours = [effect(found, a, b, task) for task in tasks]
        printed = [comparison.effect(a, b, task) for task in tasks]
        name = f"{short(a)} minus {short(b)}"
        shown[name] = [
            _effect_text(it, found, a, b, task) if (a, b) in tasks[task] else NONE
            for task, it in zip(tasks, ours, strict=True)
        ]
        if any(value is not None for value in printed):
            source = called(str(comparison.source(a, b)))
            sources[f"{name.removeprefix('FPT ')} from {source}"] = None
            shown[f"paper: {name}"] = [NONE if v is None else signed(v / 100) for v in printed]
        for task, it, value in zip(tasks, ours, printed, strict=True):
            row: dict[str, object] = {"task": task, "arm": a, "minus": b, "paper": value}
            if it is not None:
                row |= {n: 100 * getattr(it, n) for n in ("effect", "low", "high")}
                row["p"] = it.p
            numbers.append(row)
    notes = [
        EFFECTS,
        *(
            [f"The paper's: {'; '.join(sources)}."]
            if len(comparison.tables) > 1 and sources
            else []
        ),
        *rates_differ(section, planned),
        *_left_out(section, comparison),
        *bodies(section),
        coverage(section),
        *(["The paper's LSTM is the released code's."] if "lstm" in arms else []),
    ]
    name = "effects" if comparison.name == section.name else f"{comparison.name}_effects"
    title = f"{comparison.title}: differences"
    names = titles(section_tasks(section))
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=[names[task] for task in tasks])
    return Table(name, title, frame, pd.DataFrame(numbers), tuple(notes))


def _left_out(section: Section, comparison: Comparison) -> list[str]:
    """The arms that are compared with none, because a body of theirs did not learn its corpus."""
    named = [label(arm) for arm in compared(section, comparison) if arm in unlearned(section)]
    if not named:
        return []
    return [
        "Not compared, as their bodies predict held-out tokens of their corpus no better than the "
        f"frequencies of these do: {'; '.join(named)}."
    ]


def effects_table(section: Section) -> Table:
    """What the frozen language body is worth: FPT minus every other arm."""
    return differences_table(section, COMPARISONS["transfer"])


def _effect_text(seen: Difference | None, found: Cells, a: str, b: str, task: str) -> str:
    """The effect of arm `a` minus arm `b`, or how many runs there are of each."""
    if seen is not None:
        return points(seen)
    sides = [found[arm, task] for arm in (a, b)]
    if any(cell.present == 0 for cell in sides):
        return "not run"
    return " minus ".join(f"{len(cell.values)} of {cell.expected} runs" for cell in sides)


def cost_table(section: Section) -> Table:
    """What the recorded runs of each arm cost."""
    present = section.records()
    shown: dict[str, list[str]] = {}
    numbers: list[dict[str, object]] = []
    for arm in section_arms(section):
        keys = list(dict.fromkeys(run.spec.key for run in section.runs if run.arm == arm))
        made = [present[key] for key in keys if key in present]
        total = {name: _total(made, name) for name in ("tokens", "flops")}
        if made and all("process_seconds" in record.cost for record in made):
            total["process_seconds"] = _total(made, "process_seconds")
        peak = max((record.cost["peak_bytes"] for record in made), default=0.0)
        devices = sorted({str(record.environment["device"]) for record in made})
        shown[label(arm)] = [
            f"{len(made)} of {len(keys)}",
            *(
                [
                    duration(total["process_seconds"]) if "process_seconds" in total else NONE,
                    si(total["tokens"]),
                    si(total["flops"]),
                    si(peak) + "B",
                    ", ".join(devices),
                ]
                if made
                else [NONE] * 5
            ),
        ]
        numbers.append({"arm": arm, "runs": len(made), "expected": len(keys), **total})
        numbers[-1] |= {"peak_bytes": peak, "devices": "; ".join(devices)}
    columns = ["runs", "processor time", "tokens", "FLOPs", "peak memory", "device"]
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=columns)
    notes = (
        "Sums over the recorded runs; runs trained as one pack share its time evenly. Processor "
        "time, unlike wall-clock time, does not grow if a machine is shared; it is shown if every "
        "run of a row has it.",
        "FLOPs count the body's matrices: two per multiply-add, forward and backward.",
        "Peak memory: of the pack that took most; on a CPU with its process's libraries and data.",
    )
    return Table("cost", "Cost", frame, pd.DataFrame(numbers), notes)


def _total(records: Iterable[Record], name: str) -> float:
    return math.fsum(record.cost[name] for record in records)


def verdict_table(section: Section, findings: Sequence[Finding]) -> Table:
    """Each claim on each task: verdict, effect with interval, runs, adjusted p."""
    rows, names = [], []
    numbers: list[dict[str, object]] = []
    for it in findings:
        seen = it.measured.effect
        names.append(it.claim.text)
        rows.append(
            {
                "task": it.title,
                "verdict": it.verdict.label,
                "measured": it.claim.effect,
                "effect": effect_text(it.measured),
                "unit": it.claim.unit,
                "runs": " and ".join(map(str, it.measured.runs)),
                "p (Holm)": NONE
                if math.isnan(it.verdict.p)
                else p_text(it.verdict.p).removeprefix("= "),
                "source": it.claim.source,
            }
        )
        numbers.append({"claim": it.claim.id, "task": it.task, "verdict": it.verdict.label})
        numbers[-1] |= {"barred": it.measured.barred, "unit": it.claim.unit}
        numbers[-1] |= {"p_holm": it.verdict.p, "margin": it.claim.margin}
        if seen is not None:
            numbers[-1] |= {n: getattr(seen, n) for n in ("effect", "low", "high", "p")}
    notes = (
        "Verdicts at 5% after Holm's adjustment over this table alone; the page of verdicts "
        "adjusts over all sections, which is stricter. Intervals are not adjusted. A claim of "
        "equality is supported if the effect lies within its margin, not if no difference was "
        "found.",
        coverage(section),
    )
    shown = pd.DataFrame(rows, index=names)
    return Table("verdicts", "Claims", shown, pd.DataFrame(numbers), notes)


def missing_table(section: Section) -> Table:
    """Runs that are expected and not there, by arm and task."""
    missing = pd.DataFrame([{"arm": r.arm, "task": r.task} for r in section.missing()])
    tally = section.tally()
    names = [f"{tally['present']} of {tally['expected']} runs are present."]
    if missing.empty:
        frame = pd.DataFrame(columns=["missing"])
        return Table("missing", "What is missing: nothing", frame, missing, tuple(names))
    allowed = " or ".join(section.profile.train_on)
    names.append(
        f"Train them with: fpt run {section.name} --profile {section.profile.name} (the pipeline "
        f"does so on {allowed})."
    )
    tasks, arms = section_tasks(section), section_arms(section)
    counts = missing.groupby(["arm", "task"]).size()
    frame = pd.DataFrame(
        [[str(counts.get((arm, task), 0)) for task in tasks] for arm in arms],
        index=[label(arm) for arm in arms],
        columns=list(titles(tasks).values()),
    )
    return Table("missing", "Missing runs", frame, missing, tuple(names))
