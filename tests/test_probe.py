"""The probe: features are the model's, the fit is the optimum, the record is like the others."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from tiny import CPU, assembled, close, pretrained, spec, swept, task_of

from fpt.records import Store
from fpt.spec import PROBE, probe_of
from fpt.tasks import get_task
from fpt.training import sweep
from fpt.training.flops import planned_flops
from fpt.training.probe import (
    GRADIENT,
    Head,
    features_of,
    fit,
    probe,
    score,
    training_batches,
)
from fpt.training.train import Job, train

MEMORY = {"n": 8, "patterns": 2, "patch": 4, "valid": 50, "test": 60}
pytestmark = pytest.mark.usefixtures("tiny")


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setitem(PROBE, "batch", 200)
    monkeypatch.setattr("fpt.training.probe.PENALTIES", (0.1, 1e-3))


def blobs(classes, answers=1):
    """Features (N, 5) of sizes from 0.01 to 100 with an offset, and targets (N, answers)."""
    draw = torch.Generator().manual_seed(0)
    targets = torch.randint(classes, (400, answers), generator=draw)
    features = torch.randn(400, 5, generator=draw)
    features[:, :answers] += targets
    return features * torch.tensor([0.01, 1.0, 100.0, 3.0, 0.3]) + 7, targets


@pytest.mark.parametrize("penalty", [1.0, 1e-2, 1e-4])
def test_the_fit_is_the_optimum_that_scikit_learn_finds(penalty):
    features, targets = blobs(3)
    head = Head(features, 3)
    standardised = head.standardise(features)
    iterations, passes, gradient = fit(head, standardised, targets, penalty, 500)
    assert gradient <= GRADIENT
    assert passes > iterations > 3
    theirs = LogisticRegression(C=1 / (400 * penalty), tol=1e-10, max_iter=5000)
    theirs.fit(standardised.numpy(), targets[:, 0].numpy())
    ours = head(features).softmax(-1).numpy()
    np.testing.assert_allclose(ours, theirs.predict_proba(standardised.numpy()), atol=2e-4)
    accuracy = score("x", head(features), targets)["x_accuracy"]
    assert accuracy == pytest.approx(theirs.score(standardised.numpy(), targets[:, 0].numpy()))
    assert accuracy > 0.4


def test_features_are_what_the_untrained_model_gives_its_output_net():
    run = probe_of(pretrained(task="bit-memory", options=MEMORY))
    task = task_of(run)
    model, _, _ = assembled(run)
    features, targets = features_of(model, task.eval_batches("test", 7, CPU))
    assert features.shape == (60 * task.reads, 16)
    assert targets.shape == (60 * task.reads, 4)
    weight, bias = model.output.weight[0], model.output.bias[0]
    logits = (features @ weight.T + bias).view(60, -1, 2)
    with torch.no_grad():
        (batch,) = task.eval_batches("test", 60, CPU)
        close(logits, model(batch)[0], 1e-4, 1e-5)
    assert torch.equal(targets.view(60, -1), batch.targets[0])


def test_the_training_set_is_clean_and_whole():
    digits = get_task("digits")
    run = probe_of(spec(task="digits", augment=True))
    batches = list(training_batches(digits, run, 500, CPU))
    assert [batch.inputs.shape[1] for batch in batches] == [500] * 8 + [388]
    again = list(training_batches(digits, replace(run, seed=1), 500, CPU))
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(batches, again, strict=True))
    endless = probe_of(spec())
    counts = [b.inputs.shape[1] for b in training_batches(task_of(endless), endless, 90, CPU)]
    assert counts == [90, 90, 20]


def fitted(task, options, **changes):
    run = probe_of(pretrained(task=task, options=options, **changes))
    return probe(run, task_of(run), CPU)


def test_probe_finds_what_the_features_hold():
    progress = fitted("digits", {})
    assert [point["penalty"] for point in progress.curve] == [0.1, 1e-3]
    assert progress.curve[0]["train_loss"] > progress.curve[1]["train_loss"]
    best = max(progress.curve, key=lambda p: (p["valid_accuracy"], -p["valid_loss"]))
    metrics = progress.metrics
    for name in ("valid_accuracy", "penalty", "gradient"):
        assert metrics[name] == best[name]
    assert metrics["gradient"] <= GRADIENT
    assert metrics["test_items"] == 500
    assert metrics["test_accuracy"] > 0.2
    assert metrics["test_loss"] < np.log(10)
    assert progress.cost["tokens"] == (4388 + 200 + 500) * 4
    again = fitted("digits", {})
    assert (again.metrics, again.curve) == (metrics, progress.curve)


# The training set would always choose the weakest penalty.
def test_the_penalty_is_chosen_on_validation(monkeypatch):
    """Sixty training examples, which the weakest penalty fits best."""
    monkeypatch.setattr("fpt.training.probe.PENALTIES", (0.1, 1e-2, 1e-3))
    progress = fitted("digits", {"train": 60})
    valid = [point["valid_accuracy"] for point in progress.curve]
    train = [point["train_accuracy"] for point in progress.curve]
    assert train == sorted(train)
    assert progress.metrics["valid_accuracy"] == max(valid) > valid[-1]
    assert progress.metrics["train_accuracy"] == train[valid.index(max(valid))] < train[-1]


def test_the_chosen_head_is_tested_by_the_scores_of_the_task(
    monkeypatch,
):
    """With a hopeless last penalty the test scores are those of the first."""
    scores = []
    for penalties in ((1e-2,), (1e-2, 1e6)):
        monkeypatch.setattr("fpt.training.probe.PENALTIES", penalties)
        metrics = fitted("bit-memory", MEMORY).metrics
        assert metrics["penalty"] == 1e-2
        scores.append({name: value for name, value in metrics.items() if "test_" in name})
    assert scores[0] == scores[1]
    assert 0.3 < scores[0]["test_masked"] < scores[0]["test_accuracy"] < 1


def test_probes_are_trained_one_by_one(tmp_path):
    """A budget stops a sweep between two of them."""
    store = Store(tmp_path / "records")
    plain = [pretrained(seed=seed) for seed in (0, 1)]
    probes = [probe_of(run) for run in (*plain, pretrained(task="digits", options={}))]
    assert sorted(map(len, sweep.packs([*plain, *probes]))) == [1, 1, 1, 2]
    (record,) = train(probes[:1], Job(store, deadline=0.0))  # one fits into any time
    assert swept(probes, store, budget=0.0) == 0
    assert swept(probes, store) == 2
    assert store.read(record.key) == record
    assert record.cost["flops"] == record.cost["tokens"] * 2 * 2 * 12 * 16 * 16
    assert record.cost["flops"] == planned_flops(record.spec, task_of(record.spec))
    assert record.environment["weights_digest"]
