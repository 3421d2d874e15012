"""What the lab's front page shows beside its registered claims: ratios at lower thresholds, other
contrasts, and other learning rates. None of it was registered, and the page says so."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..analysis import contrasts, sensitivity
from ..analysis.claims import claims, runs_of
from ..analysis.effects import Effect
from ..analysis.summary import summary
from .results import cell_text
from .table import markdown_table

THRESHOLD_PAIRS = (
    "English / random",
    "English / random at English's scale",
    "random at English's scale / random",
)


def paragraphs() -> Iterator[str]:
    """Markdown: a heading, and each table with a sentence that says how to read it. Nothing until
    all runs are recorded."""
    parts = [*_thresholds(), *_contrasts(), *_rates()]
    if parts:
        yield "## Beside the registered claims"
        yield (
            "Nothing in this part was registered, and it supports no verdict; a verdict that a "
            "better rate would change is undecided. Intervals are 95%, each for itself. A ratio "
            "below 1 means that the first arm needs fewer steps."
        )
        yield from parts


def _thresholds() -> Iterator[str]:
    """The ratio of each pair at each threshold."""
    rows = []
    for name in THRESHOLD_PAIRS:
        frame = contrasts.by_threshold(contrasts.PAIRS[name])
        for task, ratios in frame.groupby("task", sort=False):
            cells = []
            for row in ratios.itertuples():
                registered = " (registered)" if row.registered else ""
                ratio = ratio_text(row.ratio, row.low, row.high)
                cells.append(f"{100 * row.threshold:g}%{registered}: {ratio}")
            rows.append([name, str(task), "; ".join(cells)])
    if rows:
        yield (
            "**Ratios of steps by threshold**, from the curves of the same runs. Learning rates "
            "were chosen for the registered threshold, the highest one that random and full "
            "training reached in the pilot."
        )
        yield markdown_table(["pair", "task", "validation accuracy: ratio of steps"], rows)


def _contrasts() -> Iterator[str]:
    """Each pair on each task, over all tasks, and the interaction with the learning rate."""
    pairs = contrasts.contrasts()
    if not pairs:
        return
    tasks = list(pairs[0].by_task)
    rows = []
    for pair in pairs:
        effects = [_effect_text(pair.by_task[task]) for task in tasks]
        dagger = " †" if pair.depends else ""
        rows.append([pair.name, *effects, _effect_text(pair.mean) + dagger])
    yield (
        "**Contrasts on the four tasks**, at the registered rates. If tasks differ in the sign of "
        "their effects (test of equal ratios, 5%), their mean is no finding and is marked †."
    )
    yield markdown_table(["pair", *tasks, "mean of the four"], rows)
    quotient = contrasts.interaction()
    if quotient is not None:
        yield (
            "English / random at one rate for both, divided by the same at the registered rates: "
            f"{_effect_text(quotient)} over the four tasks. Below 1, one rate flatters English."
        )


def _rates() -> Iterator[str]:
    """Each block of sensitivity.yaml beside the registered runs on the same seeds."""
    others = sensitivity.results()
    if others.empty:
        return
    study = runs_of(claims("primary"))
    specs = {run.key: run.spec for run in study.runs}
    registered = study.frame()
    rows = []
    for block in sensitivity.declared()["runs"]:
        settings = block["settings"]
        tried = _of_block(others, block)
        tried = tried[tried["settings"] == "+".join(settings)]
        usual = _of_block(registered, block)
        usual = usual[usual["seed"].isin(tried["seed"])]
        if len(tried) < block["count"] or len(usual) < block["count"]:
            continue  # half a set would show the first seeds alone
        spec = specs[usual["key"].iloc[0]]
        before = ", ".join(f"{name} {getattr(spec, name):g}" for name in settings)
        after = ", ".join(f"{name} {value:g}" for name, value in settings.items())
        steps = bool((tried["threshold"] > 0).any())
        means = [summary(runs).to_dict("records")[0] for runs in (usual, tried)]
        cells = [cell_text(mean, steps) for mean in means]
        rows.append([block["arm"], block["task"], before, after, *cells, block["why"]])
    yield (
        "**Other learning rates**, tried on the registered seeds after the registered results had "
        "been seen, so the better of two is flattered."
    )
    head = ["arm", "task", "registered", "other", "registered runs", "other runs", "why"]
    yield markdown_table(head, rows)


def _of_block(runs: pd.DataFrame, block: dict[str, object]) -> pd.DataFrame:
    return runs[(runs["arm"] == block["arm"]) & (runs["task"] == block["task"])]


def _effect_text(effect: Effect) -> str:
    return ratio_text(*np.exp([effect.estimate, effect.low, effect.high]))


def ratio_text(ratio: float, low: float, high: float) -> str:
    """`0.60× [0.46, 0.79]`, or the ratio alone if it has no interval."""
    text = f"{ratio:.2f}×"
    return text if np.isnan(low) else f"{text} [{low:.2f}, {high:.2f}]"
