"""Training beside test accuracy: fits, their tables, their figure, their claims."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made import make_record, make_section
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from scipy import stats

from fpt.analysis.cells import Cell
from fpt.analysis.claim import Evidence
from fpt.analysis.fit import Fit, fits, whole_task
from fpt.paper import reader as paper
from fpt.report import outputs
from fpt.report.overfitting import by_size, fit_table, gaps_table, printed, sizes_figure
from fpt.report.style import styled
from fpt.report.table import label
from fpt.sections import claims
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section

ARMS = COMPARISONS["overfitting"].arms
PARTS = {
    f"cifar10-lra-{size}": {"name": "cifar10-lra", "options": {"train": size}}
    for size in (10_000, 100, 1_000)
}
TASKS = {"cifar10-lra": {}, **PARTS}  # not in order of size
LEVEL = {"fpt": (0.5, 0.51), "random": (0.45, 0.45), "full": (0.4, 0.9)}
LEVEL |= {"vanilla": (0.52, 0.7), "linformer": (0.48, 0.97)}


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    return make_section(tmp_path, monkeypatch, "overfitting", ARMS, tasks=TASKS)


def fill(section: Section, keep: Callable[[str], bool] = lambda task: True) -> None:
    for run in section.runs:
        test, train = LEVEL[run.arm]
        if keep(run.task):
            seed = 0.001 * run.spec.seed
            section.store.write(make_record(run, test + seed, train=train - seed))


def test_a_gap_is_of_the_same_runs() -> None:
    test = Cell("fpt", "mnist", (0.90, 0.92, 0.91), 3)
    train = replace(test, values=(0.95, 0.97, 0.955))
    gap = Fit(train, test).gap()
    assert gap is not None
    assert gap.effect == pytest.approx((0.05 + 0.05 + 0.045) / 3)
    assert gap.p == pytest.approx(stats.ttest_rel(train.values, test.values).pvalue)
    assert Fit(replace(train, values=()), replace(test, values=())).gap() is None


def test_fits_are_of_the_recorded_runs(section: Section) -> None:
    fill(section)
    first, second, third = [r for r in section.runs if (r.arm, r.task) == ("fpt", "cifar10-lra")]
    section.store.write(make_record(first, 0.1, "diverged"))
    older = make_record(second, 0.2)
    del older.metrics["train_accuracy"]
    section.store.write(older)
    found = fits(section)
    it = found["fpt", "cifar10-lra"]
    assert it.test.values == pytest.approx((0.502,))
    assert it.train.values == pytest.approx((0.508,))
    assert (it.test.diverged, it.test.expected) == (1, 3)
    assert fit_table(section).shown.loc[label("fpt"), "test"] == "50.2 (n = 1 of 3, 1 diverged)"


def test_tasks_are_known_by_their_size(section: Section) -> None:
    assert list(by_size(section).values()) == [100, 1_000, 10_000, 45_000]
    assert whole_task("cifar10-lra-100") == "cifar10-lra"
    assert whole_task("cifar10-lra") is None
    assert whole_task("digits") is None


def test_ours_stands_beside_table_7(section: Section) -> None:
    fill(section)
    shown = fit_table(section).shown
    assert set(shown["task"]) == {"cifar10-lra"}
    for arm, row in (
        ("fpt", "fpt"),
        ("vanilla", "vanilla-transformer"),
        ("linformer", "linformer"),
    ):
        test, train = (paper.cell("T7", row, column).value for column in ("test", "train"))
        assert shown.loc[label(arm), "paper: test"] == f"{test:g}"
        assert shown.loc[label(arm), "paper: training"] == f"{train:g}"
        assert float(shown.loc[label(arm), "paper: gap"].replace("−", "-")) == pytest.approx(
            train - test
        )
    assert shown.loc[label("full"), "paper: test"] == "–"
    assert shown.loc[label("vanilla"), "test"].startswith("52.1 ±")
    assert shown.loc[label("vanilla"), "training"].startswith("69.9 ±")
    assert shown.loc[label("vanilla"), "gap"].startswith("+17.8 [+")
    assert printed("fpt", "cifar10-lra-100", "test") is None
    assert any("not comparable" in note for note in fit_table(section).notes)


def test_gaps_by_size(section: Section) -> None:
    fill(section, lambda task: task != "cifar10-lra-100")
    table = gaps_table(section)
    assert list(table.shown.columns) == [
        f"{n} examples" for n in ("100", "1,000", "10,000", "45,000")
    ]
    assert table.shown.loc[f"{label('full')}: training"].tolist()[0] == "not run"
    assert table.shown.loc[f"{label('full')}: gap"].tolist()[0] == "–"
    assert table.shown.loc[f"{label('full')}: gap"].tolist()[1].startswith("+49.8 [")
    row = table.numbers.query("arm == 'full' and task == 'cifar10-lra-1000'").iloc[0]
    assert (row["gap"], row["examples"], row["runs"]) == (pytest.approx(0.498), 1_000, 3)


@pytest.mark.parametrize("present", [0, 3, 4])
def test_the_figure_says_what_is_not_run(section: Section, present: int) -> None:
    keep = [task for task in by_size(section)][4 - present :]
    fill(section, lambda task: task in keep)
    figure = sizes_figure(section)
    with styled():
        FigureCanvasAgg(figure).draw()
    texts = [text for text in figure.findobj(Text) if text.get_visible()]
    said = "not run" if present == 0 else f"{3 * present} of 12 runs"
    assert {f"{label(arm)}, {said}" for arm in ARMS} <= {text.get_text() for text in texts}
    boxes = [text.get_window_extent().shrunk(0.7, 0.8) for text in texts if text.get_text()]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    for axes in figure.axes:
        assert axes.get_xscale() == "log"
        assert [t.get_text() for t in axes.get_xticklabels()] == [
            "100",
            "1,000",
            "10,000",
            "45,000",
        ]
    assert outputs.save_figure(section, "sizes", figure).png.startswith(b"\x89PNG")


def evidence(levels: dict[str, dict[str, tuple[float, float]]]) -> Evidence:
    """Of test and training accuracies by task and arm."""
    found = {
        (arm, task): Fit(
            *(
                Cell(arm, task, tuple(level + d for d in (-shift, 0, shift)), 3)
                for level, shift in ((train, 0.001), (test, 0.002))
            )
        )
        for task, arms in levels.items()
        for arm, (test, train) in arms.items()
    }
    return Evidence({at: it.test for at, it in found.items()}, dict.fromkeys(levels), found)


def labels(levels: dict[str, dict[str, tuple[float, float]]], task: str) -> dict[str, str]:
    found = claims.examine(claims.CLAIMS["overfitting"], evidence(levels), [task])
    return {finding.claim.id: finding.verdict.label for finding in found}


def test_verdicts_on_all_examples_follow_the_data() -> None:
    found = labels({"digits": LEVEL}, "digits")
    assert set(found) == {
        "no-gap", "vanilla-overfits", "linformer-overfits", "full-overfits", "matches-vanilla",
        "matches-linformer",
    }  # fmt: skip
    assert set(found.values()) == {"supported"}
    memorised = {arm: (test, test + 0.01) for arm, (test, _) in LEVEL.items()} | {"fpt": (0.6, 0.9)}
    assert set(labels({"digits": memorised}, "digits").values()) == {"contradicted"}
    assert set(labels({"digits": {}}, "digits").values()) == {"not run"}


def test_verdicts_on_few_examples_follow_the_data() -> None:
    few = {"fpt": (0.4, 1.0), "random": (0.35, 1.0), "full": (0.2, 1.0)}
    many = {"fpt": (0.6, 1.0), "random": (0.5, 1.0), "full": (0.7, 1.0)}
    found = labels({"digits-100": few, "digits": many}, "digits-100")
    ids = {f"{arm}-{what}" for arm in ("fpt", "random") for what in ("leads-on-few", "lead-fades")}
    assert set(found) == ids
    assert set(found.values()) == {"supported"}
    found = labels({"digits-100": many, "digits": few}, "digits-100")
    assert set(found.values()) == {"contradicted"}
    found = labels({"digits-100": few, "digits": {}}, "digits-100")
    assert {name: label for name, label in found.items() if "fades" in name} == dict.fromkeys(
        ("fpt-lead-fades", "random-lead-fades"), "not run"
    )
