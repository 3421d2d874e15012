"""Tables and claims, on made-up records."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from made import LEVELS, fill, make_record, make_section, spread

from fpt.analysis.cells import cells
from fpt.analysis.stats import Label, mean_interval
from fpt.files import FptError
from fpt.paper import reader as paper
from fpt.report import outputs, protocol, tables
from fpt.sections import claims
from fpt.sections.section import Section
from fpt.sections.section import section as fpt_section

FPT, RANDOM, LSTM = "FPT (frozen, language)", "Frozen random", "LSTM (layer norm)"


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    return make_section(tmp_path, monkeypatch)


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    """With the LSTM that the paper's claim is about."""
    return make_section(tmp_path, monkeypatch, arms=("fpt", "random", "full", "lstm-released"))


def remove(section: Section, arm: str, task: str, count: int) -> None:
    mine = [run for run in section.runs if (run.arm, run.task) == (arm, task)]
    for run in mine[:count]:
        section.store.path(run.spec.key).unlink()


def test_a_cell_is_mean_interval_and_runs(section: Section) -> None:
    fill(section, spread)
    table = tables.transfer_table(section)
    values = [LEVELS["fpt"] + 0.002 * seed for seed in range(3)]
    interval = mean_interval(values)
    half = interval.high - interval.mean
    assert table.shown.loc[FPT, "mnist"] == f"{100 * interval.mean:.1f} ± {100 * half:.1f} (3)"
    row = table.numbers.query("of == 'ours' and row == 'fpt' and task == 'mnist'").iloc[0]
    assert row["mean"] == pytest.approx(interval.mean)
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert "36 of 36 runs are present" in table.notes[0]
    assert "a test CPU: 36" in table.notes[0]


def test_a_removed_record_is_said(section: Section) -> None:
    fill(section, spread)
    remove(section, "fpt", "mnist", 1)
    remove(section, "random", "mnist", 2)
    remove(section, "lstm", "mnist", 3)
    table = tables.transfer_table(section)
    # A mean of what is there, without an interval or a comparison.
    assert table.shown.loc[FPT, "mnist"] == "95.3 (n = 2 of 3)"
    assert table.shown.loc[RANDOM, "mnist"] == "80.4 (n = 1 of 3)"
    assert table.shown.loc[LSTM, "mnist"] == "not run"
    assert table.shown.loc[LSTM, "digits"].endswith("(3)")
    assert "30 of 36 runs are present" in table.notes[0]
    effects = tables.effects_table(section).shown
    assert effects.loc[f"FPT minus {LSTM}", "mnist"] == "not run"
    assert effects.loc[f"FPT minus {RANDOM}", "mnist"] == "2 of 3 runs minus 1 of 3 runs"
    missing = tables.missing_table(section)
    assert missing.shown.loc[LSTM, "mnist"] == "3"
    assert missing.shown.loc[LSTM, "digits"] == "0"
    assert "fpt run transfer --profile lab" in missing.notes[1]


def test_without_records_every_cell_is_not_run(section: Section) -> None:
    table = tables.transfer_table(section)
    ours = table.shown.iloc[:4]
    assert (ours == "not run").all().all()
    assert (tables.effects_table(section).shown.iloc[::2] == "not run").all().all()
    assert tables.cost_table(section).shown["runs"].tolist() == ["0 of 9"] * 4
    assert {f.verdict.label for f in claims.section_findings(section)} == {"not run"}


def test_a_diverged_run_is_counted_not_averaged(section: Section) -> None:
    fill(section, spread)
    first, *_ = runs = [r for r in section.runs if (r.arm, r.task) == ("lstm", "digits")]
    section.store.write(make_record(first, 0.01, "diverged"))
    table = tables.transfer_table(section)
    text = table.shown.loc[LSTM, "digits"]
    assert text.startswith("60.3 ±")
    assert text.endswith("(2 of 3, 1 diverged)")
    assert "1 diverged" in table.notes[0]
    for run in runs:
        section.store.write(make_record(run, 0.01, "diverged"))
    shown = tables.transfer_table(section).shown
    assert shown.loc[LSTM, "digits"] == "diverged (0 of 3, 3 diverged)"


def test_floors_and_the_paper_stand_below(section: Section) -> None:
    shown = tables.transfer_table(section).shown
    assert shown.loc["floor: majority", "bit-xor (fitting)"] == "50.0"
    assert shown.loc["floor: linear classifier"].tolist()[0] == "–"
    for source, arm in (("T1", "fpt"), ("T2", "random"), ("T1", "full"), ("T1", "lstm")):
        value = paper.cell(source, arm, "mnist").value
        assert float(shown.loc[f"paper, {source}: {arm}", "mnist"]) == value
        assert shown.loc[f"paper, {source}: {arm}", "digits"] == "–"
    assert any("digits: a task of this project" in n for n in tables.transfer_table(section).notes)


def test_an_effect_is_beside_the_papers(section: Section) -> None:
    fill(section, spread)
    table = tables.effects_table(section)
    assert table.shown.loc[f"FPT minus {RANDOM}", "mnist"].startswith("+15.0 [+")
    printed = paper.cell("T2", "fpt", "mnist").value - paper.cell("T2", "random", "mnist").value
    assert float(table.shown.loc[f"paper: FPT minus {RANDOM}", "mnist"]) == pytest.approx(printed)
    row = table.numbers.query("minus == 'full' and task == 'mnist'").iloc[0]
    assert row["low"] < row["effect"] < row["high"]
    assert row["effect"] == pytest.approx(-0.2)


def test_cost_is_a_sum_over_runs(section: Section) -> None:
    fill(section, lambda run: 0.5 if run.arm == "fpt" else None)
    shown = tables.cost_table(section).shown
    assert shown.loc[FPT].tolist() == ["9 of 9", "–", "9 M", "18 T", "3 GB", "a test CPU"]
    assert shown.loc[RANDOM].tolist() == ["0 of 9", *["–"] * 5]


def test_cost_shows_processor_time_if_every_run_has_it(section: Section) -> None:
    records = [make_record(run, 0.5) for run in section.runs if run.arm == "fpt"]
    for record in records:
        section.store.write(replace(record, cost=record.cost | {"process_seconds": 20.0}))
    assert tables.cost_table(section).shown.loc[FPT, "processor time"] == "3 min"
    section.store.write(records[0])
    table = tables.cost_table(section)
    assert table.shown.loc[FPT, "processor time"] == "–"
    assert "seconds" not in table.numbers.columns


def test_the_protocol_follows_the_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = protocol.protocol_table(make_section(tmp_path, monkeypatch))
    again = protocol.protocol_table(make_section(tmp_path, monkeypatch))
    other = protocol.protocol_table(make_section(tmp_path, monkeypatch, lr=0.002))
    assert repr(first) == repr(again)
    assert (first.shown["first key"] != other.shown["first key"]).all()
    assert first.shown.iloc[0]["task"] == "bit-xor (fitting)"
    # Input 2, output 2, positions 10, layer norms 2 * (2 * 4 + 1), of width 128, and output bias.
    assert first.shown.iloc[0]["trained"] == f"{128 * (2 + 2 + 10 + 18) + 2:,}"
    # Of all parameters, with 1,024 position rows and the table of 4,096 words.
    whole = 128 * (2 + 2 + 18 + 1024 + 4096) + 2 + 4 * (12 * 128**2 + 9 * 128)
    assert first.shown.iloc[0]["share"] == f"{100 * (128 * 32 + 2) / whole:.3g}%"


def test_the_protocol_says_which_task_has_which_dropout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks: dict[str, dict[str, object]] = {"mnist": {"dropout": 0.0}, "digits": {}, "bit-xor": {}}
    notes = protocol.protocol_table(make_section(tmp_path, monkeypatch, tasks=blocks)).notes
    assert "clip 1; dropout 0 (mnist), 0.1 (digits, bit-xor);" in notes[0]


def test_the_papers_share_is_that_of_its_text() -> None:
    """132,874 of the 124.4 million parameters of GPT-2 on CIFAR-10."""
    spec = next(run.spec for run in fpt_section("transfer", "paper").runs if run.task == "cifar10")
    trained, total = protocol.trained_parameters(spec)
    assert trained == 132_874
    assert total == 124_439_808 + 48 * 768 + 768 + 768 * 10 + 10


def test_a_printed_table_carries_its_remarks() -> None:
    table = protocol.paper_table("T1")
    assert table.shown.loc["fpt", "listops"] == f"{paper.cell('T1', 'fpt', 'listops').value:g}"
    assert table.shown.loc["fpt", "cifar10"] == "72.1 (1)"
    assert any(note.startswith("(1) 36-layer") for note in table.notes)


def test_what_is_shown_is_the_same_every_time(section: Section) -> None:
    fill(section, spread)
    first, second = (tables.transfer_table(section) for _ in range(2))
    assert first._repr_html_() == second._repr_html_()
    assert repr(first) == repr(second) == first.markdown()
    assert first._repr_html_().count("<tr>") == 1 + len(first.shown)
    frame = pd.DataFrame([["a < b | c"]], index=["row"], columns=["column"])
    table = tables.Table("t", "A <title>", frame, frame)
    assert "a &lt; b" in table._repr_html_()
    assert "A &lt;title&gt;" in table._repr_html_()
    assert "a < b \\| c" in table.markdown()


def test_outputs_lie_where_the_pipeline_looks(section: Section, rendering: None) -> None:
    fill(section, spread)
    table = outputs.save_table(section, tables.transfer_table(section))
    outputs.save_numbers(section, {"extra": 1})
    folder = section.folder
    assert (folder / "tables/transfer/transfer.md").read_text() == table.markdown()
    read = pd.read_csv(folder / "tables/transfer/transfer.csv")
    assert read["mean"].tolist() == pytest.approx(table.numbers["mean"].tolist())
    metrics = json.loads((folder / "metrics/transfer.json").read_text())
    assert metrics["mnist"]["fpt"] == pytest.approx(95.2)
    assert (metrics["present"], metrics["extra"]) == (36, 1)
    curves = pd.read_csv(folder / "curves/transfer.csv")
    assert list(curves.columns[:5]) == ["task", "arm", "seed", "step", "accuracy"]
    assert len(curves) == 36 * 12
    runs = json.loads((folder / "runs/transfer.json").read_text())
    assert (runs["present"], runs["expected"]) == (36, 36)


def verdicts(section: Section, claim: str) -> dict[str, Label]:
    findings = claims.section_findings(section)
    return {f.task: f.verdict.label for f in findings if f.claim.id == claim}


BOTH: dict[str, Label] = {"mnist": "supported", "digits": "supported"}
NEITHER: dict[str, Label] = {"mnist": "contradicted", "digits": "contradicted"}
CONSTRUCTED: list[tuple[str, Callable[[str], float], dict[str, Label]]] = [
    ("beats-random", lambda arm: 0.9 if arm == "fpt" else 0.7, BOTH),
    ("beats-random", lambda arm: 0.7 if arm == "fpt" else 0.9, NEITHER),
    ("matches-full", lambda arm: 0.9, {"mnist": "supported"}),
    ("matches-full", lambda arm: 0.7 if arm == "fpt" else 0.9, {"mnist": "contradicted"}),
    ("solves-bits", lambda arm: 1.0, {"bit-xor": "supported"}),
    ("solves-bits", lambda arm: 0.9, {"bit-xor": "contradicted"}),
    (
        "beats-lstm",
        lambda arm: 0.5 if arm == "lstm-released" else 0.9,
        {"bit-xor": "supported"},
    ),
    ("above-floor", lambda arm: 0.99, {"bit-xor": "supported", "mnist": "supported"}),
    ("above-floor", lambda arm: 0.3, {"bit-xor": "contradicted", "mnist": "contradicted"}),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "level", "expected"), CONSTRUCTED)
def test_a_verdict_follows_the_data(
    judged: Section, claim: str, level: Callable[[str], float], expected: dict[str, Label]
) -> None:
    fill(judged, lambda run: level(run.arm) - 0.0005 * run.spec.seed)
    found = verdicts(judged, claim)
    assert {task: found[task] for task in expected} == expected


def test_noise_decides_nothing(section: Section) -> None:
    fill(section, lambda run: 0.5 + 0.2 * (run.spec.seed - 1) + (0.02 if run.arm == "fpt" else 0))
    assert set(verdicts(section, "beats-random").values()) == {"inconclusive"}
    assert set(verdicts(section, "matches-full").values()) == {"inconclusive"}


def test_claims_cover_what_the_paper_showed(judged: Section) -> None:
    # The paper has no lead over random on bit-xor, nor over the LSTM on mnist.
    assert set(verdicts(judged, "beats-random")) == {"mnist", "digits"}
    assert set(verdicts(judged, "beats-lstm")) == {"bit-xor"}


def test_arms_at_the_ceiling_decide_nothing(judged: Section) -> None:
    fill(judged, lambda run: 1.0 if run.task == "bit-xor" else 0.5)
    assert verdicts(judged, "solves-bits") == {"bit-xor": "inconclusive"}
    assert verdicts(judged, "matches-full")["bit-xor"] == "inconclusive"
    shown = tables.transfer_table(judged).shown
    assert shown.loc[FPT, "bit-xor (fitting)"] == "100.0 (3)"
    assert tables.effects_table(judged).shown.loc[f"FPT minus {RANDOM}", "mnist"] == "0.0"


def test_a_claim_falls_with_one_task_and_stands_with_all(section: Section) -> None:
    fill(
        section,
        lambda run: (
            (0.9 if (run.arm == "fpt") == (run.task == "mnist") else 0.6) + 0.001 * run.spec.seed
        ),
    )
    findings = [f for f in claims.section_findings(section) if f.claim.id == "beats-random"]
    assert claims.overall(findings) == "contradicted"
    by_task = {finding.task: finding for finding in findings}
    assert claims.overall([by_task["mnist"]]) == "supported"
    text = claims.in_words(findings, "lab")
    assert "supported on mnist (FPT minus frozen random +30.0" in text
    assert "contradicted on digits (FPT minus frozen random −30.0" in text
    assert "analogue" in text
    assert "analogue" not in claims.in_words(findings, "paper")


@pytest.mark.parametrize("what", ["data_digest", "weights_digest"])
def test_runs_of_one_cell_saw_the_same(section: Section, what: str) -> None:
    first, second, *_ = runs = [r for r in section.runs if (r.arm, r.task) == ("fpt", "mnist")]
    for run in runs:
        record = make_record(run, 0.5)
        section.store.write(replace(record, environment=record.environment | {what: "a" * 64}))
    assert cells(section.frame())["fpt", "mnist"].present == 3
    record = make_record(second, 0.5)
    section.store.write(replace(record, environment=record.environment | {what: "b" * 64}))
    said = "data" if what == "data_digest" else "weights nano-english-0"
    with pytest.raises(FptError, match=f"'fpt' on 'mnist' saw different {said}") as raised:
        cells(section.frame())
    assert first.key in str(raised.value)
    assert f"against {second.key} (digest bbbbbbbb)" in str(raised.value)


def test_a_column_says_that_a_task_is_fitting_and_a_csv_has_its_name(
    section: Section, rendering: None
) -> None:
    fill(section, spread)
    table = outputs.save_table(section, tables.transfer_table(section))
    assert list(table.shown.columns) == ["bit-xor (fitting)", "mnist", "digits"]
    read = pd.read_csv(section.folder / "tables/transfer/transfer.csv")
    assert set(read.loc[read["fitting"], "task"]) == {"bit-xor"}
    assert set(read.loc[~read["fitting"], "task"]) == {"mnist", "digits"}
    assert any("test accuracy is training accuracy" in note for note in table.notes)


def test_rates_and_stops_that_differ_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make_section(tmp_path, monkeypatch)
    runs = tuple(
        replace(run, spec=replace(run.spec, lr=0.1))
        if run.arm == "full" or (run.arm, run.task) == ("random", "mnist")
        else run
        for run in section.runs
    )
    section = replace(section, runs=runs)
    fill(section, spread)
    record = make_record(section.runs[0], 0.5)
    section.store.write(replace(record, metrics=record.metrics | {"steps": 60}))
    notes = tables.effects_table(section).notes
    (note,) = (note for note in notes if "learning rates" in note)
    assert "FPT 0.001 and Frozen random 0.1 on mnist" in note
    assert "FPT 0.001 and Full, from random 0.1" in note
    assert LSTM not in note
    task = section.runs[0].task
    stopped = next(note for note in tables.transfer_table(section).notes if "Stopped" in note)
    assert stopped.endswith(f"FPT on {task} (60).")


def test_cells_of_a_section_keep_its_order(section: Section) -> None:
    found = cells(section.frame())
    assert list(found)[:2] == [("fpt", "bit-xor"), ("random", "bit-xor")]
    assert {cell.expected for cell in found.values()} == {3}
