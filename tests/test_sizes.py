"""Sizes of the frozen body as a table and a figure, and what is claimed of them."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from profiled import clashes, fill, section_of, texts, verdicts

from fpt.analysis.cells import section_arms
from fpt.analysis.claim import OURS
from fpt.backbones import backbone
from fpt.paper import reader as paper
from fpt.report import outputs, sizes
from fpt.report.style import LOOKS
from fpt.report.trends import THIN, WIDE
from fpt.sections import claims
from fpt.sections.comparisons import COMPARISONS, SCALED

pytestmark = pytest.mark.usefixtures("matrix")

LEVELS = {
    "fpt-smaller": 0.40, "fpt": 0.45, "fpt-larger": 0.50, "fpt-largest": 0.60,
    "random-smaller": 0.35, "random": 0.38, "random-larger": 0.42, "random-largest": 0.46,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_totals_are_those_of_the_published_checkpoints(name: str, total: int) -> None:
    assert sizes.total_parameters(backbone(name)) == total


def test_the_papers_own_sizes_have_its_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = sizes.sizes_table(section_of("scaling", "paper", tmp_path, monkeypatch))
    bodies = ["gpt2", "gpt2-medium", "gpt2-large"]
    assert list(table.shown.index[:3]) == bodies
    assert table.shown.loc[bodies, "trained"].tolist() == ["106,752", "191,488", "300,800"]
    for body, row in zip(bodies, ("small", "medium", "large"), strict=True):
        ours, theirs = table.shown.loc[body], table.shown.loc[f"paper, T8: {row}"]
        assert ours[["layers", "width", "heads"]].tolist() == (
            theirs[["layers", "width", "heads"]].tolist()
        )
        for column in ("total", "trained"):
            printed = paper.cell("T8", row, column).value
            assert theirs[column] == f"{printed:,.0f}"
            assert float(ours[column].replace(",", "")) == pytest.approx(printed, rel=0.07)
        assert theirs["trained on cifar10"] == "–"
    # Tokens of 48 numbers, a final norm and an output bias more than the paper counts.
    more = 32 * 768 + 2 * 768 + 10
    assert table.shown.loc["gpt2", "trained on cifar10"] == f"{106_752 + more:,}"


@pytest.mark.parametrize(
    ("profile", "bodies"),
    [("smoke", ["pico", "nano"]), ("lab", ["pico", "nano", "micro", "mini"])],
)
def test_sizes_of_a_profile_rise(
    profile: str, bodies: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of("scaling", profile, tmp_path, monkeypatch)
    table = sizes.sizes_table(section)
    assert list(table.shown.index) == [
        *bodies,
        *(f"paper, T8: {r}" for r in paper.table("T8").rows),
    ]
    mine = table.numbers.iloc[: len(bodies)]
    for column in ("layers", "width", "total", "trained"):
        assert mine[column].is_monotonic_increasing
    assert not section.store.keys()


def line(figure: Figure, arm: str, width: float) -> np.ndarray:
    """The points (n, 2) that a line in an arm's colour joins in the first panel."""
    (found,) = [
        np.column_stack(it.get_data())
        for it in figure.axes[0].get_lines()
        if (it.get_color(), it.get_linewidth()) == (LOOKS[arm].colour, width)
    ]
    return found


def test_points_are_means_at_their_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = section_of("scaling", "lab", tmp_path, monkeypatch)
    fill(section, LEVELS)
    figure = sizes.sizes_figure(section)
    totals = [sizes.total_parameters(backbone(n)) for n in ("pico", "nano", "micro", "mini")]
    for start in ("fpt", "random"):
        found = line(figure, start, WIDE)
        assert found[:, 0] == pytest.approx(totals, rel=0.1)
        assert found[:, 1] == pytest.approx([100 * LEVELS[f"{start}{s}"] + 0.2 for s in SCALED])
        theirs = line(figure, start, THIN)
        table = paper.table("T8")
        for column, values in (("total", theirs[:, 0]), (start, theirs[:, 1])):
            assert list(values) == [table.cells[row, column].value for row in table.rows]
    found = texts(figure)
    assert not clashes(found)
    assert not any("not run" in text.get_text() for text in found)
    pictures = [outputs.save_figure(section, "f", sizes.sizes_figure(section)) for _ in range(2)]
    assert pictures[0].png == pictures[1].png


def test_a_size_without_runs_is_said_and_breaks_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of("scaling", "lab", tmp_path, monkeypatch)
    fill(section, {arm: level for arm, level in LEVELS.items() if arm != "random-larger"})
    figure = sizes.sizes_figure(section)
    found = texts(figure)
    assert sum(text.get_text() == "not run" for text in found) == 1
    assert not clashes(found)
    assert np.isnan(line(figure, "random", WIDE)[:, 1]).tolist() == [False, False, True, False]
    assert not np.isnan(line(figure, "fpt", WIDE)).any()


def test_without_records_every_size_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of("scaling", "smoke", tmp_path, monkeypatch)
    found = texts(sizes.sizes_figure(section))
    assert sum(text.get_text() == "not run" for text in found) == len(section_arms(section)) > 1
    assert not any("the paper" in text.get_text() for text in found)  # it has no digits
    assert not clashes(found)


def test_verdicts_on_scaling_follow_the_data() -> None:
    judged = list(claims.CLAIMS["scaling"])
    assert set(LEVELS) == set(COMPARISONS["scaling"].arms)
    found = verdicts(judged, LEVELS, "cifar10")
    assert set(found) == {claim.id for claim in judged}
    assert set(found.values()) == {"supported"}
    turned = verdicts(judged, {arm: 1 - level for arm, level in LEVELS.items()}, "cifar10")
    assert set(turned.values()) == {"contradicted"}
    # What the paper claims of sizes it claims on cifar10.
    ours = {claim.id for claim in judged if claim.source == OURS}
    for task in ("mnist", "digits"):
        assert set(verdicts(judged, LEVELS, task)) == ours
