"""What a run is called: its model and its arm, each by its one name.

The names and what they stand for are in fpt/models.yaml and fpt/arms.yaml.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ..backbones import backbone
from ..files import read_yaml
from ..project import PACKAGE
from ..spec import RunSpec

FOUR_GROUPS = {"input", "layernorm", "output", "positions"}  # of the paper
# What an identity of weights says beside the corpus: tokens, what was trained, seed or
# digest.
BESIDE_CORPUS = re.compile(r"(@\d+M)?(-last)?-\d+$|@\w+$")
# Backbones that stand in a transformer's place, or change how it attends.
IN_PLACE = ("lstm-released", "lstm", "split", "mean-token", "last-token")
Rows = Mapping[str, Mapping[str, Any]]


@cache
def models() -> Rows:
    """The rows of models.yaml by name."""
    rows: Rows = read_yaml(PACKAGE / "models.yaml")
    return rows


@cache
def arms() -> Rows:
    """The rows of arms.yaml by name."""
    rows: Rows = read_yaml(PACKAGE / "arms.yaml")
    return rows


def model_of(spec: RunSpec) -> str:
    """The name of the model of a run. A backbone that models.yaml does not name keeps its
    own."""
    backbone_name = spec.backbone
    in_place = in_place_of(spec)
    if in_place:
        # It is compared with the model that is as wide: mean-token-nano, lstm-576.
        size = backbone_name.removeprefix(f"{in_place}-")
        for name, row in models().items():
            if size in (row["backbone"], str(row.get("width"))):
                return name
    rows = {name: row for name, row in models().items() if row["backbone"] == backbone_name}
    corpus = BESIDE_CORPUS.sub("", spec.weights or "")
    fitting = [name for name, row in rows.items() if row.get("weights") == corpus]
    return next(iter([*fitting, *rows]), backbone_name)


def arm_of(spec: RunSpec) -> str | None:
    """The name of the arm of a run; None if arms.yaml has none."""
    signature = {
        "init": spec.init,
        "trainable": trained_of(spec),
        "procedure": spec.procedure,
        "order": spec.order,
        "backbone": in_place_of(spec),
    }
    usual = {
        "init": "pretrained",
        "trainable": None,
        "procedure": "sgd",
        "order": "given",
        "backbone": "",
    }
    for name, row in arms().items():
        expected = {part: row.get(part, value) for part, value in usual.items()}
        if isinstance(expected["trainable"], list):
            expected["trainable"] = sorted(expected["trainable"])
        if expected == signature:
            return name
    return None


def trained_of(spec: RunSpec) -> str | list[str] | None:
    """What a run trains: `all`, a list of groups, or None for the paper's four groups, as
    far as its backbone has them."""
    trained = {*spec.trainable}
    if {"attention", "feedforward"} <= trained or "recurrent" in trained:
        return "all"
    if trained in (FOUR_GROUPS, FOUR_GROUPS & {*backbone(spec.backbone).groups}):
        return None
    return sorted(trained)


def in_place_of(spec: RunSpec) -> str:
    """What stands in the place of a transformer in a run, if anything. A frozen LSTM is a
    model of its own."""
    for name in IN_PLACE:
        if spec.backbone.startswith(f"{name}-"):
            is_model = name.startswith("lstm") and trained_of(spec) is None
            return "" if is_model else name
    return ""
