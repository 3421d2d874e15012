"""What a model answers on a split of its task, and the state in which its backbone begins.

A body that has met nothing like these tokens may answer all of them alike: then nearly all
of a token's squared norm lies in one coordinate, and block after block leaves it as it is.
A comparison of two bodies in such different states is one of their states, too. So each run
has the facts of its residual stream at step 0.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from ..backbones.encoders import ViTBackbone
from ..backbones.gpt2 import GPT2Backbone
from .device import autocast
from .model import Model

EVAL_TOKENS = 1 << 15  # tokens of all runs together in one evaluation batch
START_EXAMPLES = 64  # of the validation set, for the facts at step 0
START_TOKENS = 1 << 14  # of these, in all runs together
ONE_COORDINATE = 0.9  # of a token's squared norm
STILL = 0.05  # relative change of the stream

# Backbones that compute their blocks without calling them: in these, the first norm of each
# block and the last norm read the stream.
NORMS = (
    (GPT2Backbone, "ln_1", "gpt2.ln_f"),
    (ViTBackbone, "layernorm_before", "layernorm"),
)


@torch.no_grad()
def scores(model: Model, split: str, at_most: int = 0) -> Iterator[dict[str, Tensor]]:
    """For each batch of a split the values of every answer, (K, B, R): `accuracy` in [0,
    1], `loss` in nats, and the task's own scores, NaN where they do not apply.

    Evaluated are the fixed subset of `at_most` examples of `split` (`Task.subset`) or (0)
    all, without dropout and augmentation.
    """
    task = model.task
    device = model.output.weight.device
    model.eval()
    runs = len(model.seeds)
    size = max(1, EVAL_TOKENS // (runs * task.length))
    first = 0
    for batch in task.eval_batches(split, size, device, at_most):
        with autocast(device, model.precision):
            logits = model(batch, first=first).float()
        targets = batch.targets.expand(runs, -1, -1)
        first += targets.shape[1]
        yield {
            "accuracy": task.correct(logits, targets),
            "loss": task.losses(logits, targets),
            **task.scores(logits, batch),
        }


def evaluate(model: Model, split: str, at_most: int = 0) -> list[dict[str, float]]:
    """One mapping per run of `model`: the means of `scores` that apply to any answer, and
    `items`, the number of examples."""
    # (2, K): of the values, and of the answers that they apply to.
    sums: dict[str, Tensor] = {}
    items = 0
    for batch in scores(model, split, at_most):
        items += batch["loss"].shape[1]
        for name, values in batch.items():
            applies = ~values.isnan()
            # A loss that is not a number counts: it is what divergence looks like.
            if name in ("accuracy", "loss"):
                applies = torch.ones_like(applies)
            counted = values.where(applies, 0)
            added = torch.stack([counted.double(), applies.double()]).sum((2, 3))
            sums[name] = sums[name] + added if name in sums else added
    means = {
        name: (total / count).tolist()
        for name, (total, count) in sums.items()
        if bool(count.all())
    }
    return [
        {name: of_runs[run] for name, of_runs in means.items()} | {"items": items}
        for run in range(len(model.seeds))
    ]


class Watch:
    """What passes from block to block, as far as the facts need it: tensors (N, T, width)
    of K runs, one run after the other."""

    def __init__(self, runs: int, real: Tensor, skipped: int) -> None:
        self.runs = runs
        self.shape = real.shape
        self.real = real[:, skipped:]  # (N, T), True: a token that counts
        self.skipped = skipped
        self.fits = True
        self.stream: Tensor | None = None
        self.norms: list[Tensor] = []  # (K,) before the first block and after each
        self.shares: list[Tensor] = []  # (K,) after each block
        self.changes: list[Tensor] = []  # (K,) of each block

    def see(self, output: Any) -> None:
        """Take the stream before the first block, or what a block gives."""
        x = output if isinstance(output, Tensor) else output[0]
        # Some blocks pass on several streams, or tokens in another order of axes.
        self.fits &= x.dim() == 3 and x.shape[:2] == self.shape
        if not self.fits:
            return
        x = x[:, self.skipped :].float()
        norm = x.norm(dim=-1)
        self.norms.append(self.of_runs(norm, torch.Tensor.mean))
        if self.stream is not None:
            largest = x.abs().amax(-1).square() / norm.square()
            concentrated = (largest > ONE_COORDINATE).float()
            self.shares.append(self.of_runs(concentrated, torch.Tensor.mean))
            change = (x - self.stream).norm(dim=-1) / self.stream.norm(dim=-1)
            self.changes.append(self.of_runs(change, torch.Tensor.median))
        self.stream = x

    def of_runs(self, values: Tensor, statistic: Callable[[Tensor], Tensor]) -> Tensor:
        """The statistic of each run's tokens, (K,)."""
        tokens = zip(values.chunk(self.runs), self.real.chunk(self.runs), strict=True)
        return torch.stack([statistic(of_run[real]) for of_run, real in tokens])

    def facts(self) -> Iterator[dict[str, float]]:
        """The facts of each run, in their order."""
        if not self.fits:
            return
        shares = torch.stack(self.shares)
        still = (torch.stack(self.changes) < STILL).sum(0)
        middle = (len(shares) + 1) // 2 - 1
        for run in range(self.runs):
            yield {
                "start_coordinate_share": shares[middle, run].item(),
                "start_coordinate_share_max": shares[:, run].max().item(),
                "start_stream_before": self.norms[0][run].item(),
                "start_stream_after": self.norms[-1][run].item(),
                "start_still_blocks": still[run].item(),
            }


@torch.no_grad()
def start_facts(model: Model) -> list[dict[str, float]]:
    """The facts of each run of `model`, on its first validation examples, without dropout;
    empty mappings if the backbone has no blocks of token vectors.

    `start_coordinate_share`: of the tokens, with more than 90% of their squared norm in one
    coordinate after the middle block; `start_coordinate_share_max`: after the block that
    has most of them. `start_stream_before`, `start_stream_after`: mean norm of a token
    before the first block and after the last. `start_still_blocks`: how many blocks change
    a token, in the median, by less than 5% of its norm. A token in front of the sequences
    (`RunSpec.prefix`) and padding do not count.
    """
    runs = len(model.seeds)
    blocks = blocks_of(model.backbone)
    if not blocks:
        return [{} for _ in range(runs)]
    task = model.task
    device = model.output.weight.device
    size = min(START_EXAMPLES, max(1, START_TOKENS // (runs * task.length)))
    model.eval()
    batch = next(iter(task.eval_batches("valid", size, device, 0)))
    with autocast(device, model.precision):
        x, mask, _ = model.tokens(batch)
        skipped = 0 if model.prefix is None else 1
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=device)
        watch = Watch(runs, real if mask is None else mask, skipped)
        with ExitStack() as hooks:
            for hook in watching(model.backbone, blocks, watch.see):
                hooks.callback(hook.remove)
            model.backbone(x, mask, None)
    return list(watch.facts()) or [{} for _ in range(runs)]


def blocks_of(backbone: nn.Module) -> list[nn.Module]:
    """The blocks of a transformer: its first list of modules with attention; empty for
    others."""
    for part in backbone.modules():
        paths = [path for path, _ in part.named_modules()]
        if isinstance(part, nn.ModuleList) and any("att" in path.lower() for path in paths):
            return list(part)
    return []


def watching(
    backbone: nn.Module, blocks: list[nn.Module], see: Callable[[Any], None]
) -> Iterator[Any]:
    """Hooks that show to `see` what enters the first block and what leaves each."""
    for kind, of_block, last in NORMS:
        if not isinstance(backbone, kind):
            continue
        norms = [block.get_submodule(of_block) for block in blocks]
        for norm in (*norms, backbone.get_submodule(last)):
            yield norm.register_forward_pre_hook(lambda _, inputs: see(inputs[0]))
        return
    entered = blocks[0].register_forward_pre_hook(
        lambda _, inputs, options: see((*inputs, *options.values())[0]), with_kwargs=True
    )
    yield entered
    for block in blocks:
        yield block.register_forward_hook(lambda _, inputs, output: see(output))
