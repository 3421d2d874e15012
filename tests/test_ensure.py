"""The backbones of a profile: what each name stands for, and which are there or are pretrained."""

import json
from hashlib import sha256

import pytest
from refusals import check_said, refusal

from fpt.__main__ import main
from fpt.backbones import weights
from fpt.files import FptError
from fpt.pretraining import ensure as module
from fpt.pretraining.ensure import ensure_weights, make_plan, plan_of
from fpt.pretraining.on_corpus import Pretraining

NAMES = ["nano-english-7", "lstm-nano-english-7"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The data folder of an empty project, the only place in which weights are looked for."""
    monkeypatch.setattr(module, "DATA", tmp_path)
    monkeypatch.setattr(weights, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    return tmp_path


def put(data, name, content):
    """A weights file; returns its digest."""
    (data / "backbones" / name).mkdir(parents=True)
    (data / "backbones" / name / "model.safetensors").write_bytes(content)
    return sha256(content).hexdigest()


def listed(data):
    return json.loads((data / "backbones/manifest.json").read_text())


def test_weights_are_listed_with_their_digests(data):
    digests = {name: put(data, name, name.encode()) for name in ("nano-mine", *NAMES)}
    said = ensure_weights(digests, train_here=True)
    assert said == [f"{name}: present" for name in digests]
    assert listed(data) == digests


def test_missing_weights_do_not_stop_rendering(data):
    digest = put(data, NAMES[0], b"weights")
    hub = "hub:somebody/something@main"
    said = ensure_weights([*NAMES, hub], train_here=False)
    assert ["not here" in sentence for sentence in said] == [False, True, True]
    assert listed(data) == {NAMES[0]: digest, NAMES[1]: None, hub: None}


def test_missing_weights_are_pretrained_if_training_is_allowed(data, monkeypatch):
    asked = []

    def pretrain(plan, out):
        asked.append(plan)
        put(data, out.name, plan.name.encode())

    monkeypatch.setattr(module, "pretrain", pretrain)
    names = [*NAMES, "vit-nano-cifar10-3", NAMES[0]]
    said = ensure_weights(names, train_here=True)
    assert said == [f"{name}: pretrained" for name in names[:3]]
    assert [plan.name for plan in asked] == names[:3]
    assert listed(data) == {name: sha256(name.encode()).hexdigest() for name in names[:3]}


def test_published_weights_are_only_looked_for(data):
    with pytest.raises(FptError, match="neither in the Hugging Face cache nor downloadable"):
        ensure_weights(["hub:openai-community/gpt2@main"], train_here=True)


IDENTITIES = [
    ("nano-english-0", "nano", "english", 0),
    ("pico-english@5M-12", "pico", "english@5M", 12),
    ("micro-amino-acids-1", "micro", "amino-acids", 1),
    ("nano-nesting@20480-0", "nano", "nesting@20480", 0),
    ("nano-english+nesting@500k-last-3", "nano", "english+nesting@500k-last", 3),
    ("lstm-nano-english-0", "lstm-nano", "english", 0),
    ("bidirectional-nano-flat-2-0", "bidirectional-nano", "flat-2", 0),
    ("nano-diary-0", "nano", "diary", 0),
    ("bidirectional-nano-diary-0", "bidirectional-nano", "diary", 0),  # not of `nano-diary`
    ("nano-bit-memory-0", "nano", "bit-memory", 0),
    ("vit-nano-cifar10-3", "vit-nano", "cifar10", 3),
]


@pytest.mark.parametrize(("identity", "name", "objective", "seed"), IDENTITIES)
def test_an_identity_names_its_plan(identity, name, objective, seed, data, monkeypatch):
    for text in ("diary.txt", "nano-diary.txt"):
        (data / text).touch()
    monkeypatch.setenv("FPT_CORPORA", str(data))
    plan = plan_of(identity)
    assert plan == make_plan(objective, name, seed)
    assert (plan.name, plan.backbone, plan.seed) == (identity, name, seed)
    assert (plan.corpus if isinstance(plan, Pretraining) else plan.task) == objective


def test_a_corpus_is_read_for_the_tokens_in_its_name():
    usual, short = make_plan("english", "nano"), make_plan("english@1M", "nano")
    assert isinstance(usual, Pretraining)
    assert isinstance(short, Pretraining)
    assert (usual.tokens, short.tokens) == (21_000_000, 1_000_000)
    assert make_plan("english@500k-last", "lstm-nano").tokens == 500_000
    assert short.warmup == short.steps // 5 < usual.warmup == 200
    assert make_plan("english@10000M", "nano").tokens == 10**10
    refused = refusal(lambda: make_plan("english@10001M", "nano"))
    check_said(refused, ["at most 10,000,000,000 tokens", "10,001,000,000"])


@pytest.mark.parametrize(
    "name",
    ["nano-english-\u0663", "english-0", "nano-english", "nano-english-x", "nano-english-007"]
    + ["nano-bit-memory-last-0", "nano-bit-memory@5M-0", "huge-english-0", "nano-klingon-0", "-0"],
)
def test_a_name_without_a_plan_is_refused(name):
    check_said(refusal(lambda: plan_of(name)), [repr(name), "BACKBONE-OBJECTIVE-SEED"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["klingon"], "There is no corpus 'klingon'; choose from english, "),
        (["english", "--backbone", "vit-nano"], "'vit-nano' is not pretrained as a language model"),
        (["bit-memory", "--backbone", "huge"], "no backbone or folder 'huge'"),
        (["english", "--seed=-1"], "seed must be from 0 to below 2^63, not -1"),
    ],
)
def test_wrong_words_on_the_command_line(words, problem, data, capsys):
    assert main(["pretrain", *words]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1
    assert not list(data.iterdir())
