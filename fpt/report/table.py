"""A table: what is shown, the numbers behind it, and what a reader must know."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ..sections.arms import ARMS

NONE = "–"


@dataclass(frozen=True, eq=False)
class Table:
    """`shown` has texts, `numbers` one tidy row per number; both are written to files."""

    name: str
    title: str
    shown: pd.DataFrame
    numbers: pd.DataFrame
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        head = ["", *map(str, self.shown.columns)]
        rows = [[str(name), *map(str, row)] for name, row in self._rows()]
        lines = [head, ["---", *["---:"] * len(self.shown.columns)], *rows]
        body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines]
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([f"**{self.title}**", "", *body, "", *notes]).rstrip() + "\n"

    def _rows(self) -> Iterable[tuple[object, Sequence[object]]]:
        return zip(self.shown.index, self.shown.to_numpy().tolist(), strict=True)

    def _repr_html_(self) -> str:
        """Plain HTML, the same on every call (a pandas Styler would draw random ids)."""

        def row(cells: Iterable[object], tag: str) -> str:
            first, *rest = (html.escape(str(cell)) for cell in cells)
            return (
                f'<tr><th style="text-align:left">{first}</th>'
                + "".join(f"<{tag}>{cell}</{tag}>" for cell in rest)
                + "</tr>"
            )

        body = "\n".join(row([name, *values], "td") for name, values in self._rows())
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return (
            f"<p><strong>{html.escape(self.title)}</strong></p>\n<table>\n<thead>"
            f"{row(['', *self.shown.columns], 'th')}</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
            + (f"<ul>{notes}</ul>" if notes else "")
        )

    def __repr__(self) -> str:
        return self.markdown()


def label(arm: str) -> str:
    return ARMS[arm].label


def short(arm: str) -> str:
    """The label where space is short."""
    return "FPT" if arm == "fpt" else ARMS[arm].label


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def counted(counts: Mapping[str, int]) -> str:
    """`a CPU: 3; a card: 2`."""
    return "; ".join(f"{name}: {count}" for name, count in counts.items())


def si(value: float) -> str:
    """Three digits and a prefix: `1.23 M`."""
    prefixes = ("", "k", "M", "G", "T", "P", "E", "Z")
    power = 0
    while abs(value) >= 999.5 and power < len(prefixes) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.3g} {prefixes[power]}"
