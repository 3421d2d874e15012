"""ListOps: the generator by an evaluator, the sampling rule by numbers, the two variants."""

import importlib

import numpy as np
import pytest
from refusals import refuses

from fpt.tasks import get_task
from fpt.tasks.listops import CLOSE, DIGIT, OPERATOR, generate

module = importlib.import_module("fpt.tasks.listops")  # the package calls its task so
pytestmark = pytest.mark.usefixtures("prepared")


def evaluate(tokens):
    """The value of one expression, by a stack: the definition that the generator is tested on."""
    stack = [[]]
    operators = []
    for token in tokens:
        if token >= CLOSE:
            values = sorted(stack.pop())
            middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2
            results = [values[0], values[-1], middle, sum(values) % 10]
            stack[-1].append(results[operators.pop()])
        elif token >= OPERATOR:
            operators.append(token - OPERATOR)
            stack.append([])
        else:
            stack[-1].append(token - DIGIT)
    ((value,),) = stack
    return value


def test_generated_values_and_depths():
    sequences, values, depths = generate(np.random.default_rng(1), 500, 6, 5, (3, 60))
    for tokens, value, depth in zip(sequences, values, depths, strict=True):
        assert evaluate(tokens.tolist()) == value
        opened = (tokens >= OPERATOR) & (tokens < CLOSE)
        nesting = np.cumsum(opened.astype(int) - (tokens == CLOSE))
        assert (nesting.max(), nesting[-1]) == (depth, 0)
        assert 3 < len(tokens) <= 60
    assert len({tokens.tobytes() for tokens in sequences}) == len(sequences)


def test_more_expressions_than_exist(monkeypatch):
    monkeypatch.setattr(module, "MAX_DRAWS_IN_VAIN", 5)
    refuses(
        lambda: generate(np.random.default_rng(0), 500, 2, 2, (3, 4)),
        "of 500 different ListOps expressions with 3 < tokens <= 4",
    )


def test_released_form_drops_brackets_and_cuts(monkeypatch):
    options = {"min_length": 500, "max_length": 700, "train": 20, "valid": 5, "test": 5}
    monkeypatch.setattr(module, "numpy_generator", lambda key: np.random.default_rng(0))
    intended = get_task("listops", **options)
    released = get_task("listops", variant="released", **options)
    for index in range(20):
        tokens, value = intended.sequence("train", index)
        bare = [token for token in tokens if token != CLOSE]
        assert released.sequence("train", index) == (bare[:512], value)


SIZES = {"max_length": 48, "train": 4000, "valid": 50, "test": 1000}


def test_variants_read_different_positions():
    batch = get_task("listops", variant="released", **SIZES).train_batch([0], 0, 4, "cpu")
    assert batch.inputs.shape == (1, 4, 512)
    assert (batch.last, batch.mask) == (None, None)
    assert batch.inputs.max() < 15
    assert batch.inputs[..., -1].eq(0).all()

    batch = next(get_task("listops", **SIZES).eval_batches("test", 100, "cpu"))
    for row, tokens in enumerate(batch.inputs[0]):
        assert evaluate(tokens[batch.mask[0, row]].tolist()) == batch.targets[0, row, 0]
        assert tokens[batch.last[0, row]] == CLOSE
