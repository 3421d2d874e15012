"""The model of the paper: input net, frozen backbone, output net on the positions that are
read.

One `Model` holds K runs. Trainable groups have the paper's names: `input`, `output`,
`layernorm`, `positions`, and the backbone's own (`attention`, `feedforward`, ...).
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones import Backbone, backbone, build, trained_group
from ..backbones.base import State, is_norm
from ..backbones.dropout import Draws, Dropout
from ..backbones.generic import GenericBackbone
from ..backbones.generic.prefix import prefix_vector
from ..backbones.initialisations import initial_state
from ..errors import check_names
from ..spec import RunSpec
from ..tasks import Batch, Task
from ..tasks.own.arrays import InputError
from ..tasks.rng import generator, shuffled
from .device import AUTO, in_bf16, round_frozen
from .packing import PackedParameters, ParameterSlice
from .packing.layers import PackedEmbedding, PackedLinear, packed

INPUT_INITS = ("orthogonal", "default", "normal")  # of the input net


def nets(task: Task, architecture: Backbone) -> dict[str, PackedLinear | PackedEmbedding]:
    """The input net of a task (an embedding of symbols, or a linear map of vectors) and its
    output net (one linear layer on each position read), by their trainable group."""
    width = architecture.width
    input_net: PackedLinear | PackedEmbedding
    if task.kind == "token":
        input_net = PackedEmbedding(task.dim, width)
    else:
        input_net = PackedLinear(task.dim, width, drawn_bias=architecture.meets_bare_tokens)
    output_net = PackedLinear(architecture.outputs or width, task.answers * task.classes)
    return {"input": input_net, "output": output_net}


def check_length(architecture: Backbone, task: Task) -> None:
    """InputError (an FptError) if the sequences of `task` are longer than the backbone's
    table of positions."""
    if architecture.positions and task.length > architecture.positions:
        raise InputError(
            f"Task {task.name!r} has sequences of {task.length} tokens, and backbone "
            f"{architecture.name!r} takes at most {architecture.positions}; shorten them, "
            "or take a backbone with more positions."
        )


class Model(nn.Module):
    """K runs of one task on one backbone. Parameters are bound by `PackedParameters`.

    `seeds` are those of the runs whose parameters are bound, row by row. They key all its
    draws.
    """

    def __init__(
        self,
        architecture: Backbone,
        task: Task,
        dropout: float,
        order: str = "given",
        seeds: Sequence[int] = (0,),
    ) -> None:
        super().__init__()
        check_length(architecture, task)
        self.task = task
        self.order = order
        self.width = architecture.width
        self.draws = Draws(seeds)
        self.nets = nets(task, architecture)
        self.input = self.nets["input"]
        # The released code drops values of its linear input nets, none of its embeddings.
        self.drop = nn.Identity() if task.kind == "token" else Dropout(dropout, self.draws)
        self.backbone = build(architecture, self.draws, dropout)
        self.output = self.nets["output"]
        self.precision = AUTO
        self.positions: Tensor | None
        self.register_parameter("positions", None)
        self.prefix: Tensor | None = None  # (width,), see `generic.prefix`

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.draws.seeds

    @seeds.setter
    def seeds(self, seeds: Sequence[int]) -> None:
        self.draws.seeds = tuple(seeds)

    def compute_in(self, precision: str, kind: str) -> None:
        """Prepare the model, assembled on a device of this kind, for `autocast` in a
        precision."""
        self.precision = precision
        if in_bf16(kind, precision):
            round_frozen(self.backbone)
            # The backward pass of a CPU's fused attention is slower in bf16 than a whole
            # layer.
            if kind == "cpu" and isinstance(self.backbone, GenericBackbone):
                self.backbone.model.set_attn_implementation("eager")

    def forward(self, batch: Batch, step: int = 0, first: int = 0) -> Tensor:
        """Logits (K, B, R, classes) of a training batch, or of one evaluation batch for all
        K.

        Random draws are keyed by the runs' seeds and, in training, by the number of the
        `step`; in evaluation by that of the batch's `first` example in its split.
        """
        logits = self.output(self.features(batch, step, first))
        return logits.reshape(*logits.shape[:2], -1, self.task.classes)

    def features(self, batch: Batch, step: int = 0, first: int = 0) -> Tensor:
        """The inputs of the output net, (K, B, positions read, width); arguments as
        `forward`."""
        x, mask, read = self.tokens(batch, step, first)
        return self.backbone(x, mask, read).unflatten(0, (len(self.output.weight), -1))

    def tokens(
        self, batch: Batch, step: int = 0, first: int = 0
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """What a backbone takes (`fpt.backbones`): token vectors (K*B, T, width), their
        mask, and the positions that are read; arguments as `forward`."""
        runs = len(self.output.weight)
        inputs = batch.inputs.expand(runs, *batch.inputs.shape[1:])
        size, length = inputs.shape[1:3]
        if self.training:
            # Masks as long as the task allows, however far this batch is padded: that
            # depends on the neighbours in the pack.
            longest = self.task.length + (self.prefix is not None)
            self.draws.begin(step, (size, longest, self.width), inputs.device)
        else:
            self.draws.first = first
        if self.order == "shuffled":
            inputs = shuffled(inputs, batch.last, self.task.reads, self.seeds)
        x = self.drop(self.input(inputs).flatten(0, 1))
        if self.positions is not None:
            table = self.positions[:, None, :length]
            x = (x.view(runs, size, length, -1) + table).flatten(0, 1)
        if torch.is_autocast_enabled("cpu"):
            # As what the backbone's products add to them; in float32 every sum would be.
            x = x.bfloat16()
        mask = None if batch.mask is None else batch.mask.expand(runs, -1, -1).flatten(0, 1)
        if batch.last is None:
            places = torch.arange(length - self.task.reads, length, device=x.device)
            read = places.expand(len(x), -1)
        else:
            read = batch.last.expand(runs, -1).reshape(-1, 1)
        if self.prefix is None:
            return x, mask, read
        x = torch.cat([self.prefix.to(x.dtype).expand(len(x), 1, -1), x], 1)
        mask = None if mask is None else F.pad(mask, (1, 0), value=True)
        return x, mask, read + 1


def assemble(
    specs: Sequence[RunSpec],
    task: Task,
    device: torch.device | str,
    architecture: Backbone | None = None,
) -> tuple[Model, PackedParameters, PackedParameters]:
    """The model of a pack, its trained rows and its frozen rows, with initial values on
    `device`.

    All specs share backbone, init, weights, prefix and order of the tokens, and
    `backbone_seed` if the backbone is drawn. `architecture` is their backbone if it is not
    to be looked up by its name, as one from a folder of the reader's. FptError if they name
    an unknown group or initialisation, or weights that are missing.
    """
    # All names are checked before anything is built, which takes seconds.
    first = specs[0]
    architecture = architecture or backbone(first.backbone)
    trained = set().union(*(spec.trainable for spec in specs))
    group = f"trainable group of {architecture.name}"
    check_names(group, sorted(trained), architecture.trainable)

    seeds = [spec.seed for spec in specs]
    model = Model(architecture, task, first.dropout, first.order, seeds)
    slices = [
        ParameterSlice(net, name, shape, group, f"{group}.{name}")
        for group, net in model.nets.items()
        for name, shape in net.shapes.items()
    ]
    body = (first.init, first.weights, first.backbone_seed)
    state = initial_state(architecture, model.backbone, *body)
    initial: State = {}
    if architecture.positions or "positions" in trained:
        # Rows after the longest sequence would never get a gradient. Without a table of its
        # own a backbone starts as it is: from one of zeros.
        shape = (task.length, architecture.width)
        slices.append(ParameterSlice(model, "positions", shape, "positions", "positions"))
        table = state.pop("positions", torch.zeros(shape, dtype=torch.float32))
        initial["positions"] = table[: task.length]
    if first.prefix is not None:
        model.prefix = prefix_vector(architecture, *body, first.prefix).to(device)
    # Buffers have their values.
    model.backbone.load_state_dict(state, assign=True, strict=False)
    model.backbone.requires_grad_(False)
    slices += backbone_slices(model.backbone, architecture, trained)
    initial |= {f"backbone.{name}": value for name, value in state.items()}
    model.to(device)

    def packed_rows(trainable: bool) -> PackedParameters:
        parts = [part for part in slices if (part.group in trained) == trainable]
        rows = PackedParameters(parts, trainable)
        rows.bind(
            torch.stack([initial_row(parts, spec, initial) for spec in specs]).to(device)
        )
        return rows

    return model, packed_rows(True), packed_rows(False)


def backbone_slices(
    module: nn.Module, architecture: Backbone, trained: set[str]
) -> list[ParameterSlice]:
    """The backbone's trained parameters; its trained norms become norms with per-run
    parameters."""
    slices = []
    for path, layer in list(module.named_modules()):
        parameters = list(layer.named_parameters(recurse=False))
        becomes_packed = "layernorm" in trained and is_norm(layer) and len(parameters) > 0
        owner = packed(layer) if becomes_packed else layer
        for name, parameter in parameters:
            full_name = f"{path}.{name}"
            group = trained_group(architecture, full_name, trained)
            if group is not None:
                shape = tuple(parameter.shape)
                stored_name = f"backbone.{full_name}"
                slices.append(
                    ParameterSlice(owner, name, shape, group, stored_name, becomes_packed)
                )
        if becomes_packed:
            module.set_submodule(path, owner)
    return slices


def initial_row(slices: Sequence[ParameterSlice], spec: RunSpec, initial: State) -> Tensor:
    """Initial values of one run, (P,): from the backbone's state, or for the nets drawn by
    its seed."""
    parts = [torch.empty(0, dtype=torch.float32)]
    for part in slices:
        value = initial.get(part.name)
        if value is None:
            assert isinstance(part.owner, PackedLinear | PackedEmbedding)
            init = spec.input_init if part.group == "input" else "default"
            # Keyed by its name, so that it does not depend on what else a run trains.
            draw = generator("cpu", spec.seed, "init", part.name)
            value = part.owner.initial(part.attribute, init, draw)
        parts.append(value.flatten())
    return torch.cat(parts)
