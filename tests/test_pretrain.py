"""Language-model pretraining on a text made here: its loss, its weights, how it is resumed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from read_back import metadata_in, read_back, same_tensors
from refusals import refuses
from transformers import GPT2Model

from fpt import backbones
from fpt.backbones import Backbone
from fpt.pretraining import language_model, on_corpus, streams
from fpt.pretraining.corpora import open_stream
from fpt.pretraining.metadata import finished
from fpt.pretraining.on_corpus import Training, positions_at, pretrain
from fpt.pretraining.plans import Pretraining
from fpt.pretraining.streams import split, text_named, text_stream
from fpt.tasks.sources import END

# Under the names of local backbones.
TINY = Backbone("micro", "gpt2", 2, 16, 2, 1024, 4096)
ARCHITECTURES = (
    TINY,
    Backbone("lstm-nano", "lstm", 2, 16),
    Backbone("lstm-positions-nano", "lstm", 2, 16, positions=1024, residual=True),
)
PLAN = Pretraining("javascript", "micro", 4096, context=64, batch=4, warmup=4)
DYCK = replace(PLAN, corpus="dyck-64")
# Held-out loss, mean training loss of the last step, standard deviation of all matrices.
GOLDEN = {
    "micro": (7.93221, 7.93919, 0.0191703),
    "lstm-nano": (8.11820, 8.12295, 0.1434313),
    "lstm-positions-nano": (8.00996, 8.01384, 0.1433054),
}
build = language_model.language_model
every_architecture = pytest.mark.parametrize(
    "architecture", ARCHITECTURES, ids=lambda architecture: architecture.name
)


@pytest.fixture
def folder(corpora, monkeypatch):
    """A corpus of 60 documents and the folder of backbones."""
    words = np.random.default_rng(0).integers(0, 50, (60, 150))
    documents = [" ".join(f"w{w}" for w in row) + "\n" for row in words]
    (corpora / "javascript.txt").write_text(f"{END}\n".join(documents))
    monkeypatch.setenv("FPT_BACKBONES", str(corpora))
    for architecture in ARCHITECTURES:
        monkeypatch.setitem(backbones.BACKBONES, architecture.name, architecture)
    return corpora


@pytest.fixture
def short(folder, monkeypatch):
    """With little held out."""
    monkeypatch.setattr(on_corpus, "open_stream", lambda *args: open_stream(*args, 2048))
    return folder


def change_text(folder, old="w", new="v"):
    path = folder / "javascript.txt"
    path.write_text(path.read_text().replace(old, new))


# -------------------------------------------------------------------------------------------- text


def test_a_few_long_documents_are_held_out_in_passages(folder, monkeypatch):
    monkeypatch.setattr(streams, "PASSAGE", 30)
    lines = [f"let line_{index} = {index};\n" for index in range(300)]
    (folder / "javascript.txt").write_text("".join([*lines[:290], f"{END}\n", *lines[290:]]))
    train, valid = map(list, split(text_named("javascript")))
    assert valid == ["".join(lines[end - 2 : end]) for end in (100, 200, 300)]
    assert sorted(train + valid) == sorted("".join(lines[i : i + 2]) for i in range(0, 300, 2))


def test_a_stream_decodes_to_the_text(folder):
    stream = text_stream("javascript", 3000)
    train, valid = map(list, split(text_named("javascript")))
    assert (len(stream.train), len(train), len(valid)) == (3000, 59, 1)
    assert not set(train) & set(valid)
    decoded = stream.tokenizer.decode(stream.train.tolist(), skip_special_tokens=True)
    assert decoded.startswith(train[0])
    change_text(folder)
    assert text_stream("javascript", 3000).digest != stream.digest


def test_a_document_may_speak_of_the_end_of_documents(folder):
    lines = [f"line {index} is not {END} the end" for index in range(100)]
    (folder / "own.txt").write_text("\n".join(lines))
    stream = open_stream("own", 10**6)
    assert (stream.train == 0).sum() == 98
    held_out = stream.tokenizer.decode(stream.valid.tolist(), skip_special_tokens=True)
    assert held_out == "".join(lines[49::50])
    assert stream.valid_bytes == len(held_out)


# -------------------------------------------------------------------------------------------- loss


def as_on_cuda(device):
    return torch.autocast("cpu", dtype=torch.bfloat16)


@pytest.mark.parametrize("rounded", [False, True])
def test_the_loss_and_its_gradients_are_those_of_the_full_matrix(rounded, monkeypatch):
    """In bf16, only the products are rounded: a softmax over 4,096 words with logits of 10 would
    be off by tenths."""
    monkeypatch.setattr(language_model, "ROWS", 16)  # of 40 rows, the last part is smaller
    hidden = torch.randn(40, 16).mul(3).requires_grad_()
    words = torch.randn(4096, 16).requires_grad_()
    targets = torch.randint(4096, (40,))
    logits = hidden @ words.T
    if rounded:
        logits = (hidden.bfloat16() @ words.bfloat16().T).float()
    expected = F.cross_entropy(logits, targets)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=rounded):
        ours = language_model.cross_entropy(hidden, words, targets)
        with torch.no_grad():
            again = language_model.cross_entropy(hidden, words, targets)
    assert ours.dtype == torch.float32
    assert ours.item() == again.item() == pytest.approx(expected.item(), rel=1e-5)
    gradients = torch.autograd.grad(2 * ours, (hidden, words))
    for ours, theirs in zip(
        gradients, torch.autograd.grad(2 * expected, (hidden, words)), strict=True
    ):
        tolerance = 0.02 if rounded else 1e-5
        assert torch.allclose(ours, theirs, atol=tolerance * float(theirs.abs().max()))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_sparse_stream_has_one_loss_per_sequence_of_its_last_token(folder, sparse):
    stream = replace(open_stream("dyck-64", 4096, 2048), sparse=sparse)
    model = build(TINY, 0).eval()
    training = Training(DYCK, model, stream, folder / "none", False)
    ids, positions = torch.randint(4096, (3, 12)), torch.arange(12).expand(3, -1)
    with torch.no_grad():
        logits = (model(ids, positions) @ model.token_embeddings.T)[:, :-1].transpose(1, 2)
        losses = F.cross_entropy(logits, ids[:, 1:], reduction="none")
        loss = training.loss(ids, positions).item()
    assert loss == pytest.approx(losses[:, -1 if sparse else 0 :].mean().item(), rel=1e-5)


# ---------------------------------------------------------------------------------------- training


@every_architecture
def test_loss_falls_and_the_backbone_is_the_one_that_was_trained(architecture, folder, monkeypatch):
    """Hidden states of the trained model, rounded to bf16, and of the stored one."""
    models = []
    monkeypatch.setattr(
        on_corpus, "language_model", lambda *args: models.append(build(*args)) or models[0]
    )
    plan = replace(PLAN, backbone=architecture.name)
    out = folder / plan.name
    assert pretrain(plan, out)
    metadata = metadata_in(out)
    losses = [point["valid_loss"] for point in metadata["curve"]]
    assert len(losses) == plan.steps  # fewer than `EVALUATIONS`
    assert losses[-1] < losses[0] < np.log(4096)
    assert (metadata["tokens"], metadata["positions_seen"]) == (4096, architecture.positions)
    # Bits of the held-out text over its bytes.
    (held_out,) = split(text_named("javascript"))[1]
    bits = len(text_stream("javascript", 4096).valid) * metadata["valid_loss"] / np.log(2)
    assert metadata["bits_per_byte"] == pytest.approx(bits / len(held_out.encode()))

    state, stored = read_back(architecture, plan.name)
    matrices = [value for name, value in state.items() if value.ndim == 2 and name != "positions"]
    scale = torch.cat([matrix.flatten() for matrix in matrices]).std().item()
    assert metadata["weight_scale"] == pytest.approx(scale, rel=1e-4)
    ids, positions = torch.randint(4096, (3, 20)), torch.arange(500, 520).expand(3, -1)
    trained = models[0].bfloat16().float().eval()
    x = F.embedding(ids, trained.token_embeddings)
    if architecture.positions:
        x = x + state["positions"][positions]
    with torch.no_grad():
        assert torch.allclose(stored(x), trained(ids, positions), atol=1e-5)
        if architecture is TINY:
            theirs = GPT2Model.from_pretrained(out, dtype=torch.float32).eval()
            assert torch.allclose(theirs(ids, position_ids=positions)[0], stored(x), atol=1e-5)


@every_architecture
def test_interrupted_equals_uninterrupted(architecture, folder, monkeypatch):
    """In its time too, by a clock of which each step takes a second."""
    plan = replace(PLAN, backbone=architecture.name)
    clock, train_step = [0.0], Training.train_step

    def timed(self):
        clock[0] += 1
        train_step(self)

    monkeypatch.setattr(Training, "train_step", timed)
    monkeypatch.setattr(on_corpus.time, "monotonic", lambda: clock[0])
    assert pretrain(plan, folder / "once")
    for _ in range(plan.steps - 1):
        assert not pretrain(plan, folder / "parts", budget=0.0)
    assert pretrain(plan, folder / "parts", budget=0.0)
    assert same_tensors(folder / "once", folder / "parts")
    once, parts = metadata_in(folder / "once"), metadata_in(folder / "parts")
    assert once["curve"] == parts["curve"]
    assert once["seconds"] == parts["seconds"] == plan.steps


def test_a_finished_backbone_is_not_made_again(folder):
    out = folder / "made"
    weights, checkpoint = out / "model.safetensors", out / "checkpoint.safetensors"
    assert pretrain(PLAN, out)
    before = (out / "pretraining.json").read_bytes()
    assert pretrain(PLAN, out, budget=0.0)
    assert not checkpoint.exists()
    assert (out / "pretraining.json").read_bytes() == before
    weights.write_bytes(weights.read_bytes()[:-1])  # damaged
    assert not pretrain(PLAN, out, budget=0.0)
    checkpoint.unlink()
    assert not pretrain(replace(PLAN, seed=1), out, budget=0.0)
    (out / "pretraining.json").write_text("{")
    assert not finished(out)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_backbone_that_cannot_be_written_is_one_sentence(name, folder):
    """A folder stands in place of the file: as on a full disk, training is not lost."""
    out = folder / "made"
    (out / name).mkdir(parents=True)
    refuses(lambda: pretrain(PLAN, out), "Cannot write", name)
    (out / name).rmdir()
    assert pretrain(PLAN, out, budget=0.0)
    assert GPT2Model.from_pretrained(out).config.n_layer == TINY.layers


def test_a_checkpoint_of_another_plan_or_text_is_not_resumed(folder, caplog):
    out = folder / "made"
    assert not pretrain(PLAN, out, budget=0.0)
    assert not caplog.messages
    longer = replace(PLAN, tokens=2048)
    assert not pretrain(longer, out, budget=0.0)
    change_text(folder)
    assert pretrain(longer, out)
    assert caplog.text.count("begins anew: the checkpoint") == 2
    assert pretrain(longer, folder / "fresh")
    assert same_tensors(out, folder / "fresh")
    change_text(folder, "v", "u")
    assert not pretrain(longer, out, budget=0.0)  # finished, but of another text


# ------------------------------------------------------------------------------ corpora of any kind


@every_architecture
def test_a_name_yields_the_same_backbone(architecture, short, monkeypatch):
    """As it was when this was written, but for the rounding of another processor, and, if products
    are in bf16, for theirs."""
    plan = replace(DYCK, backbone=architecture.name)
    assert pretrain(plan, short / "exact")
    monkeypatch.setattr(on_corpus.devices, "autocast", as_on_cuda)
    assert pretrain(plan, short / "rounded")
    exact, rounded = metadata_in(short / "exact"), metadata_in(short / "rounded")
    values = (exact["valid_loss"], exact["curve"][-1]["train_loss"], exact["weight_scale"])
    assert values == pytest.approx(GOLDEN[architecture.name], rel=2e-5)
    assert exact["weights_digest"] != rounded["weights_digest"]
    assert rounded["valid_loss"] == pytest.approx(exact["valid_loss"], abs=0.01)


def test_the_metadata_of_a_synthetic_corpus_dense_and_sparse(short):
    assert pretrain(DYCK, short / "dense")
    assert pretrain(replace(DYCK, corpus="dyck-64-last"), short / "sparse")
    dense, sparse = metadata_in(short / "dense"), metadata_in(short / "sparse")
    stream = open_stream("dyck-64", 4096, 2048)
    shares = np.bincount(stream.valid) / 2048
    shares = shares[shares > 0]
    assert dense["corpus_digest"] == sparse["corpus_digest"] == stream.digest
    assert dense["corpus_tokens"] == dense["tokens"] == 4096
    assert (dense["entropy_exact"], dense["below_entropy"]) == (True, False)
    assert dense["entropy"] == stream.entropy < dense["unigram_entropy"]
    assert dense["unigram_entropy"] == pytest.approx(-(shares * np.log(shares)).sum())
    assert dense["entropy"] < dense["valid_loss"] < np.log(4096)
    assert (dense["sparse"], sparse["sparse"]) == (False, True)
    assert sparse["weights_digest"] != dense["weights_digest"]
    assert "bits_per_byte" not in dense
    assert not (short / "dense" / "tokenizer.json").exists()


def test_a_loss_below_the_entropy_is_an_error_somewhere():
    losses = np.array([4.0, 4.1] * 10)
    # Four standard errors of the mean are 0.046; of fewer than ten batches nothing is said.
    assert not on_corpus.below_entropy(4.05 + 0.045, losses)
    assert on_corpus.below_entropy(4.05 + 0.047, losses)
    assert not on_corpus.below_entropy(9.0, losses[:9])


@every_architecture
def test_a_seed_decides_the_values_the_order_and_the_positions(architecture, folder):
    stream = open_stream("dyck-64", 2**16, 2048)
    before = torch.get_rng_state()

    def drawn(seed):
        plan, model = replace(DYCK, seed=seed), build(architecture, seed)
        training = Training(plan, model, stream, folder / "none", False)
        values = torch.cat([value.detach().flatten() for value in model.parameters()])
        return values, torch.from_numpy(training.order), positions_at(plan, 0)

    for first, again, second in zip(*map(drawn, (0, 0, 1)), strict=True):
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)  # that of the whole program


@pytest.mark.parametrize(
    ("content", "train", "held_out"), [("", 0, 0), ("\n" * 60, 0, 0), ("a line\n" * 60, 177, 3)]
)
def test_a_corpus_that_is_too_short(content, train, held_out, folder):
    (folder / "own.txt").write_text(content)
    counts = f"has {train} tokens to train on and {held_out} held out; 64 and 256 are the least"
    refuses(lambda: pretrain(replace(PLAN, corpus="own"), folder / "made"), f"'own' {counts}")
    # No full turn of a mixture.
    mixed = replace(PLAN, corpus="own+dyck-64")
    refuses(lambda: pretrain(mixed, folder / "made"), "'own+dyck-64' has 0 tokens")
    assert not (folder / "made").exists()
