"""The backbones of a tier: what each name stands for, and which are there or are pretrained."""

import json
from hashlib import sha256

import pytest
from refusals import refuses

from fpt.backbones import weights
from fpt.files import lock
from fpt.pretraining import ensure
from fpt.pretraining.ensure import ensure_weights
from fpt.pretraining.plans import make_plan, plan_of

NAMES = ["nano-english-7", "lstm-nano-english-7"]
HUB = "hub:somebody/something@main"


@pytest.fixture
def folder(planned, monkeypatch):
    """The data folder of an empty project, the only place in which weights are looked for."""
    monkeypatch.setattr(weights, "SHIPPED", planned.root / "shipped")
    planned.data.mkdir()
    return planned.data


def write_weights(folder, name):
    """Weights of which the content is the name; returns their digest."""
    path = folder / "backbones" / name / "model.safetensors"
    path.parent.mkdir(parents=True)
    path.write_text(name)
    return sha256(name.encode()).hexdigest()


def manifest(folder):
    return json.loads((folder / "backbones/manifest.json").read_text())


def test_weights_are_listed_with_their_digests(folder):
    digests = {name: write_weights(folder, name) for name in ("nano-mine", *NAMES)}
    assert ensure_weights(digests, train_here=True) == [f"{name}: present" for name in digests]
    assert manifest(folder) == digests


def test_missing_weights_do_not_stop_rendering(folder):
    digest = write_weights(folder, NAMES[0])
    sentences = ensure_weights([*NAMES, HUB], train_here=False)
    assert ["not here" in sentence for sentence in sentences] == [False, True, True]
    assert manifest(folder) == {NAMES[0]: digest, NAMES[1]: None, HUB: None}


def test_missing_weights_are_pretrained_if_training_is_allowed(folder, monkeypatch):
    plans = []

    def pretrain(plan, out):
        plans.append(plan.name)
        write_weights(folder, out.name)

    monkeypatch.setattr(ensure, "pretrain", pretrain)
    names = [*NAMES, "vit-nano-cifar10-3"]
    sentences = ensure_weights([*names, NAMES[0]], train_here=True)
    assert sentences == [f"{name}: pretrained" for name in names]
    assert plans == names
    assert manifest(folder) == {name: sha256(name.encode()).hexdigest() for name in names}


def test_published_weights_are_only_looked_for(folder):
    refuses(
        lambda: ensure_weights([HUB], train_here=True),
        "neither in the Hugging Face cache nor downloadable",
    )


@pytest.mark.parametrize(
    ("name", "objective", "seed"),
    [
        ("pico", "english@5M", 12),
        ("nano", "english+nesting@500k-last", 3),
        ("bidirectional-nano", "diary", 0),  # not `bidirectional` on `nano-diary`
        ("vit-nano", "cifar10", 3),
    ],
)
def test_an_identity_names_its_plan(name, objective, seed, corpora):
    for text in ("diary.txt", "nano-diary.txt"):
        (corpora / text).touch()
    identity = f"{name}-{objective}-{seed}"
    plan = plan_of(identity)
    assert plan == make_plan(objective, name, seed)
    assert (plan.name, plan.backbone, plan.seed) == (identity, name, seed)
    assert objective in vars(plan).values()


@pytest.mark.parametrize(
    "name",
    [
        "nano-english-\u0663", "english-0", "nano-english", "nano-english-007", "-0",
        "nano-bit-memory-last-0", "huge-english-0", "nano-klingon-0",
    ],
)  # fmt: skip
def test_a_name_without_a_plan_is_refused(name):
    refuses(lambda: plan_of(name), repr(name), "BACKBONE-OBJECTIVE-SEED")


def test_damaged_weights_are_moved_aside_and_made_again(folder, monkeypatch):
    digest = write_weights(folder, NAMES[0])
    place = folder / "backbones" / NAMES[0]
    (place / "pretraining.json").write_text(json.dumps({"weights_digest": digest}))
    (place / "model.safetensors").write_text("damaged")
    monkeypatch.setattr(ensure, "pretrain", lambda plan, out: write_weights(folder, out.name))
    with pytest.warns(UserWarning, match="is damaged .* counts as missing"):
        assert ensure_weights(NAMES[:1], train_here=True) == [f"{NAMES[0]}: pretrained"]
    assert manifest(folder) == {NAMES[0]: digest}


def test_one_process_pretrains_a_backbone_at_a_time(folder, monkeypatch):
    def pretrain(plan, out, budget):
        with lock(out.with_name(f".{out.name}.lock"), wait=False) as is_free:
            return not is_free

    monkeypatch.setattr(ensure.on_corpus, "pretrain", pretrain)
    assert ensure.pretrain(plan_of(NAMES[0]), folder / "backbones" / NAMES[0])
