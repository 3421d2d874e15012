"""What the lab's front page shows beside its registered claims: ratios at lower thresholds, other
contrasts, and other learning rates. None of it was registered, and the page says so."""

from collections.abc import Iterator

import numpy as np

from ..analysis import contrasts, sensitivity
from ..analysis.claims import claims as registered
from ..analysis.claims import runs_of
from ..analysis.effects import Effect
from ..analysis.summary import summary
from .table import cell_text

THRESHOLD_PAIRS = {
    name: contrasts.PAIRS[name]
    for name in (
        "English / random",
        "English / random at English's scale",
        "random at English's scale / random",
    )
}


def paragraphs() -> Iterator[str]:
    """Markdown: a heading, and each table with a sentence that says how to read it. Nothing until
    all runs are recorded."""
    tables = [text for text in (_thresholds(), _contrasts(), _rates()) if text]
    if tables:
        yield "## Beside the registered claims"
        yield (
            "Nothing in this part was registered, and it supports no verdict; a verdict that a "
            "better rate would change is undecided. Intervals are 95%, each for itself. A ratio "
            "below 1 means that the first arm needs fewer steps."
        )
        yield from tables


def _thresholds() -> str:
    """The ratio of each pair at each threshold: a table for each task."""
    parts = []
    for name, pair in THRESHOLD_PAIRS.items():
        frame = contrasts.by_threshold(pair)
        for task, rows in frame.groupby("task", sort=False):
            heads = [
                f"{100 * it.threshold:g}%" + " (registered)" * bool(it.registered)
                for it in rows.itertuples()
            ]
            cells = [ratio_text(it.ratio, it.low, it.high) for it in rows.itertuples()]
            shown = "; ".join(f"{head}: {cell}" for head, cell in zip(heads, cells, strict=True))
            parts.append(f"| {name} | {task} | {shown} |")
    if not parts:
        return ""
    sentence = (
        "**Ratios of steps by threshold**, from the curves of the same runs. Learning rates were "
        "chosen for the registered threshold, the highest one that random and full training "
        "reached in the pilot."
    )
    head = "| pair | task | validation accuracy: ratio of steps |\n|---|---|---|"
    return "\n".join([sentence, "", head, *parts])


def _contrasts() -> str:
    """Each pair on each task, over all tasks, and the interaction with the learning rate."""
    found = contrasts.contrasts()
    if not found:
        return ""
    tasks = list(found[0].by_task)
    lines = [
        "**Contrasts on the four tasks**, at the registered rates. If tasks differ in the sign of "
        "their effects (test of equal ratios, 5%), their mean is no finding and is marked †.",
        "",
        f"| pair | {' | '.join(tasks)} | mean of the four |",
        "|---" * (2 + len(tasks)) + "|",
    ]
    for it in found:
        cells = [_effect_text(it.by_task[task]) for task in tasks]
        mean = _effect_text(it.mean) + " †" * it.depends
        lines.append(f"| {it.name} | {' | '.join(cells)} | {mean} |")
    quotient = contrasts.interaction()
    if quotient is not None:
        lines += [
            "",
            "English / random at one rate for both, divided by the same at the registered rates: "
            f"{_effect_text(quotient)} over the four tasks. Below 1, one rate flatters English.",
        ]
    return "\n".join(lines)


def _rates() -> str:
    """Each block of sensitivity.yaml beside the registered runs on the same seeds."""
    others = sensitivity.results()
    if others.empty:
        return ""
    study = runs_of(registered("primary"))
    registered_runs = study.frame()
    lines = [
        "**Other learning rates**, tried on the registered seeds after the registered results had "
        "been seen, so the better of two is flattered.",
        "",
        "| arm | task | registered | other | registered runs | other runs | why |",
        "|---|---|---|---|---|---|---|",
    ]
    for block in sensitivity.declared()["runs"]:
        at = (others["arm"] == block["arm"]) & (others["task"] == block["task"])
        runs = others[at & (others["settings"] == "+".join(block["settings"]))]
        same = registered_runs["arm"] == block["arm"]
        usual = registered_runs[same & (registered_runs["task"] == block["task"])]
        usual = usual[usual["seed"].isin(runs["seed"])]
        if len(runs) < block["count"] or len(usual) < block["count"]:
            continue  # half a set would show the first seeds alone
        spec = next(run.spec for run in study.runs if run.key in set(usual["key"]))
        before = ", ".join(f"{name} {getattr(spec, name):g}" for name in block["settings"])
        after = ", ".join(f"{name} {value:g}" for name, value in block["settings"].items())
        steps = bool((runs["threshold"] > 0).any())
        cells = [cell_text(summary(frame).to_dict("records")[0], steps) for frame in (usual, runs)]
        lines.append(
            f"| {block['arm']} | {block['task']} | {before} | {after} | {' | '.join(cells)} | "
            f"{block['why']} |"
        )
    return "\n".join(lines)


def _effect_text(effect: Effect) -> str:
    return ratio_text(*np.exp([effect.estimate, effect.low, effect.high]))


def ratio_text(ratio: float, low: float, high: float, sign: str = "×") -> str:
    """`0.60× [0.46, 0.79]`, or the ratio alone if it has no interval."""
    text = f"{ratio:.2f}{sign}"
    return text if np.isnan(low) else f"{text} [{low:.2f}, {high:.2f}]"
