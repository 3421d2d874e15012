"""The lists of docs/data-and-weights.md: all data and weights that ship or are fetched.

`python -m lab.data_page` writes what stands between the marks of that page from
fpt/backbones/published.yaml, the shipped folders, data/manifest.json and data/hub.lock.json.
"""

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from fpt.backbones import build
from fpt.backbones.published import PUBLISHED, Published
from fpt.files import read_json, write_atomic
from fpt.project import SHIPPED
from fpt.tasks import TASKS, parse_task
from fpt.tasks.base import FiniteTask
from fpt.tasks.sources import WEIGHTS, file_digest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "data-and-weights.md"
FIRST = "fixed by the first use"
UNKNOWN = "not recorded"
Row = dict[str, str]


def page() -> str:
    """The page with each list made anew."""
    models = PUBLISHED.values()
    lists = {
        "shipped": table([*shipped_rows()]),
        "hub": table([hub_row(model) for model in models if not model.wheel]),
        "wheels": table([row for model in models for row in wheel_rows(model)]),
        "words": "\n".join(in_words(model) for model in models if model.wheel),
        "data": table([*data_rows()]),
    }
    text = PAGE.read_text()
    for mark, lines in lists.items():
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}{lines}\n{end}{rest.partition(end)[2]}"
    return text


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown, without padding, so that a digest makes no other line longer."""
    text = str(pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True))
    return re.sub(r" +\|", " |", re.sub("-{3,}", "---", text))


def shipped_rows() -> Iterator[Row]:
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


def wheel_rows(model: Published) -> Iterator[Row]:
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


def hub_row(model: Published) -> Row:
    """The row of a model whose weights come from the hub."""
    # The digests are known by the revision that was asked for.
    digests = read_json(ROOT / "data" / "hub.lock.json")
    entry: dict[str, Any] = digests.get(f"{model.repository}@{model.commit}", {})
    digest = entry.get("sha256", {}).get(WEIGHTS)
    commit = f"commit {model.commit[:12]}" if model.commit else "the newest commit"
    return {
        "model": f"`{model.name}`",
        "weights from": f"{model.repository}, {commit}",
        "licence": model.licence,
        "size": size_of(model),
        "SHA-256": f"`{digest}`" if digest else FIRST,
    }


def size_of(model: Published) -> str:
    """What the frozen part of a model takes in memory."""
    parameters = sum(parameter.numel() for parameter in build(model.backbone).parameters())
    return f"{4 * parameters / 1e6:,.0f} MB"


def data_rows() -> Iterator[Row]:
    """A row for each data set of a task; the manifest has the digests of most."""
    tasks = [task for task in map(parse_task, TASKS) if isinstance(task, FiniteTask)]
    entries = {task.dataset.key: {**task.source(), "examples": task.sizes} for task in tasks}
    manifest = read_json(ROOT / "data" / "manifest.json")
    for key, entry in (entries | manifest).items():
        yield data_row(key, entry)


def data_row(key: str, entry: dict[str, Any]) -> Row:
    """The row of a data set; `entry` as the manifest has it."""
    source = entry["source"]
    revision = f", commit {entry['revision'][:12]}" if "revision" in entry else ""
    is_generated = source == "generated"
    return {
        "data set": f"`{key}`",
        "source": f"{source}{revision}",
        "licence": "none needed" if is_generated else entry.get("licence", UNKNOWN),
        "size": " / ".join(f"{size:,}" for size in entry["examples"].values()),
        "SHA-256": f"`{entry['digest']}`" if "digest" in entry else UNKNOWN,
    }


def in_words(model: Published) -> str:
    """The item of a model whose weights come in a wheel."""
    assert model.wheel is not None
    measured = ""
    if model.bits_per_byte is not None:
        measured = f" English books take {model.bits_per_byte:.3f} bits a byte."
    return (
        f"* `{model.name}`: {model.note} It was made from {model.repository}. The frozen part has "
        f"{size_of(model)}.{measured} {model.needs}"
    )


if __name__ == "__main__":
    write_atomic(PAGE, page().encode())
