"""The pages of published models and of all data and weights that ship or are fetched.

`python -m lab.data_page` writes docs/data-and-weights.md and the lists in docs/published.md from
fpt/backbones/published.yaml, the shipped folders, data/manifest.json and data/hub.lock.json.
"""

import re
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from fpt.backbones import build
from fpt.backbones.published import PUBLISHED, Published
from fpt.files import read_json, write_atomic
from fpt.pretraining.streams import PG19
from fpt.project import SHIPPED
from fpt.report.table import markdown_table
from fpt.tasks import TASKS, parse_task
from fpt.tasks.base import FiniteTask
from fpt.tasks.sources import WEIGHTS, file_digest
from fpt.tasks.text import SUBSETS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "data-and-weights.md"
PUBLISHED_PAGE = ROOT / "docs" / "published.md"
FIRST = "fixed by the first use"
UNKNOWN = "not recorded"
PAGE_TEXT = """\
# Data and weights

This page lists what comes with the package and what it fetches, with the licence, size and SHA-256
of each. `python -m lab.data_page` writes it. [What is trusted](trust.md) says when a digest is
compared. A licence is what the source states: “unknown” means that it states none, “{unknown}” that
this project has not looked it up. In both cases, look before you redistribute the data.

## Weights that ship

They are in `fpt/shipped`, were trained here, and have the licence of the project.
[The backbones that ship](shipped.md) says how. Those of the lab, with the same licence, may come
[in one archive](shipped.md#those-of-the-lab); `data/backbones.json` has their digests.

{shipped}

## Weights from a wheel

pip downloads the wheel, and one file is read out of it. Both digests are compared.

{wheels}

## Weights from the hub

[Published models](published.md) says what each model is. The size is that of the frozen part in
memory. The digest is that of `{weights}`, which is listed in `data/hub.lock.json`. The first
download of a file that is not listed adds its digest, and every later one is compared with it.

{hub}

## Data

The size is the number of examples in each split. The digest is that of the prepared arrays, since
the same data may come in files of another encoding.

{data}

`fpt corpus english` fetches `{corpus}`. No other corpus is fetched:
[Corpora](corpora.md#where-the-files-come-from) has the bytes and the SHA-256 of each file that the
backbones here were trained on.
"""


def page() -> str:
    """The whole page, Markdown."""
    models = PUBLISHED.values()
    return PAGE_TEXT.format(
        unknown=UNKNOWN,
        weights=WEIGHTS,
        shipped=markdown_table([*shipped_rows()], right=("bytes",)),
        wheels=markdown_table(
            [row for model in models for row in wheel_rows(model)], right=("bytes",)
        ),
        hub=markdown_table([hub_row(model) for model in models if not model.wheel]),
        data=markdown_table([*data_rows()]),
        corpus=f"{PG19.name}@{PG19.revision[:12]}",
    )


def shipped_rows() -> Iterator[dict[str, str]]:
    """A row for each folder in fpt/shipped."""
    for folder in sorted(SHIPPED.iterdir()):
        if (folder / WEIGHTS).exists():
            plan = read_json(folder / "pretraining.json")["plan"]
            yield {
                "weights": f"`{folder.name}`",
                "trained on": f"`{plan.get('corpus') or plan['task']}`",
                "licence": metadata("fpt")["License-Expression"],
                "bytes": f"{(folder / WEIGHTS).stat().st_size:,}",
                "SHA-256": f"`{file_digest(folder / WEIGHTS)}`",
            }


def wheel_rows(model: Published) -> Iterator[dict[str, str]]:
    """A row for the wheel of a model and one for the file in it; none without a wheel."""
    if model.wheel:
        wheel = model.wheel
        yield {
            "model": f"`{model.name}`",
            "file": f"wheel {wheel}",
            "licence": model.licence,
            "bytes": f"{wheel.size:,}",
            "SHA-256": f"`{wheel.sha256}`",
        }
        yield {
            "model": "",
            "file": f"`{wheel.member}` in it",
            "licence": "",
            "bytes": "",
            "SHA-256": f"`{wheel.member_sha256}`",
        }


def hub_row(model: Published) -> dict[str, str]:
    """The row of a model whose weights come from the hub."""
    # The digests are known by the revision that was asked for.
    digests = read_json(ROOT / "data" / "hub.lock.json")
    entry: dict[str, Any] = digests.get(f"{model.repository}@{model.commit}", {})
    digest = entry.get("sha256", {}).get(WEIGHTS)
    row = listed(model)
    return {
        "model": row["name"],
        "weights from": row["weights from"],
        "licence": model.licence,
        "size": row["frozen part"],
        "SHA-256": f"`{digest}`" if digest else FIRST,
    }


def data_rows() -> Iterator[dict[str, str]]:
    """A row for each data set of a task; the manifest has the digests of most."""
    # GLUE is one task with several data sets.
    names = [*TASKS, *(f"glue:subset={name}" for name in SUBSETS)]
    tasks = [task for task in map(parse_task, names) if isinstance(task, FiniteTask)]
    entries = {task.dataset.key: {**task.source(), "examples": task.sizes} for task in tasks}
    manifest = read_json(ROOT / "data" / "manifest.json")
    for key, entry in (entries | manifest).items():
        yield data_row(key, entry)


def data_row(key: str, entry: dict[str, Any]) -> dict[str, str]:
    """The row of a data set; `entry` as the manifest has it."""
    source = entry["source"]
    revision = f"@{entry['revision'][:12]}" if "revision" in entry else ""
    is_generated = source == "generated"
    return {
        "data set": f"`{key}`",
        "source": f"{source}{revision}",
        "licence": "none needed" if is_generated else entry.get("licence", UNKNOWN),
        "size": " / ".join(f"{size:,}" for size in entry["examples"].values()),
        "SHA-256": f"`{entry['digest']}`" if "digest" in entry else UNKNOWN,
    }


def published() -> str:
    """docs/published.md with what stands between its marks made anew."""
    lists = {
        "table": markdown_table([listed(model) for model in PUBLISHED.values()]),
        "wheels": "\n".join(in_words(model) for model in PUBLISHED.values() if model.wheel),
    }
    text = PUBLISHED_PAGE.read_text()
    for mark, lines in lists.items():
        pattern = rf"(?<=<!-- {mark} -->\n).*?(?=\n<!-- end -->)"
        text = re.sub(pattern, lambda _, lines=lines: lines, text, count=1, flags=re.DOTALL)
    return text


def listed(model: Published) -> dict[str, str]:
    """The cells of one line of the table, by column."""
    source = f"{model.wheel} (wheel)"
    if not model.wheel:
        commit = f"@{model.commit[:12]}" if model.commit else ", no commit pinned"
        source = f"{model.repository}{commit}"
    parameters = sum(parameter.numel() for parameter in build(model.backbone).parameters())
    return {
        "name": f"`{model.name}`",
        "model": model.kind,
        "weights from": source,
        "licence": model.licence,
        "quantisation": model.quantisation,
        "bits per byte": "-" if model.bits_per_byte is None else f"{model.bits_per_byte:.3f}",
        "frozen part": f"{4 * parameters / 1e6:,.0f} MB",
    }


def in_words(model: Published) -> str:
    """The item of a model whose weights come in a wheel."""
    assert model.wheel is not None
    return (
        f"* `{model.name}`: {model.note} It was made from {model.repository}. The wheel "
        f"{model.wheel} has {model.wheel.size / 1e6:.0f} MB; the file in it is "
        f"`{model.wheel.member}`. {model.needs}"
    )


if __name__ == "__main__":
    write_atomic(PAGE, page().encode())
    write_atomic(PUBLISHED_PAGE, published().encode())
