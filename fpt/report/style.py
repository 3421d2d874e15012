"""How every figure looks: one colour, marker, hatch and line per arm, readable in grey too."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib


@dataclass(frozen=True)
class Look:
    """Colours are Okabe and Ito's and Paul Tol's muted ones, made to be told apart by people with
    any colour vision. Where a part is trained on either body, the random one's marker is hollow."""

    colour: str
    marker: str
    hatch: str
    line: str | tuple[float, tuple[float, ...]]
    hollow: bool = False

    @property
    def face(self) -> str:
        """The colour inside the marker."""
        return "white" if self.hollow else self.colour

    @property
    def edge(self) -> str:
        """The colour around the marker."""
        return self.colour if self.hollow else INK


def _part(colour: str, marker: str, line: str | tuple[float, tuple[float, ...]]) -> list[Look]:
    """Pretrained and random body with the same parts trained."""
    return [Look(colour, marker, "", line), Look(colour, marker, "....", line, hollow=True)]


_PARTS = {
    "output": _part("#555555", "*", ":"),
    "output+layernorm": _part("#117733", "p", "-."),
    "output+layernorm+input": _part("#44AA99", "H", (0, (5, 1, 1, 1, 1, 1))),
    "output+input": _part("#CC6677", ">", "--"),
    "output+positions": _part("#AA4499", "<", (0, (3, 1, 1, 1))),
    "output+input+positions": _part("#332288", "8", (0, (1, 1))),
}
_BODIES = {  # with weights and at random
    "vit": _part("#117733", "h", "-."),
    "lstm": _part("#D55E00", "<", ":"),
    "bidirectional": _part("#56B4E9", "d", "-."),
    "bert": _part("#CC6677", "^", ":"),
    "t5": _part("#117733", "v", (0, (3, 1, 1, 1))),
    "longformer": _part("#AA4499", "D", (0, (5, 1, 1, 1))),
    "smaller": _part("#56B4E9", ">", ":"),
    "larger": _part("#117733", "X", "-."),
    "largest": _part("#882255", "p", (0, (3, 1, 1, 1))),
}
_DEPTHS = {  # with weights and at random
    "output@1": _part("#56B4E9", "<", ":"),
    "output@2": _part("#44AA99", ">", "--"),
    "output@3": _part("#CC6677", "P", "-."),
    "output@6": _part("#882255", "8", (0, (3, 1, 1, 1))),
    "output+layernorm@1": _part("#56B4E9", "v", ":"),
    "output+layernorm@2": _part("#44AA99", "^", "--"),
    "output+layernorm@3": _part("#CC6677", "D", "-."),
    "output+layernorm@6": _part("#882255", "h", (0, (3, 1, 1, 1))),
}
# Texts blue, images green, independent tokens grey, pairs and blocks warm, our own purple.
_CORPORA = {
    "english": ("#0072B2", "o"),
    "kannada": ("#56B4E9", "v"),
    "javascript": ("#332288", "^"),
    "amino-acids": ("#88CCEE", "D"),
    "images": ("#117733", "h"),
    "uniform": ("#BBBBBB", "."),
    "unigram": ("#888888", "P"),
    "bigram": ("#444444", "X"),
    "bigram-16": ("#000000", "x"),
    "copies": ("#661100", "2"),
    "flat-2": ("#DDCC77", "<"),
    "flat-128": ("#999933", ">"),
    "nesting": ("#D55E00", "d"),
    "shuffle-64": ("#CC6677", "p"),
    "dyck": ("#AA4499", "*"),
    "rule-110": ("#882255", "H"),
    "english+nesting": ("#44AA99", "8"),
}
_ENGLISH = {
    "english-1M": ("#88CCEE", ">"),
    "english-21M": ("#332288", "<"),
    "english-bytes": ("#117733", "s"),
    "english-512": ("#44AA99", "P"),
    "english-last": ("#CC6677", "X"),
}
CORPUS_LOOKS: Mapping[str, Look] = {
    **{
        f"fpt-{corpus}": Look(colour, marker, "", "-")
        for corpus, (colour, marker) in (_CORPORA | _ENGLISH).items()
    },
    **{
        f"statistics-{corpus}": Look(colour, marker, "....", ":", hollow=True)
        for corpus, (colour, marker) in _CORPORA.items()
    },
}
LOOKS: Mapping[str, Look] = {
    **CORPUS_LOOKS,
    **{  # in the colour of the corpus
        f"full-{corpus}": Look(_CORPORA[corpus][0], marker, "xxxx", "-.")
        for corpus, marker in (("english", "D"), ("nesting", "P"), ("dyck", "X"), ("uniform", "v"))
    },
    "fpt": Look("#0072B2", "o", "", "-"),
    "random": Look("#E69F00", "s", "////", "--"),
    "full": Look("#009E73", "^", "||||", "-."),
    "full-pretrained": Look("#CC79A7", "D", "xxxx", (0, (5, 1, 1, 1, 1, 1))),
    "lstm": Look("#D55E00", "v", "\\\\\\\\", ":"),
    "lstm-released": Look("#56B4E9", "P", "++++", (0, (3, 1, 1, 1))),
    "statistics-tensor": Look("#117733", "^", "oo", "-."),
    "statistics-layer": Look("#44AA99", "v", "OO", ":"),
    "statistics-global": Look("#999933", "<", "..", (0, (5, 1, 1, 1))),
    "shuffled": Look("#CC6677", "X", "xx", "-."),
    "permuted-rows": Look("#AA4499", "P", "++", ":"),
    "pretrained-body": Look("#332288", "D", "--", "-."),
    "random-body": Look("#882255", "d", "**", ":"),
    "random-layernorm": Look("#999933", "p", "oo", "--", hollow=True),
    "random-positions": Look("#56B4E9", ">", "||", "-.", hollow=True),
    "pretrained-layernorm": Look("#009E73", "8", "||", (0, (5, 1, 1, 1))),
    "pretrained-positions": Look("#D55E00", ">", "oo", (0, (1, 1))),
    "random-scaled": Look("#DDCC77", "h", "//", (0, (3, 1, 1, 1))),
    "random-at-scale": Look("#DDCC77", "X", "//", (0, (5, 1))),
    **{name: looks[0] for name, looks in (_PARTS | _DEPTHS).items()},
    **{f"random-{name}": looks[1] for name, looks in (_PARTS | _DEPTHS).items()},
    "random-output@24": Look("#332288", "s", "....", "-.", hollow=True),
    "probe": _part("#882255", "H", "-.")[0],
    "random-probe": _part("#882255", "H", "-.")[1],
    **{f"fpt-{name}": looks[0] for name, looks in _BODIES.items()},
    **{f"random-{name}": looks[1] for name, looks in _BODIES.items()},
    "fpt-bits": Look("#AA4499", "d", "xx", "--"),
    "random-lstm-released": Look("#56B4E9", "P", "++++", (0, (3, 1, 1, 1)), hollow=True),
    "random-lstm-deep": Look("#117733", "^", "||", "-.", hollow=True),
    "random-lstm-residual": Look("#44AA99", "D", "xx", "--", hollow=True),
    "random-lstm-positions": Look("#332288", "p", "oo", (0, (5, 1, 1, 1)), hollow=True),
    "random-lstm-matched": Look("#882255", "X", "\\\\", (0, (1, 1)), hollow=True),
    "random-lstm-flops": Look("#999933", "s", "..", (0, (3, 1, 1, 1, 1, 1)), hollow=True),
    "full@3": Look("#117733", "D", "|||", ":"),
    "vanilla": Look("#882255", "P", "xx", "--"),
    "linformer": Look("#332288", "v", "\\\\", ":"),
    "input-default": Look("#CC79A7", "v", "xx", "-."),
    "input-normal": Look("#009E73", "P", "||", ":"),
    "frozen-input-orthogonal": Look("#0072B2", "o", "....", "--", hollow=True),
    "frozen-input-default": Look("#CC79A7", "v", "....", "-.", hollow=True),
    "frozen-input-normal": Look("#009E73", "P", "....", ":", hollow=True),
    "fpt+feedforward": Look("#117733", "s", "||", "-."),
    "fpt+attention": Look("#882255", "X", "\\\\", "--"),
    "fpt+feedforward+attention": Look("#DDCC77", "P", "xx", ":"),
    "fpt+feedforward+last-attention": Look("#332288", "^", "OO", (0, (3, 1, 1, 1))),
    "no-transformer-last": Look("#555555", "v", "--", ":"),
    "no-transformer-mean": Look("#999933", "X", "..", "-."),
    "random-attention": Look("#AA4499", "h", "oo", "--", hollow=True),
    "fpt-shuffled": Look("#56B4E9", "p", "//", "--"),
    "full-frozen-qk": Look("#D55E00", "d", "xx", "-."),
    "full-fixed": Look("#332288", "*", "++", ":"),
}
INK, MUTED, GRID = "#222222", "#767676", "#dddddd"

RC: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def styled() -> AbstractContextManager[None]:
    """The style, for drawing and saving inside; what the caller has set comes back after."""
    return matplotlib.rc_context(RC)


def unrun(tasks: Sequence[str]) -> str:
    """What the label of an axis says of tasks that have no panel."""
    return f" (not run: {', '.join(tasks)})" if tasks else ""
