"""Tables of the learning rates: the paper's and the best, each one, how often clipping fired."""

from collections.abc import Callable, Sequence

import pandas as pd

from ..analysis.cells import Cell, cells, effect, section_tasks, titles
from ..analysis.stats import Difference
from ..analysis.tuning import (
    Choice,
    Rates,
    by_rate,
    choices,
    published,
    published_rate,
    reported,
    tuned,
)
from ..paper import reader as paper
from ..sections.claims import points, signed
from ..sections.comparison import Comparison
from ..sections.section import Section
from .basis import ACCURACY, EFFECTS, coverage, remarks
from .table import NONE, Table, label, short
from .tables import cell_text, compared

PAPERS, TUNED, CRITICS = "at the paper's rate", "tuned", "Rothermel et al."
BEST = "*"
CHECKPOINT = "Parameters chosen on validation."


def rate_table(section: Section, comparison: Comparison) -> Table:
    """Every arm at the paper's learning rate and at its best one."""
    chosen = choices(section)
    plain, best = cells(published(section).frame()), cells(tuned(section).frame())
    names, rows = [], []
    names_of = titles(section_tasks(section))
    numbers: list[dict[str, object]] = []
    for task, arm in _rows(section, comparison):
        at, choice = (arm, task), chosen[arm, task]
        row = {
            "task": names_of[task],
            PAPERS: cell_text(plain[at]) if at in plain else NONE,
            TUNED: cell_text(best[at]) if at in best else NONE,
            "best rate": _rate_text(choice),
            "tuning gives": _gain(choice, plain.get(at), best.get(at)),
        }
        if comparison.tables:
            row[CRITICS] = _printed(comparison, arm, task)
        names.append(label(arm))
        rows.append(row)
        for of, lr, cell in (
            (PAPERS, published_rate(task), plain.get(at)),
            (TUNED, choice.rate, best.get(at)),
        ):
            numbers.append({"of": of, "arm": arm, "task": task, "lr": lr, **_numbers(cell)})
    notes = [
        coverage(section),
        f"{ACCURACY} {CHECKPOINT}",
        _searched(section),
        *_fixed(section, comparison),
        *([f"{CRITICS}: {_source(comparison)}."] if comparison.tables else []),
        *comparison.notes,
        *remarks(section),
    ]
    title = f"{comparison.title}: as published and tuned"
    shown = pd.DataFrame(rows, index=names)
    return Table(f"{comparison.name}_rates", title, shown, pd.DataFrame(numbers), tuple(notes))


def rate_effects_table(section: Section, comparison: Comparison) -> Table:
    """The differences of interest at the paper's learning rate and at each arm's best one."""
    arms = compared(section, comparison)
    there = set(_rows(section, comparison))
    plain, best = cells(published(section).frame()), cells(tuned(section).frame())
    names, rows = [], []
    names_of = titles(section_tasks(section))
    numbers: list[dict[str, object]] = []
    for task in section_tasks(section, arms):
        for a, b in comparison.pairs:
            if not {(task, a), (task, b)} <= there:
                continue
            seen = {PAPERS: effect(plain, a, b, task), TUNED: effect(best, a, b, task)}
            planned = {PAPERS: {(a, task), (b, task)} <= set(plain), TUNED: True}
            row = {"task": names_of[task]}
            row |= {of: _effect_text(it) if planned[of] else NONE for of, it in seen.items()}
            value = comparison.effect(a, b, task)
            if comparison.tables:
                row[CRITICS] = NONE if value is None else signed(value / 100)
            names.append(f"{short(a)} minus {short(b)}")
            rows.append(row)
            for of, it in seen.items():
                found = {n: 100 * getattr(it, n) for n in ("effect", "low", "high")} if it else {}
                numbers.append({"of": of, "task": task, "arm": a, "minus": b, **found})
    notes = (EFFECTS, _searched(section), *_fixed(section, comparison))
    title = f"{comparison.title}: differences"
    shown = pd.DataFrame(rows, index=names)
    return Table(f"{comparison.name}_effects", title, shown, pd.DataFrame(numbers), notes)


def accuracy_table(section: Section, comparison: Comparison) -> Table:
    """Test accuracy at each learning rate."""
    found = by_rate(section)
    notes = (
        f"{ACCURACY} {CHECKPOINT}",
        f"{BEST} The best rate, chosen on validation with other seeds.",
    )
    numbers = [
        {"arm": arm, "task": task, "lr": lr, **_numbers(cell)}
        for (arm, task), each in found.items()
        for lr, cell in each.items()
    ]
    shown = _by_rate(section, comparison, found, lambda at, lr: cell_text(found[at][lr]))
    title = f"{comparison.title}: at each rate"
    return Table("by_rate", title, shown, pd.DataFrame(numbers), notes)


def clipping_table(section: Section, comparison: Comparison) -> Table:
    """How often the gradient was clipped, at each learning rate."""
    found, shares = by_rate(section), clipping(section)
    clip = ", ".join(sorted({f"{run.spec.clip:g}" for run in section.runs}))

    def text(at: tuple[str, str], lr: float) -> str:
        if not found[at][lr].complete:
            return "not run"
        return f"{100 * shares[*at, lr]:.0f}%" if (*at, lr) in shares else NONE

    numbers = [
        {"arm": arm, "task": task, "lr": lr, "clipped": share}
        for (arm, task, lr), share in shares.items()
    ]
    notes = (
        f"Share of steps whose gradient norm exceeded {clip} and was scaled down to it; mean over "
        "seeds, of a diverged run up to there.",
        f"{BEST} The best rate, chosen on validation with other seeds.",
    )
    shown = _by_rate(section, comparison, found, text)
    return Table("clipping", "How often clipping fired", shown, pd.DataFrame(numbers), notes)


def clipping(section: Section) -> dict[tuple[str, str, float], float]:
    """The share of steps that were clipped, by arm, task and rate, over the reported runs. Looks
    are equally far apart, so the mean over a curve is the mean over its steps."""
    curves = reported(section).curves()
    if curves.empty:
        return {}
    keys = ["arm", "task", "lr"]
    by_run = curves.groupby([*keys, "seed"], sort=False)["clipped"].mean()
    return dict(by_run.groupby(keys, sort=False).mean().items())


def edges(section: Section) -> str:
    """Whether a best rate lies on the edge of its grid, and what is not chosen yet, as Markdown."""
    chosen = {at: it for at, it in choices(section).items() if len(it.found) > 1}
    if not chosen:
        return "No learning rate is searched."
    low, high = (end(lr for it in chosen.values() for lr in it.found) for end in (min, max))
    done = {at: it for at, it in chosen.items() if it.best is not None}
    said = [f"{len(done)} of {len(chosen)} best rates are chosen, from {low:g} to {high:g}."]
    on_edge = {at: it for at, it in done.items() if it.edge is not None}
    if on_edge:
        named = "; ".join(
            f"{label(arm)} on {task} ({it.rate:g}, the {it.edge})"
            for (arm, task), it in on_edge.items()
        )
        said.append(
            f"**Best at the edge of the grid**: {named}. A better rate may lie outside: add one to "
            f"`lrs` of section `{section.name}` in `params.yaml`."
        )
    elif done:
        said.append("Nowhere is the edge of a grid better than every rate within it.")
    lost = [f"{label(arm)} on {task}" for (arm, task), it in chosen.items() if it.diverged]
    if lost:
        said.append(f"**Diverged at every rate**, for some seed that chooses: {'; '.join(lost)}.")
    return " ".join(said)


def _rows(section: Section, comparison: Comparison) -> list[tuple[str, str]]:
    """Tasks and arms of a comparison that the section has, in the order of a table."""
    arms, there = compared(section, comparison), {(run.task, run.arm) for run in section.runs}
    tasks = section_tasks(section, arms)
    return [(task, arm) for task in tasks for arm in arms if (task, arm) in there]


def _by_rate(
    section: Section,
    comparison: Comparison,
    found: Rates,
    text: Callable[[tuple[str, str], float], str],
) -> pd.DataFrame:
    """Arms on tasks by rates; `text` fills a cell, the best one is marked."""
    chosen = choices(section)
    rows = [at[::-1] for at in _rows(section, comparison) if at[::-1] in found]
    grid = sorted({lr for at in rows for lr in found[at]})

    def marked(at: tuple[str, str], lr: float) -> str:
        return f"{text(at, lr)} {BEST}" if lr == chosen[at].best else text(at, lr)

    names = titles(section_tasks(section))
    shown = [
        [names[at[1]], *(marked(at, lr) if lr in found[at] else NONE for lr in grid)] for at in rows
    ]
    columns = ["task", *(f"{lr:g}" for lr in grid)]
    return pd.DataFrame(shown, index=[label(arm) for arm, _ in rows], columns=columns)


def _rate_text(choice: Choice) -> str:
    if choice.rate is None:
        return "not chosen"
    if choice.diverged:
        return "diverged at every rate"
    if len(choice.found) == 1:
        return f"{choice.rate:g}, not searched"
    return f"{choice.rate:g}" + (f", the {choice.edge}" if choice.edge else "")


def _gain(choice: Choice, plain: Cell | None, best: Cell | None) -> str:
    if plain is None or best is None or len(choice.found) < 2:
        return NONE
    gain = best.minus(plain)
    if gain is None:
        return "not run"
    return "0.0" if best == plain else points(gain)  # the same runs


def _effect_text(found: Difference | None) -> str:
    return "not run" if found is None else points(found)


def _printed(comparison: Comparison, arm: str, task: str) -> str:
    table = paper.table(comparison.tables[0])
    cell = table.cells.get((comparison.row(arm), task))
    if cell is None or cell.value is None:
        return NONE
    return f"{cell.value:g}" + ("" if cell.error is None else f" ± {cell.error:g}")


def _source(comparison: Comparison) -> str:
    table = paper.table(comparison.tables[0])
    said = f"{table.section}; ± is the {table.error_is}; {table.note}"
    return f"{said}; GPT-2, 12 layers"


def _searched(section: Section) -> str:
    """How the best rates were found, and whether every arm of a task had the same trials."""
    seeds = dict.fromkeys(run.spec.seed for run in section.runs if run.search)
    if not seeds:
        return "No learning rate is searched."
    trials: dict[str, dict[str, set[tuple[float, int]]]] = {}
    for run in section.runs:
        if run.search:
            mine = trials.setdefault(run.task, {}).setdefault(run.arm, set())
            mine.add((run.lr, run.spec.seed))
    grids: dict[tuple[float, ...], list[str]] = {}
    for task, arms in trials.items():
        rates = {lr for each in arms.values() for lr, _ in each}
        grids.setdefault(tuple(sorted(rates)), []).append(task)
    texts = {", ".join(f"{lr:g}" for lr in rates): tasks for rates, tasks in grids.items()}
    if len(texts) > 1:
        among = "; ".join(f"{rates} ({', '.join(tasks)})" for rates, tasks in texts.items())
    else:
        (among,) = texts
    unequal = [task for task, arms in trials.items() if len(set(map(frozenset, arms.values()))) > 1]
    return (
        "Tuned: at the rate with the best validation accuracy of "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}, not reported, "
        f"among {among}. "
        + (
            f"Not every arm had the same trials on {', '.join(unequal)}."
            if unequal
            else "As many trials for every arm."
        )
    )


def _fixed(section: Section, comparison: Comparison) -> Sequence[str]:
    """What is said of arms that have one rate only."""
    one = dict.fromkeys(
        label(arm)
        for task, arm in _rows(section, comparison)
        if len({r.spec.lr for r in section.runs if (r.arm, r.task) == (arm, task)}) == 1
    )
    return [f"At one rate only, beside others at their best: {'; '.join(one)}."] if one else []


def _numbers(cell: Cell | None) -> dict[str, object]:
    interval = cell.interval if cell else None
    if cell is None or interval is None:
        return {"runs": 0}
    found = {name: getattr(interval, name) for name in ("mean", "low", "high", "sd")}
    return {**found, "runs": len(cell.values)}
