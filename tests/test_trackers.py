"""Trackers: a function of one's own, and the optional ones with real writers on this disk."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tiny import pretrained

from fpt.records import Store
from fpt.spec import RunSpec
from fpt.training import sweep
from fpt.training.trackers import Tracker, tracker

pytestmark = pytest.mark.usefixtures("tiny")
SPECS = [pretrained(seed=seed) for seed in (0, 1)]


def follow(folder: Path, tracker: Tracker, specs: list[RunSpec], workers: int = 1) -> Store:
    """The store of runs, with a title, that were trained where `tracker` sees them."""
    store = Store(folder / "reports" / "smoke" / "records")
    titles = {spec.key: "fpt on bit-xor" for spec in specs}
    sweep.run(specs, store, device="cpu", workers=workers, titles=titles, tracker=tracker)
    return store


def curve(store: Store, spec: RunSpec, name: str) -> list[tuple[int, Any]]:
    return [(int(it["step"]), pytest.approx(it[name])) for it in store.read(spec.key).curve]  # type: ignore[union-attr]


def test_a_tracker_sees_every_evaluation_and_the_end(tmp_path: Path) -> None:
    seen: dict[str, list[Mapping[str, float]]] = {}

    def listen(spec: RunSpec, title: str, point: Mapping[str, float]) -> None:
        seen.setdefault(f"{title} {spec.seed}", []).append(point)

    store = follow(tmp_path, listen, SPECS)
    assert list(seen) == ["fpt on bit-xor 0", "fpt on bit-xor 1"]
    records = store.read_all(it.key for it in SPECS)
    for record, points in zip(records.values(), seen.values(), strict=True):
        ends = {f"end/{name}": value for name, value in record.metrics.items()}
        assert points == [*record.curve[:-1], record.curve[-1] | ends]


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    store = follow(tmp_path, tracker(f"tensorboard:{tmp_path / 'runs'}"), SPECS)
    for spec in SPECS:
        folder = tmp_path / "runs" / "fpt on bit-xor" / f"seed-{spec.seed}-{spec.key}"
        written = EventAccumulator(str(folder)).Reload()
        points = [(it.step, it.value) for it in written.Scalars("valid_accuracy")]
        assert points == curve(store, spec, "valid_accuracy")
        assert "end/test_accuracy" in written.Tags()["scalars"]


def test_mlflow(tmp_path: Path) -> None:
    client = pytest.importorskip("mlflow").MlflowClient
    place = str(tmp_path / "mlruns")
    store = follow(tmp_path, tracker(f"mlflow:{place}"), SPECS)
    runs = {it.data.tags["key"]: it for it in client(place).search_runs(["0"])}
    assert runs.keys() == {spec.key for spec in SPECS}
    for spec in SPECS:
        run = runs[spec.key]
        assert (run.info.status, run.data.tags["lr"]) == ("FINISHED", str(spec.lr))
        assert run.info.run_name == f"fpt on bit-xor, seed {spec.seed}"
        history = client(place).get_metric_history(run.info.run_id, "train_loss")
        assert [(it.step, it.value) for it in history] == curve(store, spec, "train_loss")
        assert "end/test_accuracy" in run.data.metrics


def test_trackers_work_in_worker_processes(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    bodies = {"backbone": "pico", "init": "random", "weights": None}  # which every process knows
    specs = [pretrained(seed=seed, **bodies) for seed in (0, 1)]
    follow(tmp_path, tracker(f"mlflow:{tmp_path / 'runs'}"), specs, workers=2)
    folders = {path.parent.name for path in (tmp_path / "runs").glob("*/*/*") if path.is_file()}
    assert len(folders) == 2
