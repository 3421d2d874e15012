"""Longformer: RoBERTa whose tokens see a window (Beltagy et al. 2020).

Without global attention, which the tasks here give no token, a Longformer is a BERT under a band
mask: the same parameters by the same names, the same numbers as transformers' model (tested). Its
chunked attention would pad every sequence to whole windows of 512; the band needs no padding, and
a sequence that fits into half a window needs no band. The projections for global attention are
left out. `positions` is the published table of 4,096: RoBERTa numbers them from 2, the first two
rows of the stored table are unused and skipped here.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor, nn

from . import bert
from .dropout import Draws

if TYPE_CHECKING:
    from . import Backbone

GROUPS = bert.GROUPS
FIRST_POSITION = 2


def load(spec: "Backbone", stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A checkpoint of Longformer or of a model around it, by our names."""
    table = "position_embeddings.weight"
    return bert.load(
        spec, {n: t[FIRST_POSITION:] if n.endswith(table) else t for n, t in stored.items()}
    )


def build(spec: "Backbone", draws: Draws, dropout: float) -> nn.Module:
    return bert.BertBody(spec, draws, dropout, eps=1e-5, window=spec.window)
