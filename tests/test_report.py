"""Tables, figures and pages from made-up records."""

import base64
import io
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
from made import ARMS, fill, make_record, make_study, spread
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from PIL import Image
from refusals import check_said, refusal

import fpt
from fpt.analysis.study import Study
from fpt.config import expand
from fpt.files import FptError
from fpt.paper import reader as paper
from fpt.report import (
    conclude,
    dot_plot,
    learning_curves,
    line_plot,
    paper_table,
    results_table,
    samples,
    show_figure,
    show_table,
)
from fpt.report.index import appendix_paragraphs
from fpt.report.page import markdown, notebook_page
from fpt.report.render import render
from fpt.report.results import cell_text
from fpt.report.style import looks
from fpt.report.table import effect_text, si
from fpt.sections import declared
from fpt.tasks import shown_tasks

TABLE = declared("transfer").comparisons[0]


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Accuracies on two tasks, steps on a third."""
    tasks = {"bit-xor": {"threshold": 0.5}, "mnist": {}, "digits": {}}
    made = make_study(tmp_path, monkeypatch, tasks=tasks)
    fill(made, spread)
    return made


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """With runs enough for intervals."""
    made = make_study(tmp_path, monkeypatch, seeds=5)
    fill(made, spread)
    return made


def numbers(study: Study) -> pd.DataFrame:
    return results_table(study, TABLE).numbers.set_index(["kind", "row", "task"])


def test_a_table_has_our_numbers_baselines_differences_and_the_papers(study: Study) -> None:
    table = results_table(study, TABLE)
    shown = table.shown
    assert list(shown.columns) == ["bit-xor (fitting)", "mnist", "digits"]
    assert shown.loc["FPT (frozen, language)", "mnist"] == "95.2 (3); paper 98"
    assert shown.loc["FPT (frozen, language)", "digits"] == "95.2 (3)"
    assert shown.loc["baseline: majority", "digits"] == "7.6"
    assert shown.loc["FPT (frozen, language) − Frozen random", "mnist"] == "+15.0; paper +6.3"
    assert shown.loc["FPT (frozen, language) − Frozen random", "bit-xor (fitting)"] == ""
    row = shown.loc["FPT (frozen, language) ÷ Frozen random"]
    assert re.fullmatch(r"×0\.\d\d", row["bit-xor (fitting)"])
    assert row["mnist"] == ""
    assert shown.loc["FPT (frozen, language)", "bit-xor (fitting)"].startswith("70")
    assert (
        "paper" not in shown.loc["FPT (frozen, language)", "bit-xor (fitting)"]
    )  # it has no steps
    tidy = numbers(study)
    assert tidy.loc[("arm", "FPT (frozen, language)", "mnist"), "mean"] == pytest.approx(95.2)
    assert tidy.loc[("difference", "FPT (frozen, language) − Fully trained", "digits"), "estimate"]
    assert "÷ is a ratio of steps" in table.caption
    assert "Fitting: training sees every input of the test set." in table.caption
    units = table.numbers.groupby(["kind", "fitting"])["unit"].unique().map(list)
    assert units.to_dict() == {
        ("arm", True): ["ln(steps)"], ("arm", False): ["percent"], ("baseline", False): ["percent"],
        ("difference", True): ["ln(steps)"], ("difference", False): ["points"],
        ("baseline", True): ["percent"],
    }  # fmt: skip
    assert "the one here `nano`." in table.caption
    assert "the one here <code>nano</code>." in table._repr_html_()
    assert "paper" not in shown.loc["LSTM (layer norm)", "mnist"]  # the paper's is the released one


def test_five_runs_have_intervals(wide: Study) -> None:
    table = results_table(wide, TABLE)
    assert table.shown.loc["FPT (frozen, language)", "digits"] == "95.4 ± 0.4 (5)"
    row = table.shown.loc["FPT (frozen, language) − Frozen random"]
    assert row["digits"] == "+15.0 [+14.5, +15.5]"
    assert "no interval of fewer" not in table.caption


def test_what_a_backbone_was_pretrained_on_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = ["fpt", "fpt-bits", "fpt-vit"]
    study = make_study(tmp_path, monkeypatch, "modality", arms, tasks=["bit-memory", "cifar10"])
    weights = {"bit-memory": "nano-bit-memory-0", "image": "vit-nano-cifar10-0"}
    profile = replace(study.profile, weights=study.profile.weights | weights)
    study = Study("modality", profile, tuple(expand(profile, "modality")))
    assert study.taught == {("fpt-bits", "bit-memory"), ("fpt-vit", "cifar10")}
    shown = results_table(study, declared("modality").comparisons[0])
    assert shown.shown.loc["Frozen, bit memory", "bit-memory"] == "– (0 of 3); paper 100 †"
    assert "†" not in shown.shown.loc["Frozen, bit memory", "cifar10"]
    assert "† A backbone was pretrained on this task" in shown.caption


def test_a_corpus_that_was_not_learned_is_marked(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"weight_scale": 1.0, "unigram_entropy": 5.0, "valid_loss": 5.1}
    monkeypatch.setattr("fpt.pretraining.metadata.read", lambda *names: found)
    shown = results_table(study, declared("transfer").comparisons[0])
    assert {"FPT (frozen, language) ‡", "Frozen random"} < set(shown.shown.index)
    assert "FPT (frozen, language) ‡ − Frozen random" in shown.shown.index
    assert "‡ Not learned: the held-out loss" in shown.caption


def test_a_table_is_the_same_as_markdown_and_html(study: Study) -> None:
    table = results_table(study, TABLE)
    cells = [line.split(" | ") for line in table.markdown().splitlines() if line.startswith("| F")]
    page = table._repr_html_()
    assert len(cells) == 3 + 6  # arms that begin so; ratios and differences of FPT
    for _, *values in cells:
        for value in values:
            assert f"<td>{value.rstrip(' |')}</td>" in page
    assert repr(table) == table.markdown()


def test_incomplete_diverged_and_censored_runs_are_said(study: Study) -> None:
    cell = {"runs": 2, "expected": 3, "diverged": 1, "censored": 0, "low": np.nan, "high": np.nan}
    assert cell_text({**cell, "mean": 97.04}, False) == "97.0 (2 of 3, 1 diverged)"
    whole = {**cell, "runs": 3, "diverged": 0, "censored": 1, "mean": np.log(400)}
    assert cell_text(whole, True) == "400 (3, 1 at the budget)"
    assert cell_text({**cell, "runs": 0, "diverged": 0, "mean": np.nan}, False) == "– (0 of 3)"
    effect = {"estimate": np.nan, "low": np.nan, "high": np.nan}
    assert effect_text(effect, True) == "–"
    run = next(run for run in study.runs if (run.task, run.arm) == ("digits", "random"))
    study.store.write(make_record(run, 0.5, "diverged"))
    shown = results_table(study, TABLE).shown["digits"]
    assert shown["Frozen random"] == "80.3 (2 of 3, 1 diverged)"
    assert shown["FPT (frozen, language) − Frozen random"] == "–"


@pytest.mark.parametrize("name", paper.tables())
def test_every_table_of_the_paper_is_shown_with_its_sources(name: str) -> None:
    table = paper_table(name)
    assert table.shown.shape == (len(paper.table(name).rows), len(paper.table(name).columns))
    tags = {tag for cell in paper.table(name).cells.values() for tag in cell.source.split(", ")}
    assert all(f"{tag} is {paper.sources()[tag]}" in table.notes for tag in tags)
    assert not re.search(r"\bT\d|Rothermel\d", table.title + table.caption + table.notes)


def test_numbers_have_prefixes() -> None:
    assert [si(value) for value in (0.5, 999, 12_345, 2.5e9)] == ["0.5", "999", "12.3 k", "2.5 G"]


def test_dots_are_where_the_numbers_are(study: Study) -> None:
    figure = dot_plot(study, TABLE)
    assert figure is not None
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["bit-xor (fitting)", "mnist", "digits"]
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "linear", "linear"]
    drawn = {round(float(x), 1) for line in figure.axes[1].lines for x in line.get_xdata()}
    assert {95.2, 80.2, 98.0} <= drawn  # two arms of ours, and the paper's FPT
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [
        "FPT (frozen, language)",
        "Frozen random",
        "Fully trained",
        "LSTM (layer norm)",
    ]
    (legend,) = figure.legends
    assert "the paper" in [text.get_text() for text in legend.get_texts()]


def test_an_interval_is_drawn_once_every_run_is_there(wide: Study) -> None:
    def intervals() -> list[int]:
        axes = dot_plot(wide, TABLE).axes[2]
        bars = [bar for bar in axes.collections if isinstance(bar, LineCollection)]
        return [len(line) for bar in bars for line in bar.get_segments()]

    assert intervals() == [2, 2, 2, 2]
    run = next(run for run in wide.runs if (run.task, run.arm) == ("digits", "random"))
    (wide.store.folder / f"{run.key}.json").unlink()
    assert sorted(intervals()) == [0, 2, 2, 2]


def test_a_panel_is_at_least_half_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_study(tmp_path, monkeypatch, arms=[*ARMS, "lstm-released"])
    fill(study, lambda run: 0.5 if run.task == "mnist" or run.arm == "fpt" else None)
    titles = [axes.get_title(loc="left") for axes in dot_plot(study, TABLE).axes]
    assert titles == ["mnist"]  # the others have one arm of five


def test_without_records_there_is_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = make_study(tmp_path, monkeypatch)
    assert dot_plot(empty, TABLE) is None
    assert learning_curves(empty) is None
    assert "nothing to draw" in repr(show_figure(empty, "results", None, "nothing"))
    assert results_table(empty, TABLE).shown.loc["Frozen random", "digits"] == "– (0 of 3)"


def test_learning_curves_have_a_line_per_arm_and_seed(study: Study) -> None:
    figure = learning_curves(study, ["fpt", "random"])
    assert figure is not None
    assert len(figure.axes) == 3
    assert len(figure.axes[1].lines) == 2 * (3 + 1) + 1  # seeds, means, the baseline


def test_lines_join_means_and_points_are_named() -> None:
    table = pd.DataFrame({"lr": [1, 1, 10, 10], "score": [1.0, 3.0, 5.0, 5.0], "arm": ["fpt"] * 4})
    figure = line_plot(table, "lr", "score", "arm", log="x")
    assert figure.axes[0].get_xscale() == "log"
    assert [list(figure.axes[0].lines[0].get_ydata())] == [[2.0, 5.0]]
    named = line_plot(table, "lr", "score", labels=list("abcd"))
    assert [text.get_text() for text in named.axes[0].texts] == list("abcd")
    boxes = [text.get_window_extent() for text in named.axes[0].texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["FPT (frozen, language)"]


def test_a_percentage_is_drawn_from_0_to_100() -> None:
    table = pd.DataFrame(
        {"layers": [1] * 5 + [4] * 5, "score": [2.0, 90, 90, 5, 4, 5, 99, 99, 3, 7]}
    )
    for name, limits in (("accuracy, %", (-3, 103)), ("points", None)):
        (axes,) = line_plot(table.assign(unit=name), "layers", "score", panel="unit").axes
        assert (axes.get_ylim() == limits) == (limits is not None)
        assert list(axes.get_xticks()) == [1, 4]


def test_looks_differ_and_stay() -> None:
    arms = ["fpt", "random", "full", *(f"fpt-{it}" for it in ("dyck", "unigram", "bigram"))]
    assert len(set(looks(arms).values())) == len(arms)
    assert looks(["random", "fpt"])["fpt"] == looks(arms)["fpt"]


def test_samples_show_an_example_or_how_to_fetch_it() -> None:
    panels = samples(shown_tasks(["bit-xor", "digits", "mnist"])).axes
    assert panels[0].get_title(loc="left").startswith("bit-xor: 10 tokens\nanswer: ")
    assert [text.get_text() for text in panels[2].texts] == ["Fetch it with\nfpt data mnist"]


def test_a_report_is_written_only_if_it_is_rendered(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, figure = results_table(study, TABLE), Figure((2, 1))
    show_table(study, table)
    picture = show_figure(study, "results", figure, "an 'alt' text")
    assert not (study.folder / "tables").exists()
    monkeypatch.setenv("FPT_RENDERS", "1")
    show_table(study, table)
    again = show_figure(study, "results", figure, "an 'alt' text")
    written = {path.relative_to(study.folder).as_posix() for path in study.folder.rglob("*.*")}
    assert {
        "tables/transfer/results.md", "tables/transfer/results.csv",
        "figures/transfer/results.png",
    } <= written  # fmt: skip
    png = (study.folder / "figures/transfer/results.png").read_bytes()
    assert base64.b64encode(png).decode() in picture._repr_html_() == again._repr_html_()
    assert 'alt="an &#x27;alt&#x27; text"' in picture._repr_html_()
    assert Image.open(io.BytesIO(png)).size == (220, 110)


def test_conclusions_say_how_much_and_in_which_unit(study: Study) -> None:
    assert "decide" not in conclude(study).text  # of `lab`, but without the runs of its claims
    made = Study(study.name, fpt.section("transfer", "smoke").profile, study.runs)
    made.__dict__["store"] = study.store
    said = conclude(made).text
    steps = r"random: on bit-xor \(fitting\), ×0\.\d+ the steps .*; "
    assert re.search(steps + r"on mnist, \+15\.0 points of accuracy .*; on digits, \+15\.0 ", said)
    assert "[" not in said  # three seeds
    assert "decide nothing" in said


def test_tasks_are_not_averaged(study: Study) -> None:
    """An effect and its opposite have no mean that says anything."""
    levels = {("fpt", "mnist"): 0.99, ("fpt", "digits"): 0.80}
    fill(study, lambda run: levels.get((run.arm, run.task), 0.95))
    said = conclude(study).text
    assert "on mnist, +4.0 points" in said
    assert "on digits, -15.0 points" in said


def test_the_appendix_says_how_runs_were_made(study: Study) -> None:
    text = "\n".join(appendix_paragraphs([study]))
    assert "36 of 36 runs are recorded on a test CPU (36): 0.4 processor hours, 72 TFLOPs" in text
    record = study.records()[study.keys[0]]
    without = {name: it for name, it in record.cost.items() if name != "process_seconds"}
    study.store.write(replace(record, cost=without))
    assert "(36): 72 TFLOPs" in "\n".join(appendix_paragraphs([study]))
    assert "[transfer](#transfer)" in text
    assert "| Frozen random | bit-xor (fitting) |" in text
    assert "| Frozen random | mnist | nano | random | 0.001 | 4 | 120 | 3 | 78.2 |" in text


def made_notebook(last: str = "import os; print(os.environ['FPT_RENDERS'])") -> Any:
    cell, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    return nbformat.v4.new_notebook(
        cells=[
            text("# Title\n\n**Is it so?**\n\nIn short."),
            cell('profile = "smoke"', metadata={"tags": ["parameters"]}),
            text("## Results"),
            cell("print(1 < 2)"),
            cell("print(profile + '!')", metadata={"tags": ["result"]}),
            cell(last),
            cell("raise SystemError", metadata={"tags": ["nbval-skip", "skip-execution"]}),
        ],
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        },
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr("fpt.files.NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr("fpt.report.render.REPORTS", tmp_path / "reports")
    nbformat.write(made_notebook(), tmp_path / "notebooks/01_transfer.ipynb")
    nbformat.write(made_notebook("1 / 0"), tmp_path / "notebooks/02_modality.ipynb")
    return tmp_path


def test_a_page_has_its_result_on_top_and_code_folded(project: Path) -> None:
    old = project / "reports/smoke/figures/transfer/old.png"
    old.parent.mkdir(parents=True)
    old.touch()
    page = render("transfer", "smoke").read_text()
    assert not old.exists()
    body = page[page.index("<body>") :]
    assert body.index("smoke!") < body.index('<h2 id="results">')
    assert "injected" not in body
    assert body.count("<details>") == 4
    assert '<a href="#results">Results</a>' in body
    assert '<a href="02_modality.html">next: modality</a>' in body
    assert "<pre>1\n</pre>" in body  # of FPT_RENDERS: what was executed wrote the report
    assert not re.search(r"(src|href)=\"https?:", page)
    before = (project / "reports/smoke/notebooks/01_transfer.ipynb").read_bytes()
    render("transfer", "smoke")
    assert (project / "reports/smoke/notebooks/01_transfer.ipynb").read_bytes() == before


def test_a_failing_cell_is_named_and_its_page_kept(project: Path) -> None:
    with pytest.raises(FptError, match=r"02_modality.ipynb failed in cell \[5\] with ZeroDivision"):
        render("modality", "smoke")
    page = (project / "reports/smoke/notebooks/02_modality.html").read_text()
    assert "ZeroDivisionError: division by zero" in page
    with pytest.raises(FptError, match="section: 'nonsense' is not known; allowed are transfer"):
        render("nonsense", "smoke")


def test_a_notebook_whose_kernel_dies_is_kept_up_to_there(project: Path) -> None:
    dying = made_notebook("import os; os.kill(os.getpid(), 9)")
    nbformat.write(dying, project / "notebooks/02_modality.ipynb")
    with pytest.raises(FptError, match=r"02_modality.ipynb failed because its kernel died"):
        render("modality", "smoke")
    assert "smoke!" in (project / "reports/smoke/notebooks/02_modality.html").read_text()


def test_a_notebook_of_an_older_format_is_rendered(project: Path) -> None:
    content = made_notebook()
    content.nbformat_minor = 4  # its cells have no ids
    for cell in content.cells:
        del cell["id"]
    nbformat.write(content, project / "notebooks/01_transfer.ipynb")
    assert "lab!" in render("transfer", "lab").read_text()


def test_a_folder_may_have_braces_in_its_name(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = project / "{scratch} 0%"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setattr("fpt.report.render.REPORTS", project / "{profile} of {0}" / "reports")
    assert "smoke!" in render("transfer", "smoke").read_text()


NO_CELLS = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *[(text, "is not valid JSON") for text in ("", "{", "[]")],
        *[(text, "is not a notebook") for text in ("{}", '{"cells": 3, "nbformat": 4}')],
        (NO_CELLS.replace("[]", '[{"cell_type": "code"}]'), "is not a notebook"),
        (NO_CELLS, "has none"),
    ],
)
def test_a_damaged_notebook_is_refused_before_anything_is_written(
    project: Path, content: str, said: str
) -> None:
    (project / "notebooks/01_transfer.ipynb").write_text(content)
    check_said(refusal(lambda: render("transfer", "smoke")), ["01_transfer.ipynb", said])
    assert not (project / "reports").exists()


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        ([], "has none"),
        ([1, 4], "has 'profile = \"smoke\"' and \"print(profile + '!')\""),
        ([0], "has '# Title'"),
        ([3], "has 'print(1 < 2)'"),
    ],
)
def test_a_notebook_with_misplaced_tags_is_refused_before_anything_is_written(
    project: Path, cells: list[int], shown: str
) -> None:
    content = made_notebook()
    for index, cell in enumerate(content.cells):
        cell.metadata["tags"] = ["parameters"] if index in cells else []
    nbformat.write(content, project / "notebooks/01_transfer.ipynb")
    check_said(refusal(lambda: render("transfer", "lab")), ["01_transfer.ipynb", "tags", shown])
    assert not (project / "reports").exists()


@pytest.mark.parametrize("place", ["later", "above the injected cell"])
def test_a_notebook_that_keeps_its_own_profile_writes_no_page(project: Path, place: str) -> None:
    content = made_notebook('profile = "smoke"' if place == "later" else "7")
    if place != "later":  # an executed copy in place of the source, its tags on the wrong cell
        content.cells[0].metadata["tags"] = ["injected-parameters"]
    nbformat.write(content, project / "notebooks/01_transfer.ipynb")
    page = project / "reports/lab/notebooks/01_transfer.html"
    page.parent.mkdir(parents=True)
    page.write_text("before")
    said = refusal(lambda: render("transfer", "lab"))
    check_said(said, ["01_transfer.ipynb", "profile 'smoke', not 'lab'"])
    assert [path.name for path in page.parent.iterdir()] == [page.name]
    assert page.read_text() == "before"


def test_a_table_in_markdown_scrolls_by_itself() -> None:
    cells = [nbformat.v4.new_markdown_cell("# T"), nbformat.v4.new_markdown_cell("|a|\n|-|\n|1|")]
    page = notebook_page(nbformat.v4.new_notebook(cells=cells), {})
    assert '<div class="table"><table>' in page
    assert '<span class="figure"><img src="a.png" alt="b"' in markdown("![b](a.png)")
