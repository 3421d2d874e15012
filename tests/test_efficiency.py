"""Steps, speed-ups and the output net alone, on made-up learning curves."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import profiled
import pytest
from made import make_record, make_section
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from fpt.analysis import arrivals
from fpt.config import Run
from fpt.paper import reader as paper
from fpt.records import Record
from fpt.report import cached, efficiency, output_only, outputs
from fpt.report import efficiency_figures as drawn
from fpt.report.style import styled
from fpt.report.table import label
from fpt.report.tables import cost_table, results_table
from fpt.sections import claims
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section

ARMS = ("fpt", "random", "full", "output", "probe", "random-output", "random-probe")
# Steps after which half of the way is gone, and the accuracy at the end.
PACE = {"fpt": 8, "random": 20, "full": 9, "output": 30, "random-output": 30}
ENDS = {"fpt": 0.95, "random": 0.80, "full": 0.95, "output": 0.5, "random-output": 0.45}
ENDS |= {"probe": 0.7, "random-probe": 0.6}
FIGURES: list[Callable[[Section], Figure]] = [drawn.steps, drawn.speedups, drawn.budgets]


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rendering: None) -> Section:
    return make_section(tmp_path, monkeypatch, "efficiency", ARMS)


def made(run: Run, pace: float | None = None, end: float | None = None) -> Record:
    """A record whose curve closes half of what is left every `pace` steps, from 10%; a probe's has
    a point per penalty."""
    end = ENDS[run.arm] + 0.001 * run.spec.seed if end is None else end
    record = make_record(run, end)
    if run.arm in cached.PROBES:
        curve = [{"step": 50 * i, "valid_accuracy": end - 0.1 / i} for i in (1, 2)]
        epochs = {"first_epoch_seconds": 4.0, "cached_epoch_seconds": 0.005 + 0.001 * run.spec.seed}
        cost = record.cost | epochs | {"epochs": 300}
        metrics = record.metrics | {"valid_accuracy": end}
        return replace(record, curve=curve, cost=cost, metrics=metrics)
    pace = (pace or PACE[run.arm]) * (1 + 0.1 * run.spec.seed)
    curve = [
        point | {"valid_accuracy": end - (end - 0.1) * 0.5 ** (point["step"] / pace)}
        for point in record.curve
    ]
    return replace(record, curve=curve)


def fill(section: Section, without: tuple[str, ...] = ()) -> None:
    for run in section.runs:
        if run.arm not in without:
            section.store.write(made(run))


def by(section: Section, arm: str, task: str) -> list[Run]:
    return [run for run in section.runs if (run.arm, run.task) == (arm, task)]


# ------------------------------------------------------------------------------------------- steps


def test_a_plateau_that_stopped_a_run_counts(section: Section) -> None:
    run = by(section, "random", "digits")[0]
    record = made(run)
    short = replace(record, curve=record.curve[:6], metrics=record.metrics | {"steps": 60})
    whole = arrivals.arrival(replace(short, metrics=record.metrics))
    assert (whole.step, whole.censored) == (60, True)  # it still rises
    stopped = arrivals.arrival(short)
    assert not stopped.censored
    # A level above its plateau it never reaches, however large the budget was.
    assert arrivals.arrival(short, 0.9).step == math.inf
    assert arrivals.arrival(record, 0.9).step == 120
    assert arrivals.arrival(replace(record, status="diverged")).step == math.inf
    assert arrivals.arrival(replace(record, curve=record.curve[:1])).censored
    few = replace(short, curve=record.curve[:4], metrics=record.metrics | {"steps": 40})
    assert not arrivals.arrival(few).censored  # smaller windows where looks are few


def test_a_race_has_one_target(section: Section) -> None:
    fill(section)
    tasks = efficiency.section_tasks(section)
    found = arrivals.race(arrivals.histories(section), tasks["bit-xor"], "bit-xor", "random", "fpt")
    assert found is not None
    # Where the worst run of random ends: every run gets there.
    ends = [arrivals.end(made(run)) for run in by(section, "random", "bit-xor")]
    assert found.target == min(ends) < max(ends)
    assert not any(run.censored for run in (*found.slow, *found.fast))
    assert not found.at_floor
    assert found.speedup.least == found.speedup.most > 1.5
    assert found.speedup.low < found.speedup.least < found.speedup.high
    # With the arms exchanged the ratio is turned around.
    back = arrivals.race(arrivals.histories(section), tasks["bit-xor"], "bit-xor", "fpt", "random")
    assert back is not None
    assert back.speedup.least == pytest.approx(1 / found.speedup.least)
    assert arrivals.race({}, tasks["bit-xor"], "bit-xor", "fpt", "random") is None


def test_an_arm_that_learns_nothing_makes_a_race_to_the_floor(section: Section) -> None:
    fill(section, without=("random",))
    for run in by(section, "random", "bit-xor"):
        section.store.write(made(run, end=0.5))
    table = efficiency.speedup_table(section)
    shown = table.shown.loc["FPT over Frozen random"]
    assert shown["bit-xor (fitting)"].startswith("not learned (")
    assert shown["mnist"] == "not run"
    row = table.numbers.query("task == 'bit-xor' and slow == 'random'").iloc[0]
    assert row["at_floor"]
    assert math.isnan(row["least"])
    assert "not learned" in texts(section, drawn.speedups(section))
    found = {(f.claim.id, f.task): f for f in claims.section_findings(section)}
    sooner = found["fpt-sooner-than-random", "bit-xor"]
    assert sooner.measured.effect is None
    assert sooner.verdict.label == "inconclusive"
    assert "at the trivial baseline" in claims.in_words([sooner], "lab")
    assert found["fpt-sooner-than-full", "bit-xor"].measured.effect is not None


def test_steps_stand_beside_the_papers(section: Section) -> None:
    fill(section)
    for run in by(section, "random", "mnist"):
        section.store.write(made(run, pace=10))
    table = efficiency.steps_table(section)
    row = table.numbers.query("of == 'ours' and row == 'random' and task == 'mnist'").iloc[0]
    text = table.shown.loc[label("random"), "mnist"]
    assert text.startswith(f"{row['median']:.0f} [{row['low']:.0f}, {row['high']:.0f}], 3 runs (")
    assert f"{100 * row['end']:.1f}%" in text
    printed = paper.cell("T6", "fpt", "mnist").value
    assert table.shown.loc["paper, T6: fpt", "mnist"] == f"{printed:,.0f}"
    assert label("probe") not in table.shown.index


def test_an_arm_that_a_task_does_not_plan_has_a_dash(section: Section) -> None:
    runs = [run for run in section.runs if (run.arm, run.task) != ("random", "digits")]
    section = replace(section, runs=tuple(runs))
    fill(section)
    shown = efficiency.steps_table(section).shown["digits"]
    assert shown[label("random")] == "–"
    assert efficiency.speedup_table(section).shown["digits"]["FPT over Frozen random"] == "–"
    assert "not run" not in texts(section, drawn.steps(section))


def test_what_did_not_converge_is_a_bound(section: Section) -> None:
    fill(section)
    for run in by(section, "random", "mnist"):
        section.store.write(made(run, pace=200))
    shown = efficiency.steps_table(section).shown
    assert shown.loc[label("random"), "mnist"].startswith("> 120, 3 runs, 3 censored")
    for run in by(section, "random", "mnist"):
        section.store.write(replace(made(run), status="diverged"))
    assert efficiency.steps_table(section).shown.loc[label("random"), "mnist"].startswith("never")
    races = efficiency.speedup_table(section).shown
    assert races.loc["FPT over Frozen random", "mnist"] == "diverged"
    for run in by(section, "full", "mnist")[:2]:
        section.store.write(made(run, end=0.3))
    found = arrivals.histories(section)
    runs = efficiency.arrived(found["full", "mnist"], 0.9)
    assert efficiency.steps_text(runs, 3).startswith("> 120")
    section.store.path(by(section, "full", "mnist")[0].spec.key).unlink()
    assert efficiency.steps_table(section).shown.loc[label("full"), "mnist"] == "not run"


def test_the_first_look_is_no_exact_step(section: Section) -> None:
    fill(section)
    for run in by(section, "fpt", "mnist"):
        section.store.write(made(run, pace=0.5))
    assert efficiency.steps_table(section).shown.loc[label("fpt"), "mnist"].startswith("≤ 30 [")
    assert (
        efficiency.speedup_table(section)
        .shown.loc["FPT over Frozen random", "mnist"]
        .startswith("≥ ")
    )


def test_pairs_at_two_learning_rates_are_named(
    section: Section,
) -> None:
    assert not any("learning rate" in note for note in efficiency.speedup_table(section).notes)
    runs = tuple(
        replace(run, spec=replace(run.spec, lr=0.1)) if run.arm == "full" else run
        for run in section.runs
    )
    note = efficiency.speedup_table(replace(section, runs=runs)).notes[-1]
    full = label("full")
    assert note == (
        f"Compared at different learning rates: {full} 0.1 and FPT 0.001; "
        f"{full} 0.1 and {label('random')} 0.001."
    )


def test_the_cost_of_a_token_is_by_hand(section: Section) -> None:
    numbers = efficiency.token_table(section).numbers.set_index("arm")["flops"]
    matrices = 4 * 12 * 128**2
    assert numbers["output"] == numbers["probe"] == 2 * matrices
    assert numbers["fpt"] == numbers["random"] == 4 * matrices
    assert numbers["full"] == 6 * matrices


# ------------------------------------------------------------------------------------- output only


def test_a_speed_up_per_epoch_is_a_ratio_of_seconds(section: Section) -> None:
    fill(section, without=("random-probe",))
    table = output_only.epochs_table(section)
    assert table.shown.loc[f"mnist: {label('random-probe')}", "speed-up"] == "not run"
    assert "s" not in "".join(table.shown["speed-up"]).replace("not run", "")
    row = table.numbers.query("arm == 'probe' and task == 'mnist'").iloc[0]
    assert (row["least"], row["most"]) == pytest.approx((4 / 0.007, 4 / 0.005))
    assert row["speedup"] == pytest.approx(4 / 0.006)
    assert "667×" in table.shown.loc[f"mnist: {label('probe')}", "speed-up"]
    spec = by(section, "probe", "bit-xor")[0].spec
    # 10 tokens through 4 layers of 12 width^2; scores and values; 5 positions of 1 bit are read
    forward = 10 * (2 * 4 * 12 * 128**2 + 4 * 4 * 128 * 10)
    assert cached.flops_ratio(spec) == pytest.approx(forward / (4 * 128 * 2 * 5))


def test_the_papers_two_answers() -> None:
    assert cached.printed("probe", "listops") == {"T10": 32.8, "T12": 33, "T15": 15}
    assert cached.printed("probe", "cifar10-lra") == {"T10": 24.7, "T15": 17}
    assert cached.printed("random-probe", "listops") == {"T12": 17, "T20": 17}
    assert cached.printed("probe", "digits") == {}
    assert cached.printed_speedup() == (500, 2000)


def test_conflict_e_is_two_budgets_side_by_side(section: Section) -> None:
    fill(section)
    table = output_only.conflict_table(section)
    row = table.shown.loc["mnist, language"]
    assert row["the paper"] == "T15, T18 or T19: 23"
    assert row["on a budget"].startswith("50.1 ±")
    assert row["converged"].startswith("70.1 ±")
    assert row["converged minus budget"].startswith("+20.0")
    assert row["steps to the converged accuracy"].startswith("> 120, 3 runs, 3 censored")
    numbers = table.numbers.query("task == 'mnist' and body == 'random'").iloc[0]
    assert numbers["effect"] == pytest.approx(0.15)


def test_without_records_nothing_is_claimed(section: Section) -> None:
    for table in (efficiency.steps_table, efficiency.speedup_table, output_only.epochs_table):
        assert "not run" in table(section).shown.iloc[0, 0]
    assert output_only.conflict_table(section).shown.iloc[0]["converged"] == "not run"
    assert {f.verdict.label for f in claims.section_findings(section)} == {"not run"}
    for draw in FIGURES:
        assert "not run" in texts(section, draw(section))


def test_records_of_all_arms_have_a_cost(section: Section) -> None:
    fill(section)
    assert set(cost_table(section).shown["runs"]) == {"9 of 9"}
    results = results_table(section, COMPARISONS["output_only"]).shown
    assert results.loc[label("probe"), "mnist"].startswith("70.1")


# -------------------------------------------------------------------------------- claims, pictures


def verdicts(section: Section) -> dict[tuple[str, str], str]:
    return {(f.claim.id, f.task): f.verdict.label for f in claims.section_findings(section)}


def test_verdicts_follow_the_data(section: Section) -> None:
    fill(section)
    for run in section.runs:
        if run.arm == "random":
            section.store.write(made(run, pace=30))
    found = verdicts(section)
    assert found["fpt-sooner-than-random", "digits"] == "supported"
    assert found["language-features", "mnist"] == "supported"
    # The paper has no number of both arms on these tasks.
    assert not {"fpt-over-probe", "budget-decides", "cached-epochs"} & {claim for claim, _ in found}
    for run in section.runs:
        turned = {"fpt": 60.0, "random": 5.0}.get(run.arm)
        end = {"probe": 0.4, "random-probe": 0.5}.get(run.arm)
        section.store.write(made(run, turned, end and end + 0.001 * run.spec.seed))
    found = verdicts(section)
    for claim in ("fpt-sooner-than-random", "language-features"):
        assert found[claim, "digits"] == "contradicted", claim


def test_verdicts_on_the_papers_tasks_follow_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make_section(tmp_path, monkeypatch, "efficiency", ARMS, tasks=["listops"])
    fill(section)
    found = verdicts(section)
    for claim in ("fpt-over-probe", "budget-decides"):
        assert found[claim, "listops"] == "supported", claim
    # 1/667 on average against 1/500, with three runs that differ.
    assert found["cached-epochs", "listops"] == "inconclusive"
    for run in section.runs:
        end = {"probe": 0.4, "fpt": 0.3}.get(run.arm)
        record = made(run, None, end and end + 0.001 * run.spec.seed)
        if run.arm == "probe":
            seconds = 0.1 + 0.01 * run.spec.seed
            record = replace(record, cost=record.cost | {"cached_epoch_seconds": seconds})
        section.store.write(record)
    found = verdicts(section)
    for claim in ("fpt-over-probe", "budget-decides", "cached-epochs"):
        assert found[claim, "listops"] == "contradicted", claim


def texts(section: Section, figure: Figure) -> list[str]:
    outputs.save_figure(section, "f", figure)
    return profiled.lines(figure)


@pytest.mark.parametrize("draw", FIGURES)
def test_figures_say_what_is_there(section: Section, draw) -> None:
    fill(section)
    for run in by(section, "random", "mnist"):
        section.store.write(replace(made(run), status="diverged"))
    said = texts(section, draw(section))
    assert {"bit-xor", "mnist", "digits"} <= set(said)
    assert {"steps": "3 never", "speedups": "diverged", "budgets": "T15, T18 or T19"}[
        draw.__name__
    ] in said
    figure = draw(section)
    with styled():
        FigureCanvasAgg(figure).draw()
    outside = {  # labels of ticks beyond an axis, which are never drawn
        tick.label1
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    boxes = [
        text.get_window_extent().shrunk(0.9, 0.8)
        for text in dict.fromkeys(figure.findobj(Text))
        if text.get_text().strip() and text.get_visible() and text not in outside
    ]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
