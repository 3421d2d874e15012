"""What a family and a backbone are, the built-in sizes, and what all families share.

`fpt.backbones` fills the table of families.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from .dropout import Draws

STD = 0.02  # of weights, by default
LAYER = re.compile(r"\.(\d+)\.")  # the number of its layer, from 0, in a parameter's name
LAST_ATTENTION = "last-attention"  # the part of group `attention` in the last layer
State = dict[str, Tensor]  # a backbone's parameters by name, and "positions" (rows, width)


@dataclass(frozen=True)
class Family:
    """One architecture: its builder, and the group of each of its parameters by name."""

    build: Callable[["Backbone", Draws, float], nn.Module]
    groups: tuple[tuple[str, str], ...]  # regular expression of the name -> trainable group
    causal: bool
    init_: Callable[[nn.Module, torch.Generator], None]  # default initialisation
    stores_positions: bool = True  # whether published checkpoints have our position table
    # From the names in a published checkpoint to ours: (pattern, replacement), one after
    # another.
    renamed: tuple[tuple[str, str], ...] = ()
    rows: Mapping[str, slice] = field(default_factory=dict)  # of a published table

    def load(self, stored: State) -> State:
        """The tensors of a checkpoint of the architecture, or of a model around it, by our
        names; tensors that are not part of the backbone keep theirs."""
        loaded = {}
        for published, tensor in stored.items():
            name = published
            for pattern, replacement in self.renamed:
                name = re.sub(pattern, replacement, name)
            # A checkpoint of our own keeps its names, and has only the rows that are used.
            cut = name in self.rows and name != published
            loaded[name] = tensor[self.rows[name]] if cut else tensor
        return loaded


FAMILIES: dict[str, Family] = {}


@dataclass(frozen=True)
class Backbone:
    """A size of a family. `hub` names the published weights, if any."""

    name: str
    family: str
    layers: int
    width: int
    heads: int = 0
    positions: int = 0  # longest sequence; 0: any
    vocabulary: int = 0
    hub: str | None = None
    window: int = 0  # Longformer: the number of tokens around it that a token sees
    rank: int = 0  # Linformer: the number of keys of a sequence
    bidirectional: bool = False  # GPT-2: without its causal mask
    residual: bool = False  # LSTM: with a residual connection around each layer
    fixed: bool = False  # gpt2-unfused: attention that does not depend on the tokens
    feedforward: bool = True  # gpt2-unfused: with feedforward layers
    # Of a backbone by configuration (`fpt.backbones.generic`).
    config: str = field(default="", repr=False)  # transformers' configuration, JSON
    inside: str = ""  # groups of its own parameters; of a ViT, none
    outputs: int = 0  # width of its hidden states, if it is not that of its token vectors
    time_major: bool = False  # whether its norms see (T, N, width), as XLNet's do
    # The absolute folder of the weights; empty if they are found by their identity. It says
    # where, not which, so two backbones that differ in it alone are equal.
    folder: str = field(default="", compare=False, repr=False)

    @property
    def causal(self) -> bool:
        """Whether a token sees only itself and those before it."""
        return FAMILIES[self.family].causal and not self.bidirectional

    @property
    def meets_bare_tokens(self) -> bool:
        """Whether its first norm reads the token vectors alone, without positions added to
        them."""
        return not self.positions and self.family in ("generic", "t5-encoder")

    @property
    def groups(self) -> tuple[str, ...]:
        """Trainable groups of a model on this backbone, in the paper's order."""
        own = self.inside.split() or [group for _, group in FAMILIES[self.family].groups]
        if not self.feedforward:
            own = [group for group in own if group != "feedforward"]
        groups = ["output"]
        if "layernorm" in own:
            groups.append("layernorm")
        groups.append("input")
        if self.positions:
            groups.append("positions")
        return tuple(dict.fromkeys([*groups, *own]))

    @property
    def trainable(self) -> tuple[str, ...]:
        """The names that `trainable` of a run may have: the groups, and of a transformer
        the part of one, and `positions`: if it has no table of them, since its own are
        rotary or relative, it gets one of zeros."""
        groups = self.groups
        if "attention" in groups:
            groups = tuple(dict.fromkeys((*groups, LAST_ATTENTION, "positions")))
        return groups


# Layers, width and heads of the sizes that are pretrained here.
SIZES = {
    "pico": (2, 64, 2),
    "nano": (4, 128, 4),
    "micro": (6, 256, 4),
    "mini": (8, 512, 8),
    "small": (12, 768, 12),
}
LSTM_LAYERS = 3  # the paper's, of GPT-2's width; the local ones follow the local widths
SMOLLM2_WIDTH = 576


def of_size(size: str, layers: int, width: int, heads: int) -> Iterator[Backbone]:
    """Every architecture in one of the local sizes."""
    shape = (layers, width, heads)
    gpt2 = Backbone(size, "gpt2", *shape, 1024, 4096)
    yield gpt2
    # The control of causality: the same weights, a token sees those after it too.
    yield replace(gpt2, name=f"bidirectional-{size}", bidirectional=True)
    # Table 17's architectures.
    yield Backbone(f"bert-{size}", "bert", *shape, 512)
    yield Backbone(f"t5-encoder-{size}", "t5-encoder", *shape)
    yield Backbone(f"longformer-{size}", "longformer", *shape, 4096, window=512)
    yield Backbone(f"vit-{size}", "vit", *shape, 1024)
    yield Backbone(f"lstm-{size}", "lstm", LSTM_LAYERS, width)
    yield Backbone(f"lstm-released-{size}", "lstm-released", LSTM_LAYERS, width)
    if layers > LSTM_LAYERS:
        # The LSTM made more like the transformer, one step after another (section 3.3, of
        # the paper's second version): as deep, with residual connections, with a table of
        # positions.
        deep = Backbone(f"lstm-deep-{size}", "lstm", layers, width)
        yield deep
        yield replace(deep, name=f"lstm-residual-{size}", residual=True)
        yield replace(deep, name=f"lstm-positions-{size}", residual=True, positions=1024)
        # And two that are matched to it. `matched` has as many frozen matrix parameters, 8
        # width^2 per layer instead of the transformer's 12. `flops` can take as many FLOPs
        # per token: it has layers for attention in the longest sequence, of which a task
        # takes the first ones (`fpt.training.flops.as_costly`), and residuals, without
        # which so many layers would pass nothing on.
        matched = 3 * layers // 2
        as_costly = matched + layers * 1024 // (4 * width)
        yield replace(deep, name=f"lstm-matched-{size}", layers=matched)
        yield replace(deep, name=f"lstm-flops-{size}", layers=as_costly, residual=True)
    # The critics' controls.
    yield from without_transformer(size, width)
    unfused = Backbone(f"split-{size}", "gpt2-unfused", *shape, 1024)
    yield unfused
    yield replace(unfused, name=f"fixed-{size}", fixed=True)
    yield replace(unfused, name=f"attention-{size}", layers=1, feedforward=False)


def without_transformer(size: str | int, width: int) -> Iterator[Backbone]:
    """Input and output net alone, on vectors of this width."""
    yield Backbone(f"last-token-{size}", "last-token", 0, width)
    yield Backbone(f"mean-token-{size}", "mean-token", 0, width)


TABLE_7 = (  # trained from nothing
    Backbone("vanilla", "vanilla", 3, 64, 4, 1024),
    Backbone("linformer", "linformer", 3, 64, 4, 1024, rank=16),
)
LOCAL = [
    architecture for size, shape in SIZES.items() for architecture in of_size(size, *shape)
]
AS_WIDE_AS_SMOLLM2 = (
    *without_transformer(SMOLLM2_WIDTH, SMOLLM2_WIDTH),
    Backbone(f"lstm-{SMOLLM2_WIDTH}", "lstm", LSTM_LAYERS, SMOLLM2_WIDTH),
)


def select_positions(x: Tensor, read: Tensor | None) -> Tensor:
    """The positions `read` (N, R) of x (N, T, width); None: all of them."""
    if read is None:
        return x
    index = read[..., None].expand(-1, -1, x.shape[-1])
    return x.gather(1, index)


def visible_keys(mask: Tensor | None) -> Tensor | None:
    """The mask of bidirectional attention, (N, 1, 1, T), from `mask` (N, T), True = a real
    token. None: every token sees all."""
    return None if mask is None else mask[:, None, None]


def matrices(module: nn.Module) -> Iterator[tuple[str, Tensor, int]]:
    """The weight matrices of Linear and Conv1D layers, which multiply every token: name,
    tensor, and the axis of the inputs (1 in a Linear, 0 in GPT-2's Conv1D)."""
    for path, layer in module.named_modules():
        conv = type(layer).__name__ == "Conv1D"  # of transformers
        if conv or isinstance(layer, nn.Linear):
            yield f"{path}.weight", layer.get_parameter("weight"), 0 if conv else 1


def bare_matrices(module: nn.Module) -> list[str]:
    """The names of matrices inside layers that are parameters of their own, whose axis of
    inputs only the model's code knows: the experts and routers of a mixture, XLNet's
    attention."""
    known_layers = {name for name, _, _ in matrices(module)}
    for path, part in module.named_modules():
        if isinstance(part, nn.Embedding):
            known_layers.add(f"{path}.weight")
    names = []
    for name, parameter in module.named_parameters():
        # A vector may have axes of length 1 in front.
        is_vector = parameter.numel() <= max(parameter.shape, default=1)
        if LAYER.search(name) and name not in known_layers and not is_vector:
            names.append(name)
    return names


def is_norm(module: nn.Module) -> bool:
    """Whether it is of a type that `fpt.training.packing` gives parameters per run:
    LayerNorm, and the norms of transformers that divide by the root mean square (T5's, and
    all *RMSNorm)."""
    # PyTorch's own RMSNorm takes no gain with an axis of runs in front.
    if isinstance(module, nn.RMSNorm):
        return False
    is_rms_norm = type(module).__name__.endswith(("RMSNorm", "T5LayerNorm"))
    return type(module) is nn.LayerNorm or is_rms_norm


def normal_init_(
    module: nn.Module, draw: torch.Generator, residual_std: float = STD
) -> None:
    """The default initialisation of GPT-2 in the libraries of 2019 to 2021, of BERT,
    Longformer and ViT: weights N(0, 0.02), biases 0, norms 1 and 0. Queries and keys that
    are parameters of their own (`fpt.backbones.gpt2`) are N(0, 1).

    `residual_std`: of GPT-2's projections that add to the residual stream, which newer
    libraries divide by sqrt(2 * layers).
    """
    for path, part in module.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            if name == "bias":
                parameter.zero_()
            elif isinstance(part, nn.LayerNorm):
                parameter.fill_(1.0)
            elif name in ("query", "key"):
                parameter.normal_(generator=draw)
            else:
                std = residual_std if path.endswith("c_proj") else STD
                parameter.normal_(0.0, std, generator=draw)
