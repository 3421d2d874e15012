"""The loop: it learns, it looks, it stops, it survives."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import pretrained, spec, task_of

from fpt.records import Record, Store, parse
from fpt.spec import RunSpec
from fpt.training import checkpoint
from fpt.training.loop import Loop, reached
from fpt.training.train import pack_id, train

CPU = torch.device("cpu")
TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden_trace.json"
LSTM = {"trainable": ("input", "layernorm", "output", "recurrent")}
FULL = ("attention", "feedforward", "input", "layernorm", "output", "positions")
pytestmark = pytest.mark.usefixtures("tiny")


def finished(*specs: RunSpec) -> Loop:
    loop = Loop(specs, task_of(specs[0]), CPU)
    assert loop.run()
    return loop


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "reports" / "smoke" / "records")


def trained(specs: list[RunSpec], store: Store, tmp_path: Path, **options) -> list[Record]:
    return train(specs, store, device=CPU, cache=tmp_path / "cache", **options)


# ---------------------------------------------------------------------------------------- learning


def test_bit_xor_is_learned() -> None:
    """Strings of two bits, by a frozen body, an unfrozen one and an LSTM."""
    common = {"steps": 150, "eval_every": 25, "batch": 16, "dropout": 0.0}
    runs = [
        pretrained(lr=0.03, **common),
        spec(trainable=FULL, lr=0.003, **common),
        spec(backbone="lstm-tiny", lr=0.01, **LSTM, **common),
    ]
    for run in runs:
        (progress,) = finished(run).progress
        assert progress.metrics["test_accuracy"] >= 0.99, run.backbone
        assert progress.curve[0]["valid_accuracy"] < 0.99
        assert progress.metrics["test_items"] == 16
        accuracies = [point["valid_accuracy"] for point in progress.curve]
        first = accuracies.index(max(accuracies))  # of equals
        assert progress.metrics["best_step"] == progress.curve[first]["step"]
        assert accuracies.count(max(accuracies)) > 1


def test_a_subset_may_be_evaluated_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly as many examples, the same ones however the evaluation is batched."""
    run = spec(steps=3, eval_items=5)
    part, whole = (finished(each).progress[0].curve[-1] for each in (run, spec(steps=3)))
    assert part["train_loss"] == whole["train_loss"]
    assert part["valid_loss"] != whole["valid_loss"]
    loop = Loop([run], task_of(run), CPU)
    (first,) = loop.evaluate("valid", [0], 5)
    assert first["items"] == 5
    monkeypatch.setattr("fpt.training.evaluation.EVAL_TOKENS", 2 * task_of(run).length)
    assert loop.evaluate("valid", [0], 5)[0] == pytest.approx(first)


@pytest.mark.parametrize(("steps", "every"), [(12, 3), (10, 4), (3, 7)])
def test_a_curve_has_a_point_per_look_and_one_at_the_end(steps: int, every: int) -> None:
    (progress,) = finished(spec(steps=steps, eval_every=every)).progress
    expected = sorted({*range(every, steps + 1, every), steps})
    assert [point["step"] for point in progress.curve] == expected
    assert progress.metrics["steps"] == steps
    assert {name for point in progress.curve for name in point} == {
        "step",
        "train_loss",
        "valid_loss",
        "valid_accuracy",
        "gradient_norm",
        "clipped",
    }
    assert all(0 <= point["clipped"] <= 1 for point in progress.curve)


def test_a_point_is_the_mean_of_the_steps_since_the_last(monkeypatch) -> None:
    run = spec(steps=6, eval_every=3, clip=0.3)
    loop = Loop([run], task_of(run), CPU)
    seen: list[tuple[float, float]] = []
    update = loop.adam.step

    def watched(count: int) -> torch.Tensor:
        norms = update(count)
        seen.append((norms.item(), float(norms.item() > 0.3)))
        return norms

    monkeypatch.setattr(loop.adam, "step", watched)
    loop.run()
    for point, part in zip(loop.progress[0].curve, (seen[:3], seen[3:]), strict=True):
        assert point["gradient_norm"] == pytest.approx(sum(n for n, _ in part) / 3)
        assert point["clipped"] == pytest.approx(sum(c for _, c in part) / 3)
    assert sum(c for _, c in seen) > 0


def test_the_test_set_is_read_once_for_the_best_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run whose accuracy falls again: stopped at its best step, it gives the same numbers. The
    last accuracy is known only if the last parameters are the best."""
    reads: list[str] = []
    evaluate = Loop.evaluate
    monkeypatch.setattr(
        Loop, "evaluate", lambda loop, *given: reads.append(given[0]) or evaluate(loop, *given)
    )
    run = pretrained(lr=0.1, steps=14, eval_every=2, options={"n": 3})
    (progress,) = finished(run).progress
    accuracies = [point["valid_accuracy"] for point in progress.curve]
    best = max(accuracies)
    assert progress.metrics["valid_accuracy"] == best
    assert progress.metrics["best_step"] == 2 * (accuracies.index(best) + 1)  # the first of equals
    assert progress.metrics["best_step"] < 14
    # All inputs of bit-xor n=3 are in both sets.
    assert progress.metrics["test_accuracy"] == best
    assert accuracies[-1] != best
    assert "last_test_accuracy" not in progress.metrics
    assert reads == ["valid"] * 7 + ["test"]
    (stopped,) = finished(replace(run, steps=int(progress.metrics["best_step"]))).progress
    assert stopped.metrics["last_test_accuracy"] == best
    assert stopped.metrics["test_loss"] == progress.metrics["test_loss"]


def test_early_stopping_counts_looks_without_a_better_accuracy() -> None:
    run = spec(lr=0.3, steps=300, eval_every=2, patience=3, options={"n": 3})
    (progress,) = finished(run).progress
    accuracies = [point["valid_accuracy"] for point in progress.curve]
    assert progress.status == "done"
    assert progress.metrics["steps"] < 300
    assert progress.metrics["steps"] == progress.metrics["best_step"] + 3 * 2
    assert max(accuracies[-3:]) <= max(accuracies[:-3])
    (without,) = finished(replace(run, patience=0, steps=20)).progress
    assert without.curve[: len(progress.curve)] == progress.curve[: len(without.curve)]


def test_a_run_ends_two_evaluations_after_its_threshold() -> None:
    """Reached at the first of two consecutive evaluations; the curve until then is the same."""
    assert reached([0.5, 0.9, 0.8, 0.9, 0.95, 0.7], 0.9) == 3
    assert reached([0.5, 0.9], 0.9) is None
    run = pretrained(lr=0.03, steps=400, eval_every=5, dropout=0.0)
    (whole,) = finished(run).progress
    (stopped,) = finished(replace(run, threshold=0.9)).progress
    assert stopped.status == "done"
    first = reached([point["valid_accuracy"] for point in whole.curve], 0.9)
    assert first is not None
    assert stopped.metrics["steps"] == 5 * (first + 3) < 400
    assert stopped.curve == whole.curve[: first + 3]


def test_scores_that_apply_to_no_item_are_left_out(tiny, monkeypatch, store: Store) -> None:
    """ListOps has depths that a small test set does not hold: no NaN may reach a record."""
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tiny)
    options = {"max_length": 30, "train": 60, "valid": 20, "test": 30}
    run = spec("listops", options, steps=3)
    (record,) = trained([run], store, tiny)
    depths = {name for name in record.metrics if "depth" in name}
    assert 0 < len(depths) < 9
    assert all(math.isfinite(value) for value in record.metrics.values())


# -------------------------------------------------------------------------------------- divergence


def test_divergence_is_a_status_with_finite_values(store: Store, tmp_path: Path) -> None:
    runs = [spec(lr=1e30, steps=30), spec(lr=0.01, steps=30), spec(lr=1e30, steps=30, clip=1e30)]
    records = trained(runs, store, tmp_path)
    assert [record.status for record in records] == ["diverged", "done", "diverged"]
    for record in records:
        content = store.path(record.key).read_bytes()
        json.loads(content, parse_constant=pytest.fail)  # JSON has no NaN or Infinity
        assert parse(content, record.key) == record
        values = [*record.metrics.values(), *(v for point in record.curve for v in point.values())]
        assert all(math.isfinite(value) for value in values)
        assert record.metrics["test_items"] == 16
        assert record.cost["tokens"] == record.metrics["steps"] * 8 * 4  # what it cost, not planned
    assert records[0].metrics["steps"] == 3  # it ended where that was seen
    assert records[0].curve == []
    assert records[1].metrics["steps"] == 30


def test_a_run_that_diverges_late_keeps_what_it_had(tmp_path: Path) -> None:
    run = spec(steps=30, eval_every=3)
    loop = Loop([run], task_of(run), CPU)
    for _ in range(6):
        loop.train_step()
        if loop.step % 3 == 0:
            loop.validate()
    loop.adam.lr.fill_(1e30)
    loop.run()
    (progress,) = loop.progress
    assert progress.status == "diverged"
    assert [point["step"] for point in progress.curve] == [3, 6]
    (before,) = finished(replace(run, steps=6)).progress
    assert progress.curve == before.curve
    assert progress.metrics["test_loss"] == before.metrics["test_loss"]


# ------------------------------------------------------------------------------- stopping, resuming


def same(one: list[Record], other: list[Record]) -> None:
    assert [record.measured() for record in one] == [record.measured() for record in other]


PACKS = {
    "pack": [
        pretrained(seed=0, options={"n": 3}),
        pretrained(seed=1, options={"n": 3}, patience=1),
    ],
    "full": [spec(trainable=FULL)],
    "lstm-released": [spec(backbone="lstm-released-tiny", **LSTM)],
}


@pytest.mark.parametrize("name", PACKS)
def test_stopped_after_every_step_it_ends_as_if_never_stopped(
    name: str, store: Store, tmp_path: Path
) -> None:
    """A deadline in the past: each call makes one step and a checkpoint."""
    specs = PACKS[name]
    whole = trained(specs, Store(tmp_path / "a" / "records"), tmp_path / "other")
    calls = 0
    while not (records := trained(specs, store, tmp_path, deadline=0.0)):
        calls += 1
        assert store.keys() == set()
        assert calls < 20
    assert calls == max(record.metrics["steps"] for record in whole) - 1
    same(records, whole)
    assert list((tmp_path / "cache" / "checkpoints").iterdir()) == []
    assert trained(specs, store, tmp_path) == []  # recorded: nothing is trained again


def test_killed_between_two_records_the_rest_is_written_as_it_was(
    store: Store, tmp_path: Path, monkeypatch
) -> None:
    specs = PACKS["pack"]
    whole = trained(specs, Store(tmp_path / "a" / "records"), tmp_path / "other")
    write = Store.write

    def killed(self: Store, record: Record, parameters: bytes | None = None) -> Record:
        if self.keys():
            raise KeyboardInterrupt
        return write(self, record, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            trained(specs, store, tmp_path)
    assert len(store.keys()) == 1
    (rest,) = trained(specs, store, tmp_path)
    assert rest.pack == [run.key for run in specs]
    same([record for run in specs if (record := store.read(run.key))], whole)


def test_a_damaged_checkpoint_costs_time_only(store: Store, tmp_path: Path) -> None:
    specs = PACKS["pack"]
    whole = trained(specs, Store(tmp_path / "a" / "records"), tmp_path / "other")
    assert trained(specs, store, tmp_path, deadline=0.0) == []
    (path,) = (tmp_path / "cache" / "checkpoints").iterdir()
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.warns(UserWarning, match="is damaged"):
        records = trained(specs, store, tmp_path)
    same(records, whole)


def test_a_checkpoint_of_another_pack_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    one, other = (Loop([run], task_of(run), CPU, path) for run in (spec(), spec(lr=0.02)))
    one.run(deadline=0.0)
    found = checkpoint.read(path)
    assert found is not None
    with pytest.warns(UserWarning, match=f"{path} is of other runs .*starts again"):
        other.resume()
    assert other.step == 0
    assert pack_id([spec()]) != pack_id([spec(lr=0.02)])


def test_a_checkpoint_of_another_version_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    loop = Loop([spec()], task_of(spec()), CPU, path)
    loop.run(deadline=0.0)
    found = checkpoint.read(path)
    assert found is not None
    tensors, history = found
    del tensors["frozen"]
    checkpoint.write(path, tensors, history)
    again = Loop([spec()], task_of(spec()), CPU, path)
    with pytest.warns(UserWarning, match="another version of this package; their pack starts"):
        again.resume()
    assert again.step == 0


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import torch
import tiny, test_loop
from transformers import GPT2Model  # once for all
from fpt.training import loop, train
from fpt.records import Store

torch.set_num_threads(1)
loop.CHECKPOINT_SECONDS = 0
tiny.register()
step = loop.Loop.train_step
folder = Path({folder!r})


def told(self):
    print(os.getpid(), self.step, flush=True)
    step(self)


loop.Loop.train_step = told
while (pid := os.fork()):
    if os.waitpid(pid, 0)[1] != signal.SIGKILL:  # it ended, or failed by itself
        break
else:
    store = Store(folder / "smoke" / "records")
    train.train(
        test_loop.PACKS["pack"],
        store,
        device=torch.device("cpu"),
        cache=folder / "cache",
    )
    os._exit(0)
"""


def test_killed_at_any_instant_and_resumed_the_record_is_the_same(
    store: Store, tmp_path: Path
) -> None:
    """A process that writes a checkpoint after every step is killed with SIGKILL at random
    instants; its parent starts another one, until the runs have ended."""
    whole = trained(PACKS["pack"], store, tmp_path)
    folder = tmp_path / "killed"
    script = tmp_path / "train.py"
    script.write_text(KILLED.format(tests=str(TESTS), folder=str(folder)))
    env = os.environ | {"PYTHONPATH": str(TESTS.parent)}
    draw = random.Random(0)
    steps: dict[int, list[int]] = {}  # made by every process
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            pid, step = map(int, line.split())
            steps.setdefault(pid, []).append(step)
            if len(steps) < 9 and draw.random() < 0.5:
                time.sleep(draw.uniform(0, 0.02))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert process.returncode == 0
    starts = [made[0] for made in steps.values()]
    assert len(starts) > 3
    assert starts[0] == 0
    assert max(starts) > 2, "it never went on from a checkpoint"
    found = Store(folder / "smoke" / "records")
    same([record for run in PACKS["pack"] if (record := found.read(run.key))], whole)


# -------------------------------------------------------------------------------------- the record


def test_what_a_record_says(store: Store, tmp_path: Path) -> None:
    specs = [pretrained(seed=0), pretrained(seed=1)]
    records = trained(specs, store, tmp_path)
    for run, record in zip(specs, records, strict=True):
        assert record.spec == run
        assert record.pack == [member.key for member in specs]
        assert record.cost["tokens"] == 12 * 8 * 4
        matrices = 2 * (16 * 48 + 16 * 16 + 2 * 16 * 64)
        assert record.cost["flops"] == 4 * matrices * record.cost["tokens"]
        assert record.cost["seconds"] > 0
        assert record.cost["process_seconds"] > 0
        assert record.environment["kind"] == "cpu"
        assert record.environment["precision"] == "fp32"
        assert len(record.environment["weights_digest"]) == 64
        assert len(record.environment["data_digest"]) == 64
        assert store.read(run.key) == record
    (full,) = trained([spec(trainable=FULL)], store, tmp_path)
    assert full.cost["flops"] == 6 * matrices * full.cost["tokens"]
    # No gradient passes the body where the output net alone is trained.
    (output,) = trained([spec(trainable=("output",))], store, tmp_path)
    assert output.cost["flops"] == 2 * matrices * output.cost["tokens"]
    assert "weights_digest" not in full.environment


def test_training_twice_gives_the_same_bits(store: Store, tmp_path: Path) -> None:
    one = trained(PACKS["pack"], store, tmp_path)
    other = trained(PACKS["pack"], Store(tmp_path / "b" / "records"), tmp_path)
    same(one, other)


# ------------------------------------------------------------------------------------ golden trace

ARMS = {
    "fpt": pretrained(options={"n": 3}),
    "random": spec(options={"n": 3}),
    "full": spec(options={"n": 3}, trainable=FULL),
    "lstm": spec(options={"n": 3}, backbone="lstm-tiny", **LSTM),
    "lstm-released": spec(options={"n": 3}, backbone="lstm-released-tiny", **LSTM),
}


def first_losses(run: RunSpec) -> list[float]:
    """Training losses of five steps."""
    loop = Loop([run], task_of(run), CPU)
    seen = []
    for _ in range(5):
        before = loop.sums[0, 0].item()
        loop.train_step()
        seen.append(loop.sums[0, 0].item() - before)
    return seen


@pytest.mark.parametrize("arm", ARMS)
def test_the_training_semantics_have_not_moved(arm: str) -> None:
    """If they moved on purpose: raise SEMANTICS in fpt/spec.py, since older records no longer say
    what a run gives today, and run `python tests/test_loop.py` to write the new trace."""
    golden = json.loads(GOLDEN.read_text())[arm]
    assert first_losses(ARMS[arm]) == pytest.approx(golden, rel=1e-4)


if __name__ == "__main__":
    import tempfile

    import tiny as bodies

    bodies.register()
    os.environ["FPT_BACKBONES"] = tempfile.mkdtemp()
    bodies.save_weights(Path(os.environ["FPT_BACKBONES"]))
    trace = {arm: [round(loss, 6) for loss in first_losses(run)] for arm, run in ARMS.items()}
    GOLDEN.write_text(json.dumps(trace, indent=1) + "\n")
