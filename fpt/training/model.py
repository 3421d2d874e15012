"""The model of the paper: input net, frozen body, output net on the positions that are read.

One `Model` holds K runs. Trainable groups have the paper's names: `input`, `output`, `layernorm`,
`positions`, and the body's own (`attention`, `feedforward`, ...).
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones import Backbone, backbone, build, trained_group
from ..backbones.initialisations import INITS, body_state
from ..backbones.layers import Draws, Dropout
from ..backbones.weights import State
from ..files import FptError
from ..spec import RunSpec
from ..tasks import Batch, Task
from ..tasks.rng import generator
from .packing import PACKED, Rows, Slot
from .shuffle import ORDERS, shuffled

INPUT_INITS = ("orthogonal", "default", "normal")
INPUT_GAIN = 1.41  # orthogonal start of the released code


class InputNet(nn.Module):
    """Tokens to vectors: a linear map (vectors) or an embedding (symbols), one per run."""

    def __init__(self, kind: str, dim: int, width: int) -> None:
        super().__init__()
        self.kind = kind
        self.weight: Tensor
        self.bias: Tensor
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        self.shapes = (
            {"weight": (dim, width)}
            if kind == "token"
            else {"weight": (width, dim), "bias": (width,)}
        )

    def initial(self, name: str, init: str, draw: torch.Generator) -> Tensor:
        """Initial values of one run. Embeddings are N(0, 1), the library's default. A matrix is
        `orthogonal` as in the released code, the library's `default`, or `normal`, N(0, 1); its
        bias is zero but by default."""
        if init not in INPUT_INITS:
            known = ", ".join(INPUT_INITS)
            raise FptError(f"There is no start {init!r} of the input net; choose one of {known}.")
        value = torch.zeros(self.shapes[name])
        if self.kind == "token":
            return value.normal_(generator=draw)
        if init == "default":
            bound = 1 / math.sqrt(self.shapes["weight"][1])
            return value.uniform_(-bound, bound, generator=draw)
        if name == "bias":
            return value
        if init == "normal":
            return value.normal_(generator=draw)
        return nn.init.orthogonal_(value, INPUT_GAIN, draw)

    def forward(self, inputs: Tensor) -> Tensor:
        """(K, B, T, dim) or (K, B, T) ids -> (K, B, T, width)."""
        if self.kind == "token":
            tables = self.weight.unbind(0)
            return torch.stack([F.embedding(i, t) for i, t in zip(inputs, tables, strict=True)])
        runs, size, length, dim = inputs.shape
        x = inputs.reshape(runs, size * length, dim)
        y = torch.baddbmm(self.bias[:, None], x, self.weight.transpose(1, 2))
        return y.view(runs, size, length, -1)


class OutputNet(nn.Module):
    """One linear layer on each position read, one per run."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.weight: Tensor
        self.bias: Tensor
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        self.shapes = {"weight": (outputs, width), "bias": (outputs,)}

    def initial(self, name: str, draw: torch.Generator) -> Tensor:
        """Initial values of one run: the library's default for linear layers."""
        bound = 1 / math.sqrt(self.shapes["weight"][1])
        return torch.empty(self.shapes[name]).uniform_(-bound, bound, generator=draw)

    def forward(self, hidden: Tensor) -> Tensor:
        """(K, B, reads, width) -> (K, B, reads, outputs)."""
        runs, size, reads, width = hidden.shape
        x = hidden.reshape(runs, size * reads, width)
        y = torch.baddbmm(self.bias[:, None], x, self.weight.transpose(1, 2))
        return y.view(runs, size, reads, -1)


class Model(nn.Module):
    """K runs of one task on one body. Parameters are bound by `Rows`."""

    def __init__(self, spec: Backbone, task: Task, dropout: float, order: str = "given") -> None:
        super().__init__()
        if order not in ORDERS:
            known = ", ".join(ORDERS)
            raise FptError(f"There is no order {order!r} of the tokens; choose one of {known}.")
        if spec.positions and task.length > spec.positions:
            raise FptError(
                f"Task {task.name!r} has sequences of {task.length} tokens; backbone "
                f"{spec.name!r} takes at most {spec.positions}. Shorten the task by its options."
            )
        self.task, self.draws, self.order = task, Draws(), order
        self.width = spec.width
        self.input = InputNet(task.kind, task.dim, spec.width)
        # The released code drops values of its linear input nets, none of its embeddings.
        self.drop = nn.Identity() if task.kind == "token" else Dropout(dropout, self.draws)
        self.body = build(spec, self.draws, dropout)
        self.output = OutputNet(spec.width, task.answers * task.classes)
        self.positions: Tensor | None
        self.register_parameter("positions", None)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (K, B, R, classes) of a training batch, or of one evaluation batch for all K."""
        runs = len(self.output.weight)
        inputs = batch.inputs
        if len(inputs) != runs:
            inputs = inputs.expand(runs, *inputs.shape[1:])
        size, length = inputs.shape[1:3]
        if self.order == "shuffled":
            inputs = shuffled(inputs, batch.last, self.task.reads, self.draws.seeds)
        x = self.drop(self.input(inputs).flatten(0, 1))
        if self.positions is not None:
            x = (x.view(runs, size, length, -1) + self.positions[:, None, :length]).flatten(0, 1)
        mask = None if batch.mask is None else batch.mask.expand(runs, -1, -1).flatten(0, 1)
        if batch.last is None:
            first = length - self.task.reads
            read = torch.arange(first, length, device=x.device).expand(len(x), -1)
        else:
            read = batch.last.expand(runs, -1).reshape(-1, 1)
        hidden = self.body(x, mask, read)
        logits = self.output(hidden.view(runs, size, -1, self.width))
        return logits.reshape(runs, size, -1, self.task.classes)


def own_slots(model: Model) -> list[Slot]:
    """The parameters outside the body: input net, positions (rows that are used), output net."""
    slots = [Slot(model.input, n, s, "input", f"input.{n}") for n, s in model.input.shapes.items()]
    slots += [
        Slot(model.output, n, s, "output", f"output.{n}") for n, s in model.output.shapes.items()
    ]
    return slots


def assemble(
    specs: Sequence[RunSpec], task: Task, device: torch.device | str
) -> tuple[Model, Rows, Rows]:
    """The model of a pack, its trained rows and its fixed rows, with initial values on `device`.

    All specs share backbone, init, weights and order of the tokens, and the seed where the body is
    drawn from it.
    """
    first = specs[0]
    backend = backbone(first.backbone)
    trained = set().union(*(spec.trainable for spec in specs))
    check_groups(backend, trained)
    inside = trained - {"input", "output", "positions", "layernorm"}
    if inside and len(specs) > 1:
        raise FptError(
            f"Runs that train the body ({', '.join(sorted(inside))}) cannot share it: "
            f"a pack of {len(specs)} was asked for, such packs have one run."
        )
    model = Model(backend, task, first.dropout, first.order)
    state = body_state(backend, model.body, first.init, first.weights, first.seed)
    slots = own_slots(model)
    initial: State = {}
    if backend.positions:
        shape = (task.length, backend.width)
        slots.append(Slot(model, "positions", shape, "positions", "positions"))
        initial["positions"] = state.pop("positions")[: task.length]
    model.body.load_state_dict(state, assign=True)
    model.body.requires_grad_(False)
    inside_slots = body_slots(model.body, backend, trained)
    initial |= {slot.name: state[slot.name.removeprefix("body.")] for slot in inside_slots}
    slots += inside_slots
    model.to(device)
    rows = []
    for chosen in (True, False):
        part = Rows([slot for slot in slots if (slot.group in trained) == chosen], trained=chosen)
        values = torch.stack([initial_row(part.slots, spec, initial) for spec in specs])
        part.bind(values.to(device))
        rows.append(part)
    return model, rows[0], rows[1]


def body_slots(body: nn.Module, spec: Backbone, trained: set[str]) -> list[Slot]:
    """The body's trained parameters; its trained norms become norms with per-run parameters."""
    slots = []
    for path, module in list(body.named_modules()):
        kind = PACKED.get(type(module).__name__) if "layernorm" in trained else None
        owner = kind(module) if kind else module
        for name, parameter in module.named_parameters(recurse=False):
            full = f"{path}.{name}"
            group = trained_group(spec, full, trained)
            if group is not None:
                shape = tuple(parameter.shape)
                slots.append(Slot(owner, name, shape, group, f"body.{full}", bool(kind)))
        if kind:
            parent, _, attribute = path.rpartition(".")
            setattr(body.get_submodule(parent), attribute, owner)
    return slots


def initial_row(slots: Sequence[Slot], spec: RunSpec, initial: State) -> Tensor:
    """Initial values of one run, (P,): from the body's state, or drawn for the nets by its seed."""
    parts = []
    for slot in slots:
        value = initial.get(slot.name)
        if value is None:
            draw = generator("cpu", spec.seed, "init", slot.name)
            if isinstance(slot.owner, InputNet):
                value = slot.owner.initial(slot.attribute, spec.input_init, draw)
            else:
                assert isinstance(slot.owner, OutputNet)
                value = slot.owner.initial(slot.attribute, draw)
        parts.append(value.flatten())
    return torch.cat(parts) if parts else torch.empty(0)


def check_groups(spec: Backbone, groups: set[str]) -> None:
    unknown = groups - set(spec.trainable)
    if unknown:
        raise FptError(
            f"Backbone {spec.name!r} has no trainable group {', '.join(sorted(unknown))}; "
            f"its groups are {', '.join(spec.trainable)}."
        )


def packable(spec: RunSpec) -> bool:
    """Whether the run leaves its body frozen, so that others can share it."""
    return set(spec.trainable) <= {"input", "output", "layernorm", "positions"}


def body_identity(spec: RunSpec) -> tuple[object, ...]:
    """What two runs must share to stand on one body."""
    seed = spec.seed if INITS[spec.init].depends_on_seed else None
    return (spec.backbone, spec.init, spec.weights, seed, spec.dropout, spec.order)
