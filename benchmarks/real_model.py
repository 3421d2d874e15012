"""What a training step on a real language model costs on one core of a CPU, in fp32 and in bf16.

    python benchmarks/real_model.py FOLDER ...      # folders of a model of transformers

Beside each other, on bit-xor and on MNIST's 49 tokens: a plain loop around transformers (fp32,
`.item()` at every step), Hugging Face's Trainer, and our loop alone and in a pack of four. Times
are the process's own, and the least of several steps, since other programs may run. The ceilings
are those of this core in the same run: its quickest product in the shapes of the model, and all
products of a step, one after another, as a step needs them. Writes results/real_model.json.
"""

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from throughput import RESULTS, Case, task_of
from torch import Tensor, nn
from transformers import AutoModel, Trainer, TrainerCallback, TrainingArguments

from fpt.backbones import Backbone, backbone
from fpt.backbones.base import is_norm, matrices
from fpt.backbones.generic.skeleton import quiet
from fpt.spec import FOUR_GROUPS, RunSpec, canonical
from fpt.tasks import Task
from fpt.training import device as devices
from fpt.training.flops import matrix_parameters
from fpt.training.loop import Loop

CPU = torch.device("cpu")
TASKS = {"bit-xor": {"n": 5}, "mnist": {"size": 28}}
BATCH = 16
PACK = 4  # runs
LEAST_STEPS = 3
MOST_MATRICES = 50
PLAIN = "plain loop, fp32"
# Name, precision, and whether the frozen matrices are stored in bf16.
OURS = (("fp32", "fp32", False), ("bf16 autocast", "bf16", False), ("bf16 weights", "bf16", True))


@dataclass(frozen=True)
class Costs:
    """Of one model on one task: seconds of processor time per step and run, by loop."""

    model: str
    task: str
    tokens: int  # of one step of one run
    flops: int  # of one step of one run, 4 P per token: frozen matrices of the backbone
    ceilings: dict[str, float]  # FLOP/s of the quickest product, by precision
    products: dict[str, float]  # FLOP/s of all products of a step in order, by precision and runs
    seconds: dict[str, float]

    @property
    def summary(self) -> dict[str, dict[str, float]]:
        """By loop: milliseconds, runs per hour over those of the plain loop, GFLOP/s, and shares of
        the quickest product of its precision and of the products in order."""
        rows = {}
        for name, seconds in self.seconds.items():
            precision = "fp32" if "fp32" in name else "bf16"
            runs = PACK if "pack" in name else 1
            rate = self.flops / seconds
            rows[name] = {
                "ms": 1000 * seconds,
                "over plain": self.seconds[PLAIN] / seconds,
                "GFLOP/s": rate / 1e9,
                "of the ceiling": rate / self.ceilings[precision],
                "of the products": rate / self.products[f"{precision}, {runs}"],
            }
        return rows


class PlainModel(nn.Module):
    """Input net, frozen model of transformers with trained norms, and output net."""

    def __init__(self, folder: Path, task: Task, dropout: float) -> None:
        super().__init__()
        with quiet():  # some folders have no token embeddings, which are not used
            self.backbone = AutoModel.from_pretrained(folder, dtype=torch.float32)
        self.backbone.requires_grad_(False)
        for part in self.backbone.modules():
            if is_norm(part):
                part.requires_grad_(True)
        width = self.backbone.config.hidden_size
        self.input, self.drop = nn.Linear(task.dim, width), nn.Dropout(dropout)
        self.output, self.task = nn.Linear(width, task.answers * task.classes), task

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        x = self.drop(self.input(inputs))
        hidden = self.backbone(inputs_embeds=x, use_cache=False).last_hidden_state
        logits = self.output(hidden[:, -self.task.reads :]).reshape(-1, self.task.classes)
        return {"loss": F.cross_entropy(logits, labels.flatten())}


def plain_step(model: PlainModel, spec: RunSpec) -> Callable[[], float]:
    """A step of the loop as it is usually written."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=spec.lr)
    model.train()

    def step() -> float:
        batch = model.task.train_batch([spec.seed], 0, BATCH, "cpu", False)
        optimizer.zero_grad()
        loss = model(batch.inputs[0], batch.targets[0])["loss"]
        loss.backward()
        nn.utils.clip_grad_norm_(trained, spec.clip)
        optimizer.step()
        return loss.item()

    return step


class Clock(TrainerCallback):
    """Processor time at the end of every step."""

    def __init__(self) -> None:
        self.times = list[float]()

    def on_step_end(self, *given: Any, **more: Any) -> None:
        self.times.append(time.process_time())


def trainer_seconds(model: PlainModel, spec: RunSpec, steps: int, bf16: bool) -> float:
    """Seconds per step of Hugging Face's Trainer, with its defaults."""
    batch = model.task.train_batch([spec.seed], 0, BATCH, "cpu", False)
    rows = [
        {"inputs": values, "labels": labels}
        for values, labels in zip(batch.inputs[0], batch.targets[0], strict=True)
    ]
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps + 2, per_device_train_batch_size=BATCH, use_cpu=True, bf16=bf16,
            learning_rate=spec.lr, max_grad_norm=spec.clip, report_to=[], save_strategy="no",
            logging_strategy="no", disable_tqdm=True, remove_unused_columns=False,
        )  # fmt: skip
        Trainer(model, arguments, train_dataset=rows, callbacks=[clock]).train()
    # From step to step, with its batch, without the first, which warms up.
    return min(b - a for a, b in zip(clock.times[1:], clock.times[2:], strict=False))


def quickest(step: Callable[[], Any], seconds: float) -> float:
    """The least processor time of a step: of `LEAST_STEPS`, and more in about `seconds`."""
    step()
    times, began = list[float](), time.process_time()
    while len(times) < LEAST_STEPS or time.process_time() - began < seconds:
        before = time.process_time()
        step()
        times.append(time.process_time() - before)
    return min(times)


def our_step(
    specs: list[RunSpec], task: Task, network: Backbone, precision: str, stored: bool
) -> Callable[[], None]:
    """A step of our loop; unless `stored`, autocast rounds the frozen matrices at every use."""
    loop = Loop(specs, task, CPU, quiet=True, architecture=network, precision=precision)
    if not stored:
        for parameter in loop.model.backbone.parameters():
            parameter.data = parameter.data.float()
    return loop.train_step


def products(shapes: list[torch.Size], tokens: int, dtype: torch.dtype) -> Iterator[Any]:
    """FLOP/s of the quickest product of a step; and of the products with all matrices, forward and
    backward, one after another. The first layers stand for all: they are larger than a cache."""
    weights = [torch.randn(shape).to(dtype) for shape in shapes[:MOST_MATRICES]]
    inputs = {size: torch.randn(tokens, size).to(dtype) for shape in shapes for size in shape}

    def every() -> None:
        for weight in weights:
            F.linear(inputs[weight.shape[1]], weight)
        for weight in reversed(weights):
            inputs[weight.shape[0]] @ weight

    yield max(
        2
        * tokens
        * weight.numel()
        / quickest(lambda w=weight: F.linear(inputs[w.shape[1]], w), 0.2)  # type: ignore[misc]
        for weight in {weight.shape: weight for weight in weights}.values()
    )
    yield 4 * tokens * sum(weight.numel() for weight in weights) / quickest(every, 1.0)


def measure(folder: Path, name: str, seconds: float) -> Costs:
    """Every loop on one task."""
    task = task_of(Case("", name, TASKS[name], "", BATCH, PACK, "cpu"))
    network = backbone(str(folder.resolve()))
    first = RunSpec(
        data=canonical(task.identity),
        backbone=network.name,
        init="pretrained",
        weights=network.name,
        trainable=tuple(sorted({*FOUR_GROUPS} & {*network.groups})),
        lr=1e-3,
        batch=BATCH,
        steps=10**6,
        eval_every=10**6,
        seed=0,
        augment=False,
    )
    specs, tokens = [replace(first, seed=seed) for seed in range(PACK)], BATCH * task.length
    model = PlainModel(folder, task, first.dropout)
    shapes = [weight.shape for path, weight, _ in matrices(model.backbone)]
    ceilings, in_order = dict[str, float](), dict[str, float]()
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        by_runs = {runs: tuple(products(shapes, runs * tokens, dtype)) for runs in (1, PACK)}
        ceilings[precision] = max(best for best, _ in by_runs.values())
        in_order |= {f"{precision}, {runs}": every for runs, (_, every) in by_runs.items()}
    times = {PLAIN: quickest(plain_step(model, first), seconds)}
    for precision in ("fp32", "bf16"):
        steps = max(LEAST_STEPS, round(seconds / times[PLAIN]))
        loop = f"Trainer, {precision}"
        times[loop] = trainer_seconds(model, first, steps, precision == "bf16")
    del model
    for label, precision, stored in OURS:
        for pack in (specs[:1], specs):
            gc.collect()
            step = our_step(pack, task, network, precision, stored)
            loop = f"{'pack of ' + str(PACK) if len(pack) > 1 else 'one run'}, {label}"
            times[loop] = quickest(step, seconds) / len(pack)
            del step
    return Costs(
        model=folder.name,
        task=name,
        tokens=tokens,
        flops=4 * tokens * matrix_parameters(network),
        ceilings=ceilings,
        products=in_order,
        seconds=times,
    )


def lines(costs: Costs) -> list[str]:
    """What was found, as a table in Markdown."""
    rates = ", ".join(f"{name} {rate / 1e9:,.0f}" for name, rate in costs.ceilings.items())
    all_products = ", ".join(f"{name} {rate / 1e9:,.0f}" for name, rate in costs.products.items())
    return [
        f"{costs.model} on {costs.task}, {costs.tokens} tokens a step and run",
        f"GFLOP/s of the quickest product: {rates}; of all products in order: {all_products}",
        "| loop | ms | over plain | GFLOP/s | of the ceiling | of the products |",
        "|---|--:|--:|--:|--:|--:|",
        *(
            f"| {name} | {row['ms']:,.0f} | {row['over plain']:.2f} | {row['GFLOP/s']:,.0f} "
            f"| {row['of the ceiling']:.0%} | {row['of the products']:.0%} |"
            for name, row in costs.summary.items()
        ),
    ]


def write(found: list[Costs]) -> None:
    """Keep what was found so far."""
    content = {
        "environment": devices.environment(CPU, "bf16"),
        "costs": [{"summary": one.summary} | asdict(one) for one in found],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "real_model.json").write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each loop, at least")
    options = parser.parse_args()
    torch.set_num_threads(1)
    devices.keep_memory()
    measured = []
    for folder in options.folders:
        for task in TASKS:
            measured.append(measure(folder, task, options.seconds))
            print(*lines(measured[-1]), "", sep="\n", flush=True)
            write(measured)


if __name__ == "__main__":
    main()
