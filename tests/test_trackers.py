"""Trackers: a function of one's own, and TensorBoard with its real writer on this disk."""

import threading

import pytest
from tiny import spec, swept

from fpt.training.progress import tensorboard, tracker

SPECS = [spec(backbone="pico", seed=seed) for seed in (0, 1)]  # which every process knows
TITLES = {run.key: "fpt on bit-xor" for run in SPECS}


def follow(store, tracker, workers=1):
    """Train the runs where `tracker` sees them."""
    swept(SPECS, store, workers=workers, titles=TITLES, tracker=tracker)


def test_a_tracker_sees_every_evaluation_and_the_end(store):
    points = {}

    def listen(spec, title, point):
        points.setdefault(f"{title} {spec.seed}", []).append(point)

    follow(store, listen)
    assert list(points) == ["fpt on bit-xor 0", "fpt on bit-xor 1"]
    records = store.read_all(run.key for run in SPECS).values()
    for record, of_run in zip(records, points.values(), strict=True):
        ends = {f"end/{name}": value for name, value in record.metrics.items()}
        assert of_run == [*record.curve[:-1], record.curve[-1] | ends]


def test_a_run_that_diverges_has_no_second_point(store):
    points = []
    runs = [spec(backbone="pico", lr=1e30, steps=12, eval_every=3)]
    swept(runs, store, tracker=lambda spec, title, point: points.append(point))
    (record,) = store.read_all([runs[0].key]).values()
    assert record.status == "diverged"
    evaluated = [point["step"] for point in points if "valid_loss" in point]
    assert evaluated == [point["step"] for point in record.curve]


def test_tensorboard_leaves_no_thread_behind(store, tmp_path):
    pytest.importorskip("tensorboard")
    before = threading.active_count()
    follow(store, tracker(tmp_path / "runs"))
    assert threading.active_count() == before


def test_a_title_leads_out_of_no_folder(store, tmp_path):
    pytest.importorskip("tensorboard")
    spec = SPECS[0]
    for title in ("fpt on ../../x", "../x", "a/b"):
        tensorboard(tmp_path / "runs", spec, title, {"step": 1, "loss": 0.5})
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert len(list((tmp_path / "runs").iterdir())) == 3


def test_tensorboard_follows_worker_processes(store, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    follow(store, tracker(tmp_path / "runs"), workers=2)
    for key, record in store.read_all(run.key for run in SPECS).items():
        folder = tmp_path / "runs" / "fpt on bit-xor" / f"seed-{record.spec.seed}-{key}"
        written = EventAccumulator(str(folder)).Reload()
        points = [(event.step, event.value) for event in written.Scalars("valid_accuracy")]
        curve = [(point["step"], pytest.approx(point["valid_accuracy"])) for point in record.curve]
        assert points == curve
        assert "end/test_accuracy" in written.Tags()["scalars"]
