"""What people have done with frozen transformers: right, or refused in one sentence."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from fpt import FptError, FrozenTransformer, Patches
from fpt.__main__ import check_checkout
from fpt.training import device

X, Y = np.random.default_rng(0).normal(size=(40, 5, 2)), np.arange(40) % 2


class Column(Sequence):
    """As the library `datasets` gives one: items, a length, and no array."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, key):
        return self.rows[key]


def test_a_column_of_a_data_set_is_a_list():
    rows = [np.ones(length).tolist() for length in [3, 5, 7] * 10]
    fitted = FrozenTransformer("pico", init="random", steps=1).fit(Column(rows), [0, 1, 0] * 10)
    assert "3 to 7 vectors" in fitted.inputs_


def test_a_loaded_model_is_not_printed():
    class Loaded:
        __repr__ = None  # printing it would fail

    model = FrozenTransformer(Loaded(), steps=1)
    refuses(lambda: model.fit(X, Y), "not a Loaded", "save_pretrained")


def test_one_of_several_gpus():
    refuses(lambda: device.choose("cuda:1"), "CUDA_VISIBLE_DEVICES=1")


def test_images_of_two_sizes():
    with pytest.raises(ValueError, match="size"):
        Patches(4).transform([np.zeros((8, 8)), np.zeros((12, 8))])


def test_another_checkout_than_that_of_the_program(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    shutil.copytree(first, second)
    check_checkout(first, first)
    with pytest.raises(FptError) as refused:
        check_checkout(second, first)
    assert str(second) in str(refused.value)
    assert str(Path(first)) in str(refused.value)
