"""What runs answer on a split of their task, and the state in which their backbone begins.

A body that has met nothing like these tokens may answer all of them alike: then nearly all
of a token's squared norm lies in one coordinate, and block after block leaves it as it is.
So each run has the facts of its residual stream at step 0.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from ..spec import RunSpec
from .runs import Runs

EVAL_TOKENS = 1 << 15  # tokens of all runs together in one evaluation batch
TRAIN_ITEMS = 1000  # training examples, without augmentation, that a run is scored on
START_EXAMPLES = 64  # of the validation set, for the facts at step 0
START_TOKENS = 1 << 14  # of these, in all runs together
ONE_COORDINATE = 0.9  # of a token's squared norm
STILL = 0.05  # relative change of the stream


def scores(runs: Runs, split: str, at_most: int = 0) -> Iterator[dict[str, Tensor]]:
    """For each batch of a split the values of every answer, (K, B, R): `accuracy` in [0,
    1], `loss` in nats, and the task's own scores, NaN where they do not apply; of the fixed
    subset of `at_most` examples (`Task.subset`), or (0) of all, without dropout and
    augmentation."""
    task = runs.task
    count = len(runs.alive)
    size = max(1, EVAL_TOKENS // (count * task.length))
    first = 0
    for batch in task.eval_batches(split, size, runs.device, at_most):
        logits = runs.logits(batch, first).float()
        targets = batch.targets.expand(count, -1, -1)
        first += targets.shape[1]
        yield {
            "accuracy": task.correct(logits, targets),
            "loss": task.losses(logits, targets),
            **task.scores(logits, batch),
        }


def evaluate(runs: Runs, split: str, at_most: int = 0) -> list[dict[str, float]]:
    """A mapping for each run: the means of its scores that apply to any answer, and
    `items`, the number of examples."""
    values: dict[str, list[Tensor]] = {}
    items = 0
    for batch in scores(runs, split, at_most):
        items += batch["loss"].shape[1]
        for name, of_batch in batch.items():
            values.setdefault(name, []).append(of_batch.flatten(1).double())
    means = {}
    for name, parts in values.items():
        together = torch.cat(parts, 1)
        # A loss that is not a number counts: it is what divergence looks like.
        mean = together.mean(1) if name in ("accuracy", "loss") else together.nanmean(1)
        if name in ("accuracy", "loss") or not mean.isnan().any():
            means[name] = mean.tolist()
    return [
        {name: of_runs[run] for name, of_runs in means.items()} | {"items": items}
        for run in range(len(runs.alive))
    ]


def tested(runs: Runs, spec: RunSpec) -> list[dict[str, Any]]:
    """The metrics of records, for the values that validation has chosen. The test set is
    read here and nowhere else, once a run."""
    metrics = [
        {f"test_{name}": value for name, value in of_run.items()}
        for of_run in evaluate(runs, "test", spec.test_items)
    ]
    if runs.task.sizes[
        "train"
    ]:  # if it is endless, its examples are like those of the test
        trained = evaluate(runs, "train", TRAIN_ITEMS)
        for of_run, on_train in zip(metrics, trained, strict=True):
            of_run["train_accuracy"] = on_train["accuracy"]
            of_run["train_items"] = on_train["items"]
    return metrics


# -------------------------------------------------------------------------------- at step 0


def start_facts(runs: Runs) -> list[dict[str, float]]:
    """Facts of each run on its first validation examples, without dropout; empty mappings
    if the backbone has no blocks of token vectors.

    `start_coordinate_share`: of the tokens, with more than 90% of their squared norm in one
    coordinate after the middle block; `start_coordinate_share_max`: after the block that
    has most of them. `start_stream_before`, `start_stream_after`: mean norm of a token
    before the first block and after the last. `start_still_blocks`: how many blocks change
    a token, in the median, by less than 5% of its norm. A token in front of the sequences
    (`RunSpec.prefix`) and padding do not count.
    """
    blocks = blocks_of(runs.step.net.backbone)
    count = len(runs.alive)
    if not blocks:
        return [{} for _ in range(count)]
    size = min(START_EXAMPLES, max(1, START_TOKENS // (count * runs.task.length)))
    batch = next(iter(runs.task.eval_batches("valid", size, runs.device, 0)))
    facts = []
    for row in range(count):
        stream: list[Tensor] = []
        with ExitStack() as hooks:
            for hook in watching(blocks, stream):
                hooks.callback(hook.remove)
            runs.chosen([row], "values").logits(batch, 0)
        facts.append(facts_of(stream, batch.mask, runs.step.net.prefix is not None))
    return facts


def blocks_of(body: nn.Module) -> list[nn.Module]:
    """The blocks of a transformer: its first list of modules with attention; empty for
    others."""
    for part in body.modules():
        paths = [path for path, _ in part.named_modules()]
        if isinstance(part, nn.ModuleList) and any("att" in path.lower() for path in paths):
            return list(part)
    return []


def watching(blocks: Sequence[nn.Module], stream: list[Tensor]) -> Iterator[Any]:
    """Hooks that append to `stream` what enters the first block and what leaves each."""

    def enters(_: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        stream.append((*inputs, *options.values())[0])

    def leaves(_: nn.Module, inputs: Any, output: Any) -> None:
        stream.append(output if isinstance(output, Tensor) else output[0])

    yield blocks[0].register_forward_pre_hook(enters, with_kwargs=True)
    for block in blocks:
        yield block.register_forward_hook(leaves)


def facts_of(
    stream: Sequence[Tensor], real: Tensor | None, has_prefix: bool
) -> dict[str, float]:
    """The facts of one run, of its stream (B, T, width) before the first block and after
    each."""
    if any(x.dim() != 3 or x.shape[:2] != stream[0].shape[:2] for x in stream):
        return {}  # some blocks pass on several streams, or another order of axes
    tokens = [x[:, int(has_prefix) :].float() for x in stream]
    counts = torch.ones(tokens[0].shape[:2], dtype=torch.bool, device=tokens[0].device)
    counts = counts if real is None else real[0]
    before, *after = [x[counts] for x in tokens]  # (tokens, width)
    shares, changes = [], []
    for x, earlier in zip(after, [before, *after], strict=False):
        largest = x.abs().amax(-1).square() / x.norm(dim=-1).square()
        shares.append((largest > ONE_COORDINATE).float().mean().item())
        change = (x - earlier).norm(dim=-1) / earlier.norm(dim=-1)
        changes.append(change.median().item())
    return {
        "start_coordinate_share": shares[(len(shares) + 1) // 2 - 1],
        "start_coordinate_share_max": max(shares),
        "start_stream_before": before.norm(dim=-1).mean().item(),
        "start_stream_after": after[-1].norm(dim=-1).mean().item(),
        "start_still_blocks": sum(change < STILL for change in changes),
    }
