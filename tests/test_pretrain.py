"""Pretraining on corpora and tasks: the weights it leaves, its metadata, how it is resumed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from read_back import metadata_in, read_back, same_tensors
from refusals import refuses

from fpt.backbones import BACKBONES, Backbone, backbone, build
from fpt.backbones.initialisations import initial_state
from fpt.pretraining import language_model, on_corpus, on_task, plans, streams
from fpt.pretraining.corpora import open_stream
from fpt.pretraining.ensure import pretrain
from fpt.pretraining.on_corpus import Training
from fpt.pretraining.plans import Pretraining, TaskPretraining
from fpt.pretraining.streams import split, text_named, text_stream
from fpt.tasks import get_task
from fpt.tasks.sources import END
from fpt.training.loop import Loop

# Under the names of local backbones.
ARCHITECTURES = (
    Backbone("micro", "gpt2", 2, 16, 2, 1024, 4096),
    Backbone("lstm-nano", "lstm", 2, 16),
    Backbone("lstm-positions-nano", "lstm", 2, 16, positions=1024, residual=True),
    Backbone("pico", "gpt2", 2, 16, 2, 64),
    Backbone("vit-micro", "vit", 2, 16, 2, 64),
)
SMALL = {"bit-memory": {"n": 20, "patterns": 2, "patch": 5, "valid": 20, "test": 40}, "digits": {}}
TEXT = Pretraining("javascript", "micro", 4096, context=64, batch=4, warmup=4)
DYCK = replace(TEXT, corpus="dyck-64")
BITS = TaskPretraining("bit-memory", "pico", 10 * 4 * 12, batch=4, lr=0.01)
DIGITS = TaskPretraining("digits", "vit-micro", 10 * 16 * 4, batch=16, lr=0.01, dropout=0.1)
# Of a corpus, held-out and last training loss; of a task, accuracy and loss on validation; and the
# standard deviation of all matrices.
GOLDEN = {
    DYCK: (7.93221, 7.93919, 0.0191703),
    replace(DYCK, backbone="lstm-nano"): (8.11820, 8.12295, 0.1434313),
    replace(DYCK, backbone="lstm-positions-nano"): (8.00996, 8.01384, 0.1433054),
    BITS: (0.795, 0.473154, 0.0449686),
    DIGITS: (0.11, 2.341816, 0.0391448),
    replace(BITS, backbone="lstm-nano"): (0.6175, 0.683312, 0.1470212),
}
every_plan = pytest.mark.parametrize("plan", GOLDEN, ids=lambda plan: plan.name)


@pytest.fixture
def folder(corpora, monkeypatch):
    """A corpus of 60 documents, small tasks, and the folder of backbones."""
    words = np.random.default_rng(0).integers(0, 50, (60, 150))
    documents = [" ".join(f"w{w}" for w in row) + "\n" for row in words]
    (corpora / "javascript.txt").write_text(f"{END}\n".join(documents))
    for module in (on_task, plans):
        monkeypatch.setattr(module, "get_task", lambda name: get_task(name, **SMALL[name]))
    monkeypatch.setattr(on_corpus, "open_stream", lambda *args: open_stream(*args, 2048))
    monkeypatch.setenv("FPT_BACKBONES", str(corpora))
    for architecture in ARCHITECTURES:
        monkeypatch.setitem(BACKBONES, architecture.name, architecture)
    return corpora


def change_text(folder):
    path = folder / "javascript.txt"
    path.write_text(path.read_text().replace("w", "v"))


# ------------------------------------------------------------------------------ every kind of plan


@every_plan
def test_a_plan_yields_the_same_backbone_in_one_piece_or_in_parts(plan, folder):
    """As it was when this was written, but for the rounding of another processor."""
    once = folder / "once"
    parts = folder / "parts"
    assert pretrain(plan, once)
    metadata = metadata_in(once)
    curve = metadata["curve"]
    scale = metadata["weight_scale"]
    if isinstance(plan, Pretraining):
        measured = (metadata["valid_loss"], curve[-1]["train_loss"], scale)
    else:
        measured = (metadata["valid_accuracy"], curve[-1]["valid_loss"], scale)
    assert measured == pytest.approx(GOLDEN[plan], rel=2e-5)
    for _ in range(3):
        assert not pretrain(plan, parts, budget=0.0)
    assert (parts / "checkpoint.safetensors").exists()
    assert pretrain(plan, parts)
    assert not (parts / "checkpoint.safetensors").exists()
    assert same_tensors(once, parts)
    assert metadata | {"seconds": 0} == metadata_in(parts) | {"seconds": 0}


@pytest.mark.parametrize("plan", [TEXT, BITS], ids=lambda plan: plan.name)
def test_a_finished_backbone_is_made_again_only_if_something_changed(plan, folder, monkeypatch):
    out = folder / "made"
    weights = out / "model.safetensors"
    metadata = out / "pretraining.json"
    assert pretrain(plan, out)
    content = weights.read_bytes()
    before = metadata.read_bytes()

    def is_made_again(plan):
        done = pretrain(plan, out, budget=0.0)
        (out / "checkpoint.safetensors").unlink(missing_ok=done)
        return not done

    assert not is_made_again(plan)
    assert metadata.read_bytes() == before
    assert is_made_again(replace(plan, seed=1))
    weights.write_bytes(content[:-1])
    assert is_made_again(plan)
    weights.write_bytes(content)
    metadata.write_text("{")
    assert is_made_again(plan)
    metadata.write_bytes(before)
    change_text(folder)
    monkeypatch.setitem(SMALL, "bit-memory", SMALL["bit-memory"] | {"test": 50})
    assert is_made_again(plan)


def test_a_checkpoint_of_another_plan_or_text_is_not_resumed(folder, caplog):
    assert not pretrain(TEXT, folder / "made", budget=0.0)
    assert not caplog.messages
    shorter = replace(TEXT, tokens=2048)
    assert not pretrain(shorter, folder / "made", budget=0.0)
    change_text(folder)
    assert pretrain(shorter, folder / "made")
    assert caplog.text.count("begins anew: the checkpoint") == 2
    assert pretrain(shorter, folder / "fresh")
    assert same_tensors(folder / "made", folder / "fresh")


# -------------------------------------------------------------------------------------------- text


# Held-out passages that are trained on make a loss too good.
def test_a_few_long_documents_are_held_out_in_passages(folder, monkeypatch):
    monkeypatch.setattr(streams, "PASSAGE", 30)
    lines = [f"let line_{index} = {index};\n" for index in range(300)]
    (folder / "javascript.txt").write_text("".join([*lines[:290], f"{END}\n", *lines[290:]]))
    train, valid = map(list, split(text_named("javascript")))
    assert valid == ["".join(lines[end - 2 : end]) for end in (100, 200, 300)]
    assert sorted(train + valid) == sorted("".join(lines[i : i + 2]) for i in range(0, 300, 2))


@pytest.mark.parametrize(("content", "train", "held_out"), [("", 0, 0), ("a line\n" * 60, 177, 3)])
def test_a_corpus_that_is_too_short(content, train, held_out, folder):
    (folder / "own.txt").write_text(content)
    counts = f"has {train} tokens to train on and {held_out} held out; 64 and 256 are the least"
    refuses(lambda: pretrain(replace(TEXT, corpus="own"), folder / "made"), f"'own' {counts}")
    # No full turn of a mixture.
    mixed = replace(TEXT, corpus="own+dyck-64")
    refuses(lambda: pretrain(mixed, folder / "made"), "'own+dyck-64' has 0 tokens")
    assert not (folder / "made").exists()


# -------------------------------------------------------------------------------- language models


@pytest.mark.parametrize("sparse", [False, True])
def test_a_sparse_stream_has_one_loss_per_sequence_of_its_last_token(folder, sparse):
    stream = replace(open_stream("dyck-64", 4096, 2048), sparse=sparse)
    model = language_model.language_model(ARCHITECTURES[0], 0).eval()
    training = Training(DYCK, model, stream, folder / "none")
    offsets = torch.tensor([[0], [64], [128]])
    ids = torch.randint(4096, (3, 12))
    positions = offsets + torch.arange(12)
    with torch.no_grad():
        logits = (model(ids, positions) @ model.token_embeddings.T)[:, :-1].transpose(1, 2)
        losses = F.cross_entropy(logits, ids[:, 1:], reduction="none")
        loss = training.loss(ids.numpy(), offsets).item()
    assert loss == pytest.approx(losses[:, -1 if sparse else 0 :].mean().item(), rel=1e-5)


# A loss in nats per token looks much like one in bits per byte.
@pytest.mark.parametrize("name", ["micro", "lstm-nano", "lstm-positions-nano"])
def test_the_language_model_that_was_trained_is_the_one_that_is_stored(name, folder, monkeypatch):
    models = []
    build_model = language_model.language_model
    monkeypatch.setattr(
        on_corpus, "language_model", lambda *args: models.append(build_model(*args)) or models[0]
    )
    architecture = backbone(name)
    plan = replace(TEXT, backbone=name)
    out = folder / plan.name
    assert pretrain(plan, out)
    metadata = metadata_in(out)
    losses = [point["valid_loss"] for point in metadata["curve"]]
    assert len(losses) == plan.steps  # fewer than `EVALUATIONS`
    assert losses[-1] < losses[0] < np.log(4096)
    assert metadata["tokens"] == 4096
    # Bits of the held-out text over its bytes.
    (held_out,) = split(text_named("javascript"))[1]
    bits = len(text_stream("javascript", 4096, 2048).valid) * metadata["valid_loss"] / np.log(2)
    assert metadata["bits_per_byte"] == pytest.approx(bits / len(held_out.encode()))

    state, stored = read_back(architecture, plan.name)
    ids = torch.randint(4096, (3, 20))
    positions = torch.arange(500, 520).expand(3, -1)
    trained = models[0].bfloat16().float().eval()
    x = F.embedding(ids, trained.token_embeddings)
    if architecture.positions:
        x = x + state["positions"][positions]
    with torch.no_grad():
        assert torch.allclose(stored(x), trained(ids, positions), atol=1e-5)


def test_the_metadata_of_a_synthetic_corpus_dense_and_sparse(folder):
    assert pretrain(DYCK, folder / "dense")
    assert pretrain(replace(DYCK, corpus="dyck-64-last"), folder / "sparse")
    dense = metadata_in(folder / "dense")
    sparse = metadata_in(folder / "sparse")
    stream = open_stream("dyck-64", 4096, 2048)
    shares = np.bincount(stream.valid) / 2048
    shares = shares[shares > 0]
    assert dense["corpus_digest"] == sparse["corpus_digest"] == stream.digest
    assert dense["entropy_exact"]
    assert dense["entropy"] == stream.entropy
    assert dense["unigram_entropy"] == pytest.approx(-(shares * np.log(shares)).sum())
    assert sparse["weights_digest"] != dense["weights_digest"]


# ------------------------------------------------------------------------------------------- tasks


@pytest.mark.parametrize("plan", [*GOLDEN][3:], ids=lambda plan: plan.name)
def test_the_backbone_that_was_trained_on_a_task_is_the_one_that_is_stored(
    plan, folder, monkeypatch
):
    """And its positions, of which only those of the tokens are trained."""
    loops = []
    monkeypatch.setattr(on_task, "Loop", lambda *args: loops.append(Loop(*args)) or loops[0])
    assert pretrain(plan, folder / plan.name)
    metadata, (loop,) = metadata_in(folder / plan.name), loops
    assert [point["step"] for point in metadata["curve"]] == list(range(1, 11))
    assert metadata["valid_accuracy"] == max(p["valid_accuracy"] for p in metadata["curve"])
    model = loop.model.eval()
    length = loop.task.length
    loop.rows.bind(loop.selected[0][None].bfloat16().float())
    architecture = backbone(plan.backbone)
    state, module = read_back(architecture, plan.name)
    start = initial_state(architecture, build(architecture), "random", None, plan.seed)
    x = torch.randn(3, length, 16)
    ours = x
    theirs = x
    if architecture.positions:
        ours = x + state["positions"][:length]
        theirs = x + model.positions[0]
        is_trained = (state["positions"] != start["positions"]).any(1)
        assert is_trained.tolist() == [place < length for place in range(64)]
    with torch.no_grad():
        assert torch.allclose(module(ours), model.backbone(theirs), atol=1e-5)


def test_a_diverging_run_leaves_no_weights(folder):
    out = folder / "made"
    refuses(lambda: pretrain(replace(BITS, lr=1e30), out), "diverged by step", "rate 1e+30")
    assert not (out / "model.safetensors").exists()


def test_the_run_behind_a_plan_trains_the_complete_network_as_the_paper_does():
    plan = TaskPretraining("cifar10", "nano", 20_000, seed=3, dropout=0.2)
    run = on_task.spec_of(plan, get_task("cifar10"))
    assert {*run.trainable} == {*backbone("nano").groups}
    assert (run.augment, run.init, run.seed, run.dropout) == (True, "random", 3, 0.2)
    tokens = run.batch * get_task("cifar10").length
    assert plan.tokens <= run.steps * tokens < plan.tokens + tokens
