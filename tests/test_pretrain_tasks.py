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


def initial(plan):
    architecture = backbone(plan.backbone)
    return initial_state(architecture, build(architecture), "random", None, plan.seed)


@every_plan
def test_the_backbone_is_the_one_that_was_trained(plan, folder, monkeypatch):
    """Hidden states of the trained model, rounded to bf16, and of the stored one. It is as it was
    when this was written, but for the rounding of another processor."""
    loops = []
    monkeypatch.setattr(on_task, "Loop", lambda *args: loops.append(Loop(*args)) or loops[0])
    assert pretrain(plan, folder / plan.name)
    metadata = metadata_in(folder / plan.name)
    values = (
        metadata["valid_accuracy"],
        metadata["curve"][-1]["valid_loss"],
        metadata["weight_scale"],
    )
    assert values == pytest.approx(GOLDEN[plan], rel=2e-5)
    (loop,) = loops
    model, length = loop.model.eval(), loop.task.length
    start = initial(plan)
    loop.rows.bind(loop.selected[0][None].bfloat16().float())
    state, module = read_back(backbone(plan.backbone), plan.name)
    assert any(not torch.equal(state[name], start[name]) for name in start)
    x = torch.randn(3, length, 16)
    ours, theirs = x, x
    if plan is not LSTM:
        ours, theirs = x + state["positions"][:length], x + model.positions[0]
        # Those of the tokens are trained, and no others.
        trained = (state["positions"] != start["positions"]).any(1)
        assert trained.tolist() == [place < length for place in range(64)]
        assert metadata["positions_seen"] == length
    with torch.no_grad():
        assert torch.allclose(module(ours), model.backbone(theirs), atol=1e-5)


def test_gpt2_is_the_one_that_transformers_loads(folder):
    assert pretrain(GPT2, folder / GPT2.name)
    theirs = GPT2Model.from_pretrained(folder / GPT2.name, dtype=torch.float32).eval()
    state, ours = read_back(backbone("micro"), GPT2.name)
    x = torch.randn(3, 64, 16)
    with torch.no_grad():
        expected = theirs(inputs_embeds=x).last_hidden_state
        assert torch.allclose(ours(x + state["positions"]), expected, atol=1e-5)


@every_plan
def test_interrupted_equals_uninterrupted(plan, folder):
    once, parts = folder / "once", folder / "parts"
    assert pretrain(plan, once)
    calls = 1
    while not pretrain(plan, parts, budget=0.0):
        assert (parts / "checkpoint.safetensors").exists()
        calls += 1
        assert calls < 20
    assert calls == plan.steps
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
    assert not pretrain(GPT2, killed, budget=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(on_task, "write", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pretrain(GPT2, killed)
    assert pretrain(GPT2, killed)
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
    assert run.augment is augmented
    assert {*run.trainable} == {*backbone("nano").groups}
    assert (run.init, run.weights, run.seed, run.dropout) == ("random", None, 3, 0.2)
    tokens = run.batch * task.length
    assert plan.tokens <= run.steps * tokens < plan.tokens + tokens


def test_its_metadata(folder):
    assert pretrain(GPT2, folder / GPT2.name)
    metadata = metadata_in(folder / GPT2.name)
    assert metadata["plan"]["task"] == "bit-memory"
    assert metadata["tokens"] == 480
    assert [point["step"] for point in metadata["curve"]] == list(range(1, 11))
    best = max(point["valid_accuracy"] for point in metadata["curve"])
    assert metadata["valid_accuracy"] == best
    assert 0 <= metadata["test_masked"] <= 1
    assert metadata["floors"] == {"copy visible bits": 0.75, "masked bits: guess": 0.5}
    assert metadata["data_digest"] == get_task("bit-memory", **SMALL["bit-memory"]).digest()
    assert metadata["seconds"] > 0
