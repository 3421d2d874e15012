"""Tables: the texts that are shown, the numbers behind it, and one caption."""

import math
import re
import shutil
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..analysis.study import Study
from ..paper import reader as paper
from ..sections.arms import label
from .escape import in_markdown, prose_in_html, prose_in_markdown

NONE = "–"  # a cell without a number


@dataclass(frozen=True, eq=False)
class Table:
    """`texts` is what a reader sees, `numbers` has a tidy row per number; both are written
    to files."""

    name: str
    title: str
    texts: pd.DataFrame
    numbers: pd.DataFrame
    caption: str = ""
    notes: str = ""  # folded on a page

    def csv(self) -> str:
        """The numbers as comma-separated values, with twelve digits: those beyond are the
        rounding of this machine's sums."""
        return str(
            self.numbers.to_csv(index=False, float_format="%.12g", lineterminator="\n")
        )

    def markdown(self) -> str:
        """The table as Markdown, with its title above and its caption and notes below."""
        cells = self.texts.map(in_markdown).rename(columns=in_markdown)
        rows = [{"": in_markdown(name), **texts} for name, texts in cells.iterrows()]
        parts = [f"**{prose_in_markdown(self.title)}**", markdown_table(rows, right=cells)]
        parts += [prose_in_markdown(text) for text in (self.caption, self.notes) if text]
        return "\n\n".join(parts) + "\n"

    def _repr_html_(self) -> str:
        """The table as HTML."""
        cells = self.texts.astype(str).rename_axis(index=None)
        # pandas would cut longer texts off.
        with pd.option_context("display.max_colwidth", None):
            table = cells.to_html(border=0, classes="numbers")
        page = (
            f'<p class="title">{prose_in_html(self.title)}</p>\n{table}\n'
            f'<p class="note">{prose_in_html(self.caption)}</p>\n'
        )
        if self.notes:
            notes = prose_in_html(self.notes)
            page += f"<details><summary>notes and sources</summary>{notes}</details>\n"
        return page

    def __repr__(self) -> str:
        return self.markdown()

    _repr_markdown_ = __repr__

    def __str__(self) -> str:
        """For a terminal."""
        # A file or a pipe is not wrapped.
        width = shutil.get_terminal_size((1000, 24)).columns
        caption = textwrap.fill(self.caption, width)
        return f"{self.title}\n{self.texts.to_string(line_width=width)}\n{caption}"


def markdown_table(rows: Sequence[Mapping[str, str]], right: Collection[str] = ()) -> str:
    """A table of one row or more, whose cells are Markdown by column; `right` are the
    columns that are aligned at the right."""
    head = list(rows[0])
    rules = ["---:" if name in right else "---" for name in head]
    lines = [head, rules, *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def effect_text(effect: Mapping[str, object], is_ratio: bool, unit: str = "") -> str:
    """`+3.2 [+1.0, +5.4]` in points or `×0.55 [0.40, 0.76]` as a ratio, with a `unit` after
    the estimate; no brackets if the interval is NaN.

    effect: `estimate`, `low` and `high`, of a ratio in logarithms."""
    values = np.array([effect[name] for name in ("estimate", "low", "high")], float)
    if math.isnan(values[0]):
        return NONE
    sign, form = ("×", ".2f") if is_ratio else ("", "+.1f")
    texts = [f"{value:{form}}" for value in (np.exp(values) if is_ratio else values)]
    # Of a difference that is rounded to nothing.
    estimate, low, high = ("+0.0" if text == "-0.0" else text for text in texts)
    interval = "" if math.isnan(values[1]) else f" [{low}, {high}]"
    return f"{sign}{estimate}{unit}{interval}"


def readable(study: Study, frame: pd.DataFrame, digits: int = 1) -> pd.DataFrame:
    """A small frame as a reader sees it: arms and tasks by their names, numbers that are
    not whole with `digits` after the point, and no names of pandas' axes."""
    names = {arm: label(arm) for arm in study.arms}
    names |= {task: study.title(task) for task in study.tasks}

    def texts(column: pd.Series) -> pd.Series:
        if column.dtype != float:
            return column
        decimals = digits if (column.dropna() % 1).any() else 0
        return column.map(lambda value: f"{value:,.{decimals}f}").mask(column.isna(), NONE)

    readable_frame = frame.apply(texts).rename(names).rename(columns=names)
    for index in (readable_frame.index, readable_frame.columns):
        index.names = [None] * index.nlevels
    return readable_frame


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

    tags = dict.fromkeys(
        tag for cell in table.cells.values() for tag in cell.source.split(", ")
    )
    named = [(row, column, cell.note) for (row, column), cell in table.cells.items()]
    notes = [f"{row}, {column}: {note}." for row, column, note in named if note]
    notes.append(f"Source: {'; '.join(sources[tag] for tag in tags)}.")

    # Our names of the paper's tables mean nothing to a reader.
    prose = [
        re.sub(r"\bT(\d+)", r"Table \1", text) for text in (title, caption, " ".join(notes))
    ]
    return Table(f"paper-{name}", prose[0], texts, paper.frame(name), *prose[1:])


def _printed(value: float | None, error: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.12g}" if error is None else f"{value:,.12g} ± {error:g}"
