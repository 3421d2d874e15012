"""What the profile `paper` costs on a GPU: `python -m lab.gpu` writes docs/gpu.md.

FLOPs are those that the record of a run counts (`fpt.training.flops`). Nothing was measured on a
GPU, so the hours rest on the assumptions below.
"""

import pandas as pd
import torch
import transformers as hf

from fpt import config
from fpt.backbones import backbone
from fpt.backbones.skeleton import network
from fpt.config import Run
from fpt.files import ROOT, write_atomic
from fpt.pretraining.plans import Pretraining, plan_of
from fpt.training.flops import forward_flops, matrix_parameters, planned_flops
from fpt.training.sweep import Pack, packs
from fpt.training.train import task_of

PAGE = ROOT / "docs" / "gpu.md"
CARD, PEAK = "NVIDIA H100", 989e12  # dense bf16 products, FLOPs per second
SHARE = 0.25  # of the peak that a large step reaches, with the evaluations
STEP = 0.01  # seconds that a step of a pack takes at least
PRICE = 3  # USD per hour of the card
SMALL = 10  # hours; the tasks below share a row
FIRST = ("bit-memory", "bit-xor", "listops", "mnist")  # tasks to begin with
# Bytes of an example in the data sets, and the configurations of the published models.
EXAMPLE = {"mnist": 28 * 28, "cifar10": 3 * 32 * 32}
MODELS = {  # of those that are built in; of the others, the configuration is pinned
    "openai-community/gpt2": hf.GPT2Config(),
    "openai-community/gpt2-medium": hf.GPT2Config(n_embd=1024, n_layer=24, n_head=16),
    "openai-community/gpt2-large": hf.GPT2Config(n_embd=1280, n_layer=36, n_head=20),
    "google/vit-base-patch16-224-in21k": hf.ViTConfig(),
    "google-bert/bert-base-uncased": hf.BertConfig(),
    "google-t5/t5-base": hf.T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12),
    "allenai/longformer-base-4096": hf.LongformerConfig(vocab_size=50265),
}

PAGE_TEXT = """\
# The paper on a GPU

The profile `paper` of `params.yaml` is the paper's own set-up: published weights, its learning
rates, five seeds. This page says what it downloads, what it costs, and how to train a part of it.
`python -m lab.gpu` writes the page from `params.yaml`.

## What is assumed

Nothing has been timed on a GPU yet. This page assumes that a step of a pack (runs that are trained
together) lasts as long as its matrix products at {share:.0%} of {peak:.0f} TFLOPs per second, the
bfloat16 peak of one {card}, and at least {step:.0f} milliseconds, and that an hour costs {price}
USD.

The matrix products are those of the backbone, as every record counts them. Those between tokens
(in GPT-2, {attention:.0%} more at 1,024 tokens) and the evaluations must fit into what
{share:.0%} leaves. LSTMs go token by token and will take longer. Once your GPU has recorded some
runs, `fpt status --profile paper` estimates the others from the speed of those.

## What it downloads

| weights on the Hugging Face hub | million parameters | GB |
|---|--:|--:|
{weights}
| together | | {size:.1f} |

Sizes are four bytes per parameter; the files of GPT-2 hold attention masks too and are about a
tenth larger. The data sets are small: MNIST ({mnist:.0f} MB once decoded), CIFAR-10 ({cifar:.0f}
MB), the proteins of TAPE, and four tasks of GLUE. Every file is fetched once, at a fixed commit.

Nobody publishes the other {own} backbones. `fpt pretrain` makes them, which takes about
{own_minutes:.0f} minutes by the assumptions above; [Corpora](corpora.md) says how to build the
texts they need.

## What it costs

A run that several sections show counts in the first of them.

| section | runs | hours | USD | EFLOPs |
|---|--:|--:|--:|--:|
{sections}

The same hours by task:

| task | tokens | runs | hours | longest pack, hours |
|---|--:|--:|--:|--:|
{tasks}

Begin with {first}: their runs of the section `transfer` take {first_hours:.0f} hours together. The
search for learning rates, in the section `learning_rate`, takes {rates:.0%} of all hours.

## Train, stop and resume

```sh
.venv/bin/fpt data --profile paper        # data sets
.venv/bin/fpt pretrain --profile paper    # weights: fetched, or pretrained
.venv/bin/fpt run transfer --profile paper --only bit-xor --device cuda --budget 9m
.venv/bin/fpt status --profile paper
```

When the budget is over, training stops, and the same command goes on where it stopped. It does so
too after a crash, as long as `.cache/checkpoints` is there; without it, unfinished packs begin
again. If a pack does not fit into the memory of the GPU, `fpt run` names the `--max-runs` that
halves it.

## Merge and read

Copy the records of other machines to one, merge them, set `profile: paper` at the top of
`params.yaml`, and render. This needs no GPU.

```sh
.venv/bin/fpt merge --profile paper ../machine-2/reports/paper/records
.venv/bin/dvc repro
```

The report is `reports/paper/index.html`. A cell without records says so, and no table shows a run
that has not ended. [Reading a report](reading-a-report.md) explains the tables, and
[More than one machine](scale.md) how to divide the work.
"""


def parameters(name: str) -> int:
    """Of a published model, with its word table."""
    if name not in MODELS:
        return sum(it.numel() for it in network(backbone(name).config).parameters())
    with torch.device("meta"):
        return sum(it.numel() for it in hf.AutoModel.from_config(MODELS[name]).parameters())


def trained() -> pd.DataFrame:
    """A row for each pack of the profile: the first section that needs it, task, tokens of a
    sequence, weights, runs, EFLOPs, and hours of the card."""
    profile = config.load("paper")
    first: dict[str, tuple[str, Run]] = {}
    for section in profile.sections:
        for run in config.expand(profile, section):
            first.setdefault(run.key, (section, run))
    rows = []
    for pack in packs((run.spec for _, run in first.values()), sections=config.sections_of(profile)):
        section, run = first[pack[0].key]
        flops, hours = cost(pack)
        length, weights = task_of(run.spec).length, run.spec.weights or ""
        row = section, run.task, length, weights, len(pack), flops / 1e18, hours, hours
        rows.append(row)
    columns = ["section", "task", "tokens", "weights", "runs", "EFLOPs", "hours", "longest"]
    return pd.DataFrame(rows, columns=columns)


def cost(pack: Pack) -> tuple[float, float]:
    """FLOPs of a pack, and hours of the card."""
    task, first = task_of(pack[0]), pack[0]
    flops = sum(planned_flops(it, task) for it in pack)
    least = 0 if first.procedure == "probe" else first.steps * STEP
    return flops, max(flops / (PEAK * SHARE), least) / 3600


def pretraining_hours(identity: str) -> float:
    """Of a backbone that is pretrained here; every matrix is trained."""
    plan = plan_of(identity)
    spec = backbone(plan.backbone)
    table = spec.width * spec.vocabulary if isinstance(plan, Pretraining) else 0
    needed = 6 * (matrix_parameters(spec) + table) * plan.tokens / (PEAK * SHARE)
    return max(needed, plan.steps * STEP) / 3600


def page() -> str:
    rows = trained()
    read = {it for it in rows["weights"].unique() if it}
    own = sorted(it for it in read if not it.startswith("hub:"))
    published = sorted(it.removeprefix("hub:").partition("@")[0] for it in read.difference(own))
    sizes = {name: parameters(name) for name in published}
    sections = rows.groupby("section", sort=False)[["runs", "EFLOPs", "hours"]].sum()
    sections.loc["together"] = sections.sum()
    sums = {"tokens": "first", "runs": "sum", "hours": "sum", "longest": "max"}
    tasks = rows.groupby("task", sort=False).agg(sums)
    short = tasks["hours"] < SMALL
    others = tasks[short].agg({it: how for it, how in sums.items() if it != "tokens"})
    tasks = tasks[~short]
    gpt2 = backbone(config.load("paper").backbone)
    begin = rows.query("section == 'transfer' and task in @FIRST")["hours"].sum()
    return PAGE_TEXT.format(
        share=SHARE,
        peak=PEAK / 1e12,
        card=CARD,
        step=STEP * 1000,
        price=PRICE,
        attention=forward_flops(gpt2, 1024) / (2 * matrix_parameters(gpt2)) - 1,
        weights="\n".join(
            f"| `{name}` | {count / 1e6:.0f} | {4 * count / 1e9:.2f} |"
            for name, count in sizes.items()
        ),
        size=4 * sum(sizes.values()) / 1e9,
        mnist=70_000 * EXAMPLE["mnist"] / 1e6,
        cifar=60_000 * EXAMPLE["cifar10"] / 1e6,
        own=len(own),
        own_minutes=60 * sum(map(pretraining_hours, own)),
        sections="\n".join(
            f"| {it.Index} | {it.runs:,.0f} | {it.hours:,.0f} | {it.hours * PRICE:,.0f} | "
            f"{it.EFLOPs:,.0f} |"
            for it in sections.itertuples()
        ),
        tasks="\n".join(
            f"| {it.Index} | {it.tokens:,} | {it.runs:,} | {it.hours:,.0f} | {it.longest:.1f} |"
            for it in tasks.itertuples()
        )
        + f"\n| {short.sum()} others | | {others.runs:.0f} | {others.hours:.0f} | "
        f"{others.longest:.1f} |",
        first=", ".join(FIRST[:-1]) + f" and {FIRST[-1]}",
        first_hours=begin,
        rates=sections["hours"]["learning_rate"] / sections["hours"]["together"],
    )


if __name__ == "__main__":
    write_atomic(PAGE, page().encode())
