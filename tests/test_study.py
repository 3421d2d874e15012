"""A study: which runs it has, what its frames say, which learning rate it reports."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made import fill, make_record, make_study, spread

import fpt
from fpt import config
from fpt.analysis.study import Study
from fpt.analysis.tuning import at_edge, chosen_rates
from fpt.files import FptError
from fpt.records.content import Status


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    return make_study(tmp_path, monkeypatch)


def test_a_frame_has_a_row_for_every_run(study: Study) -> None:
    frame = study.frame()
    assert len(frame) == len(study.runs) == 3 * 4 * 3
    assert set(frame["status"]) == {"not run"}
    assert frame["accuracy"].isna().all()
    fill(study, lambda run: spread(run) if run.task != "mnist" else None)
    frame = study.frame()
    done = frame[frame["status"] == "done"]
    assert set(done["task"]) == {"bit-xor", "digits"}
    assert np.allclose(done["accuracy"], 100 * done["test_accuracy"])
    assert {run.task for run in study.missing()} == {"mnist"}
    assert len(study.records()) == 24
    assert set(study.curves()["task"]) == {"bit-xor", "digits"}
    part = study.part(["digits"], ["fpt"])
    assert [(run.task, run.arm) for run in part.runs] == [("digits", "fpt")] * 3


def test_a_task_with_a_threshold_is_measured_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = {"bit-xor": {"threshold": 0.5}, "digits": {}}
    study = make_study(tmp_path, monkeypatch, tasks=tasks)
    assert [study.measures(task) for task in tasks] == ["steps", "accuracy"]
    fill(study, lambda run: 1.0 if run.arm == "fpt" else 0.5)
    frame = study.results()
    steps = frame[frame["task"] == "bit-xor"].groupby("arm")
    assert steps["steps"].first()["fpt"] == 60  # 60/120 is at the threshold
    assert steps["censored"].all().to_dict() == {
        "fpt": False, "random": True, "full": True, "lstm": True
    }  # fmt: skip
    assert steps["steps"].first()["random"] == 120
    study.store.write(make_record(study.runs[0], 1.0, "diverged"))
    assert study.results()["censored"].iloc[0]


def test_a_diverged_run_has_no_accuracy(study: Study) -> None:
    study.store.write(make_record(study.runs[0], 0.3, "diverged"))
    row = study.frame().iloc[0]
    assert row["status"] == "diverged"
    assert np.isnan(row["accuracy"])


@pytest.mark.parametrize("what", ["data_digest", "weights_digest"])
def test_runs_of_one_arm_on_different_data_or_weights_are_refused(study: Study, what: str) -> None:
    for index, run in enumerate(study.runs[:2]):
        record = make_record(run, 0.5)
        environment = record.environment | {what: f"{index}" * 64}
        study.store.write(replace(record, environment=environment))
    with pytest.raises(FptError, match=r"saw different .*digest 00000000.*digest 11111111"):
        study.results()


def with_search(
    folder: Path, monkeypatch: pytest.MonkeyPatch, search: tuple[int, ...] = (100,)
) -> Study:
    """FPT and random at three rates, chosen by the seeds of `search`."""
    study = make_study(folder, monkeypatch, arms=["fpt", "random"], tasks=["bit-xor"])
    block = dict(study.profile.sections["transfer"][0])
    block |= {"lrs": [0.001, 0.01, 0.1], "search": list(search), "seeds": [0, 1]}
    profile = replace(study.profile, sections={"transfer": (block,)})
    return Study("transfer", profile, tuple(config.expand(profile, "transfer")))


def test_search_seeds_choose_the_rate_that_others_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = with_search(tmp_path, monkeypatch)
    better = {("fpt", 0.01): 0.9, ("random", 0.1): 0.8}
    fill(study, lambda run: better.get((run.arm, run.spec.lr), 0.6) if run.search else 0.7)
    assert chosen_rates(study.frame()) == {("fpt", "bit-xor"): 0.01, ("random", "bit-xor"): 0.1}
    assert at_edge(study.frame()) == [("random", "bit-xor")]
    results = study.results()
    assert set(results["seed"]) == {0, 1}
    assert results.groupby("arm")["lr"].unique().map(list).to_dict() == {
        "fpt": [0.01], "random": [0.1]
    }  # fmt: skip
    assert set(study.results(every_rate=True)["lr"]) == {0.001, 0.01, 0.1}


def test_nothing_is_reported_before_the_search_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = with_search(tmp_path, monkeypatch)
    fill(study, lambda run: None if run.search and run.spec.lr == 0.1 else 0.7)
    assert study.results().empty
    assert not study.results(every_rate=True).empty


def test_a_rate_at_which_the_search_diverged_is_not_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = with_search(tmp_path, monkeypatch)
    for run in study.runs:
        wild = run.search and run.spec.lr == 0.1
        study.store.write(make_record(run, 0.99 if wild else 0.5, "diverged" if wild else "done"))
    assert 0.1 not in chosen_rates(study.frame()).values()


def test_a_rate_at_which_one_search_run_diverged_is_not_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = with_search(tmp_path, monkeypatch, search=(100, 101))
    for run in study.runs:
        best = run.spec.lr == 0.01
        status: Status = "diverged" if best and run.spec.seed == 101 else "done"
        study.store.write(make_record(run, 0.99 if best else 0.5, status))
    assert 0.01 not in chosen_rates(study.frame()).values()


def test_the_test_set_chooses_no_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = with_search(tmp_path, monkeypatch)
    for run in study.runs:
        record = make_record(run, 0.9 if run.spec.lr == 0.001 else 0.6)
        tested = {"test_accuracy": 1.0 if run.spec.lr == 0.1 else 0.3}
        study.store.write(replace(record, metrics=record.metrics | tested))
    assert set(chosen_rates(study.frame()).values()) == {0.001}


def test_of_equal_rates_the_one_that_is_there_first_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = with_search(tmp_path, monkeypatch)
    for run in study.runs:
        made = make_record(run, 0.5)
        soon = {"best_step": 60 if run.spec.lr == 0.01 else 120}
        study.store.write(replace(made, metrics=made.metrics | soon))
    assert set(chosen_rates(study.frame()).values()) == {0.01}


def test_the_index_lists_records_and_pretraining_metadata(study: Study) -> None:
    fill(study, lambda run: spread(run) if run.task == "digits" else None)
    study.write_index()
    listed = json.loads((study.folder / "index/transfer.json").read_text())
    assert sum(digest is not None for key, digest in listed.items() if key in study.keys) == 12
    assert set(listed) == set(study.keys)
    study.write_index({"another": "digest"})
    again = json.loads((study.folder / "index/transfer.json").read_text())
    assert again == listed | {"another": "digest"}


def test_one_thing_can_be_changed() -> None:
    study = fpt.section("transfer", "smoke")
    record = study.change("random", "bit-xor", steps=4, eval_every=2, seed=3)
    assert record.spec.seed == 3
    assert [point["step"] for point in record.curve] == [2, 4]
    assert study.store.read(record.key) is None
    with pytest.raises(FptError, match=r"'ftp on bit-xor' is not known \(did you mean fpt on"):
        study.change("ftp", "bit-xor")
