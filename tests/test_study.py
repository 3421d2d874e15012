"""A study: which runs it has, what its frames say, which learning rate it reports."""

from dataclasses import replace

import numpy as np
import pytest
from made import fill, make_record, make_study, spread

import fpt
from fpt import config
from fpt.analysis import study as studies
from fpt.analysis.tuning import at_edge, chosen_rates
from fpt.errors import FptError


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path)


def test_a_frame_has_a_row_for_every_run(study):
    frame = study.frame()
    assert len(frame) == len(study.runs) == 3 * 4 * 3
    assert set(frame["status"]) == {"not run"}
    fill(study, lambda run: spread(run) if run.task != "mnist" else None)
    study.store.write(make_record(study.runs[0], 0.3, "diverged"))
    frame = study.frame()
    done = frame[frame["status"] == "done"]
    assert set(done["task"]) == {"bit-xor", "digits"}
    assert np.allclose(done["accuracy"], 100 * done["test_accuracy"])
    assert frame.loc[frame["status"] == "diverged", "accuracy"].isna().all()
    assert {run.task for run in study.missing()} == {"mnist"}
    part = study.part(["digits"], ["fpt"])
    assert [(run.task, run.arm) for run in part.runs] == [("digits", "fpt")] * 3


def test_a_task_with_a_threshold_is_measured_in_steps(tmp_path):
    tasks = {"bit-xor": {"threshold": 0.5}, "digits": {}}
    study = make_study(tmp_path, arms=("fpt", "random"), tasks=tasks)
    assert [study.measures(task) for task in tasks] == ["steps", "accuracy"]
    fill(study, lambda run: 1.0 if run.arm == "fpt" else 0.5)
    results = study.results()
    runs = results[results["task"] == "bit-xor"].groupby("arm")
    assert runs["steps"].first().to_dict() == {"fpt": 60, "random": 120}  # 60/120 is the threshold
    assert runs["censored"].all().to_dict() == {"fpt": False, "random": True}
    study.store.write(make_record(study.runs[0], 1.0, "diverged"))
    assert study.results()["censored"].iloc[0]


@pytest.mark.parametrize("name", ["data_digest", "weights_digest"])
def test_runs_of_one_arm_on_different_data_or_weights_are_refused(study, name):
    for index, run in enumerate(study.runs[:2]):
        record = make_record(run, 0.5)
        environment = record.environment | {name: f"{index}" * 64}
        study.store.write(replace(record, environment=environment))
    with pytest.raises(FptError, match=r"saw different .*digest 00000000.*digest 11111111"):
        study.results()


@pytest.fixture
def searched(tmp_path):
    """FPT and random at three rates, chosen by two seeds."""
    study = make_study(tmp_path, arms=["fpt", "random"], tasks=["bit-xor"])
    block = dict(study.profile.sections["transfer"][0])
    block |= {"lrs": [0.001, 0.01, 0.1], "search": [100, 101], "seeds": [0, 1]}
    profile = replace(study.profile, sections={"transfer": (block,)})
    return replace(study, profile=profile, runs=tuple(config.expand(profile, "transfer")))


def test_search_seeds_choose_the_rate_that_others_report(searched):
    better = {("fpt", 0.01): 0.9, ("random", 0.1): 0.8}
    fill(searched, lambda run: better.get((run.arm, run.spec.lr), 0.6) if run.search else 0.7)
    frame = searched.frame()
    assert chosen_rates(frame) == {("fpt", "bit-xor"): 0.01, ("random", "bit-xor"): 0.1}
    assert at_edge(frame) == [("random", "bit-xor")]
    results = searched.results()
    assert set(results["seed"]) == {0, 1}
    rates = results.groupby("arm")["lr"].unique().map(list)
    assert rates.to_dict() == {"fpt": [0.01], "random": [0.1]}
    assert set(searched.results(every_rate=True)["lr"]) == {0.001, 0.01, 0.1}


def test_nothing_is_reported_before_the_search_is_whole(searched):
    fill(searched, lambda run: None if run.search and run.spec.lr == 0.1 else 0.7)
    assert searched.results().empty
    assert not searched.results(every_rate=True).empty


def diverged(run):
    """One of the search's runs at the best rate diverges."""
    is_best = run.spec.lr == 0.1
    status = "diverged" if is_best and run.spec.seed == 101 else "done"
    return make_record(run, {0.1: 0.99, 0.01: 0.6}.get(run.spec.lr, 0.5), status)


def misled(run):
    """The test set prefers another rate than validation."""
    record = make_record(run, 0.9 if run.spec.lr == 0.01 else 0.6)
    accuracy = {"test_accuracy": 1.0 if run.spec.lr == 0.1 else 0.3}
    return replace(record, metrics=record.metrics | accuracy)


def sooner(run):
    """Of equal rates, one is at its best first."""
    record = make_record(run, 0.5)
    best_step = {"best_step": 60 if run.spec.lr == 0.01 else 120}
    return replace(record, metrics=record.metrics | best_step)


# A rate that is chosen on test accuracy makes every comparison of best rates too good.
@pytest.mark.parametrize("record", [diverged, misled, sooner])
def test_a_rate_is_chosen_by_validation_and_never_diverged(searched, record):
    for run in searched.runs:
        searched.store.write(record(run))
    assert set(chosen_rates(searched.frame()).values()) == {0.01}


# On a machine with a GPU, "auto" is not the processor that was asked for.
def test_a_study_trains_only_on_devices_that_its_profile_lists(study, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    calls = []
    monkeypatch.setattr(studies.sweep, "run", lambda *_, **options: calls.append(options) or 7)
    on_gpus = replace(study, profile=replace(study.profile, train_on=("cuda",)))
    assert on_gpus.train(device="cpu") == 0
    assert not calls
    assert on_gpus.train(device="cuda") == on_gpus.train() == 7
    assert [options["device"] for options in calls] == ["cuda", "auto"]


def test_one_thing_can_be_changed():
    study = fpt.section("transfer", "smoke")
    numbers = {"steps": 4, "eval_every": 2, "seed": 3, "draw": 5}
    record = study.change("random", "bit-xor", **numbers)
    assert record.spec.seed == 3
    assert [point["step"] for point in record.curve] == [2, 4]
    assert study.store.read(record.key) is None
    scalars = {name: np.int64(value) for name, value in numbers.items()}
    again = study.change("random", "bit-xor", **scalars)
    assert (again.key, again.curve) == (record.key, record.curve)
    with pytest.raises(FptError, match=r"'ftp on bit-xor' is not known \(did you mean fpt on"):
        study.change("ftp", "bit-xor")
