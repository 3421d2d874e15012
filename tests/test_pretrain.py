"""Corpora, tokenizer and language-model pretraining on a corpus made here."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from read_back import metadata_in, read_back, same_tensors
from refusals import refuses
from transformers import GPT2Model

from fpt import backbones
from fpt.backbones import Backbone
from fpt.pretraining import language_model, on_corpus, streams
from fpt.pretraining.corpora import open_stream
from fpt.pretraining.metadata import finished
from fpt.pretraining.on_corpus import Pretraining, Training, positions_seen, pretrain
from fpt.pretraining.streams import split, text_named, text_stream
from fpt.tasks.sources import END

# Under the names of local backbones.
TINY = Backbone("micro", "gpt2", 2, 16, 2, 1024, 4096)
TINY_LSTM = Backbone("lstm-nano", "lstm", 2, 16)
ARCHITECTURES = (
    TINY,
    TINY_LSTM,
    Backbone("lstm-positions-nano", "lstm", 2, 16, positions=1024, residual=True),
)
PLAN = Pretraining("javascript", "micro", 4096, context=64, batch=4, warmup=4)
# Held-out loss, mean training loss of the last step, standard deviation of all matrices.
GOLDEN = {
    "micro": (7.93221, 7.93919, 0.0191703),
    "lstm-nano": (8.11820, 8.12295, 0.1434313),
    "lstm-positions-nano": (8.00996, 8.01384, 0.1433054),
}
build = language_model.language_model
every_architecture = pytest.mark.parametrize(
    "architecture", ARCHITECTURES, ids=[architecture.name for architecture in ARCHITECTURES]
)


@pytest.fixture
def text(corpora, monkeypatch):
    """A corpus of 60 documents; its folder."""
    words = np.random.default_rng(0).integers(0, 50, (60, 150))
    documents = [" ".join(f"w{w}" for w in row) + "\n" for row in words]
    (corpora / "javascript.txt").write_text(f"{END}\n".join(documents))
    monkeypatch.setenv("FPT_BACKBONES", str(corpora))
    for architecture in ARCHITECTURES:
        monkeypatch.setitem(backbones.BACKBONES, architecture.name, architecture)
    return corpora


# -------------------------------------------------------------------------------------------- text


def test_a_few_long_documents_are_held_out_in_passages(text, monkeypatch):
    monkeypatch.setattr(streams, "PASSAGE", 30)
    lines = [f"let line_{index} = {index};\n" for index in range(300)]
    (text / "javascript.txt").write_text("".join([*lines[:290], f"{END}\n", *lines[290:]]))
    train, valid = map(list, split(text_named("javascript")))
    assert valid == ["".join(lines[98:100]), "".join(lines[198:200]), "".join(lines[298:300])]
    assert sorted(train + valid) == sorted("".join(lines[i : i + 2]) for i in range(0, 300, 2))


def test_a_stream_decodes_to_the_text(text):
    stream = text_stream("javascript", 3000)
    assert len(stream.train) == 3000
    train, valid = map(list, split(text_named("javascript")))
    assert (len(train), len(valid)) == (59, 1)
    assert not set(train) & set(valid)
    decoded = stream.tokenizer.decode(stream.train.tolist(), skip_special_tokens=True)
    assert decoded.startswith(train[0])
    path = text / "javascript.txt"
    path.write_text(path.read_text().replace("w", "v"))
    assert text_stream("javascript", 3000).digest != stream.digest


def test_a_document_may_speak_of_the_end_of_documents(text):
    lines = [f"line {index} is not {END} the end" for index in range(100)]
    (text / "own.txt").write_text("\n".join(lines))
    stream = open_stream("own", 10**6)
    assert (stream.train == 0).sum() == 98
    held_out = stream.tokenizer.decode(stream.valid.tolist(), skip_special_tokens=True)
    assert held_out == "".join(lines[49::50])
    assert stream.valid_bytes == len(held_out)


# -------------------------------------------------------------------------------------------- loss


def test_the_loss_and_its_gradients_are_those_of_the_full_matrix(monkeypatch):
    monkeypatch.setattr(language_model, "ROWS", 4)  # 11 rows: two parts of 4 and a rest
    hidden = torch.randn(11, 8, dtype=torch.double).mul(3).requires_grad_()
    words = torch.randn(30, 8, dtype=torch.double).requires_grad_()
    targets = torch.randint(30, (11,))
    plain = torch.nn.functional.cross_entropy(hidden @ words.T, targets)
    ours = language_model.cross_entropy(hidden, words, targets)
    assert ours.item() == pytest.approx(plain.item())
    expected = torch.autograd.grad(2 * plain, (hidden, words))
    for gradient, theirs in zip(
        torch.autograd.grad(2 * ours, (hidden, words)), expected, strict=True
    ):
        assert torch.allclose(gradient, theirs)
    with torch.no_grad():
        again = language_model.cross_entropy(hidden, words, targets)
    assert again.item() == pytest.approx(ours.item())


def as_on_cuda(device):
    return torch.autocast("cpu", dtype=torch.bfloat16)


def test_in_bf16_only_products_are_rounded():
    """A softmax over 4,096 words with logits of 10 would be off by tenths if it were rounded."""
    hidden = torch.randn(40, 16).mul(3).requires_grad_()
    words = torch.randn(4096, 16).requires_grad_()
    targets = torch.randint(4096, (40,))
    logits = (hidden.bfloat16() @ words.bfloat16().T).float()
    rounded = torch.nn.functional.cross_entropy(logits, targets)
    with as_on_cuda(hidden.device):
        ours = language_model.cross_entropy(hidden, words, targets)
    assert ours.dtype == torch.float32
    assert ours.item() == pytest.approx(rounded.item(), rel=1e-5)
    expected = torch.autograd.grad(rounded, (hidden, words))
    for gradient, theirs in zip(torch.autograd.grad(ours, (hidden, words)), expected, strict=True):
        assert gradient.dtype == torch.float32
        assert torch.allclose(gradient, theirs, atol=0.02 * float(theirs.abs().max()))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_sparse_stream_has_one_loss_per_sequence_of_its_last_token(text, sparse):
    stream = replace(open_stream("dyck-64", 4096, 2048), sparse=sparse)
    model = build(TINY, 0).eval()
    training = Training(DYCK, model, stream, text / "none", False)
    ids, positions = torch.randint(4096, (3, 12)), torch.arange(12).expand(3, -1)
    with torch.no_grad():
        logits = model(ids, positions) @ model.token_embeddings.T
        losses = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
        ).view(3, 11)
        expected = losses[:, -1:] if sparse else losses
        loss = training.loss(ids, positions).item()
    assert loss == pytest.approx(expected.mean().item(), rel=1e-5)


# ---------------------------------------------------------------------------------------- training


def test_the_learning_rate_rises_to_its_peak_and_falls_to_zero():
    plan = Pretraining("english", "nano", 40 * 4096, lr=0.01, warmup=10)
    rates = [on_corpus.learning_rate(plan, step) for step in range(plan.steps + 1)]
    assert rates[:10] == pytest.approx([0.001 * step for step in range(1, 11)])
    assert rates[10] == pytest.approx(0.01)
    assert rates[25] == pytest.approx(0.005)  # half of the way down
    assert rates[40] == pytest.approx(0, abs=1e-9)


@every_architecture
def test_loss_falls_and_the_backbone_is_the_one_that_was_trained(architecture, text, monkeypatch):
    """Hidden states of the trained model, rounded to bf16, and of the stored one."""
    models = []
    monkeypatch.setattr(
        on_corpus, "language_model", lambda *args: models.append(build(*args)) or models[0]
    )
    plan = replace(PLAN, backbone=architecture.name)
    out = text / plan.name
    assert pretrain(plan, out)
    metadata = metadata_in(out)
    losses = [point["valid_loss"] for point in metadata["curve"]]
    assert len(losses) == plan.steps  # fewer than `EVALUATIONS`
    assert losses[-1] < losses[0] < np.log(4096)
    assert metadata["tokens"] == 4096
    assert metadata["positions_seen"] == architecture.positions
    assert not (out / "checkpoint.safetensors").exists()
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
    x = torch.nn.functional.embedding(ids, trained.token_embeddings)
    if architecture.positions:
        x = x + state["positions"][positions]
    with torch.no_grad():
        assert torch.allclose(stored(x), trained(ids, positions), atol=1e-5)
        if architecture is TINY:
            theirs = GPT2Model.from_pretrained(out, dtype=torch.float32).eval()
            assert torch.allclose(theirs(ids, position_ids=positions)[0], stored(x), atol=1e-5)


@every_architecture
def test_interrupted_equals_uninterrupted(architecture, text, monkeypatch):
    """In its time too, by a clock of which each step takes a second."""
    plan = replace(PLAN, backbone=architecture.name)
    clock, train_step = [0.0], Training.train_step

    def timed(self):
        clock[0] += 1
        train_step(self)

    monkeypatch.setattr(Training, "train_step", timed)
    monkeypatch.setattr(on_corpus.time, "monotonic", lambda: clock[0])
    assert pretrain(plan, text / "once")
    calls = 1
    while not pretrain(plan, text / "parts", budget=0.0):
        calls += 1
        assert calls <= plan.steps
    assert calls == plan.steps
    assert same_tensors(text / "once", text / "parts")
    once, parts = metadata_in(text / "once"), metadata_in(text / "parts")
    assert once["curve"] == parts["curve"]
    assert once["seconds"] == parts["seconds"] == plan.steps


def test_a_finished_backbone_is_not_made_again(text):
    out = text / "made"
    assert pretrain(PLAN, out)
    weights = out / "model.safetensors"
    before = (out / "pretraining.json").read_bytes()
    assert pretrain(PLAN, out, budget=0.0)
    assert not (out / "checkpoint.safetensors").exists()
    assert (out / "pretraining.json").read_bytes() == before
    weights.write_bytes(weights.read_bytes()[:-1])  # damaged
    assert not pretrain(PLAN, out, budget=0.0)
    (out / "checkpoint.safetensors").unlink()
    assert not pretrain(replace(PLAN, seed=1), out, budget=0.0)
    (out / "pretraining.json").write_text("{")
    assert not finished(out)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_backbone_that_cannot_be_written_is_one_sentence(name, text):
    """A folder stands in place of the file: as on a full disk, training is not lost."""
    out = text / "made"
    (out / name).mkdir(parents=True)
    refuses(lambda: pretrain(PLAN, out), "Cannot write", name)
    (out / name).rmdir()
    assert pretrain(PLAN, out, budget=0.0)
    assert GPT2Model.from_pretrained(out).config.n_layer == TINY.layers


def test_a_checkpoint_of_another_plan_is_not_continued(text, caplog):
    assert not pretrain(PLAN, text / "made", budget=0.0)
    assert not caplog.messages
    longer = replace(PLAN, tokens=2048)
    assert pretrain(longer, text / "made")
    assert "begins anew: the checkpoint" in caplog.text
    assert "has another plan" in caplog.text
    assert pretrain(longer, text / "fresh")
    assert same_tensors(text / "made", text / "fresh")


def test_a_backbone_of_another_text_is_made_anew(text, caplog):
    """Whether it was begun or finished."""
    file, out = text / "javascript.txt", text / "made"
    first = file.read_text()
    assert not pretrain(PLAN, out, budget=0.0)
    file.write_text(first.replace("w", "v"))
    assert not pretrain(PLAN, out, budget=0.0)
    assert "has another corpus" in caplog.text
    assert pretrain(PLAN, out)
    file.write_text(first)
    assert not pretrain(PLAN, out, budget=0.0)


# ------------------------------------------------------------------------------ corpora of any kind

DYCK = replace(PLAN, corpus="dyck-64")


@pytest.fixture
def short(text, monkeypatch):
    """With little held out."""
    monkeypatch.setattr(on_corpus, "open_stream", lambda *args: open_stream(*args, 2048))
    return text


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
    metadata, stream = metadata_in(short / "dense"), open_stream("dyck-64", 4096, 2048)
    assert metadata["corpus_digest"] == stream.digest
    assert metadata["corpus_tokens"] == metadata["tokens"] == 4096
    assert metadata["entropy"] == stream.entropy
    assert (metadata["entropy_exact"], metadata["below_entropy"]) == (True, False)
    shares = np.bincount(stream.valid) / 2048
    alone = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
    assert metadata["entropy"] < metadata["unigram_entropy"] == pytest.approx(alone)
    assert metadata["entropy"] < metadata["valid_loss"] < np.log(4096)
    sparse = metadata_in(short / "sparse")
    assert (metadata["sparse"], sparse["sparse"]) == (False, True)
    assert sparse["corpus_digest"] == metadata["corpus_digest"]
    assert sparse["weights_digest"] != metadata["weights_digest"]
    assert "bits_per_byte" not in metadata
    assert not (short / "dense" / "tokenizer.json").exists()


def test_a_loss_below_the_entropy_is_an_error_somewhere():
    losses = np.array([4.0, 4.1] * 10)
    # Four standard errors of the mean are 0.046; of fewer than ten batches nothing is sentence.
    assert not on_corpus.below_entropy(4.05 + 0.045, losses)
    assert on_corpus.below_entropy(4.05 + 0.047, losses)
    assert not on_corpus.below_entropy(9.0, losses[:9])


@pytest.mark.parametrize("architecture", [TINY, TINY_LSTM])
def test_a_fresh_model_leaves_the_global_generator_alone(architecture):
    before = torch.get_rng_state()
    first, again, second = (build(architecture, seed).tensors() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_each_seed_reads_the_corpus_in_an_order_of_its_own(text):
    """And begins its sequences at positions of its own."""
    stream, model = open_stream("dyck-64", 2**16, 2048), build(TINY, 0)

    def first_batch(seed):
        plan = replace(DYCK, seed=seed)
        training = Training(plan, model, stream, text / "none", False)
        return on_corpus.batch_at(plan, stream.train, 0, training.order)

    for first, again, second in zip(*map(first_batch, (0, 0, 1)), strict=True):
        assert torch.equal(first, again)
        assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("content", "train", "held_out"),
    [("", 0, 0), ("\n" * 60, 0, 0), ("a line\n" * 49, 147, 0), ("a line\n" * 60, 177, 3)],
)
def test_a_corpus_that_is_too_short(content, train, held_out, text):
    (text / "own.txt").write_text(content)
    sentence = (
        f"'own' has {train} tokens to train on and {held_out} held out; 64 and 256 are the least"
    )
    refuses(lambda: pretrain(replace(PLAN, corpus="own"), text / "made"), sentence)
    # No full turn of a mixture.
    refuses(
        lambda: pretrain(replace(PLAN, corpus="own+dyck-64"), text / "made"),
        "'own+dyck-64' has 0 tokens",
    )
    assert not (text / "made").exists()


def test_positions_that_a_plan_trains():
    one_step = replace(PLAN, tokens=PLAN.context * PLAN.batch)
    positions = on_corpus.batch_at(one_step, np.zeros(4096, np.uint16), 0, torch.arange(64))[1]
    assert positions_seen(one_step) == len(positions.unique())
    assert positions_seen(Pretraining("english", "nano", 1_000_000)) == 1024
    assert positions_seen(Pretraining("english", "lstm-nano", 1_000_000)) == 0
