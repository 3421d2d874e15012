"""K runs as rows: their initial values, what of them is trained, and the step that trains
them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..backbones import Backbone, backbone, build, trained_group
from ..backbones.base import matrices
from ..backbones.generic.prefix import prefix_vector
from ..backbones.initialisations import initial_state
from ..errors import check_names
from ..spec import RunSpec
from ..tasks import Task
from ..tasks.rng import generator
from ..training.device import AUTO, in_bf16
from .draws import Body
from .frozen import Frozen
from .small import LSTM, LastToken, MeanToken, PreNormTransformer
from .step import Net, Rows, Settings, Step

INPUT_GAIN = 1.41  # of the orthogonal initialisation in the released code


@dataclass
class Assembled:
    """K runs before training: their step, the rows that they train and those `fixed` ones
    that they do not, and the group of each parameter."""

    step: Step
    rows: Rows
    fixed: Rows
    groups: Mapping[str, str | None]


def assemble(
    specs: Sequence[RunSpec],
    task: Task,
    device: str,
    architecture: Backbone | None = None,
    precision: str = AUTO,
) -> Assembled:
    """The step of a pack and its rows with their initial values, on `device`.

    All specs share backbone, init, weights, prefix and order of the tokens, and
    `backbone_seed` if the backbone is drawn. FptError if they name an unknown group or
    initialisation, or weights that are missing.
    """
    first = specs[0]
    architecture = architecture or backbone(first.backbone)
    trained = set().union(*(spec.trainable for spec in specs))
    check_names(
        f"trainable group of {architecture.name}", sorted(trained), architecture.trainable
    )
    body = (first.init, first.weights, first.backbone_seed)
    state = initial_state(architecture, build(architecture), *body)
    has_positions = bool(architecture.positions) or "positions" in trained
    inside = body_of(architecture, first.dropout)
    width = architecture.width
    net = Net(task, inside, width, architecture.outputs or width, has_positions)
    if first.prefix is not None:
        net.prefix = prefix_vector(architecture, *body, first.prefix)
    values = {name: tensor for name, tensor in net.named_buffers()}
    is_bf16 = in_bf16(device, precision)
    rounded = {f"backbone.{name}" for name, _, _ in matrices(inside)} if is_bf16 else set()
    rows: Rows = {}
    fixed: Rows = {}
    names = net.state_names
    groups = {name: group_of(architecture, own, trained) for name, own in names.items()}
    for name, state_name in names.items():
        if name.startswith("backbone."):
            own = [state[state_name.removeprefix("backbone.")]] * len(specs)
        elif name == "positions":
            # Without a table of its own a backbone starts as it is: from one of zeros. Rows
            # after the longest sequence would never get a gradient.
            table = state.get("positions", torch.zeros(task.length, architecture.width))
            own = [table[: task.length]] * len(specs)
        else:
            own = [initial(net, name, spec, architecture) for spec in specs]
        if groups[name] in trained:
            rows[name] = torch.stack(own)
        elif groups[name] in ("input", "output"):
            fixed[name] = torch.stack(own)  # drawn by the seed of each run
        else:
            values[name] = own[0].bfloat16() if name in rounded else own[0]
    on_device = [
        {name: part.to(device) for name, part in of.items()} for of in (rows, fixed, values)
    ]
    step = Step(
        net, task, on_device[2], settings_of(specs, groups, device), device, is_bf16
    )
    return Assembled(step, on_device[0], on_device[1], groups)


OWN: Mapping[str, Callable[[Backbone, float], Body]] = {
    "lstm": LSTM,
    "lstm-released": LSTM,
    "vanilla": PreNormTransformer,
    "linformer": PreNormTransformer,
    "gpt2-unfused": PreNormTransformer,
    "mean-token": MeanToken,
    "last-token": LastToken,
}


def body_of(architecture: Backbone, dropout: float) -> Body:
    """What is frozen, without values."""
    if architecture.family not in OWN:
        return Frozen(architecture, dropout)
    with torch.device("meta"):
        return OWN[architecture.family](architecture, dropout)


def group_of(architecture: Backbone, name: str, trained: set[str]) -> str | None:
    """The trainable group of a parameter, by its name in states."""
    inside = name.removeprefix("backbone.")
    if inside != name:
        return trained_group(architecture, inside, trained)
    return name.partition(".")[0]


def settings_of(
    specs: Sequence[RunSpec], groups: Mapping[str, str | None], device: str
) -> Settings:
    """How each run is trained."""

    def column(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device)

    alike = {name: [groups[name] in spec.trainable for spec in specs] for name in groups}
    return Settings(
        column([spec.lr for spec in specs]),
        column([spec.clip for spec in specs]),
        column([max(1, spec.warmup) for spec in specs]),
        {
            name: column([float(trains) for trains in of_runs])
            for name, of_runs in alike.items()
            if any(of_runs) and not all(of_runs)
        },
    )


def initial(net: Net, name: str, spec: RunSpec, architecture: Backbone) -> Tensor:
    """Initial values of the input or output net of one run: the library's `default`; of an
    input net also a matrix that is `orthogonal`, as in the released code, or `normal`; of
    an embedding N(0, 1), whatever the run says.

    The bias of a linear input net starts at zero, but where nothing else is added to the
    token vectors: there it is drawn, as long as a column of an orthogonal matrix. A token
    of zeros would be a vector of zeros, which every norm of the backbone keeps at zero
    while its backward pass multiplies the gradient by 1 / sqrt(eps).
    """
    # Keyed by its name, so that it does not depend on what else a run trains.
    draw = generator("cpu", spec.seed, "init", name)
    group, _, attribute = name.partition(".")
    part = net.get_submodule(group)
    value = torch.zeros(part.get_parameter(attribute).shape, dtype=torch.float32)
    if isinstance(part, nn.Embedding):
        return value.normal_(generator=draw)
    if group == "output" or spec.input_init == "default":
        limit = 1 / math.sqrt(part.get_parameter("weight").shape[1])
        return value.uniform_(-limit, limit, generator=draw)
    if attribute == "bias":
        std = INPUT_GAIN / math.sqrt(len(value))
        is_bare = architecture.meets_bare_tokens
        return value.normal_(0.0, std, generator=draw) if is_bare else value
    if spec.input_init == "normal":
        return value.normal_(generator=draw)
    return nn.init.orthogonal_(value, INPUT_GAIN, draw)
