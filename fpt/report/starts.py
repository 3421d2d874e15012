"""How a frozen body starts, shown on its weights (section 3.8)."""

import pandas as pd
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..analysis.cells import section_arms
from ..backbones import backbone, build
from ..backbones.initialisations import LAYER, State, body_state, part_of
from ..files import FptError
from ..sections.arms import ARMS
from ..sections.section import Section
from .panels import Layout
from .style import LOOKS, styled
from .table import Table, label

PART = {"layernorm": "the norms", "positions": "the positions"}
DRAWN = ("fpt", "statistics-global", "random", "random-scaled")


def start(section: Section, arm: str, seed: int = 0) -> State:
    """The frozen body of an arm as it starts; FptError where its weights are not here."""
    spec = backbone(section.profile.backbone)
    weights = section.profile.weights["language"]
    return body_state(spec, build(spec), ARMS[arm].init, weights, seed)


def starts_table(section: Section) -> Table:
    """What each start keeps of the language body, on its first matrix and on its norms."""
    spec = backbone(section.profile.backbone)
    language = start(section, "fpt")
    name = next(n for n, tensor in language.items() if LAYER.search(n) and tensor.dim() > 1)
    values = language[name]
    top = torch.linalg.svdvals(values)
    rows = {}
    for arm in section_arms(section):
        state = start(section, arm)
        matrix = state[name]
        kept = {
            "its values": torch.equal(matrix.flatten().sort()[0], values.flatten().sort()[0]),
            "its singular values": torch.allclose(torch.linalg.svdvals(matrix), top, rtol=1e-3),
            "the matrix": torch.equal(matrix, values),
        }
        for part in ("layernorm", "positions"):
            names = [n for n in state if part_of(spec, n) == part]
            kept[PART[part]] = all(torch.equal(state[n], language[n]) for n in names)
        std = matrix.std(correction=0).item()
        rows[label(arm)] = {"std": f"{std:.3f}"} | {
            what: "kept" if is_kept else "lost" for what, is_kept in kept.items()
        }
    shown = pd.DataFrame.from_dict(rows, orient="index")
    notes = (
        f"The matrix {name} of {spec.name} ({section.profile.weights['language']}), seed 0.",
        "Bodies are redrawn for every seed, except the language body.",
    )
    return Table("starts", "What a start keeps of the language body", shown, shown, notes)


def weight_stds(state: State) -> pd.DataFrame:
    """Mean and std of every matrix, one row each: `layer` (from 0), `tensor`, `mean`, `std`.

    The paper has this as a figure only, «Weight STDs per layer in FPT» (section 3.8).
    """
    rows = []
    for name, tensor in state.items():
        found = LAYER.search(name)
        if found is None or tensor.dim() < 2:
            continue
        values = tensor.double()
        rows.append(
            {
                "layer": int(found[1]),
                "tensor": name[found.end() :].removesuffix(".weight"),
                "mean": values.mean().item(),
                "std": values.std(correction=0).item(),
            }
        )
    return pd.DataFrame(rows, columns=["layer", "tensor", "mean", "std"])


def weight_stds_table(section: Section) -> pd.DataFrame:
    """Std of every matrix of the bodies in DRAWN: arm, layer, tensor, mean, std. No row where the
    weights are not here."""
    found = []
    for arm in DRAWN:
        try:
            found.append(weight_stds(start(section, arm)).assign(arm=arm))
        except FptError:
            continue
    return pd.concat(found, ignore_index=True)


def weight_stds_figure(section: Section) -> Figure:
    """The paper's «Weight STDs per layer»: a panel per kind of matrix, a line per start."""
    table = weight_stds_table(section)
    kinds = list(dict.fromkeys(table["tensor"]))
    layout = Layout(len(kinds), 4)
    with styled():
        figure = Figure(figsize=(max(6.4, 2.3 * layout.columns), 0.9 + 2.0 * layout.rows))
        grid = layout.on(figure, sharey=True)
        for axes, kind in zip(grid, kinds, strict=True):
            axes.set_title(kind)
            for arm in DRAWN:
                mine = table[(table["arm"] == arm) & (table["tensor"] == kind)]
                look = LOOKS[arm]
                axes.plot(
                    mine["layer"] + 1, mine["std"], color=look.colour, ls=look.line,
                    marker=look.marker, ms=5, label=label(arm),
                )  # fmt: skip
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.set_ylim(0, 1.08 * table["std"].max())
        figure.supxlabel("layer", fontsize=9)
        figure.supylabel("std of the weights", fontsize=9)
        handles, names = grid[0].get_legend_handles_labels()
        absent = [arm for arm in DRAWN if arm not in set(table["arm"])]
        names = [f"{n}: weights not here" if n in map(label, absent) else n for n in names]
        figure.legend(handles, names, loc="outside upper left", ncols=2)
    return figure
