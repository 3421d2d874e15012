"""The experiment `converged`: its measure, how rates are chosen, seeds, index, registration."""

import json
import math
from dataclasses import replace

import pytest

from fpt.files import read_yaml
from fpt.records import Record, Store
from lab import converged, launch
from lab.converged import Cell, Rate

BITS = Cell(1, "language", "bit-xor")
LISTOPS = Cell(3, "language", "listops-short")
FULL = Cell(3, "fully trained", "bit-xor")


def record(spec, accuracies, status="done"):
    """A record of a run whose validation accuracies are given, one every ten steps."""
    curve = [
        {"step": 10 * (index + 1), "valid_accuracy": accuracy, "valid_loss": 1.0}
        for index, accuracy in enumerate(accuracies)
    ]
    best = max(accuracies)
    metrics = {"test_accuracy": best, "valid_accuracy": best, "best_step": 10, "steps": 10}
    return Record(
        spec=spec, status=status, metrics=metrics, curve=curve, cost={}, environment={}, pack=[]
    )


def steps(accuracies, cell=BITS, **options):
    run = record(converged.make_spec(cell, Rate(0.001), 100), accuracies, **options)
    return converged.steps_to_threshold(run)


def test_steps_are_interpolated_to_the_first_of_two():
    assert steps([0.5, 0.9, 1.0, 1.0]) == (pytest.approx(25), False)
    # One evaluation alone does not count.
    assert steps([0.5, 0.96, 0.9, 1.0, 0.98]) == (pytest.approx(35), False)
    assert steps([0.97, 0.96]) == (10, False)


def test_steps_that_are_not_reached_are_the_last_planned_step():
    assert steps([0.5, 0.6, 0.96]) == (1000, True)
    assert steps([0.5, 0.96, 0.97], status="diverged") == (1000, True)


def test_a_search_on_memory_has_the_same_threshold():
    memory = Cell(1, "language", "bit-memory-small")
    (run, *_) = converged.search_specs(memory, Rate(0.001))
    assert run.threshold == 0.95
    assert converged.steps_to_threshold(record(run, [0.9, 0.96, 0.97]))[0] == pytest.approx(
        10 + 10 * 5 / 6
    )


@pytest.fixture
def results(monkeypatch):
    """Records of a search, by key."""
    known = {}
    monkeypatch.setattr(Store, "read", lambda store, key: known.get(key))
    return known


def search(results, cell, curves):
    """Record the search of a cell, whose runs at each rate have these validation accuracies."""
    for rate, accuracies in curves.items():
        for spec in converged.search_specs(cell, rate):
            results[spec.key] = record(spec, accuracies)


SLOW, FAST, NEVER, NEARLY = [0.5, 0.6, 0.7, 1, 1], [0.5, 1, 1], [0.5, 0.5], [0.5, 0.8]


def test_the_rate_with_the_fewest_steps_is_chosen(results):
    search(results, BITS, {Rate(0.001): SLOW, Rate(0.003): FAST})
    assert converged.best_rate(BITS) is None  # as long as a run is missing
    search(results, BITS, {Rate(0.01): SLOW})
    assert converged.best_rate(BITS) == Rate(0.003)
    assert converged.rates_of(BITS) == [Rate(0.001), Rate(0.003), Rate(0.01)]


@pytest.mark.parametrize(("best", "beyond"), [(0.001, 0.0003), (0.01, 0.03)])
def test_the_grid_grows_from_an_edge_alone(best, beyond, results):
    search(results, BITS, {rate: SLOW for rate in converged.first_rates(BITS)})
    search(results, BITS, {Rate(best): FAST})
    assert converged.rates_of(BITS)[-1] == Rate(beyond)
    assert converged.best_rate(BITS) is None
    search(results, BITS, {Rate(beyond): SLOW})
    assert converged.best_rate(BITS) == Rate(best)


def test_where_most_runs_never_arrive_accuracy_chooses(results):
    search(results, BITS, {Rate(0.001): NEVER, Rate(0.003): NEARLY, Rate(0.01): NEVER})
    assert converged.best_rate(BITS) == Rate(0.003)


def test_of_equals_the_lower_rate(results):
    search(results, BITS, {Rate(0.001): SLOW, Rate(0.003): FAST, Rate(0.01): FAST})
    assert converged.best_rate(BITS) == Rate(0.003)


def test_listops_is_chosen_by_accuracy(results):
    search(results, LISTOPS, {Rate(0.001): FAST, Rate(0.003): [0.1, 0.4, 0.5], Rate(0.01): NEVER})
    search(results, LISTOPS, {Rate(0.0003): NEVER})
    assert converged.best_rate(LISTOPS) == Rate(0.001)


def test_a_fully_trained_arm_crosses_rates_and_warm_ups(results):
    rates = converged.first_rates(FULL)
    assert len(rates) == 9
    search(results, FULL, dict.fromkeys(rates, SLOW))
    search(results, FULL, {Rate(0.001, 500): FAST})
    assert converged.rates_of(FULL)[-1] == Rate(0.003, 500)


def test_every_frozen_arm_trains_four_groups():
    for number in range(1, 7):
        for cell in converged.cells(number):
            spec = converged.make_spec(cell, Rate(0.001), 100)
            groups = {"input", "layernorm", "output", "positions"}
            if not cell.is_full:
                assert {*spec.trainable} == groups
            assert cell.arm == "LSTM" or {*spec.trainable} >= groups
            assert (spec.prefix == 0) == (number == 2)


# ---------------------------------------------------------------------------------- registration


def test_seeds_follow_from_the_registration():
    first, second = (converged.seeds_of(Cell(block, "language", "bit-xor")) for block in (1, 2))
    assert first[:8] == second  # a pair by seed, with and without the first token
    assert len({*first}) == 9
    assert not {*first} & {*converged.plan()["search"]["seeds"], *launch.PILOT_SEEDS}


def test_claims_are_about_arms_of_the_plan():
    content = read_yaml(converged.REGISTRATION)
    assert len(content["primary"]) <= 8
    claims = [claim for kind in ("primary", "secondary", "as_good") for claim in content[kind]]
    assert len({claim["id"] for claim in claims}) == len(claims)
    for claim in claims:
        arms = {cell.arm for cell in converged.cells(claim["block"]) if cell.task == claim["task"]}
        of_lab = {"fpt-english"} if claim["block"] == 5 else set()
        assert {claim["first"], claim["second"]} <= arms | of_lab


def test_power_grows_with_the_effect_and_not_beyond_one():
    (claim, *_) = read_yaml(converged.REGISTRATION)["primary"]
    powers = [launch.power({**claim, "expected": ratio}, 0.35) for ratio in (1, 1.5, 2, 50)]
    assert powers == sorted(powers)
    assert powers[0] == pytest.approx(0.05 / 8, rel=1e-6)
    assert powers[-1] == pytest.approx(1)


def test_the_index_names_the_search():
    rows = json.loads(launch.INDEX.read_text())
    keys = {row["key"]: row for row in rows}
    assert len(keys) == len(rows)
    for number in range(1, 7):
        for cell in converged.cells(number):
            for rate in converged.first_rates(cell):
                for spec in converged.search_specs(cell, rate):
                    row = keys[spec.key]
                    assert (row["arm"], row["task"], row["role"]) == (cell.arm, cell.task, "search")


def test_only_runs_of_the_index_land(tmp_path, monkeypatch):
    store, other = Store(tmp_path / "here"), Store(tmp_path / "there")
    run = converged.make_spec(BITS, Rate(0.001), 100)
    cost = {"seconds": 1.0, "process_seconds": 3600.0, "flops": 1.0, "peak_bytes": 0, "tokens": 1}
    environment = {"kind": "cpu", "device": "cpu", "precision": "bf16"}
    for spec in (run, replace(run, seed=1)):
        other.write(
            replace(record(spec, FAST), cost=cost, environment=environment, pack=[spec.key])
        )
    index = tmp_path / "index.json"
    index.write_text(json.dumps([{"key": run.key}]))
    monkeypatch.setattr(launch, "STORE", store)
    monkeypatch.setattr(launch, "INDEX", index)
    assert launch.land(other.folder) == "1 records taken over, 1 in all, 1.0 core-hours."
    assert store.keys() == {run.key}


def test_costs_are_of_the_steps_that_are_planned():
    table = [line.split("|") for line in launch.costs()]
    hours = [float(row[3]) for row in table]
    assert math.isclose(sum(hours[:-1]), hours[-1], abs_tol=0.3)
    assert hours[-1] <= 48
