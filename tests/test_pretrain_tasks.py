"""Backbones pretrained on a task: what is kept, their metadata, and how training is resumed."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2Model

from fpt.backbones import BACKBONES, Backbone, backbone, build
from fpt.backbones.initialisations import initial_state
from fpt.files import FptError
from fpt.pretraining import on_task
from fpt.pretraining.on_task import TaskPretraining, pretrain
from fpt.tasks import get_task
from fpt.training.loop import Loop

# Under the names of local backbones.
SPECS = (
    Backbone("micro", "gpt2", 2, 16, 2, 64),
    Backbone("vit-micro", "vit", 2, 16, 2, 64),
    Backbone("lstm-micro", "lstm", 2, 16),
)
SMALL = {
    "bit-memory": {"n": 20, "patterns": 2, "patch": 5, "valid": 20, "test": 40},
    "digits": {},
}
PLANS = (
    TaskPretraining("bit-memory", "micro", 10 * 4 * 12, batch=4, lr=0.01),
    TaskPretraining("digits", "vit-micro", 10 * 16 * 4, batch=16, lr=0.01, dropout=0.1),
    TaskPretraining("bit-memory", "lstm-micro", 10 * 4 * 12, batch=4, lr=0.01),
)
# Accuracy on validation, its loss in the end, standard deviation of all matrices.
MADE = ((0.795, 0.473154, 0.0449686), (0.11, 2.341816, 0.0391448), (0.6175, 0.683312, 0.1470212))
every_plan = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of backbones; tiny ones and small tasks under the names of larger ones."""
    for spec in SPECS:
        monkeypatch.setitem(BACKBONES, spec.name, spec)
    monkeypatch.setattr(on_task, "get_task", lambda name: get_task(name, **SMALL[name]))
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    return tmp_path


@pytest.fixture
def loops(monkeypatch):
    """Every loop that is made."""
    made = []

    class Recorded(Loop):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(on_task, "Loop", Recorded)
    return made


def read_back(name, identity):
    """State and module of a backbone, found by its identity."""
    spec = backbone(name)
    module = build(spec)
    state = initial_state(spec, module, "pretrained", identity, 0)
    inside = {name: value for name, value in state.items() if name != "positions"}
    module.load_state_dict(inside, assign=True)
    return state, module.eval()


def random_state(plan):
    spec = backbone(plan.backbone)
    return initial_state(spec, build(spec), "random", None, plan.seed)


@pytest.mark.parametrize(("plan", "expected"), [*zip(PLANS, MADE, strict=True)])
def test_the_backbone_is_the_one_that_was_trained(plan, expected, folder, loops):
    """Hidden states of the trained model, rounded to bf16, and of the stored one. It is as it was
    when this was written, but for the rounding of another processor."""
    assert pretrain(plan, folder / plan.name)
    record = json.loads((folder / plan.name / "pretraining.json").read_text())
    found = (record["valid_accuracy"], record["curve"][-1]["valid_loss"], record["weight_scale"])
    assert found == pytest.approx(expected, rel=2e-5)
    (loop,) = loops
    model, length = loop.model.eval(), loop.task.length
    start = random_state(plan)
    loop.rows.bind(loop.selected[0][None].bfloat16().float())
    state, module = read_back(plan.backbone, plan.name)
    assert any(not torch.equal(state[name], start[name]) for name in start)
    x = torch.randn(3, length, 16)
    with torch.no_grad():
        moved = x if model.positions is None else x + model.positions[0]
        theirs = x if model.positions is None else x + state["positions"][:length]
        assert torch.allclose(module(theirs), model.backbone(moved), atol=1e-5)


@pytest.mark.parametrize("plan", PLANS[:2], ids=lambda plan: plan.name)
def test_positions_of_tokens_are_trained(plan, folder):
    assert pretrain(plan, folder / plan.name)
    spec = backbone(plan.backbone)
    start = random_state(plan)["positions"]
    stored = read_back(plan.backbone, plan.name)[0]["positions"]
    seen = json.loads((folder / plan.name / "pretraining.json").read_text())["positions_seen"]
    assert 0 < seen < spec.positions
    assert torch.equal(stored[seen:], start[seen:])
    assert (stored[:seen] != start[:seen]).any(1).all()


def test_gpt2_is_the_one_that_transformers_loads(folder):
    plan = PLANS[0]
    assert pretrain(plan, folder / plan.name)
    theirs = GPT2Model.from_pretrained(folder / plan.name, dtype=torch.float32).eval()
    state, ours = read_back(plan.backbone, plan.name)
    x = torch.randn(3, 64, 16)
    with torch.no_grad():
        expected = theirs(inputs_embeds=x).last_hidden_state
        assert torch.allclose(ours(x + state["positions"]), expected, atol=1e-5)


@every_plan
def test_interrupted_equals_uninterrupted(plan, folder):
    assert pretrain(plan, folder / "whole")
    calls = 0
    while not pretrain(plan, folder / "parts", budget=0.0):
        assert (folder / "parts/checkpoint.safetensors").exists()
        calls += 1
        assert calls < 20
    assert calls == plan.steps - 1
    whole, parts = (load_file(folder / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole | parts)
    records = [
        json.loads((folder / name / "pretraining.json").read_text()) for name in ("whole", "parts")
    ]
    assert records[0] | {"seconds": 0} == records[1] | {"seconds": 0}
    assert not (folder / "parts/checkpoint.safetensors").exists()


def test_a_finished_one_is_made_again_if_its_data_are_others(folder, monkeypatch):
    plan, out = PLANS[0], folder / "made"
    assert pretrain(plan, out)
    assert pretrain(plan, out, budget=0.0)
    monkeypatch.setitem(SMALL, "bit-memory", SMALL["bit-memory"] | {"test": 50})
    assert not pretrain(plan, out, budget=0.0)


def test_killed_before_the_weights_were_written(folder, monkeypatch):
    """The end of training alone leaves nothing that looks finished."""
    plan = PLANS[0]
    assert not pretrain(plan, folder / "killed", budget=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(on_task, "write", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pretrain(plan, folder / "killed")
    assert pretrain(plan, folder / "killed")
    assert pretrain(plan, folder / "whole")
    whole, killed = (folder / name / "model.safetensors" for name in ("whole", "killed"))
    assert whole.read_bytes() == killed.read_bytes()


def test_a_diverging_run_leaves_no_weights(folder, monkeypatch):
    plan = replace(PLANS[0], lr=1e30)
    with pytest.raises(FptError, match="diverged by step .* learning rate 1e\\+30"):
        pretrain(plan, folder / plan.name)
    assert not (folder / plan.name / "model.safetensors").exists()


@pytest.mark.parametrize(("task", "augmented"), [("cifar10", True), ("bit-memory", False)])
def test_the_run_behind_a_plan_trains_the_whole_network_as_the_paper_does(task, augmented):
    plan = TaskPretraining(task, "nano", 20_000, seed=3, dropout=0.2)
    run = on_task.spec_of(plan, get_task(task))
    assert run.augment is augmented
    assert {*run.trainable} == {*backbone("nano").groups}
    assert (run.init, run.weights, run.seed, run.dropout) == ("random", None, 3, 0.2)
    tokens = run.steps * run.batch * get_task(task).length
    assert plan.tokens <= tokens < plan.tokens + run.batch * get_task(task).length


def test_its_metadata(folder):
    plan = PLANS[0]
    assert pretrain(plan, folder / plan.name)
    record = json.loads((folder / plan.name / "pretraining.json").read_text())
    assert record["plan"]["task"] == "bit-memory"
    assert record["tokens"] == 480
    assert [point["step"] for point in record["curve"]] == list(range(1, 11))
    best = max(point["valid_accuracy"] for point in record["curve"])
    assert record["valid_accuracy"] == best
    assert 0 <= record["test_masked"] <= 1
    assert record["floors"] == {"copy visible bits": 0.75, "masked bits: guess": 0.5}
    assert record["data_digest"] == get_task("bit-memory", **SMALL["bit-memory"]).digest()
    assert record["seconds"] > 0
