"""Trackers: a function of one's own, and TensorBoard with its real writer on this disk."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from refusals import check_said, refusal
from tiny import spec

from fpt.records import Store
from fpt.spec import RunSpec
from fpt.training import sweep
from fpt.training.trackers import Tracker, tracker

SPECS = [spec(backbone="pico", seed=seed) for seed in (0, 1)]  # which every process knows
TITLES = {run.key: "fpt on bit-xor" for run in SPECS}


def follow(store: Store, tracker: Tracker, workers: int = 1) -> None:
    """Train the runs where `tracker` sees them."""
    sweep.run(SPECS, store, device="cpu", workers=workers, titles=TITLES, tracker=tracker)


def test_a_tracker_sees_every_evaluation_and_the_end(store: Store) -> None:
    points: dict[str, list[Mapping[str, float]]] = {}

    def listen(spec: RunSpec, title: str, point: Mapping[str, float]) -> None:
        points.setdefault(f"{title} {spec.seed}", []).append(point)

    follow(store, listen)
    assert list(points) == ["fpt on bit-xor 0", "fpt on bit-xor 1"]
    records = store.read_all(run.key for run in SPECS).values()
    for record, of_run in zip(records, points.values(), strict=True):
        ends = {f"end/{name}": value for name, value in record.metrics.items()}
        assert of_run == [*record.curve[:-1], record.curve[-1] | ends]


def test_tensorboard_follows_worker_processes(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    follow(store, tracker(f"tensorboard:{tmp_path / 'runs'}"), workers=2)
    for key, record in store.read_all(run.key for run in SPECS).items():
        folder = tmp_path / "runs" / "fpt on bit-xor" / f"seed-{record.spec.seed}-{key}"
        written = EventAccumulator(str(folder)).Reload()
        points = [(event.step, event.value) for event in written.Scalars("valid_accuracy")]
        curve = [(point["step"], pytest.approx(point["valid_accuracy"])) for point in record.curve]
        assert points == curve
        assert "end/test_accuracy" in written.Tags()["scalars"]


def test_a_wrong_tracker_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    check_said(refusal(lambda: tracker("tensorbord")), ["'tensorbord'", "tensorboard"])
    monkeypatch.setattr("fpt.training.trackers.find_spec", lambda name: None)
    check_said(refusal(lambda: tracker("tensorboard")), ["pip install 'fpt[tensorboard]'"])
