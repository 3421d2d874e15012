"""Corpora, tokenizer and language-model pretraining on a corpus made here."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel, GPT2Model

from fpt import backbones
from fpt.backbones import Backbone
from fpt.draws import Draws
from fpt.errors import FptError
from fpt.pretrain import corpus, language
from fpt.pretrain.language import Pretraining, pretrain
from fpt.weights import body_state

TINY = Backbone("micro", "gpt2", 2, 16, 2, 1024, 4096)  # under a local size's name
PLAN = Pretraining("javascript", "micro", 4096, context=64, batch=4, warmup=4)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of 60 documents, and an empty folder for prepared streams."""
    words = np.random.default_rng(0).integers(0, 50, (60, 150))
    documents = [" ".join(f"w{w}" for w in row) + "\n" for row in words]
    (tmp_path / "javascript.txt").write_text("<|endoftext|>\n".join(documents))
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path))
    monkeypatch.setattr(corpus, "PREPARED", tmp_path / "prepared")
    monkeypatch.setitem(backbones.BACKBONES, "micro", TINY)
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
    with pytest.raises(FptError, match="nano, micro"):
        language.gpt2_config("gpt2")


def test_every_position_is_trained() -> None:
    plan = Pretraining("english", "nano", 1_000_000)
    tokens = np.zeros(1_000_000, dtype=np.uint16)
    order = torch.arange(len(tokens) // plan.context)
    seen = torch.cat([language.batch_at(plan, tokens, s, order)[1].flatten() for s in range(60)])
    assert set(seen.tolist()) == set(range(language.POSITIONS))


def test_loss_falls_and_the_body_is_the_one_that_transformers_loads(text: Path) -> None:
    out = text / "backbones" / "tiny-body"
    assert pretrain(PLAN, out, evaluations=4)
    record = json.loads((out / "pretraining.json").read_text())
    losses = [point["valid_loss"] for point in record["curve"]]
    assert len(losses) == 4
    assert losses[-1] < losses[0] < np.log(4096)
    assert record["tokens"] == 4096
    assert not (out / "checkpoint.safetensors").exists()

    theirs = GPT2Model.from_pretrained(out, dtype=torch.float32).eval()
    body = backbones.build(TINY, Draws(), 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FPT_BACKBONES", str(out.parent))
        state = body_state(TINY, body, "pretrained", "tiny-body", 0)
    positions = state.pop("positions")
    body.load_state_dict(state, assign=True)
    x = torch.randn(3, 20, TINY.width)
    with torch.no_grad():
        ours = body.eval()(x + positions[:20])
        assert torch.allclose(ours, theirs(inputs_embeds=x).last_hidden_state, atol=1e-5)


def test_interrupted_equals_uninterrupted(text: Path) -> None:
    assert pretrain(PLAN, text / "whole", evaluations=2)
    calls = 0
    while not pretrain(PLAN, text / "parts", evaluations=2, budget=0.0):
        calls += 1
        assert calls < 50
    assert calls > 5
    whole = GPT2LMHeadModel.from_pretrained(text / "whole").state_dict()
    parts = GPT2LMHeadModel.from_pretrained(text / "parts").state_dict()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    curves = [
        json.loads((text / name / "pretraining.json").read_text())["curve"]
        for name in ("whole", "parts")
    ]
    assert curves[0] == curves[1]
