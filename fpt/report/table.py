"""Tables: the texts that are shown, the numbers behind it, and one caption."""

import math
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..paper import reader as paper
from .escape import in_html, in_markdown, prose_in_html, prose_in_markdown

NONE = "–"  # a cell without a number


@dataclass(frozen=True, eq=False)
class Table:
    """`texts` is what a reader sees, `numbers` has a tidy row per number; both are written to
    files."""

    name: str
    title: str
    texts: pd.DataFrame
    numbers: pd.DataFrame
    caption: str = ""
    notes: str = ""  # folded on a page

    def _rows(self) -> list[list[str]]:
        """The cells as texts, each row after its name."""
        rows = zip(self.texts.index, self.texts.to_numpy().tolist(), strict=True)
        return [[str(name), *map(str, cells)] for name, cells in rows]

    def csv(self) -> str:
        """The numbers as comma-separated values, with twelve digits: those beyond are the rounding
        of this machine's sums."""
        return str(self.numbers.to_csv(index=False, float_format="%.12g"))

    def markdown(self) -> str:
        """The table as Markdown, with its title above and its caption and notes below."""
        head = ["", *map(in_markdown, self.texts.columns)]
        rows = [map(in_markdown, row) for row in self._rows()]
        parts = [f"**{prose_in_markdown(self.title)}**", markdown_table(head, rows, "---:")]
        parts += [prose_in_markdown(text) for text in (self.caption, self.notes) if text]
        return "\n\n".join(parts) + "\n"

    def _repr_html_(self) -> str:
        """The table as HTML."""
        # Written by hand: a pandas Styler draws random ids, and the page would change each time.
        head = "".join(f"<th>{in_html(column)}</th>" for column in self.texts.columns)
        body = ""
        for name, *texts in self._rows():
            cells = "".join(f"<td>{in_html(text)}</td>" for text in texts)
            body += f'<tr><th scope="row">{in_html(name)}</th>{cells}</tr>\n'
        page = (
            '<div class="table"><table class="numbers">\n'
            f"<caption><span>{prose_in_html(self.title)}</span></caption>\n"
            f'<thead><tr><th scope="row"></th>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n'
            f'</table></div>\n<p class="note">{prose_in_html(self.caption)}</p>\n'
        )
        if self.notes:
            notes = prose_in_html(self.notes)
            page += f"<details><summary>notes and sources</summary>{notes}</details>\n"
        return page

    def __repr__(self) -> str:
        return self.markdown()

    def __str__(self) -> str:
        """For a terminal."""
        # A file or a pipe is not wrapped.
        width = shutil.get_terminal_size((1000, 24)).columns
        caption = textwrap.fill(self.caption, width)
        return f"{self.title}\n{self.texts.to_string(line_width=width)}\n{caption}"


def markdown_table(
    head: Sequence[str], rows: Iterable[Iterable[str]], align: str | Sequence[str] = "---"
) -> str:
    """A table whose cells are Markdown; `align` is the rule of all columns but the first, or has
    that of each."""
    if isinstance(align, str):
        align = ["---", *[align] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, align, *rows))


def effect_text(effect: Mapping[str, object], steps: bool, unit: str = "") -> str:
    """`+3.2 [1.0, 5.4]` in points or `×0.55 [0.40, 0.76]` as a ratio of steps, with a `unit` after
    the estimate; no brackets if the interval is NaN.

    effect: `estimate`, `low` and `high`, of steps in logarithms."""
    values = np.array([effect[name] for name in ("estimate", "low", "high")], float)
    if math.isnan(values[0]):
        return NONE
    sign, form = ("×", ".2f") if steps else ("", "+.1f")
    estimate, low, high = np.exp(values) if steps else values
    interval = "" if math.isnan(low) else f" [{low:{form}}, {high:{form}}]"
    return f"{sign}{estimate:{form}}{unit}{interval}"


def paper_table(name: str) -> Table:
    """A table of the paper as it was printed, with its source and notes explained."""
    table = paper.table(name)
    sources = paper.sources()
    cells = [[table.cells[row, column] for column in table.columns] for row in table.rows]
    printed = [[_printed(cell.value, cell.error) for cell in row] for row in cells]
    texts = pd.DataFrame(printed, index=list(table.rows), columns=list(table.columns))

    title = f"{table.title} ({table.section})"
    if table.section[0].isdigit():  # a section of the paper, not another source
        title = f"The paper's {table.called}: {table.title} (section {table.section})"

    caption = f"{table.unit[:1].upper()}{table.unit[1:]}"
    caption += f"; ±: {table.error_is}" if table.error_is else ""
    caption += f"; {table.note}." if table.note else "."

    tags = dict.fromkeys(tag for cell in table.cells.values() for tag in cell.source.split(", "))
    named = [(row, column, cell.note) for (row, column), cell in table.cells.items()]
    notes = [f"{row}, {column}: {note}." for row, column, note in named if note]
    notes.append("Source: " + "; ".join(f"{tag} is {sources[tag]}" for tag in tags) + ".")

    # Our names of the paper's tables mean nothing to a reader.
    prose = [re.sub(r"\bT(\d+)", r"Table \1", text) for text in (title, caption, " ".join(notes))]
    return Table(f"paper-{name}", prose[0], texts, paper.frame(name), *prose[1:])


def _printed(value: float | None, error: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.12g}" if error is None else f"{value:,.12g} ± {error:g}"


def si(value: float) -> str:
    """Three digits and a prefix: `1.23 M`."""
    prefixes = ["", "k", "M", "G", "T", "P", "E", "Z"]
    while abs(value) >= 999.5 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop(0)
    return f"{value:.3g} {prefixes[0]}".rstrip()
