"""The two front pages: the paper's table with ours in it, before everything else.

`fpt front` writes the README's block, its figure, and reports/README.md, from records alone
and from the pictures of executed notebooks.
"""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from ..files import write_atomic
from ..names import MODELS, in_order
from ..paper.reader import tables
from ..paper.reader import wide as paper
from ..project import OWN, PACKAGE
from .beside import Table, beside, label_of
from .effect import NOTHING, POINTS, Comparison, word_of
from .judge import claims, comparisons, verdicts
from .plot import accuracy
from .results import results

ROOT = PACKAGE.parent
BEGIN = "<!-- front: made by fpt front -->"
END = "<!-- end of front -->"
FIGURE = "docs/front.png"
MODEL = "six layers of SmolLM2"  # of the README, whose runs cover most of the paper's tasks
SMALL = "nano GPT-2"  # on the tasks that it was not trained on
REAL = ("GPT-2", "whole SmolLM2", MODEL, "MiniLM")  # that others have pretrained
OURS = (*REAL, "nano GPT-2")
ARMS = ["language", "same mean and sd", "model's default", "N(0, 0.02)", "fully trained"]
# Pictures of cells tagged `front`, in the order of their notebooks.
PICTURES = {
    "04_efficiency": "How many times as many steps N(0, 0.02) needs as language.",
    "07_initialization": "How large SmolLM2's weights are, and how soon each start learns.",
    "09_attention": "What random heads look at, before and after training.",
}
UNIT = "Test accuracy in %, **ours** / the paper's "  # which stands above the table
GLOSSARY = (
    "Model's default: weights as its own code draws them. Trivial rule: copying, the first "
    "symbol, or a linear classifier on pixels."
)
ANSWERS = ("better-than-random", "better-than-statistics", "as-good-as-full")


def printed() -> pd.DataFrame:
    """The paper's Table 9, with full training and the LSTM of its Table 1."""
    table = paper("T9")
    rows = paper("T1").loc[["fully trained", "LSTM"]]
    together = pd.concat([table, rows])
    together.attrs = {**table.attrs, "called": "T9 (fully trained and LSTM: its Table 1)"}
    return together


def shown_runs() -> pd.DataFrame:
    """The reported runs, but for a reader's own. Of several experiments that train a model
    on a task, those of the one with the most steps, and of equals with the most runs."""
    runs = results()
    runs = runs[runs["experiment"] != OWN]
    by_place = runs.groupby(["model", "task", "experiment"], as_index=False)
    sizes = by_place.agg(steps=("planned_steps", "max"), count=("key", "size"))
    largest = sizes.sort_values(["steps", "count"]).groupby(["model", "task"]).tail(1)
    return runs.merge(largest[["model", "task", "experiment"]])


def runs_of(names: Sequence[str], arm_names: Sequence[str] = ARMS) -> pd.DataFrame:
    """The runs of some models and arms that the front pages show."""
    runs = shown_runs()
    return runs[runs["model"].isin(names) & runs["arm"].isin(arm_names)]


def of_small() -> pd.DataFrame:
    """The runs of the small model on those of the paper's tasks that the other lacks."""
    runs = runs_of([SMALL])
    columns = printed().columns.difference(runs_of([MODEL])["column"])
    return runs[runs["column"].isin(columns)]


def front_runs() -> pd.DataFrame:
    """The runs of the README's table and figure, under the name of one model."""
    parts = [runs_of([MODEL]), of_small().assign(model=MODEL)]
    return pd.concat([part for part in parts if len(part)])


def front_table() -> Table:
    """The README's table: one model, so that its name is in the caption."""
    runs = front_runs()
    table = beside(printed(), runs)
    frame = table.frame.droplevel("model")
    # The numbers of runs stand in the caption, so that the cells are short.
    counts = runs.groupby(["arm", "task"]).size()
    cells = frame.map(lambda text: re.sub(r" \(\d+\)$", "", text))
    ours = f"{MODEL} ({MODELS[MODEL].about})"
    columns = [label_of(name) for name in printed() if name in {*of_small()["column"]}]
    if columns:
        ours += f"; on {in_words(columns)} {SMALL} ({MODELS[SMALL].about})"
    caption = table.caption.replace(" (runs)", "").replace(UNIT, "The paper's: ")
    caption = caption.replace(f" in {MODEL}.", ".")
    size = f"{counts.min()} to {counts.max()} runs a cell"
    return Table(cells, f"Ours: {ours}, {size}. {caption} {GLOSSARY}")


def in_words(items: Sequence[str]) -> str:
    """A list in a sentence."""
    *others, last = items
    return f"{', '.join(others)} and {last}" if others else last


def answers(model: str) -> Iterator[str]:
    """A sentence for each of the paper's main claims, on every task that a model was
    trained on: nothing is selected."""
    runs = runs_of([model])
    for name in ANSWERS:
        claim = next(row for row in claims() if row["id"] == name)
        by_phrase: dict[str, list[str]] = {}
        for comparison in comparisons(claim, runs):
            tasks = by_phrase.setdefault(phrase_of(comparison), [])
            tasks.append(label_of(comparison.task))
        parts = [phrase.format(in_words(by_phrase[phrase])) for phrase in sorted(by_phrase)]
        second = claim["second"]
        yield f"Against **{second}**, language is {'; '.join(parts)}."


def phrase_of(comparison: Comparison) -> str:
    """What runs say of an arm against another, whatever the paper claims."""
    effect = comparison.effect
    if comparison.word == NOTHING:
        return "neither beats the trivial rule on {}"
    if word_of(effect, 1, POINTS, as_good=True) == "replicates":
        return "as accurate on {}"
    if effect.low > 0:
        return "more accurate on {}"
    return "less accurate on {}" if effect.high < 0 else "we could not tell on {}"


def block() -> str:
    """What the README shows between its marks."""
    sentences = "\n".join(f"* {sentence}" for sentence in answers(MODEL))
    picture = f"![Test accuracy of each arm, ours and the paper's]({FIGURE})"
    table = re.sub(" *[|] *", "|", front_table().markdown())
    return "\n\n".join([table, sentences, picture])


def pictures(stem: str) -> list[bytes]:
    """The pictures of the cells of a notebook that are tagged `front`."""
    content = json.loads((ROOT / "notebooks" / f"{stem}.ipynb").read_text())
    cells = [
        cell for cell in content["cells"] if "front" in cell["metadata"].get("tags", ())
    ]
    outputs = [output.get("data", {}) for cell in cells for output in cell["outputs"]]
    return [base64.b64decode(data["image/png"]) for data in outputs if "image/png" in data]


def gallery(reports: Path) -> Iterator[str]:
    """The pictures, each with what it shows and a link to its section."""
    yield f"![Test accuracy of each arm, ours and the paper's](../{FIGURE})"
    for stem, caption in PICTURES.items():
        names = []
        for number, picture in enumerate(pictures(stem), 1):
            names.append(f"figures/front/{stem}_{number}.png")
            write_atomic(reports / names[-1], picture)
        yield "\n".join(f"![{caption}]({name})" for name in names)
        yield f"{caption} [{label_of_section(stem)}]({stem}.md)"


def places() -> Table:
    """Where each table of the paper stands: its section, and how many of its cells, an arm
    on a task, have a number of ours."""
    sources = {
        path.stem: path.read_text() for path in sorted(ROOT.glob("notebooks/*.ipynb"))
    }
    runs = results()
    runs = runs[runs["model"].isin(OURS)]
    rows = []
    for name, of_paper in tables().items():
        pages = [stem for stem, text in sources.items() if f'\\"{name}\\"' in text]
        if not pages:
            continue
        cells = paper(name).stack()
        beside_it = runs[
            [
                place in cells.index
                for place in zip(runs["arm"], runs["column"], strict=True)
            ]
        ]
        count = len(beside_it.drop_duplicates(["arm", "column"]))
        names = ", ".join(in_order(beside_it["model"], MODELS))
        rows.append(
            {
                "table": name,
                "what": of_paper.title,
                "section": ", ".join(f"[{label_of_section(s)}]({s}.md)" for s in pages),
                "cells with ours": f"{count} of {len(cells)} ({names})" if count else "",
            }
        )
    caption = (
        "Tables without such a cell have other rows than arms; ours stand in the section."
    )
    return Table(pd.DataFrame(rows).set_index("table"), caption)


def label_of_section(stem: str) -> str:
    """What pages call a section: its name without the number."""
    return stem[3:].replace("_", " ").capitalize()


def report(root: Path = ROOT) -> str:
    """reports/README.md."""
    table = beside(printed(), runs_of(REAL))
    nano = results("efficiency", "lab", model="nano GPT-2")
    steps = beside(paper("T6"), nano, "steps_to_threshold")
    stems = [path.stem for path in sorted((root / "notebooks").glob("*.ipynb"))]
    links = " · ".join(f"[{label_of_section(stem)}]({stem}.md)" for stem in stems)
    folders = sorted((root / "reports" / "experiments").glob("*/README.md"))
    experiments = " · ".join(
        f"[{path.parent.name}](experiments/{path.parent.name}/README.md)"
        for path in folders
    )
    return "\n\n".join(
        [
            "# Ours beside the paper's",
            table.markdown(),
            f"Sections: {links}.",
            "## Steps",
            steps.markdown(),
            "## Five figures",
            *gallery(root / "reports"),
            "## The paper's claims",
            verdicts(shown_runs()).markdown(),
            "## Where each table of the paper stands",
            places().markdown(),
            f"How it was done, registered claims, deviations, digests: {experiments}.\n",
        ]
    )


def in_readme(text: str, content: str) -> str:
    """The README's text with its block replaced."""
    pattern = re.escape(BEGIN) + ".*?" + re.escape(END)
    return re.sub(pattern, lambda _: f"{BEGIN}\n{content}\n{END}", text, flags=re.DOTALL)


def main(root: Path = ROOT) -> None:
    readme = root / "README.md"
    write_atomic(readme, in_readme(readme.read_text(), block()).encode())
    write_atomic(root / "reports" / "README.md", report(root).encode())
    figure = accuracy(front_runs(), "T9", ARMS[:4])
    figure.savefig(root / FIGURE, dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
