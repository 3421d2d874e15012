"""Bodies that learn a text after something else: what is kept, trained and recorded."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_pretrain import TINY, TINY_LSTM_POSITIONS, text  # noqa: F401

from fpt.backbones import Backbone, build
from fpt.backbones.dropout import Draws
from fpt.backbones.initialisations import is_end
from fpt.backbones.weights import body_state
from fpt.files import FptError
from fpt.pretraining import adapt as module
from fpt.pretraining.adapt import adapt, adapted, record_path, started
from fpt.pretraining.language import pretrain
from fpt.pretraining.models import language_model
from fpt.pretraining.plan import Adaptation, Pretraining, fitted
from fpt.pretraining.streams import open_stream

WEIGHTS = "micro-dyck-64-0"
PLAN = Adaptation("javascript", "micro", 2048, context=64, batch=4, warmup=4)
BOTH = pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "whole"])


@pytest.fixture
def known(text: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """A body pretrained on brackets, by name; the folder of the test."""
    monkeypatch.setenv("FPT_BACKBONES", str(text / "backbones"))
    before = Pretraining("dyck-64", "micro", 1024, context=64, batch=4, warmup=4)
    stream = open_stream("dyck-64", 1024, 1024)
    assert pretrain(before, text / "backbones" / WEIGHTS, evaluations=1, stream=stream)
    return text


def start_of(body: Backbone, plan: Adaptation) -> dict[str, torch.Tensor]:
    return body_state(body, build(body, Draws(), 0.0), plan.init, plan.weights, plan.seed)


def after(plan: Adaptation, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """The model that `adapt` trained."""
    made = []
    monkeypatch.setattr(module, "started", lambda plan: made.append(started(plan)) or made[0])
    assert adapt(plan, folder, folder / "cache")
    return made[0]


@BOTH
def test_a_model_begins_with_the_body_and_words_of_its_own(known: Path, frozen: bool) -> None:
    plan = replace(PLAN, init="pretrained", weights=WEIGHTS, frozen=frozen)
    model, state = started(plan), start_of(TINY, plan)
    parameters = model.body_parameters()
    assert set(parameters) == set(state)
    assert all(torch.equal(parameters[name], state[name]) for name in state)
    fresh = language_model(TINY, plan.seed)
    assert torch.equal(model.words, fresh.words)  # not those of the brackets
    assert not torch.equal(started(replace(plan, seed=1)).words, fresh.words)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    ends = {name for name in state if is_end(TINY, name)}
    assert len(trained) == 1 + (len(ends) if frozen else len(state))


@pytest.mark.parametrize(
    ("body", "frozen"), [(TINY, True), (TINY, False), (TINY_LSTM_POSITIONS, True)]
)
def test_the_frozen_body_stays_and_all_else_moves(
    body: Backbone,
    text: Path,  # noqa: F811
    frozen: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = replace(PLAN, backbone=body.name, frozen=frozen)
    model, state = after(plan, monkeypatch, text), start_of(body, plan)
    for name, parameter in model.body_parameters().items():
        stays = frozen and not is_end(body, name)
        assert torch.equal(parameter, state[name]) is stays, name
    assert not torch.equal(model.words, language_model(body, plan.seed).words)


def test_seeds_of_one_random_arm_differ_in_the_body_and_arms_of_one_seed_share_it(
    text: Path,  # noqa: F811
) -> None:
    frozen, whole = (started(replace(PLAN, frozen=it)).body_parameters() for it in (True, False))
    assert all(torch.equal(frozen[name], whole[name]) for name in frozen)
    other = started(replace(PLAN, seed=1)).body_parameters()
    assert not torch.equal(frozen["gpt2.h.0.mlp.c_fc.weight"], other["gpt2.h.0.mlp.c_fc.weight"])


def test_the_record_says_bits_per_byte_of_the_held_out_text(known: Path) -> None:
    plan = replace(PLAN, init="pretrained", weights=WEIGHTS)
    assert adapted(known, plan) is None
    assert adapt(plan, known, known / "cache")
    record = adapted(known, plan)
    assert record is not None
    stream = open_stream("javascript", 2048)
    assert stream.tokenizer is not None
    held = stream.tokenizer.decode(stream.valid.tolist(), skip_special_tokens=True)
    nats = record["valid_loss"] * len(stream.valid)
    assert record["bits_per_byte"] == pytest.approx(nats / math.log(2) / len(held.encode()))
    assert record["held_out_bytes"] == len(held.encode())
    assert record["tokens"] == 2048
    assert record["corpus_digest"] == stream.digest
    assert len(record["curve"]) == module.LOOKS
    assert record["curve"][-1]["bits_per_byte"] < record["curve"][0]["bits_per_byte"]
    (file,) = known.glob("*.json")
    assert file == record_path(known, plan)
    assert not list((known / "cache").glob("*.safetensors"))
    assert len(record["weights_digest"]) == 64


def test_a_checkpoint_goes_on_where_it_was(text: Path) -> None:  # noqa: F811
    plan = replace(PLAN, frozen=True)
    assert adapt(plan, text / "whole", text / "cache")
    calls = 0
    while not adapt(plan, text / "parts", text / "cache", budget=0.0):
        assert not (text / "parts").exists()
        calls += 1
        assert calls < plan.steps
    assert calls == plan.steps - 1
    whole, parts = (adapted(text / name, plan) for name in ("whole", "parts"))
    assert whole is not None
    assert parts is not None
    for name in ("valid_loss", "bits_per_byte", "curve", "corpus_digest"):
        assert whole[name] == parts[name]


def test_a_record_that_is_damaged_or_of_another_plan_is_moved_aside(
    text: Path,  # noqa: F811
) -> None:
    assert adapt(PLAN, text, text / "cache")
    other = replace(PLAN, frozen=True)
    path = record_path(text, PLAN)
    record_path(text, other).write_bytes(path.read_bytes())
    with pytest.warns(UserWarning, match="another plan"):
        assert adapted(text, other) is None
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"bits_per_byte": 0.1}))
    with pytest.warns(UserWarning, match="its digest does not fit"):
        assert adapted(text, PLAN) is None
    assert path.with_name(f"{path.name}.corrupt").exists()
    assert adapted(text, PLAN) is None


def test_plans_are_told_apart_by_everything_they_say() -> None:
    changes: list[dict[str, Any]] = [
        {}, {"seed": 1}, {"frozen": True}, {"tokens": 4096}, {"lr": 0.1}, {"init": "shuffled"},
        {"init": "pretrained", "weights": WEIGHTS},
    ]  # fmt: skip
    assert len({replace(PLAN, **change).key for change in changes}) == len(changes)
    assert fitted(Adaptation("english", "nano", 1_000_000)).warmup == 49
    assert set(asdict(Pretraining("english", "nano", 1))) < set(asdict(PLAN))


def test_what_is_no_text_has_no_bits_per_byte(text: Path) -> None:  # noqa: F811
    with pytest.raises(FptError, match="not one text"):
        adapt(replace(PLAN, corpus="dyck-64"), text, text / "cache")
    assert not list(text.glob("*.json"))


def test_the_missing_body_is_named(text: Path) -> None:  # noqa: F811
    with pytest.raises(FptError, match="'micro-dyck-64-7' of backbone 'micro'"):
        adapt(replace(PLAN, init="pretrained", weights="micro-dyck-64-7"), text, text / "cache")
