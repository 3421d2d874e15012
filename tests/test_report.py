"""Tables, figures and sentences of made-up records."""

import base64
import io
import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made import ARMS, fill, make_record, make_study, spread, tree
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from PIL import Image

import fpt
from fpt.config import expand
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
from fpt.report.results import cell_text
from fpt.report.table import effect_text
from fpt.sections import declared
from fpt.tasks import shown_tasks

TABLE = declared("transfer").comparisons[0]
FPT = "FPT (frozen, language)"
RANDOM = "Frozen random"


@pytest.fixture
def study(tmp_path):
    """Three seeds; accuracies on two tasks, steps on a third."""
    tasks = {"bit-xor": {"threshold": 0.5}, "mnist": {}, "digits": {}}
    study = make_study(tmp_path, tasks=tasks)
    fill(study, spread)
    return study


@pytest.fixture
def five(tmp_path):
    """Five seeds, which are enough for intervals."""
    study = make_study(tmp_path, seeds=5)
    fill(study, spread)
    return study


def test_a_table_has_our_numbers_baselines_differences_and_the_papers(study):
    table = results_table(study, TABLE)
    texts = table.texts.fillna("")
    steps = "bit-xor (fitting)"
    assert list(texts.columns) == [steps, "mnist", "digits"]
    assert list(texts.loc[FPT])[1:] == ["95.2 (3); paper 98", "95.2 (3)"]
    assert re.fullmatch(r"70 \(3\)", texts.loc[FPT, steps])  # the paper has no steps
    assert "paper" not in texts.loc["LSTM (layer norm)", "mnist"]  # the paper's is the released one
    assert texts.loc["baseline: majority", "digits"] == "7.6"
    difference = texts.loc[f"{FPT} − {RANDOM}"]
    ratio = texts.loc[f"{FPT} ÷ {RANDOM}"]
    assert [difference[steps], difference["mnist"]] == ["", "+15.0; paper +6.3"]
    assert re.fullmatch(r"×0\.\d\d", ratio[steps])
    assert ratio["mnist"] == ""

    numbers = table.numbers
    arm = numbers.query("kind == 'arm' and arm == 'fpt' and task == 'mnist'")
    assert arm["mean"].item() == pytest.approx(95.2)
    units = numbers.groupby(["kind", "fitting"])["unit"].unique().map(list)
    assert units.to_dict() == {
        ("arm", True): ["ln(steps)"], ("arm", False): ["percent"],
        ("baseline", True): ["percent"], ("baseline", False): ["percent"],
        ("difference", True): ["ln(steps)"], ("difference", False): ["points"],
    }  # fmt: skip


def test_what_a_backbone_was_pretrained_on_is_marked(tmp_path):
    arms = ["fpt", "fpt-bits", "fpt-vit"]
    study = make_study(tmp_path, "modality", arms, tasks=["bit-memory", "cifar10"])
    weights = {"bit-memory": "nano-bit-memory-0", "image": "vit-nano-cifar10-0"}
    profile = replace(study.profile, weights=study.profile.weights | weights)
    study = replace(study, profile=profile, runs=tuple(expand(profile, "modality")))
    assert study.taught == {("fpt-bits", "bit-memory"), ("fpt-vit", "cifar10")}
    table = results_table(study, declared("modality").comparisons[0])
    cells = table.texts.loc["Frozen, bit memory"]
    assert cells["bit-memory"] == "– (0 of 3); paper 100 †"
    assert "†" not in cells["cifar10"]
    assert "† A backbone" in table.caption


def test_a_corpus_that_was_not_learned_is_marked(study, monkeypatch):
    content = {"weight_scale": 1.0, "unigram_entropy": 5.0, "valid_loss": 5.1}
    monkeypatch.setattr("fpt.pretraining.metadata.read", lambda *names: content)
    table = results_table(study, TABLE)
    assert {f"{FPT} ‡", RANDOM, f"{FPT} ‡ − {RANDOM}"} < set(table.texts.index)
    assert "‡ Not learned" in table.caption


def test_a_table_is_the_same_as_markdown_and_html(study):
    table = results_table(study, TABLE)
    lines = [line for line in table.markdown().splitlines() if line.startswith("| F")]
    cells = [cell for line in lines for cell in line.strip("| ").split(" | ")[1:]]
    assert len(lines) == 3 + 6  # arms that begin so; ratios and differences of FPT
    page = table._repr_html_()
    assert all(f"<td>{cell}</td>" in page for cell in cells)
    assert "<code>nano</code>" in page
    assert repr(table) == table.markdown()


def test_incomplete_diverged_and_censored_runs_are_counted(study):
    cell = {"runs": 2, "expected": 3, "diverged": 1, "censored": 0, "low": np.nan, "high": np.nan}
    assert cell_text({**cell, "mean": 97.04}, "accuracy") == "97.0 (2 of 3, 1 diverged)"
    complete = {**cell, "runs": 3, "diverged": 0, "censored": 1, "mean": np.log(400)}
    assert cell_text(complete, "steps") == "400 (3, 1 at the budget)"
    assert cell_text({**cell, "runs": 0, "diverged": 0, "mean": np.nan}, "accuracy") == "– (0 of 3)"
    assert effect_text(dict.fromkeys(("estimate", "low", "high"), np.nan), True) == "–"
    run = next(run for run in study.runs if (run.task, run.arm) == ("digits", "random"))
    study.store.write(make_record(run, 0.5, "diverged"))
    texts = results_table(study, TABLE).texts["digits"]
    assert texts[RANDOM] == "80.3 (2 of 3, 1 diverged)"
    assert texts[f"{FPT} − {RANDOM}"] == "–"


def test_every_table_of_the_paper_is_shown_with_its_sources():
    for name, printed in paper.tables().items():
        table = paper_table(name)
        assert table.texts.shape == (len(printed.rows), len(printed.columns))
        tags = {tag for cell in printed.cells.values() for tag in cell.source.split(", ")}
        assert all(f"{tag} is {paper.sources()[tag]}" in table.notes for tag in tags)
        assert not re.search(r"\bT\d|Rothermel\d", table.title + table.caption + table.notes)


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def intervals(axes):
    """How many intervals are drawn."""
    bars = [bar for bar in axes.collections if isinstance(bar, LineCollection)]
    return sum(len(line) > 0 for bar in bars for line in bar.get_segments())


def test_dots_are_where_the_numbers_are(study):
    figure = dot_plot(study, TABLE)
    assert titles(figure) == ["bit-xor (fitting)", "mnist", "digits"]
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "linear", "linear"]
    drawn = {round(float(x), 1) for line in figure.axes[1].lines for x in line.get_xdata()}
    assert {95.2, 80.2, 98.0} <= drawn  # two arms of ours, and the paper's FPT
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [FPT, RANDOM, "Fully trained", "LSTM (layer norm)"]
    (legend,) = figure.legends
    assert "the paper" in [text.get_text() for text in legend.get_texts()]


def test_there_is_an_interval_of_five_runs_once_every_run_is_there(five):
    texts = results_table(five, TABLE).texts["digits"]
    assert texts[FPT] == "95.4 ± 0.4 (5)"
    assert texts[f"{FPT} − {RANDOM}"] == "+15.0 [+14.5, +15.5]"
    assert intervals(dot_plot(five, TABLE).axes[2]) == 4
    run = next(run for run in five.runs if (run.task, run.arm) == ("digits", "random"))
    five.store.path(run.key).unlink()
    assert intervals(dot_plot(five, TABLE).axes[2]) == 3


def test_a_panel_is_at_least_half_full(tmp_path):
    study = make_study(tmp_path, arms=[*ARMS, "lstm-released"])
    fill(study, lambda run: 0.5 if run.task == "mnist" or run.arm == "fpt" else None)
    assert titles(dot_plot(study, TABLE)) == ["mnist"]  # the others have one arm of five


def test_without_records_there_is_no_figure(tmp_path):
    empty = make_study(tmp_path)
    assert dot_plot(empty, TABLE) is None
    assert learning_curves(empty) is None
    assert repr(show_figure(empty, "results", None, "", "Nothing yet.")) == "Nothing yet."
    assert results_table(empty, TABLE).texts.loc[RANDOM, "digits"] == "– (0 of 3)"


def test_learning_curves_have_a_line_per_arm_and_seed(study):
    figure = learning_curves(study, ["fpt", "random"])
    assert [len(axes.lines) for axes in figure.axes] == [2 * (3 + 1) + 1] * 3  # with the baseline


def test_lines_join_means_and_points_are_named():
    table = pd.DataFrame({"lr": [1, 1, 10, 10], "score": [1.0, 3.0, 5.0, 5.0], "arm": ["fpt"] * 4})
    figure = line_plot(table, "lr", "score", "arm", log="x")
    assert figure.axes[0].get_xscale() == "log"
    assert list(figure.axes[0].lines[0].get_ydata()) == [2.0, 5.0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [FPT]
    texts = line_plot(table, "lr", "score", labels=list("abcd")).axes[0].texts
    assert [text.get_text() for text in texts] == list("abcd")
    boxes = [text.get_window_extent() for text in texts]
    assert not any(first.overlaps(second) for first, second in itertools.combinations(boxes, 2))


def test_samples_show_an_example_or_how_to_fetch_it():
    figure = samples(shown_tasks(["bit-xor", "digits", "mnist"]))
    assert titles(figure)[0].startswith("bit-xor: 10 tokens\nanswer: ")
    assert [text.get_text() for text in figure.axes[2].texts] == ["Fetch it with\nfpt data mnist"]


def test_a_report_is_written_only_if_it_is_rendered(study, tmp_path, monkeypatch):
    table = results_table(study, TABLE)
    staged = tmp_path / "staged"
    show_table(study, table)
    picture = show_figure(study, "results", Figure((2, 1)), "an 'alt' text")
    assert not staged.exists()
    monkeypatch.setenv("FPT_STAGED", str(staged))
    show_table(study, table)
    linked = show_figure(study, "results", Figure((2, 1)), "an 'alt' text")
    files = tree(staged)
    png = files.pop("figures/transfer/results.png")
    assert Image.open(io.BytesIO(png)).size == (220, 110)
    assert picture.source.endswith(base64.b64encode(png).decode())
    assert linked.source == "../figures/transfer/results.png"
    assert 'alt="an &#x27;alt&#x27; text"' in picture._repr_html_()
    assert files == {
        "tables/transfer/results.csv": table.csv().encode(),
        "tables/transfer/results.md": table.markdown().encode(),
    }


def test_conclusions_say_how_much_and_in_which_unit(study):
    assert "decide" not in conclude(study).text  # of `lab`, but without the runs of its claims
    smoke = replace(study, profile=fpt.section("transfer", "smoke").profile)
    smoke.__dict__["store"] = study.store
    text = conclude(smoke).text
    steps = r"random: on bit-xor \(fitting\), ×0\.\d+ the steps .*; "
    assert re.search(steps + r"on mnist, \+15\.0 points of accuracy .*; on digits, \+15\.0 ", text)
    assert "[" not in text  # three seeds
    assert "decide nothing" in text
    # An effect and its opposite have no mean that says anything.
    levels = {("fpt", "mnist"): 0.99, ("fpt", "digits"): 0.80}
    fill(study, lambda run: levels.get((run.arm, run.task), 0.95))
    assert re.search(r"on mnist, \+4\.0 points .*; on digits, -15\.0 ", conclude(study).text)


def test_the_appendix_says_how_runs_were_made(study):
    text = "\n".join(appendix_paragraphs([study]))
    assert (
        "36 of 36 runs are recorded on a test CPU (36): 0.4 processor hours, 7.2e+13 FLOPs" in text
    )
    assert f"| {RANDOM} | mnist | nano | random | 0.001 | 4 | 120 | 3 | 78.2 |" in text
    record = study.records()[study.keys[0]]
    cost = {name: value for name, value in record.cost.items() if name != "process_seconds"}
    study.store.write(replace(record, cost=cost))
    assert "(36): 7.2e+13 FLOPs" in "\n".join(appendix_paragraphs([study]))
