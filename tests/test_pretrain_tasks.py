"""Backbones pretrained on a task: what is kept, their metadata, and how training is resumed."""

from dataclasses import replace

import pytest
import torch
from read_back import metadata_in, read_back, same_tensors
from refusals import refuses
from transformers import GPT2Model

from fpt.backbones import BACKBONES, Backbone, backbone, build
from fpt.backbones.initialisations import initial_state
from fpt.pretraining import on_task, plans
from fpt.pretraining.on_task import pretrain
from fpt.pretraining.plans import TaskPretraining
from fpt.tasks import get_task
from fpt.training.loop import Loop

# Under the names of local backbones.
ARCHITECTURES = (
    Backbone("micro", "gpt2", 2, 16, 2, 64),
    Backbone("vit-micro", "vit", 2, 16, 2, 64),
    Backbone("lstm-micro", "lstm", 2, 16),
)
SMALL = {
    "bit-memory": {"n": 20, "patterns": 2, "patch": 5, "valid": 20, "test": 40},
    "digits": {},
}
GPT2, VIT, LSTM = PLANS = (
    TaskPretraining("bit-memory", "micro", 10 * 4 * 12, batch=4, lr=0.01),
    TaskPretraining("digits", "vit-micro", 10 * 16 * 4, batch=16, lr=0.01, dropout=0.1),
    TaskPretraining("bit-memory", "lstm-micro", 10 * 4 * 12, batch=4, lr=0.01),
)
# Accuracy on validation, its loss in the end, standard deviation of all matrices.
GOLDEN = {
    GPT2: (0.795, 0.473154, 0.0449686),
    VIT: (0.11, 2.341816, 0.0391448),
    LSTM: (0.6175, 0.683312, 0.1470212),
}
every_plan = pytest.mark.parametrize("plan", PLANS, ids=[plan.name for plan in PLANS])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of backbones; tiny ones and small tasks under the names of larger ones."""
    for architecture in ARCHITECTURES:
        monkeypatch.setitem(BACKBONES, architecture.name, architecture)
    for module in (on_task, plans):
        monkeypatch.setattr(module, "get_task", lambda name: get_task(name, **SMALL[name]))
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    return tmp_path


@every_plan
def test_the_backbone_is_the_one_that_was_trained(plan, folder, monkeypatch):
    """Hidden states of the trained model, rounded to bf16, and of the stored one. It is as it was
    when this was written, but for the rounding of another processor."""
    loops = []
    monkeypatch.setattr(on_task, "Loop", lambda *args: loops.append(Loop(*args)) or loops[0])
    assert pretrain(plan, folder / plan.name)
    metadata = metadata_in(folder / plan.name)
    curve = metadata["curve"]
    values = (metadata["valid_accuracy"], curve[-1]["valid_loss"], metadata["weight_scale"])
    assert values == pytest.approx(GOLDEN[plan], rel=2e-5)
    assert metadata["valid_accuracy"] == max(point["valid_accuracy"] for point in curve)
    assert [point["step"] for point in curve] == list(range(1, 11))
    (loop,) = loops
    model, length = loop.model.eval(), loop.task.length
    loop.rows.bind(loop.selected[0][None].bfloat16().float())
    architecture = backbone(plan.backbone)
    state, module = read_back(architecture, plan.name)
    start = initial_state(architecture, build(architecture), "random", None, plan.seed)
    x = torch.randn(3, length, 16)
    ours, theirs = x, x
    if architecture.positions:
        ours, theirs = x + state["positions"][:length], x + model.positions[0]
        # Those of the tokens are trained, and no others.
        is_trained = (state["positions"] != start["positions"]).any(1)
        assert is_trained.tolist() == [place < length for place in range(64)]
    assert metadata["positions_seen"] == (length if architecture.positions else 0)
    with torch.no_grad():
        assert torch.allclose(module(ours), model.backbone(theirs), atol=1e-5)
    if architecture.family == "gpt2":
        stored = GPT2Model.from_pretrained(folder / plan.name, dtype=torch.float32).eval()
        with torch.no_grad():
            expected = stored(inputs_embeds=x).last_hidden_state
            assert torch.allclose(module(ours), expected, atol=1e-5)


@every_plan
def test_interrupted_equals_uninterrupted(plan, folder):
    once, parts = folder / "once", folder / "parts"
    assert pretrain(plan, once)
    for _ in range(plan.steps - 1):
        assert not pretrain(plan, parts, budget=0.0)
    assert (parts / "checkpoint.safetensors").exists()
    assert pretrain(plan, parts, budget=0.0)
    assert not (parts / "checkpoint.safetensors").exists()
    assert same_tensors(once, parts)
    assert metadata_in(once) | {"seconds": 0} == metadata_in(parts) | {"seconds": 0}


def test_a_finished_backbone_is_made_again_if_its_data_are_others(folder, monkeypatch):
    out = folder / "made"
    assert pretrain(GPT2, out)
    assert pretrain(GPT2, out, budget=0.0)
    monkeypatch.setitem(SMALL, "bit-memory", SMALL["bit-memory"] | {"test": 50})
    assert not pretrain(GPT2, out, budget=0.0)


def test_killed_before_the_weights_were_written(folder, monkeypatch):
    """The end of training alone leaves nothing that looks finished."""
    killed = folder / "killed"
    with monkeypatch.context() as patch:
        patch.setattr(on_task, "write", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pretrain(GPT2, killed)
    assert pretrain(GPT2, killed, budget=0.0)
    assert pretrain(GPT2, folder / "once")
    assert same_tensors(killed, folder / "once")


def test_a_diverging_run_leaves_no_weights(folder):
    plan = replace(GPT2, lr=1e30)
    refuses(lambda: pretrain(plan, folder / plan.name), "diverged by step", "learning rate 1e+30")
    assert not (folder / plan.name / "model.safetensors").exists()


@pytest.mark.parametrize(("name", "augmented"), [("cifar10", True), ("bit-memory", False)])
def test_the_run_behind_a_plan_trains_the_complete_network_as_the_paper_does(name, augmented):
    plan = TaskPretraining(name, "nano", 20_000, seed=3, dropout=0.2)
    task = get_task(name)
    run = on_task.spec_of(plan, task)
    assert {*run.trainable} == {*backbone("nano").groups}
    measured = (run.augment, run.init, run.weights, run.seed, run.dropout)
    assert measured == (augmented, "random", None, 3, 0.2)
    tokens = run.batch * task.length
    assert plan.tokens <= run.steps * tokens < plan.tokens + tokens


def test_its_metadata(folder):
    assert pretrain(GPT2, folder / GPT2.name)
    metadata = metadata_in(folder / GPT2.name)
    assert (metadata["plan"]["task"], metadata["tokens"]) == ("bit-memory", 480)
    assert 0 <= metadata["test_masked"] <= 1
    assert metadata["floors"] == {"copy visible bits": 0.75, "masked bits: guess": 0.5}
    assert metadata["data_digest"] == get_task("bit-memory", **SMALL["bit-memory"]).digest()
    assert metadata["seconds"] > 0
