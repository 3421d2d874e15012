"""What an audit found: its verdict, one table, one figure, and a page that needs no other
file."""

import base64
import html
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from ..files import write_atomic, write_json
from ..reading.plot import GREY, INK, colour_of, figure_of, panels
from .runs import TRIVIAL

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{verdict}</title>
<style>body {{font: 16px/1.5 sans-serif; max-width: 56rem; margin: 2rem auto}}
td, th {{padding: .2rem .6rem; text-align: right}} tbody th {{text-align: left}}</style>
<p>Does pretraining help on these data?</p>
<h1>{verdict}</h1>
<p>{reason} {advice}</p>
<img alt="test scores by arm" src="data:image/png;base64,{image}">
{table}
<p>{note}</p>
</html>
"""
FORMAT: dict[str, Any] = {"float_format": "{:.4f}".format, "na_rep": "–"}


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    `verdict` is a label, `reason` its sentence, `advice` what to do and to beware of.
    `table` has a row for each arm: its test score (accuracy or R²) with a 95% interval,
    language minus it (`difference`) with its interval (`least`, `most`), and the rate that
    validation chose. `cuts` says what the time did not allow, `facts` what was held fixed.
    """

    verdict: str
    reason: str
    advice: str
    table: pd.DataFrame
    cuts: tuple[str, ...]
    facts: Mapping[str, Any]

    def __repr__(self) -> str:
        table = self.table.to_string(**FORMAT)
        sentences = f"{self.verdict}: {self.reason} {self.advice}"
        return f"{sentences}\n{table}\n{self.note}"

    @property
    def note(self) -> str:
        """What all arms share, and what was cut, in sentences."""
        facts = self.facts
        sentences = (
            f"{facts['measure']} on {facts['test']} test examples, {facts['independent']} "
            f"of them independent, with {facts['train']} for training and "
            f"{facts['valid']} for validation. {facts['taken']} Around "
            f"{facts['backbone']}, {facts['steps']} steps of {facts['batch']} sequences "
            f"with {facts['draws']} seeds, each with a draw of its own, at the best of "
            "four rates by validation. Intervals are 95%, paired by seed; what is at most "
            f"{facts['margin']:g} worse suffices.",
            *self.cuts,
        )
        return " ".join(sentences)

    def plot(self) -> Figure:
        """The mean test score of each arm with its interval; up to the trivial rule the
        figure is grey."""
        table = self.table[::-1]
        (axes,) = panels(["test scores by arm"], 0.3 * len(table) + 1.0, 6.0)
        axes.hlines(table.index, table["low"], table["high"], color=INK)
        axes.scatter(
            table["score"], table.index, c=[*map(colour_of, table.index)], zorder=3
        )
        axes.axvspan(axes.get_xlim()[0], table["score"][TRIVIAL], color=GREY, zorder=0)
        axes.set_xlabel(f"{self.facts['measure']}, 95% intervals")
        return figure_of(axes)

    def to_html(self, path: str | Path) -> Path:
        """Write the page of the audit."""
        image = io.BytesIO()
        figure = self.plot()
        figure.savefig(image, format="png")
        plt.close(figure)
        words = ("verdict", "reason", "advice", "note")
        content = PAGE.format(
            **{name: html.escape(getattr(self, name)) for name in words},
            image=base64.b64encode(image.getvalue()).decode(),
            table=self.table.to_html(border=0, **FORMAT),
        )
        write_atomic(Path(path), content.encode())
        return Path(path)

    def to_json(self, path: str | Path) -> Path:
        """Write all numbers; null is one that does not exist."""
        rows = json.loads(self.table.reset_index().to_json(orient="records"))
        write_json(Path(path), {**vars(self), "table": rows})
        return Path(path)
