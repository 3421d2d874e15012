"""The bodies of a profile: listed, made where training is allowed, or said to be missing."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from fpt.__main__ import main
from fpt.backbones import weights
from fpt.files import FptError
from fpt.pretraining import ensure as module
from fpt.pretraining.ensure import OBJECTIVES, Plan, ensure_weights, make_plan, plan_of
from fpt.pretraining.on_corpus import Pretraining
from fpt.pretraining.on_task import TaskPretraining

NAMES = ["nano-english-7", "lstm-nano-english-7"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of an empty project, the only place where bodies are looked for."""
    monkeypatch.setattr(module, "DATA", tmp_path)
    monkeypatch.setattr(weights, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    return tmp_path


def put(data: Path, name: str, content: bytes) -> str:
    """A weights file; returns its digest."""
    (data / "backbones" / name).mkdir(parents=True)
    (data / "backbones" / name / "model.safetensors").write_bytes(content)
    return sha256(content).hexdigest()


def listed(data: Path) -> dict[str, str | None]:
    return json.loads((data / "backbones/manifest.json").read_text())


def test_bodies_are_listed_with_their_digests(data: Path) -> None:
    digests = {name: put(data, name, name.encode()) for name in ("nano-mine", *NAMES)}
    said = ensure_weights(digests, train_here=True)
    assert said == [f"{name}: present" for name in digests]
    assert listed(data) == digests


def test_missing_bodies_do_not_stop_rendering(data: Path) -> None:
    digest = put(data, NAMES[0], b"weights")
    hub = "hub:somebody/something@main"
    said = ensure_weights([*NAMES, hub], train_here=False)
    assert ["not here" in sentence for sentence in said] == [False, True, True]
    assert listed(data) == {NAMES[0]: digest, NAMES[1]: None, hub: None}


def test_missing_bodies_are_pretrained_where_training_is_allowed(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Plan] = []

    def pretrain(plan: Plan, out: Path) -> None:
        asked.append(plan)
        put(data, out.name, plan.name.encode())

    monkeypatch.setattr(module, "pretrain", pretrain)
    names = [*NAMES, "vit-nano-shapes-3", NAMES[0]]
    said = ensure_weights(names, train_here=True)
    assert said == [f"{name}: pretrained" for name in names[:3]]
    assert [plan.name for plan in asked] == names[:3]
    assert listed(data) == {name: sha256(name.encode()).hexdigest() for name in names[:3]}


def test_published_weights_are_only_looked_for(data: Path) -> None:
    with pytest.raises(FptError, match="neither in the Hugging Face cache nor downloadable"):
        ensure_weights(["hub:openai-community/gpt2@main"], train_here=True)


@pytest.mark.parametrize(
    ("identity", "body", "objective", "seed"),
    [
        ("nano-english-0", "nano", "english", 0),
        ("pico-english-12", "pico", "english", 12),
        ("nano-bit-memory-0", "nano", "bit-memory", 0),
        ("micro-amino-acids-1", "micro", "amino-acids", 1),
        ("vit-nano-shapes-0", "vit-nano", "shapes", 0),
        ("vit-nano-cifar10-0", "vit-nano", "cifar10", 0),
        ("lstm-nano-english-0", "lstm-nano", "english", 0),
        ("lstm-positions-nano-english-0", "lstm-positions-nano", "english", 0),
    ],
)
def test_an_identity_names_its_plan(identity: str, body: str, objective: str, seed: int) -> None:
    plan = plan_of(identity)
    assert plan.name == identity
    assert (plan.backbone, plan.seed) == (body, seed)
    assert (plan.corpus if isinstance(plan, Pretraining) else plan.task) == objective
    assert plan == make_plan(objective, body, seed)


def test_tokens_are_what_was_asked_for() -> None:
    for objective in OBJECTIVES:
        assert make_plan(objective, "nano", tokens=100_000).tokens == 100_000
    assert plan_of("nano-english-0").tokens == plan_of("pico-english-0").tokens == 21_000_000
    assert isinstance(make_plan("mnist", "vit-nano"), TaskPretraining)


@pytest.mark.parametrize(
    ("objective", "tokens", "name"),
    [
        ("english", 5_000_000, "nano-english@5M-0"),
        ("english", 20_480, "nano-english@20480-0"),
        ("english", 21_000_000, "nano-english-0"),
        ("english@21M", None, "nano-english-0"),
        ("english@5000k-last", None, "nano-english@5M-last-0"),
        ("english+nesting-last", 500_000, "nano-english+nesting@500k-last-0"),
        ("bit-memory", 5_000_000, "nano-bit-memory@5M-0"),
        ("bit-memory@5M", None, "nano-bit-memory@5M-0"),
        ("bit-memory", 1_920_000, "nano-bit-memory-0"),
    ],
)
def test_a_name_stands_for_one_number_of_tokens(
    objective: str, tokens: int | None, name: str
) -> None:
    """Or a body of a short trial would be taken for the one that the name is known for."""
    plan = make_plan(objective, "nano", tokens=tokens)
    assert plan.name == name
    assert plan_of(name) == plan


@pytest.mark.parametrize("name", ["nano-english@21M-0", "nano-english@5000k-0", "nano-english-007"])
def test_one_plan_has_one_name(name: str) -> None:
    with pytest.raises(FptError, match=f"'{name}' are called 'nano-english"):
        plan_of(name)


@pytest.mark.parametrize(
    "name",
    [
        "nano-english-\u0663",
        "english-0",
        "nano-bit-memory-last-0",
        "nano-bit-memory@5M-last-0",
        "nano-english",
        "nano-english-x",
        "huge-english-0",
        "nano-klingon-0",
        "",
        "-0",
    ],
)
def test_a_name_without_a_plan_is_refused(name: str) -> None:
    with pytest.raises(FptError, match="BACKBONE-OBJECTIVE-SEED") as caught:
        plan_of(name)
    assert repr(name) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["klingon"], "'klingon' here; choose from english, "),
        (["english", "--backbone", "vit-nano"], "'vit-nano' is not pretrained as a language model"),
        (["bit-memory", "--backbone", "huge"], "no backbone 'huge'"),
        (["english", "--tokens", "0"], "tokens must be from 1 to below 2^63"),
        (["uniform", "--tokens", str(2**63)], "tokens must be from 1 to below 2^63"),
        ([f"uniform@{2**63}"], "tokens must be from 1 to below 2^63"),
        (["shapes+uniform"], "'shapes+uniform' here; choose from"),
    ],
)
def test_wrong_words_on_the_command_line(
    words: list[str], problem: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pretrain", *words]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1
    assert not list(data.iterdir())
