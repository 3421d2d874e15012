"""The page of published models, from the list in fpt/backbones/published.yaml.

`python -m lab.published_page` writes the two lists of models in docs/published.md.
"""

import re
from pathlib import Path

from fpt.backbones import build
from fpt.backbones.published import PUBLISHED, Published
from fpt.files import write_atomic
from fpt.report.table import markdown_table

PAGE = Path(__file__).parents[1] / "docs" / "published.md"


def page() -> str:
    """docs/published.md with what stands between its marks made anew."""
    lists = {
        "table": markdown_table([row(model) for model in PUBLISHED.values()]),
        "wheels": "\n".join(in_words(model) for model in PUBLISHED.values() if model.wheel),
    }
    text = PAGE.read_text()
    for mark, lines in lists.items():
        pattern = rf"(?<=<!-- {mark} -->\n).*?(?=\n<!-- end -->)"
        text = re.sub(pattern, lambda _, lines=lines: lines, text, count=1, flags=re.DOTALL)
    return text


def row(model: Published) -> dict[str, str]:
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
