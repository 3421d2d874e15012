"""The page of published models, from the list in fpt/backbones/published.yaml.

`python -m lab.published_page` writes the two lists of models in docs/published.md.
"""

from pathlib import Path

from fpt.backbones import build
from fpt.backbones.published import PUBLISHED, Published
from fpt.files import write_atomic

PAGE = Path(__file__).parents[1] / "docs" / "published.md"
COLUMNS = "name, model, weights from, licence, quantisation, bits per byte, frozen part"


def page() -> str:
    """docs/published.md with what stands between its marks made anew."""
    columns = COLUMNS.split(", ")
    rows = [columns, ["---"] * len(columns), *map(row, PUBLISHED.values())]
    table = [f"| {' | '.join(cells)} |" for cells in rows]
    wheels = [described(model) for model in PUBLISHED.values() if model.wheel]
    text = PAGE.read_text()
    for mark, lines in (("table", table), ("wheels", wheels)):
        before, _, rest = text.partition(f"<!-- {mark} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = f"{before}<!-- {mark} -->\n" + "\n".join(lines) + f"\n{end}{after}"
    return text


def row(model: Published) -> tuple[str, ...]:
    """The cells of one line of the table."""
    commit = f"@{model.commit[:12]}" if model.commit else ", no commit pinned"
    source = f"{model.wheel} (wheel)" if model.wheel else f"{model.repository}{commit}"
    bits = "-" if model.bits_per_byte is None else f"{model.bits_per_byte:.3f}"
    parameters = sum(parameter.numel() for parameter in build(model.backbone).parameters())
    size = f"{4 * parameters / 1e6:,.0f} MB"
    return (f"`{model.name}`", model.kind, source, model.licence, model.quantisation, bits, size)


def described(model: Published) -> str:
    """The item of a model whose weights come in a wheel."""
    assert model.wheel is not None
    return (
        f"* `{model.name}`: {model.note} It was made from {model.repository}. The wheel "
        f"{model.wheel} has {model.wheel.size / 1e6:.0f} MB; the file in it is "
        f"`{model.wheel.member}`. {model.needs}"
    )


if __name__ == "__main__":
    write_atomic(PAGE, page().encode())
