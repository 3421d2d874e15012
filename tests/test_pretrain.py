"""Corpora, tokenizer and language-model pretraining on a corpus made here."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2Model

from fpt import backbones
from fpt.backbones import Backbone
from fpt.draws import Draws
from fpt.errors import FptError
from fpt.pretrain import corpus, language, models
from fpt.pretrain.language import Pretraining, pretrain
from fpt.pretrain.models import language_model
from fpt.weights import body_state

# Under the names of local backbones.
TINY = Backbone("micro", "gpt2", 2, 16, 2, 1024, 4096)
TINY_LSTM = Backbone("lstm-nano", "lstm", 2, 16)
TINY_LSTM_POSITIONS = Backbone("lstm-positions-nano", "lstm", 2, 16, positions=1024, residual=True)
BODIES = (TINY, TINY_LSTM, TINY_LSTM_POSITIONS)
PLAN = Pretraining("javascript", "micro", 4096, context=64, batch=4, warmup=4)
every_body = pytest.mark.parametrize("body", BODIES, ids=lambda body: body.name)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of 60 documents, and an empty folder for prepared streams."""
    words = np.random.default_rng(0).integers(0, 50, (60, 150))
    documents = [" ".join(f"w{w}" for w in row) + "\n" for row in words]
    (tmp_path / "javascript.txt").write_text("<|endoftext|>\n".join(documents))
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path))
    monkeypatch.setattr(corpus, "PREPARED", tmp_path / "prepared")
    for body in BODIES:
        monkeypatch.setitem(backbones.BACKBONES, body.name, body)
    return tmp_path


def test_documents_are_split_and_held_out(text: Path) -> None:
    train, valid = corpus.split(corpus.corpus("javascript"))
    train_texts, valid_texts = list(train), list(valid)
    assert (len(train_texts), len(valid_texts)) == (59, 1)
    assert not set(train_texts) & set(valid_texts)
    assert corpus.END not in "".join(train_texts)


def test_stream_decodes_to_the_text(text: Path) -> None:
    stream = corpus.token_stream("javascript", 3000)
    assert len(stream.train) == 3000
    first = next(corpus.split(corpus.corpus("javascript"))[0])
    decoded = stream.tokenizer.decode(stream.train.tolist(), skip_special_tokens=True)
    assert decoded.startswith(first)
    assert stream.digest == corpus.token_stream("javascript", 3000).digest


def test_missing_and_unknown_corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path))
    with pytest.raises(FptError, match="FPT_CORPORA"):
        next(corpus.documents(corpus.corpus("kannada"), ("kannada.txt",)))
    with pytest.raises(FptError, match="english, kannada"):
        corpus.corpus("klingon")


@pytest.mark.parametrize("name", ["gpt2", "bidirectional-nano", "vit-nano", "lstm-released-nano"])
def test_a_body_that_is_not_a_language_model_here(name: str, tmp_path: Path) -> None:
    with pytest.raises(FptError, match=f"'{name}' is not pretrained as a .*; choose from pico, "):
        pretrain(Pretraining("english", name, 1000), tmp_path)


def test_every_position_is_trained() -> None:
    plan = Pretraining("english", "nano", 1_000_000)
    tokens = np.zeros(1_000_000, dtype=np.uint16)
    order = torch.arange(len(tokens) // plan.context)
    seen = torch.cat([language.batch_at(plan, tokens, s, order)[1].flatten() for s in range(60)])
    assert set(seen.tolist()) == set(range(language.POSITIONS))


def test_the_loss_and_its_gradients_are_those_of_the_whole_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "ROWS", 4)  # 11 rows: two whole parts and a rest
    hidden = torch.randn(11, 8, dtype=torch.double).mul(3).requires_grad_()
    words = torch.randn(30, 8, dtype=torch.double).requires_grad_()
    targets = torch.randint(30, (11,))
    plain = torch.nn.functional.cross_entropy(hidden @ words.T, targets)
    ours = models.surprise(hidden, words, targets)
    assert ours.item() == pytest.approx(plain.item())
    expected = torch.autograd.grad(2 * plain, (hidden, words))
    for got, want in zip(torch.autograd.grad(2 * ours, (hidden, words)), expected, strict=True):
        assert torch.allclose(got, want)
    with torch.no_grad():
        assert models.surprise(hidden, words, targets).item() == pytest.approx(ours.item())


@every_body
def test_loss_falls_and_the_body_is_the_one_that_was_trained(
    body: Backbone, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden states of the trained model, rounded to bf16, and of the body that is read back."""
    made = []
    monkeypatch.setattr(
        language, "language_model", lambda *args: made.append(language_model(*args)) or made[0]
    )
    plan = replace(PLAN, backbone=body.name)
    out = text / "backbones" / plan.name
    assert pretrain(plan, out, evaluations=4)
    record = json.loads((out / "pretraining.json").read_text())
    losses = [point["valid_loss"] for point in record["curve"]]
    assert len(losses) == 4
    assert losses[-1] < losses[0] < np.log(4096)
    assert record["tokens"] == 4096
    assert record["positions_seen"] == body.positions
    assert not (out / "checkpoint.safetensors").exists()

    state, ours = read_back(body, out)
    ids, places = torch.randint(4096, (3, 20)), torch.arange(500, 520).expand(3, -1)
    trained = made[0].bfloat16().float().eval()
    x = torch.nn.functional.embedding(ids, trained.words)
    if body.positions:
        x = x + state["positions"][places]
    with torch.no_grad():
        assert torch.allclose(ours(x), trained(ids, places), atol=1e-5)


def read_back(body: Backbone, out: Path) -> tuple[dict[str, torch.Tensor], torch.nn.Module]:
    """State and module of a body, found by the name of its folder."""
    built = backbones.build(body, Draws(), 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FPT_BACKBONES", str(out.parent))
        state = body_state(body, built, "pretrained", out.name, 0)
    inside = {name: value for name, value in state.items() if name != "positions"}
    built.load_state_dict(inside, assign=True)
    return state, built.eval()


def test_gpt2_is_the_one_that_transformers_loads(text: Path) -> None:
    out = text / "backbones" / "tiny-body"
    assert pretrain(PLAN, out, evaluations=1)
    theirs = GPT2Model.from_pretrained(out, dtype=torch.float32).eval()
    state, ours = read_back(TINY, out)
    x = torch.randn(3, 20, TINY.width)
    with torch.no_grad():
        expected = theirs(inputs_embeds=x).last_hidden_state
        assert torch.allclose(ours(x + state["positions"][:20]), expected, atol=1e-5)


@every_body
def test_interrupted_equals_uninterrupted(body: Backbone, text: Path) -> None:
    plan = replace(PLAN, backbone=body.name)
    assert pretrain(plan, text / "whole", evaluations=2)
    calls = 0
    while not pretrain(plan, text / "parts", evaluations=2, budget=0.0):
        calls += 1
        assert calls < plan.steps
    assert calls == plan.steps - 1
    whole, parts = (load_file(text / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole | parts)
    curves = [
        json.loads((text / name / "pretraining.json").read_text())["curve"]
        for name in ("whole", "parts")
    ]
    assert curves[0] == curves[1]


def test_a_checkpoint_of_another_plan_is_not_continued(text: Path) -> None:
    assert not pretrain(PLAN, text / "body", budget=0.0)
    longer = replace(PLAN, tokens=2048)
    assert pretrain(longer, text / "body", evaluations=1)
    assert pretrain(longer, text / "fresh", evaluations=1)
    files = [(text / name / "model.safetensors").read_bytes() for name in ("body", "fresh")]
    assert files[0] == files[1]
