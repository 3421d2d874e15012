"""What a notebook made: shown, and written to reports/<profile>/ if `fpt render` executes it.

tables/<section>/ (.md, .csv) and figures/<section>/ (.png). A notebook that is executed by hand
shows the same and leaves the report as it is.
"""

import base64
import html
import io
import os
import re
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from ..analysis.claims import KINDS, LAB, findings
from ..analysis.headlines import pooled_differences
from ..analysis.study import Study
from ..analysis.summary import INTERVALS
from ..files import write_atomic
from ..sections.arms import label
from ..sections.comparison import Pair
from .page import RENDERS
from .style import styled
from .table import Table

MOST_SENTENCES = 6
FORMS = {
    "steps": "{:.2f} times as many steps [{:.2f}, {:.2f}]",
    "accuracy": "{:+.1f} points of accuracy [{:+.1f}, {:+.1f}]",
}


@dataclass(frozen=True)
class Picture:
    """A drawn figure; its text names it and never varies."""

    name: str
    png: bytes
    alt: str

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png).decode()
        image = f'<img src="data:image/png;base64,{data}" alt="{html.escape(self.alt)}">'
        return f'<div class="figure">{image}</div>'

    def __repr__(self) -> str:
        return f"<figure {self.name}: {self.alt}>"


@dataclass(frozen=True)
class Text:
    """Markdown."""

    text: str

    def __repr__(self) -> str:
        return self.text

    _repr_markdown_ = __repr__


def show_table(study: Study, table: Table) -> Table:
    """Write `table` if `fpt render` executes this, and return it, to be shown."""
    if RENDERS in os.environ:
        folder = study.folder / "tables" / study.name
        write_atomic(folder / f"{table.name}.md", table.markdown().encode())
        # Twelve digits: those beyond are the rounding of this machine's sums.
        text = table.numbers.to_csv(index=False, float_format="%.12g")
        write_atomic(folder / f"{table.name}.csv", text.encode())
    return table


def show_figure(study: Study, name: str, figure: Figure | None, alt: str) -> Picture | Text:
    """Write `figure` as PNG, equal bytes for equal results, if `fpt render` executes this; return
    it, to be shown. `alt` says what it shows to those who do not see it. A sentence if there is no
    figure."""
    if figure is None:
        return Text("There is nothing to draw yet.")
    drawn, png = io.BytesIO(), io.BytesIO()
    with styled():
        figure.savefig(drawn, format="png", facecolor="white")
    few = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(png, "PNG", optimize=True)
    if RENDERS in os.environ:
        write_atomic(study.folder / "figures" / study.name / f"{name}.png", png.getvalue())
    return Picture(name, png.getvalue(), alt)


def conclude(study: Study) -> Text:
    """What follows from the runs: in `lab` the verdicts of the registered claims of the section;
    else, or beside, the main differences with their intervals."""
    if study.profile.name == LAB or study.name == "verdict":
        lines, named = [], study.declared.claims
        for it in (it for kind in KINDS for it in findings(kind) if it.claim.name in named):
            if it.is_judged or it.claim.withdrawn:
                numbers = "; ".join([it.effect_text, it.n_text, *it.notes])
                said = numbers if it.is_judged else it.reason
                lines.append(f"- **{it.label.capitalize()}**: {it.claim.statement} ({said})")
        if lines:
            return Text("\n".join([*lines, "", INTERVALS]))
    words = differences_in_words(study) or ["There is nothing to conclude yet."]
    if study.profile.name == "smoke":
        count = len(study.profile.seeds)
        words += ["", f"These {count} seeds decide nothing; `lab` tests registered claims."]
    return Text("\n".join(words))


def differences_in_words(study: Study) -> list[str]:
    """Markdown: a sentence for each of the first differences that the section declares, over all
    tasks that are measured alike; and what the intervals reflect."""
    said: dict[Pair, list[str]] = {}
    for pair, unit, tasks, effect in pooled_differences(study):
        values = np.array([effect.estimate, effect.low, effect.high])
        text = FORMS[unit].format(*(np.exp(values) if unit == "steps" else values))
        said.setdefault(pair, []).append(f"{text} on {', '.join(map(study.title, tasks))}")
    found = [f"- {label(a)} against {label(b)}: {' and '.join(it)}." for (a, b), it in said.items()]
    found = [re.sub(r" \[\+?nan, \+?nan\]", "", line) for line in found[:MOST_SENTENCES]]
    return [*found, "", INTERVALS] if found else []
