"""ListOps: the evaluator by hand, the generator by the evaluator, the sampling rule by numbers."""

import importlib

import numpy as np
import pytest
import torch
from refusals import check_said, refusal

from fpt.tasks import get_task
from fpt.tasks.listops import CLOSE, DIGIT, OPERATOR, SYMBOLS, generate

module = importlib.import_module("fpt.tasks.listops")  # the package calls its task so
VARIANTS = ("intended", "released")


def evaluate(tokens):
    """The value of one expression, by a stack: the definition that the generator is tested on."""
    stack, operators = [[]], []
    for token in tokens:
        if token >= CLOSE:
            values, op = sorted(stack.pop()), operators.pop()
            middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2
            stack[-1].append([values[0], values[-1], middle, sum(values) % 10][op])
        elif token >= OPERATOR:
            operators.append(token - OPERATOR)
            stack.append([])
        else:
            stack[-1].append(token - DIGIT)
    ((value,),) = stack
    return value


def tokens(text):
    return [SYMBOLS.index(word.lstrip("[")) for word in text.replace("]", " ]").split()]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("[MIN 4 2 9]", 2),
        ("[MED 4 2 9]", 4),
        ("[MED 2 3]", 2),  # 2.5 is rounded down
        ("[SM 9 9 9]", 7),
        ("[MAX 2 [MIN 7 5 [SM 8 6]] 3]", 4),
    ],
)
def test_evaluator(text, value):
    assert evaluate(tokens(text)) == value


@pytest.fixture(scope="module")
def arena():
    """Tokens and values of 2,000 and some expressions of Long Range Arena's lengths."""
    rng = np.random.Generator(np.random.PCG64(0))
    return generate(rng, 2000, 10, 10, (500, 1999))


def test_generated_values_and_depths():
    sequences, values, depths = generate(
        np.random.Generator(np.random.PCG64(1)), 500, 6, 5, (3, 60)
    )
    for tokens, value, depth in zip(sequences, values, depths, strict=True):
        assert evaluate(tokens.tolist()) == value
        opened = (tokens >= OPERATOR) & (tokens < CLOSE)
        nesting = np.cumsum(opened.astype(int) - (tokens == CLOSE))
        assert (nesting.max(), nesting[-1]) == (depth, 0)
    texts = [tokens.tobytes() for tokens in sequences]
    assert len(set(texts)) == len(texts)
    assert all(3 < len(text) <= 60 for text in texts)


def test_more_expressions_than_there_are(monkeypatch):
    monkeypatch.setattr(module, "MAX_DRAWS_IN_VAIN", 5)
    said = refusal(lambda: generate(np.random.default_rng(0), 500, 2, 2, (3, 4)))
    check_said(said, ["of 500 different ListOps expressions with 3 < tokens <= 4"])


def test_sampling_rule(arena):
    sequences, values, _ = arena
    assert all(evaluate(s.tolist()) == v for s, v in zip(sequences[:100], values, strict=False))
    lengths = np.array([len(s) for s in sequences])
    bare = np.array([(s != CLOSE).sum() for s in sequences])
    assert lengths.min() > 500
    assert lengths.max() < 2000
    assert abs(bare.mean() - 890) < 30  # measured elsewhere: 886 to 898; SE 7.5
    assert abs((bare > 512).mean() - 0.875) < 0.03  # SE 0.007
    every = np.concatenate(sequences)
    digits = np.bincount(every[every < OPERATOR], minlength=11)[1:]
    operators = np.bincount(every[(every >= OPERATOR) & (every < CLOSE)])[OPERATOR:]
    assert abs(digits / digits.sum() - 0.1).max() < 0.003
    assert abs(operators / operators.sum() - 0.25).max() < 0.01


def test_root_operator_alone_scores_what_the_paper_calls_success(arena):
    sequences, values, _ = arena
    roots = np.array([s[0] for s in sequences])
    shares = {
        SYMBOLS[op]: np.bincount(values[roots == op], minlength=10) / (roots == op).sum()
        for op in range(OPERATOR, CLOSE)
    }
    assert shares["MIN"].argmax() == 0
    assert shares["MAX"].argmax() == 9
    assert abs(shares["MIN"][0] - 0.57) < 0.08  # SE 0.022
    assert abs(shares["MAX"][9] - 0.55) < 0.08
    weights = [(roots == op).mean() for op in range(OPERATOR, CLOSE)]
    best = sum(w * share.max() for w, share in zip(weights, shares.values(), strict=True))
    assert abs(best - 0.365) < 0.04


def test_released_form_drops_brackets_and_cuts(tmp_path, monkeypatch):
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path)
    options = {"min_length": 500, "max_length": 700, "train": 20, "valid": 5, "test": 5}
    monkeypatch.setattr(module, "numpy_generator", lambda key: np.random.default_rng(0))
    intended, released = (get_task("listops", variant=v, **options) for v in VARIANTS)
    for index in range(20):
        whole, value = intended.sequence("train", index)
        bare = [token for token in whole if token != CLOSE]
        assert released.sequence("train", index) == (bare[:512], value)


def test_variants_read_different_positions(tmp_path, monkeypatch):
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path)
    sizes = {"max_length": 48, "train": 400, "valid": 50, "test": 100}
    released = get_task("listops", variant="released", **sizes)
    batch = released.train_batch([0], 0, 4, "cpu")
    assert batch.inputs.shape == (1, 4, 512)
    assert batch.last is None
    assert batch.mask is None
    assert batch.inputs.max() < 15
    assert batch.inputs[..., -1].eq(0).all()

    intended = get_task("listops", **sizes)
    for batch in intended.eval_batches("test", 32, "cpu"):
        for i in range(batch.inputs.shape[1]):
            real = batch.inputs[0, i][batch.mask[0, i]].tolist()
            assert evaluate(real) == batch.targets[0, i, 0]
            assert batch.inputs[0, i, batch.last[0, i]] == CLOSE


def test_accuracy_by_depth_and_floors(tmp_path, monkeypatch):
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path)
    task = get_task("listops", max_length=48, train=4000, valid=50, test=1000)
    (batch,) = task.eval_batches("test", 1000, "cpu")
    logits = torch.nn.functional.one_hot(batch.targets, 10).float()
    logits[0, :500] = -logits[0, :500]  # the first half wrong
    by_depth = task.scores(logits, batch)
    counted = sum((~score.isnan()).sum().item() for score in by_depth.values())
    right = sum(score.nansum().item() for score in by_depth.values())
    assert (counted, right) == (1000, 500)
    floors = task.floors()
    assert floors["majority"] < floors["root operator"] < 0.6
    # Both answer what is most frequent in training, the second after the same first token.
    pairs = {
        split: [
            (sequence[0], label)
            for sequence, label in (task.sequence(split, i) for i in range(task.sizes[split]))
        ]
        for split in ("train", "test")
    }
    labels = [label for _, label in pairs["train"]]
    by_root = {
        root: np.bincount([label for first, label in pairs["train"] if first == root]).argmax()
        for root in {first for first, _ in pairs["train"]}
    }
    right = np.array(
        [
            (label == np.bincount(labels).argmax(), label == by_root[root])
            for root, label in pairs["test"]
        ]
    )
    assert [floors["majority"], floors["root operator"]] == pytest.approx(right.mean(0).tolist())
