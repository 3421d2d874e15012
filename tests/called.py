"""What a run is called, worked out from its spec alone: the names that indexes must have."""

import re

from fpt import names
from fpt.backbones import backbone

# What an identity of weights says beside the corpus: tokens, what was trained, seed or
# digest.
BESIDE_CORPUS = re.compile(r"(@\d+M)?(-last)?-\d+$|@\w+$")
# Backbones that stand in a transformer's place, or change how it attends.
IN_PLACE = ("lstm-released", "lstm", "split", "mean-token", "last-token")


def model_of(spec):
    """The name of the model of a run. A backbone that models.yaml does not name keeps its
    own."""
    place = in_place_of(spec)
    if place:
        # It is compared with the model that is as wide: mean-token-nano, lstm-576.
        size = spec.backbone.removeprefix(f"{place}-")
        for row in names.MODELS.values():
            if size in (row.backbone, row.size):
                return row.name
    name = spec.backbone
    if name.startswith("hub:"):  # OWNER/REPO at a commit
        name = name.removeprefix("hub:").partition("@")[0]
    rows = [row for row in names.MODELS.values() if row.backbone == name]
    corpus = BESIDE_CORPUS.sub("", spec.weights or "")
    fitting = [row for row in rows if row.weights == corpus]
    return next((row.name for row in [*fitting, *rows]), spec.backbone)


def arm_of(spec):
    """The name of the arm of a run; None if there is none like it."""
    architecture = backbone(spec.backbone)
    trained = [{*spec.trainable}]
    if not architecture.positions:
        # Earlier runs had no positions where the backbone has no table of its own.
        trained.append({*spec.trainable, "positions"})
    place = in_place_of(spec)
    for row in names.ARMS.values():
        is_like_it = (
            (row.init, row.procedure, row.order) == (spec.init, spec.procedure, spec.order)
            and row.backbone == place
            and {*row.groups(architecture)} in trained
        )
        if is_like_it:
            return row.name
    return None


def in_place_of(spec):
    """What stands in the place of a transformer in a run, if anything. A frozen LSTM is a
    model of its own."""
    for name in IN_PLACE:
        if spec.backbone.startswith(f"{name}-"):
            is_model = name.startswith("lstm") and "recurrent" not in spec.trainable
            return "" if is_model else name
    return ""
