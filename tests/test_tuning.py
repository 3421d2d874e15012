"""Learning rates: which is chosen, what is shown of it, and what critics claim."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made import fill as fill_with
from made import make_record, make_section
from profiled import clashes, section_of, texts

from fpt import config
from fpt.analysis import tuning
from fpt.analysis.cells import cells
from fpt.config import PROFILES, Run
from fpt.files import PARAMS, FptError
from fpt.paper import reader as paper
from fpt.records import Record, Store
from fpt.report import outputs, protocol, rate_tables, tables
from fpt.report.rate_figures import rate_figure
from fpt.report.table import label
from fpt.sections import claims
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section

pytestmark = pytest.mark.usefixtures("matrix")

RATES, CONTROLS = COMPARISONS["learning_rate"], COMPARISONS["controls"]
GRID = (0.000003, 0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
TASKS = ("mnist", "cifar10-lra")
# Frozen bodies are best at 0.003 and hardly depend on it; whole ones are better, lower, and fall.
TOP = {"fpt": 0.85, "random": 0.75, "full-pretrained": 0.95, "full": 0.93}
BEST = {"fpt": 0.003, "random": 0.003, "full-pretrained": 0.0001, "full": 0.0003}
STEEP = {"fpt": 0.02, "random": 0.02, "full-pretrained": 0.08, "full": 0.15}


def level(run: Run) -> float:
    apart = abs(GRID.index(run.spec.lr) - GRID.index(BEST[run.arm]))
    return TOP[run.arm] - STEEP[run.arm] * apart + 0.0005 * (run.spec.seed % 10)


class Memory(Store):
    """Records that are not written to files: there are many of them here."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept: dict[str, Record] = {}

    def read(self, key: str, keep: bool = False) -> Record | None:
        return self.kept.get(key)

    def write(self, record: Record, parameters: bytes | None = None) -> Record:
        self.kept[record.key] = record
        return record


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    memory = Memory(tmp_path / "lab" / "records")
    monkeypatch.setattr(sys.modules["fpt.sections.section"], "store", lambda profile: memory)
    return section_of("learning_rate", "lab", tmp_path, monkeypatch).part(TASKS, RATES.arms)


def kept(section: Section) -> dict[str, Record]:
    assert isinstance(section.store, Memory)
    return section.store.kept


def lose(section: Section, run: Run) -> None:
    del kept(section)[run.spec.key]


def fill(section: Section, accuracy: Callable[[Run], float | None] = level) -> None:
    fill_with(section, accuracy)


def one(section: Section, arm: str, task: str) -> list[Run]:
    return [run for run in section.runs if (run.arm, run.task) == (arm, task)]


# ------------------------------------------------------------------------------------- the choice


@pytest.mark.parametrize("profile", PROFILES)
def test_trials_are_equal_and_have_the_papers_rate(profile: str) -> None:
    loaded = config.load(profile, PARAMS)  # the project's own
    runs = config.expand(loaded, "learning_rate")
    searched = {run.task for run in runs if run.search}
    assert searched
    for task in searched:
        mine = [run for run in runs if run.task == task]
        assert len({(run.spec.steps, run.spec.batch, run.spec.patience) for run in mine}) == 1
        trials = {
            arm: [(r.search, r.spec.lr, r.spec.seed) for r in mine if r.arm == arm]
            for arm in {run.arm for run in mine if run.search}
        }
        assert set(RATES.arms) <= set(trials)
        assert len({tuple(each) for each in trials.values()}) == 1
        each = next(iter(trials.values()))
        assert tuning.published_rate(task) in {lr for _, lr, _ in each}
        seeds = [{seed for search, _, seed in each if search is which} for which in (True, False)]
        assert seeds[0].isdisjoint(seeds[1])
        assert seeds[1] == set(loaded.seeds)


def test_the_papers_rate_is_its_own() -> None:
    assert tuning.published_rate("mnist") == tuning.published_rate("digits") == 0.001
    assert tuning.published_rate("homology") == 0.0001


def test_validation_of_other_seeds_chooses(section: Section) -> None:
    """Neither the test set nor the reported seeds, which are best elsewhere."""
    for run in section.runs:
        record = make_record(run, 0.9 if run.spec.lr == 0.01 else 0.5)
        record.metrics["valid_accuracy"] = 0.8 if run.search == (run.spec.lr == 0.0003) else 0.4
        section.store.write(record)
    assert {choice.rate for choice in tuning.choices(section).values()} == {0.0003}
    shown = tuning.tuned(section)
    assert {run.spec.lr for run in shown.runs} == {0.0003}
    assert {run.spec.seed for run in shown.runs} == {0, 1, 2}
    assert {cell.values for cell in cells(shown.frame()).values()} == {(0.5, 0.5, 0.5)}


def test_the_mean_over_seeds_counts(section: Section) -> None:
    """One seed of the search is best at 0.01, both together are at 0.001."""

    def accuracy(run: Run) -> float:
        lucky = run.spec.lr == 0.01 and run.spec.seed == 100
        return 0.9 if lucky else 0.8 if run.spec.lr == 0.001 else 0.2

    fill(section, accuracy)
    assert {choice.rate for choice in tuning.choices(section).values()} == {0.001}


def test_of_equal_rates_the_quickest_then_the_lowest(section: Section) -> None:
    fill(section, lambda run: 1.0)
    at = ("fpt", "mnist")
    assert tuning.choices(section)[at].rate == GRID[0]
    for run in one(section, *at):
        record = make_record(run, 1.0)
        record.metrics["best_step"] = {0.01: 10, 0.003: 20}.get(run.spec.lr, 120)
        section.store.write(record)
    choice = tuning.choices(section)[at]
    assert choice.rate == 0.01
    assert choice.edge is None  # within the grid it is as good


@pytest.mark.parametrize(
    ("best", "edge"), [(0.1, "highest"), (0.000003, "lowest"), (0.001, None), (0.03, None)]
)
def test_the_edge_of_the_grid_is_said(best: float, edge: str | None, section: Section) -> None:
    fill(section, lambda run: 0.9 if run.spec.lr == best else 0.5)
    assert {choice.edge for choice in tuning.choices(section).values()} == {edge}
    said = rate_tables.edges(section)
    assert said.startswith("8 of 8 best rates are chosen, from 3e-06 to 0.1.")
    assert ("Best at the edge" in said) == (edge is not None)
    assert ("Nowhere is the edge" in said) == (edge is None)
    if edge:
        assert f"{label('full')} on mnist ({best:g}, the {edge})" in said
        assert "add one to `lrs` of section `learning_rate`" in said


def test_an_arm_that_diverges_at_every_rate_has_no_best_one(section: Section) -> None:
    fill(section)
    for run in one(section, "full", "mnist"):
        if run.search:
            section.store.write(make_record(run, 0.1, "diverged"))
    choice = tuning.choices(section)["full", "mnist"]
    assert (choice.best, choice.edge, choice.diverged) == (None, None, True)
    assert f"**Diverged at every rate**, for some seed that chooses: {label('full')} on mnist." in (
        rate_tables.edges(section)
    )
    table = rate_tables.rate_table(section, RATES).shown
    row = table[table["task"] == "mnist"].loc[label("full")]
    assert row["best rate"] == "diverged at every rate"
    by_rate = rate_tables.accuracy_table(section, RATES).shown
    marks = by_rate[by_rate["task"] == "mnist"].loc[label("full")]
    assert not any("*" in str(text) for text in marks)


def test_unequal_trials_are_said(section: Section) -> None:
    assert "As many trials for every arm." in rate_tables._searched(section)
    gone = one(section, "full", "mnist")[0]
    fewer = replace(section, runs=tuple(run for run in section.runs if run.lr != gone.lr
        or (run.arm, run.task) != ("full", "mnist")))  # fmt: skip
    assert "Not every arm had the same trials on mnist." in rate_tables._searched(fewer)
    shorter = replace(section, runs=tuple(r for r in section.runs if r.task != "mnist"
        or r.lr != gone.lr))  # fmt: skip
    said = rate_tables._searched(shorter)
    assert (
        "3e-06, 1e-05, 3e-05, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1 (cifar10-lra)" in said
    )
    assert " 1e-05, 3e-05, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1 (mnist)" in said


def test_a_rate_at_which_a_run_diverged_is_not_chosen(section: Section) -> None:
    fill(section)
    for run in one(section, "full", "mnist"):
        if run.search and run.spec.lr == BEST["full"] and run.spec.seed == 101:
            section.store.write(make_record(run, 0.99, "diverged"))
    choice = tuning.choices(section)["full", "mnist"]
    assert choice.rate == 0.0001  # 0.001 is as good; the lower one is taken
    assert tuning.choices(section)["full", "cifar10-lra"].rate == BEST["full"]


def test_a_rate_waits_for_the_whole_search(section: Section) -> None:
    """Whatever is recorded at single rates, also of the reported seeds."""
    fill(section)
    lost = next(run for run in one(section, "fpt", "mnist") if run.search)
    lose(section, lost)
    assert tuning.choices(section)["fpt", "mnist"].rate is None
    (waiting,) = one(tuning.tuned(section), "fpt", "mnist")
    assert waiting.key == lost.key
    assert not cells(tuning.tuned(section).frame())["fpt", "mnist"].complete
    table = rate_tables.rate_table(section, RATES).shown
    row = table[table["task"] == "mnist"].loc[label("fpt")]
    assert row["best rate"] == "not chosen"
    assert row["tuned"].startswith("not run")
    assert row["tuning gives"] == "not run"
    assert row["at the paper's rate"].startswith("83.0 ±")
    assert rate_tables.edges(section).startswith("7 of 8 best rates are chosen")


def test_a_cell_waits_for_its_reported_runs(section: Section) -> None:
    fill(section)
    lost = next(
        run
        for run in one(section, "full", "mnist")
        if not run.search and run.spec.lr == BEST["full"]
    )
    lose(section, lost)
    table = rate_tables.rate_table(section, RATES).shown
    row = table[table["task"] == "mnist"].loc[label("full")]
    assert row["best rate"] == "0.0003"
    assert row["tuned"] == "93.1 (n = 2 of 3)"


def test_one_rate_needs_no_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make_section(tmp_path, monkeypatch)
    assert tuning.tuned(plain) is plain
    assert tuning.by_rate(plain) == {}
    assert rate_tables.edges(plain) == "No learning rate is searched."
    smoke = section_of("learning_rate", "smoke", tmp_path, monkeypatch)
    fill_with(smoke, lambda run: 0.5)
    choice = tuning.choices(smoke)["random-attention", "bit-xor-2"]
    assert (choice.rate, choice.edge) == (0.003, None)
    assert "random-attention" in {run.arm for run in tuning.tuned(smoke).runs}


def test_rates_are_never_averaged(section: Section) -> None:
    fill(section)
    with pytest.raises(FptError, match="'fpt' ran on 'mnist' at several learning rates"):
        cells(section.frame())
    for part in (tuning.tuned(section), tuning.published(section)):
        assert {cell.expected for cell in cells(part.frame()).values()} == {3}


# ------------------------------------------------------------------------------ tables and figure


def test_as_published_and_tuned(section: Section) -> None:
    fill(section)
    table = rate_tables.rate_table(section, RATES)
    row = table.shown[table.shown["task"] == "cifar10-lra"].loc[label("full-pretrained")]
    assert row["at the paper's rate"].startswith("79.0 ±")
    assert row["tuned"].startswith("95.0 ±")
    assert row["best rate"] == "0.0001"
    assert row["tuning gives"].startswith("+16.0 [+")
    cell = paper.cell("Rothermel1", "full-pretrained", "cifar10-lra")
    assert row["Rothermel et al."] == f"{cell.value:g} ± {cell.error:g}"
    numbers = table.numbers.query("of == 'tuned' and arm == 'fpt' and task == 'mnist'").iloc[0]
    assert (numbers["lr"], numbers["runs"]) == (0.003, 3)
    assert numbers["mean"] == pytest.approx(0.8505)
    notes = " ".join(table.notes)
    assert "of seeds 100, 101, not reported" in notes
    assert "ListOps loader is repaired" in notes


def test_what_is_tuned_at_the_papers_rate_gains_nothing(section: Section) -> None:
    fill(section, lambda run: 0.9 if run.spec.lr == 0.001 else 0.5)
    assert set(rate_tables.rate_table(section, RATES).shown["tuning gives"]) == {"0.0"}


def test_differences_turn_round_with_the_rate(section: Section) -> None:
    fill(section)
    table = rate_tables.rate_effects_table(section, RATES)
    row = table.shown[table.shown["task"] == "mnist"].loc["Full, from language minus FPT"]
    assert row["at the paper's rate"].startswith("−4.0 [")
    assert row["tuned"].startswith("+10.0 [")
    assert row["Rothermel et al."] == "+0.5"
    assert len(table.shown) == len(TASKS) * len(RATES.pairs)


def test_every_rate_has_its_accuracy_and_its_clipping(section: Section) -> None:
    fill(section)
    for run in one(section, "full", "mnist"):
        record = make_record(run, level(run))
        for point in record.curve:
            point["clipped"] = float(run.spec.lr > 0.001 or point["step"] <= 30)
        section.store.write(record)
    accuracy = rate_tables.accuracy_table(section, RATES).shown
    assert list(accuracy.columns) == ["task", *(f"{lr:g}" for lr in GRID)]
    row = accuracy[accuracy["task"] == "mnist"].loc[label("full")]
    assert row["0.0003"].startswith("93.0 ±")
    assert [column for column in row.index if row[column].endswith(rate_tables.BEST)] == ["0.0003"]
    clipped = rate_tables.clipping_table(section, RATES).shown
    row = clipped[clipped["task"] == "mnist"].loc[label("full")]
    assert row["0.0001"] == "25%"
    assert row["0.01"] == "100%"
    assert set(clipped[clipped["task"] == "cifar10-lra"]["0.01"]) == {"50%"}


def test_without_records_everything_is_not_run(section: Section) -> None:
    table = rate_tables.rate_table(section, RATES).shown
    assert set(table["tuned"]) == set(table["at the paper's rate"]) == {"not run"}
    assert set(rate_tables.clipping_table(section, RATES).shown["0.01"]) == {"not run"}
    effects = rate_tables.rate_effects_table(section, RATES).shown
    assert set(effects["tuned"]) == {"not run"}
    assert rate_tables.edges(section).startswith("0 of 8")
    assert {f.verdict.label for f in claims.section_findings(section)} == {"not run"}


@pytest.mark.parametrize("present", [(), TASKS[:1], TASKS])
def test_the_figure_marks_the_papers_rate(present: tuple[str, ...], section: Section) -> None:
    fill(section, lambda run: level(run) if run.task in present else None)
    figure = rate_figure(section, RATES)
    found = texts(figure)
    assert not clashes(found)
    said = [text.get_text() for text in found]
    assert said.count("not run") == 2 - len(present)
    counts = f"{30 * len(present)} of 60 runs" if present else "not run"
    assert f"{label('random')}, {counts}" in said
    for axes, task in zip(figure.axes, TASKS, strict=True):
        assert axes.get_xscale() == "log"
        upright = [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1]
        assert tuning.published_rate(task) in upright
        rings = [line.get_xdata()[0] for line in axes.lines if line.get_markersize() == 11]
        expected = sorted(BEST.values()) if task in present else []
        assert sorted(rings) == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("arms", [["full"], ["full", "full-pretrained"], list(RATES.arms)])
def test_a_diverged_rate_is_said(arms: list[str], section: Section) -> None:
    for run in section.runs:
        gone = run.arm in arms and run.spec.lr == 0.01
        section.store.write(make_record(run, level(run), "diverged" if gone else "done"))
    found = texts(rate_figure(section, RATES))
    assert [text.get_text() for text in found].count("diverged") == len(arms) * len(TASKS)
    assert not clashes(found)


def test_outputs_are_of_the_chosen_rate(section: Section, rendering: None) -> None:
    fill(section)
    outputs.save_numbers(section)
    written = (section.folder / "curves" / "learning_rate.csv").read_text().splitlines()
    assert len(written) == 1 + 8 * 3 * 12
    assert tables.cost_table(section).shown["runs"].tolist() == ["100 of 100"] * 4


def test_the_protocol_names_the_grid(section: Section) -> None:
    shown = protocol.protocol_table(section)
    assert set(shown.shown["lr"]) == {"10 from 3e-06 to 0.1"}
    assert set(shown.shown["seeds"]) == {"3 and 2"}
    assert any("choose a learning rate" in note for note in shown.notes)
    assert len(shown.numbers) == len(GRID) * len(TASKS) * len(RATES.arms)
    title = protocol.paper_table("Rothermel1").title
    assert title.startswith("Rothermel et al. 2021")


def test_controls_stand_beside_tuned_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = section_of("learning_rate", "smoke", tmp_path, monkeypatch)
    fill_with(section, lambda run: 0.5)
    table = rate_tables.rate_table(section, CONTROLS)
    assert list(table.shown.index) == [label(arm) for arm in CONTROLS.arms]
    assert "Rothermel et al." not in table.shown
    assert table.shown.loc[label("random-attention"), "best rate"] == "0.003, not searched"
    assert any(note.startswith("At one rate only") for note in table.notes)
    shown = tables.results_table(tuning.tuned(section), CONTROLS).shown
    assert shown.loc[label("full-fixed"), "bit-xor-2 (fitting)"] == "50.0 (2)"


# ----------------------------------------------------------------------------------------- claims


def verdicts(section: Section, task: str) -> dict[str, str]:
    """Of the claims whose arms the section has."""
    there = {run.arm for run in section.runs}
    found = [f for f in claims.section_findings(section) if there.issuperset(f.claim.arms)]
    return {f.claim.id: f.verdict.label for f in found if f.task == task}


def test_verdicts_on_the_rates_follow_the_data(section: Section) -> None:
    fill(section)
    found = verdicts(section, "cifar10-lra")
    assert set(found) == {
        "frozen-language-over-random", "whole-over-frozen-language", "whole-over-frozen-random",
        "scratch-over-frozen-language", "whole-language-over-scratch",
        "frozen-ahead-of-full-pretrained-as-published", "frozen-ahead-of-full-as-published",
        "full-pretrained-gains-more", "full-gains-more", "full-pretrained-falls-above",
        "full-falls-above",
    }  # fmt: skip
    assert set(found.values()) == {"supported"}
    found = verdicts(section, "mnist")
    assert found["whole-language-matches-scratch"] == "supported"
    assert "frozen-ahead-of-full-as-published" not in found


def test_verdicts_turn_round_with_the_data(section: Section) -> None:
    fill(section, lambda run: 1.4 - level(run) - 0.4 * (run.arm in ("fpt",)))
    # What was worst is best, and a frozen language body is behind all others at every rate.
    found = verdicts(section, "cifar10-lra")
    assert found["frozen-language-over-random"] == "contradicted"
    assert found["frozen-ahead-of-full-as-published"] == "contradicted"
    assert found["full-falls-above"] == "contradicted"


def test_a_rate_that_needs_no_tuning_gains_nothing(section: Section) -> None:
    fill(section, lambda run: 0.9 if run.spec.lr == 0.001 else 0.5)
    assert verdicts(section, "mnist")["full-gains-more"] == "inconclusive"


def test_verdicts_on_controls_follow_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of("learning_rate", "smoke", tmp_path, monkeypatch)
    weak = (*CONTROLS.arms[2:5], "full-fixed")

    def judged(of: float) -> dict[str, str]:
        def accuracy(run: Run) -> float:
            value = of if run.arm in weak else 0.9
            return value + 0.001 * (run.spec.seed % 10)

        fill_with(section, accuracy)
        found = verdicts(section, "bit-xor-2")
        return {name: found[name] for name in found if "enough" in name or "random-nets" in name}

    assert set(judged(0.2).values()) == {"contradicted", "supported"}
    assert {name for name, it in judged(0.2).items() if it == "contradicted"} == {
        "no-transformer-last-is-enough", "no-transformer-mean-is-enough",
        "random-attention-is-enough", "fixed-attention-is-enough",
    }  # fmt: skip
