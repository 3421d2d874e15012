"""RunSpec and its key: the name under which every record is found again."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from fpt.spec import RunSpec, from_dict

SPEC = RunSpec(
    data='{"data":{"generator":1},"name":"bit-xor","options":{"n":5,"test":1024,"valid":1024}}',
    backbone="nano",
    init="pretrained",
    weights="nano-english-0",
    trainable=("input", "layernorm", "output", "positions"),
    lr=0.003,
    batch=16,
    steps=600,
    eval_every=30,
    seed=0,
)
OTHER = {
    "data": SPEC.data.replace("bit-xor", "bit-memory"),
    "backbone": "micro",
    "init": "random",
    "weights": None,
    "trainable": ("input", "output"),
    "lr": 0.001,
    "batch": 17,
    "steps": 601,
    "eval_every": 31,
    "seed": 1,
    "patience": 1,
    "clip": 2.0,
    "dropout": 0.0,
    "augment": False,
    "procedure": "probe",
    "input_init": "normal",
    "order": "shuffled",
    "eval_items": 100,
    "test_items": 100,
    "draw": 0,
    "threshold": 0.9,
    "warmup": 10,
    "prefix": 0,
    "eval_early": 5,
    "semantics": 2,
}
OTHER_SPEC = replace(SPEC, **OTHER)


def test_the_key_of_a_spec_never_changes():
    """A change here orphans every committed record: then `semantics` should have moved instead."""
    assert SPEC.key == "98a71fcb3fadc82c"


def test_every_field_changes_the_key():
    assert set(OTHER) == {field.name for field in fields(RunSpec)}
    keys = {replace(SPEC, **{name: value}).key for name, value in OTHER.items()}
    assert len(keys | {SPEC.key}) == len(OTHER) + 1


def test_numpy_scalars_are_numbers():
    scalars = {
        name: np.array(value)[()]
        for name, value in OTHER.items()
        if isinstance(value, str | int | float)
    }
    again = replace(OTHER_SPEC, **scalars)
    assert again.key == OTHER_SPEC.key
    assert not any(isinstance(value, np.generic) for value in vars(again).values())


@pytest.mark.parametrize("spec", [SPEC, *(replace(SPEC, **{n: v}) for n, v in OTHER.items())])
def test_a_spec_survives_json(spec):
    again = from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    assert again.key == spec.key
    assert hash(again) == hash(spec)
