"""The loop: it learns, validates, stops, and survives."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from tiny import FULL, WEIGHTS, clock_of_steps, loop_of, measured_of, pretrained, spec, task_of

from fpt.backbones.weights import file_digest
from fpt.records import Store
from fpt.training.evaluation import evaluate
from fpt.training.loop import Loop
from fpt.training.progress import TRAIN_ITEMS, reached, read_checkpoint, write_checkpoint
from fpt.training.train import Job, train

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden_trace.json"
LSTM = {"trainable": ("input", "layernorm", "output", "recurrent")}
pytestmark = pytest.mark.usefixtures("tiny")


def finished(*specs):
    loop = loop_of(*specs)
    assert loop.run()
    return loop.progress


def accuracies_of(progress):
    return [point["valid_accuracy"] for point in progress.curve]


def trained(specs, store, **options):
    return train(specs, Job(store, device="cpu", **options))


@pytest.fixture
def uninterrupted(tmp_path):
    """The records of `PACK`, trained without a stop."""
    return trained(PACK, Store(tmp_path / "uninterrupted" / "records"))


# ---------------------------------------------------------------------------------------- learning


def test_bit_xor_is_learned():
    run = pretrained(lr=0.03, steps=160, eval_every=25, batch=16, dropout=0.0)
    (progress,) = finished(run)
    assert [point["step"] for point in progress.curve] == [25, 50, 75, 100, 125, 150, 160]
    assert progress.metrics["test_accuracy"] >= 0.99
    assert progress.curve[0]["valid_accuracy"] < 0.99
    assert progress.metrics["test_items"] == 16


def test_the_test_set_is_read_once_for_the_best_parameters(
    monkeypatch,
):
    """A run whose accuracy falls again: stopped at its best step, it gives the same numbers. The
    last accuracy is known only if the last parameters are the best."""
    reads = []
    monkeypatch.setattr(
        "fpt.training.loop.evaluate", lambda *args: reads.append(args[1]) or evaluate(*args)
    )
    monkeypatch.setattr(
        "fpt.training.progress.evaluate", lambda *args: reads.append(args[1]) or evaluate(*args)
    )
    run = pretrained(lr=0.1, steps=14, eval_every=2, options={"n": 3})
    (progress,) = finished(run)
    assert reads == ["valid"] * 7 + ["test"]
    accuracies = accuracies_of(progress)
    best = max(accuracies)
    metrics = progress.metrics
    assert metrics["best_step"] == 2 * (accuracies.index(best) + 1) < 14  # the first of equals
    # All inputs of bit-xor n=3 are in both sets.
    assert metrics["valid_accuracy"] == metrics["test_accuracy"] == best != accuracies[-1]
    assert "last_test_accuracy" not in metrics
    (stopped,) = finished(replace(run, steps=int(metrics["best_step"])))
    assert stopped.metrics["last_test_accuracy"] == best
    assert stopped.metrics["test_loss"] == metrics["test_loss"]


def test_early_stopping_counts_evaluations_without_a_better_accuracy():
    run = spec(lr=0.3, steps=300, eval_every=2, patience=3, options={"n": 3})
    (progress,) = finished(run)
    accuracies = accuracies_of(progress)
    assert progress.status == "done"
    assert progress.metrics["steps"] == progress.metrics["best_step"] + 3 * 2 < 300
    assert max(accuracies[-3:]) <= max(accuracies[:-3])
    (without,) = finished(replace(run, patience=0, steps=20))
    assert without.curve[: len(progress.curve)] == progress.curve[: len(without.curve)]


def test_a_run_ends_two_evaluations_after_its_threshold():
    """Reached at the first of two consecutive evaluations; the curve until then is the same."""
    assert reached([0.5, 0.9, 0.8, 0.9, 0.95, 0.7], 0.9) == 3
    assert reached([0.5, 0.9], 0.9) is None
    run = pretrained(lr=0.03, steps=400, eval_every=5, dropout=0.0)
    (without,) = finished(run)
    (stopped,) = finished(replace(run, threshold=0.9))
    assert stopped.status == "done"
    count = reached(accuracies_of(without), 0.9) + 3
    assert stopped.metrics["steps"] == 5 * count < 400
    assert stopped.curve == without.curve[:count]


# A mix-up of the sets would change no other number.
def test_each_score_is_measured_on_its_own_part_of_its_own_set():
    """Twenty training examples are learned by heart, and say little about the other digits."""
    few = {"steps": 30, "batch": 20, "eval_every": 15, "lr": 0.1, "dropout": 0.0}
    run = spec("digits", {"train": 20}, eval_items=30, test_items=40, **few)
    (progress,) = finished(run)
    metrics = progress.metrics
    assert (metrics["train_items"], metrics["test_items"]) == (20, 40)
    assert metrics["train_accuracy"] == 1
    for accuracy, items in ((metrics["valid_accuracy"], 30), (metrics["test_accuracy"], 40)):
        assert accuracy < 0.8
        assert accuracy * items == pytest.approx(round(accuracy * items), abs=1e-6)
    # Of many training examples a part is scored.
    (progress,) = finished(spec("digits", {}, steps=1))
    assert progress.metrics["train_items"] == TRAIN_ITEMS


def test_a_point_of_the_curve_sums_up_the_steps_since_the_one_before():
    """Against a curve with a point per step; the evaluations change nothing."""
    run = spec(options={"n": 3}, lr=0.03, clip=1.5)
    (fine,) = finished(replace(run, eval_every=1))
    (coarse,) = finished(run)
    clipped = [point["clipped"] for point in fine.curve]
    assert clipped == [float(point["gradient_norm"] > run.clip) for point in fine.curve]
    assert 0 < sum(clipped) < len(clipped)
    for index, point in enumerate(coarse.curve):
        steps = fine.curve[3 * index : 3 * index + 3]
        for name in ("train_loss", "gradient_norm", "clipped"):
            mean = sum(step[name] for step in steps) / 3
            assert point[name] == pytest.approx(mean, rel=1e-5), name


# Costs are added over runs, so a pack's time must not count once for each of them.
def test_the_runs_of_a_pack_share_its_time(monkeypatch):
    """Each step takes a second, and two of a processor; the second run leaves before the first."""
    clock = clock_of_steps(monkeypatch)
    monkeypatch.setattr("fpt.training.loop.time.process_time", lambda: 2 * clock[0])
    stays, leaves = finished(*PACK)
    together = leaves.metrics["steps"]
    assert together < clock[0]
    assert leaves.seconds == pytest.approx(together / 2)
    assert stays.seconds == pytest.approx(clock[0] - together / 2)
    for progress in (stays, leaves):
        assert progress.process_seconds == pytest.approx(2 * progress.seconds)


# -------------------------------------------------------------------------------------- divergence


# NaN is not JSON, and a diverged run must not end those that share its pack.
def test_divergence_is_a_status_with_finite_values(store):
    runs = [spec(lr=1e30, steps=30), spec(lr=0.01, steps=30), spec(lr=1e30, steps=30, clip=1e30)]
    records = trained(runs, store)
    assert [record.status for record in records] == ["diverged", "done", "diverged"]
    for record in records:
        assert store.read(record.key) == record
        content = store.path(record.key).read_bytes()
        json.loads(content, parse_constant=pytest.fail)  # JSON has no NaN or Infinity
        assert record.metrics["test_items"] == 16
        assert record.cost["tokens"] == record.metrics["steps"] * 8 * 4  # as it ended
    assert records[0].metrics["steps"] == 3  # it ended where that was seen
    assert records[0].curve == []
    assert records[1].metrics["steps"] == 30


# ------------------------------------------------------------------------------- stopping, resuming


def same(records, expected):
    assert list(map(measured_of, records)) == list(map(measured_of, expected))


PACK = [
    pretrained(seed=0, options={"n": 3}),
    pretrained(seed=1, options={"n": 3}, patience=1),
]


@pytest.mark.parametrize(
    "specs",
    [PACK, [spec(backbone="lstm-released-tiny", **LSTM)]],
    ids=["pack", "lstm-released"],
)
def test_stopped_after_every_step_it_ends_as_if_never_stopped(specs, store, tmp_path):
    """A deadline in the past: each call makes one step and a checkpoint."""
    uninterrupted = trained(specs, Store(tmp_path / "uninterrupted" / "records"))
    calls = 0
    while not (records := trained(specs, store, deadline=0.0)):
        calls += 1
        assert store.keys() == set()
        assert calls < 20
    assert calls == max(record.metrics["steps"] for record in uninterrupted) - 1
    same(records, uninterrupted)
    assert list((tmp_path / ".cache" / "checkpoints").iterdir()) == []
    assert trained(specs, store) == []  # recorded: nothing is trained again


# A clock that is not set back after the first checkpoint makes no second one.
def test_a_killed_run_loses_no_more_than_the_time_between_two_checkpoints(
    store, uninterrupted, monkeypatch
):
    """A checkpoint every three steps, and the process dies in the eleventh of twelve."""
    clock = clock_of_steps(monkeypatch)
    monkeypatch.setattr("fpt.training.loop.CHECKPOINT_SECONDS", 2.5)
    step = Loop.train_step

    def killed(self):
        if self.step == 10:
            raise KeyboardInterrupt
        step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "train_step", killed)
        with pytest.raises(KeyboardInterrupt):
            trained(PACK, store)
    clock[0] = 0.0
    same(trained(PACK, store), uninterrupted)
    assert clock[0] == 3


def test_a_run_that_was_left_to_another_process_joins_its_pack_again(store, uninterrupted):
    """It has no part in the checkpoint of the others, so the pack begins anew with it."""
    with Job(store).lock(PACK[1].key):
        assert trained(PACK, store, deadline=0.0) == []
    with pytest.warns(UserWarning, match="of other runs"):
        records = trained(PACK, store)
    same(records, uninterrupted)


def of_other_runs(tensors, history):
    return tensors, history | {"keys": [run.key for run in PACK[::-1]]}


def of_other_weights(tensors, history):
    return tensors, history | {"weights": "other"}


def of_another_version(tensors, history):
    return {name: tensors[name] for name in tensors if name != "frozen"}, history


DAMAGE = {
    "truncated": lambda content: content[:-10],
    "flipped": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
}


@pytest.mark.parametrize("how", [*DAMAGE, of_other_runs, of_other_weights, of_another_version])
def test_a_checkpoint_that_does_not_fit_costs_time_only(how, store, uninterrupted, tmp_path):
    assert trained(PACK, store, deadline=0.0) == []
    (path,) = (tmp_path / ".cache" / "checkpoints").iterdir()
    if how in DAMAGE:
        sentence = "is damaged .*starts again"
        content = path.read_bytes()
        path.write_bytes(DAMAGE[how](content))
        assert path.read_bytes() != content
    else:
        sentence = "of other runs .* or of another version .*starts again"
        write_checkpoint(path, *how(*read_checkpoint(path)))
    with pytest.warns(UserWarning, match=sentence):
        records = trained(PACK, store)
    same(records, uninterrupted)
    assert path.with_name(f"{path.name}.corrupt").exists() is (how in DAMAGE)


# -------------------------------------------------------------------------------------- the record


def test_what_a_record_says(store):
    specs = [pretrained(seed=0), pretrained(seed=1)]
    matrices = 2 * (16 * 48 + 16 * 16 + 2 * 16 * 64)
    for run, record in zip(specs, trained(specs, store), strict=True):
        assert record.spec == run
        assert record.pack == [member.key for member in specs]
        assert record.cost["tokens"] == 12 * 8 * 4
        assert record.cost["flops"] == 4 * matrices * record.cost["tokens"]
        assert record.cost["seconds"] > 0
        assert record.cost["process_seconds"] > 0
        assert 10**8 < record.cost["peak_bytes"] < 10**11  # torch alone takes as much as the first
        assert record.environment["kind"] == "cpu"
        assert record.environment["precision"] == "fp32"
        assert len(record.environment["weights_digest"]) == 64
        assert len(record.environment["data_digest"]) == 64
        assert store.read(run.key) == record
    # The gradients of weights cost as much again; none passes the backbone to the output net.
    for trainable, factor in ((FULL, 6), (("output",), 2)):
        (record,) = trained([spec(trainable=trainable)], store)
        assert record.cost["flops"] == factor * matrices * record.cost["tokens"]
        assert "weights_digest" not in record.environment


def test_the_tokens_of_a_record_are_those_of_its_batches(store):
    """Sequences of different lengths are padded to the longest of a batch, not of all."""
    sizes = {"min_length": 4, "max_length": 24, "train": 100, "valid": 20, "test": 20}
    run = spec("listops", sizes | {"max_args": 4}, steps=3, eval_every=3, batch=2)
    (record,) = trained([run], store)
    task = task_of(run)
    widths = [task.train_batch([0], step, 2, "cpu").inputs.shape[-1] for step in range(3)]
    assert record.cost["tokens"] == 2 * sum(widths) < 2 * 3 * 24


# ------------------------------------------------------------------------------------ golden trace

ARMS = {
    "fpt": pretrained(options={"n": 3}),
    "random": spec(options={"n": 3}),
    "full": spec(options={"n": 3}, trainable=FULL),
    "lstm": spec(options={"n": 3}, backbone="lstm-tiny", **LSTM),
    "lstm-released": spec(options={"n": 3}, backbone="lstm-released-tiny", **LSTM),
}


def first_losses(run):
    """Training losses of five steps."""
    loop = loop_of(run)
    losses = []
    for _ in range(5):
        before = loop.sums[0, 0].item()
        loop.train_step()
        losses.append(loop.sums[0, 0].item() - before)
    return losses


@pytest.mark.parametrize("arm", ARMS)
def test_the_training_semantics_have_not_moved(arm):
    """If they moved on purpose: raise `semantics` in fpt/spec.py, since older records no longer say
    what a run gives today, and run `python tests/test_loop.py` to write the new trace."""
    golden = json.loads(GOLDEN.read_text())[arm]
    assert first_losses(ARMS[arm]) == pytest.approx(golden, rel=1e-4)


if __name__ == "__main__":
    import tempfile

    import tiny

    tiny.register()
    os.environ["FPT_BACKBONES"] = tempfile.mkdtemp()
    tiny.save_weights(Path(os.environ["FPT_BACKBONES"]))
    trace = {arm: [round(loss, 6) for loss in first_losses(run)] for arm, run in ARMS.items()}
    GOLDEN.write_text(json.dumps(trace, indent=1) + "\n")


# A local name stands for whatever lies there, and weights may be pretrained again meanwhile.
def test_a_record_names_the_weights_that_were_read(store, tmp_path, monkeypatch):
    path = tmp_path / "backbones" / WEIGHTS / "model.safetensors"
    before = file_digest(path)
    run = Loop.run

    def replaced_meanwhile(self, deadline):
        tensors = {name: tensor + 1 for name, tensor in load_file(path).items()}
        save_file(tensors, path)
        return run(self, deadline)

    monkeypatch.setattr(Loop, "run", replaced_meanwhile)
    (record,) = trained([pretrained()], store)
    assert record.environment["weights_digest"] == before != file_digest(path)
