"""The figure of an audit, and its page: one file that needs no other."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pandas as pd
import seaborn
from matplotlib.figure import Figure

from ..project import VERSION
from .arms import LABELS
from .look import (
    COLOURS,
    INK,
    LEVEL,
    LINES,
    MARKERS,
    MUTED,
    NONE,
    STYLESHEET,
    effect_text,
    in_html,
    styled,
)

if TYPE_CHECKING:
    from .result import Audit

TEMPLATE = Path(__file__).with_name("page.html")


def figure(audit: "Audit") -> Figure:
    """Left: the test score of every run (dots) by arm with the arm's mean and interval.
    Right: the mean learning curves on validation."""
    names = list(audit.table["label"])
    colours = dict(zip(names, COLOURS, strict=False))
    with styled():
        canvas = Figure(figsize=(10, 3.6))
        left, right = canvas.subplots(1, 2)
        runs = audit.runs.assign(label=audit.runs["arm"].map(LABELS))
        seaborn.stripplot(
            runs,
            x="score",
            y="label",
            hue="label",
            order=names,
            palette=colours,
            jitter=False,
            alpha=0.5,
            size=4,
            legend=False,
            ax=left,
        )
        table = audit.table
        errors = [table["score"] - table["low"], table["high"] - table["score"]]
        left.errorbar(
            table["score"],
            range(len(table)),
            xerr=[error.fillna(0) for error in errors],
            fmt="D",
            color=INK,
            markersize=4,
            capsize=3,
        )
        left.axvline(audit.facts["guess"], **LEVEL)
        marks = "diamond: mean with 95% interval\ndotted: a constant answer"
        left.set(xlabel=f"test {measure(audit)}; {marks}", ylabel="")
        for index, (arm, curve) in enumerate(audit.curves.items()):
            line = LINES[index % len(LINES)]
            name = LABELS[arm]
            right.plot(
                *zip(*curve, strict=True),
                line,
                marker=MARKERS[index],
                markersize=3,
                color=colours[name],
                label=name,
            )
        right.axhline(audit.facts["guess_on_validation"], **LEVEL)
        right.set(xlabel="step", ylabel=f"validation {measure(audit)}")
        # Beside the axes, since curves may be anywhere in them.
        right.legend(
            fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), labelcolor=MUTED
        )
    return canvas


def measure(audit: "Audit") -> str:
    return "R²" if audit.facts["task"] == "regression" else "accuracy"


def page(audit: "Audit") -> str:
    """The page: verdict, figure, table, what was held fixed, how to cite."""
    image = io.BytesIO()
    with styled():
        figure(audit).savefig(image, format="png")
    cuts = "".join(f"<li>{in_html(cut)}</li>" for cut in audit.cuts)
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        backbone=in_html(audit.facts["backbone"]),
        verdict=in_html(audit.verdict[0].upper() + audit.verdict[1:]),
        reason=in_html(f"{audit.reason} {audit.advice}"),
        image=base64.b64encode(image.getvalue()).decode(),
        table=html_table(audit),
        measure=measure(audit),
        cuts=f"<p>The time did not allow everything:</p><ul>{cuts}</ul>" if cuts else "",
        fixed=in_html(fixed(audit)),
        version=VERSION,
        style=STYLESHEET.read_text(encoding="utf-8"),
    )


def html_table(audit: "Audit") -> str:
    """A row per arm, the pretrained one first."""
    rows = []
    for _, row in audit.table.iterrows():
        interval = "" if pd.isna(row["low"]) else f" [{row['low']:.3f}, {row['high']:.3f}]"
        columns = {"estimate": "difference", "low": "least", "high": "most"}
        points = {name: 100 * row[column] for name, column in columns.items()}
        rows.append(
            {
                "": row["label"],
                f"test {measure(audit)}": f"{row['score']:.3f}{interval}",
                "pretrained minus this arm": effect_text(points),
                "best rate": NONE if pd.isna(row["lr"]) else f"{row['lr']:g}",
                "best step": f"{row['best_step']:.0f}" if row["best_step"] else NONE,
                "runs": str(row["runs"]),
                "draws": str(row["draws"] or NONE),
            }
        )
    cells = pd.DataFrame(rows).set_index("").rename_axis(index=None)
    table: str = cells.to_html(border=0, classes="numbers")
    return table


def span(counts: Sequence[int]) -> str:
    """`34`, or `34 to 102` of folds that differ."""
    least, most = min(counts), max(counts)
    return str(most) if least == most else f"{least} to {most}"


def fixed(audit: "Audit") -> str:
    """What all arms share, in sentences."""
    facts = audit.facts
    rates = ", ".join(f"{rate:g}" for rate in facts["rates"])
    batch = min(facts["batch"], *facts["train"])
    tested = f"{facts['test']} test examples"
    if facts["independent"] < facts["test"]:
        tested += f" in {facts['independent']} groups"
    at_edge = ", ".join(audit.table.loc[audit.table["at_edge"], "label"])
    edge = f"Best at the edge of this grid: {at_edge}. " if at_edge else ""
    return (
        f"All arms had the same {span(facts['train'])} training, {span(facts['valid'])} "
        f"validation and {tested} ({facts['inputs']}; folds: {facts['folds']}), "
        f"{facts['steps']} steps of {batch} sequences by Adam without dropout, "
        f"the same batches for the same seed, and one grid of learning rates ({rates}), "
        "chosen on validation by successive halving with seeds that are not reported. "
        f"{edge}The input and output nets, the layer norms and the positions are trained, "
        "and all else is frozen. Validation chose the step. "
        f"Something simpler suffices if it is at most {100 * facts['margin']:g} points "
        "worse. The interval of a difference covers a further draw of a control and other "
        "test examples. If the pretrained backbone were one standard deviation of the "
        f"draws better, a control alone would show it in {facts['power']:.0%} of audits. A "
        f"constant answer scores {facts['guess']:.3f}. Random state "
        f"{facts['random_state']}; the runs took {facts['minutes_taken']:.1f} minutes."
    )
