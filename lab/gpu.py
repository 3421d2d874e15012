"""What the profile `paper` downloads and costs on one GPU.

`python -m lab.gpu` writes docs/gpu.md from params.yaml and the count of matrix products that every
record has (`fpt.training.flops`), and from the speeds that benchmarks/throughput.py measured.
"""

from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from fpt import config
from fpt.backbones.published import comes_in_wheel
from fpt.files import read_json, write_atomic
from fpt.project import Project, project
from fpt.report.table import markdown_table
from fpt.tasks import task_of
from fpt.training.flops import planned_flops
from fpt.training.sweep import packs

ROOT = Path(__file__).parents[1]
BENCHMARK = ROOT / "benchmarks" / "results" / "cuda.json"
RECORDS = Project(ROOT).records("paper").relative_to(ROOT)
PRICE = 3  # USD per hour of the card

PAGE_TEXT = """\
# Run the paper on a GPU

The profile `paper` of `params.yaml` is the paper's set-up: published weights, its learning rates,
about twice its steps, five seeds. `python -m lab.gpu` writes this page from it.

## What it rests on

On one {device} the quickest of the packs that were timed ({case}) computed {rate:.0f}
TFLOP/s, {share:.0%} of the rate of a large matrix product there (`benchmarks/README.md`).
No step of GPT-2 small took less than {single:.0f} milliseconds for one run and {packed:.0f} for a
pack: the processor needs that long to start the kernels. This page assumes that a step takes the
longer of the two times, one pack after the other, and that an hour costs {price} USD.

Small steps leave the GPU idle most of the time, and several processes can share it: `--workers 11`
trained the 20 runs of six layers of SmolLM2 on MNIST, 5,000 steps each, in less than 7 minutes.

Only the products of the backbone's matrices are counted, as in every record. LSTMs go token by
token and take longer. Once your GPU has recorded some runs, `fpt status --profile paper` estimates
the others from their speed; runs that shared a GPU were slower, so the estimate is then too high.

## What it downloads

The weights of these models of the Hugging Face hub, and of a wheel ([sizes](published.md)):

{weights}

The data sets are small: MNIST, CIFAR-10, the proteins of TAPE, and four tasks of GLUE. Every file
is fetched once, at a fixed commit. `fpt pretrain` makes the other {own} backbones from
[corpora](corpora.md) that you build first, which the costs below leave out.

## What it costs

A run that several sections show counts in the first of them. Begin with tasks of a few hours each.

{sections}

The same by task:

{tasks}

## Train, stop and resume

```sh
.venv/bin/fpt data --profile paper        # data sets
.venv/bin/fpt pretrain --profile paper    # weights: fetched, or pretrained
.venv/bin/fpt run transfer --profile paper --only bit-xor --device cuda --budget 9m
.venv/bin/fpt status --profile paper
```

When the budget is over or the machine has crashed, the same command resumes from
`.cache/checkpoints`. If a pack does not fit into the memory of the GPU, `fpt run` names the
`--max-runs` that halves it.

## Merge and read

Copy the records of other machines to one, merge them, set `profile: paper` at the top of
`params.yaml`, and render. This needs no GPU.

```sh
.venv/bin/fpt merge --profile paper ../machine-2/{records}
.venv/bin/dvc repro
```

The report is `reports/paper/index.html`. A cell without records says so.
[Read a report](reading-a-report.md) explains the tables, and [Use several machines](scale.md) how
to divide the work.
"""


def speeds() -> dict[str, Any]:
    """What was timed on packs of GPT-2 small: `rate`, the most FLOPs per second, its `case` and its
    `share` of the rate of a large product; the shortest step of a `single` run and of a `packed`
    one, in seconds; the `device`."""
    benchmark = read_json(BENCHMARK)
    cases = [case for case in benchmark["cases"] if "GPT-2 small" in case["case"]]
    single, packed = (
        [median(case["steps"][loop]) for case in cases] for loop in ("single", "packed")
    )
    rates = [case["runs"] * case["flops"] / step for case, step in zip(cases, packed, strict=True)]
    rate, quickest = max(zip(rates, cases, strict=True), key=lambda pair: pair[0])
    return {
        "rate": rate,
        "case": quickest["case"],
        "share": quickest["summary"]["share of the matrix ceiling"],
        "single": min(single),
        "packed": min(packed),
        "device": benchmark["environment"]["device"],
    }


def planned(rate: float, single: float, packed: float) -> pd.DataFrame:
    """A row for each pack of the profile, at `rate` FLOPs per second and no less than `single`
    seconds a step of one run and `packed` of several: the first section that needs it, task,
    weights, runs, hours of the card, and EFLOPs."""
    profile = config.load("paper")
    runs = {}
    for section in profile.sections:
        for run in config.expand(profile, section):
            runs.setdefault(run.key, (section, run))
    rows = []
    specs = [run.spec for _, run in runs.values()]
    for pack in packs(specs, sections=config.sections_of(profile)):
        section, run = runs[pack[0].key]
        flops = sum(planned_flops(spec, task_of(spec)) for spec in pack)
        # A probe is fitted at once.
        steps = 0 if run.spec.procedure == "probe" else run.spec.steps
        seconds = max(flops / rate, steps * (single if len(pack) == 1 else packed))
        rows.append(
            {
                "section": section,
                "task": run.task,
                "weights": run.spec.weights,
                "runs": len(pack),
                "hours": seconds / 3600,
                "EFLOPs": flops / 1e18,
            }
        )
    return pd.DataFrame(rows)


def table(rows: pd.DataFrame, by: str) -> str:
    """The cost of each section or task, and of all together."""
    costs = rows.groupby(by, sort=False)[["runs", "hours", "EFLOPs"]].sum()
    costs.loc["together"] = costs.sum()
    costs["USD"] = costs["hours"] * PRICE
    cells = [
        {by: name, **{column: f"{number:,.0f}" for column, number in numbers.items()}}
        for name, numbers in costs.to_dict("index").items()
    ]
    return markdown_table(cells, right=costs.columns)


def page() -> str:
    """docs/gpu.md."""
    speed = speeds()
    rows = planned(speed["rate"], speed["single"], speed["packed"])
    weights = sorted(rows["weights"].dropna().unique())
    published = [name for name in weights if name.startswith("hub:") or comes_in_wheel(name)]
    return PAGE_TEXT.format(
        **{
            **speed,
            "rate": speed["rate"] / 1e12,
            "single": speed["single"] * 1000,
            "packed": speed["packed"] * 1000,
        },
        price=PRICE,
        records=RECORDS.as_posix(),
        weights="\n".join(f"* `{name}`" for name in published),
        own=len(weights) - len(published),
        sections=table(rows, "section"),
        tasks=table(rows, "task"),
    )


if __name__ == "__main__":
    write_atomic(project().root / "docs/gpu.md", page().encode())
