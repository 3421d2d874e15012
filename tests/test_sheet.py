"""The contact sheet, on tiny pictures."""

from pathlib import Path

import pytest
from PIL import Image

from fpt.files import FptError
from fpt.report import sheet


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report with five pictures of two sections, reports in the test's folder."""
    monkeypatch.setattr(sheet, "REPORTS", tmp_path)
    for name, size, colour in (
        ("one/a", (40, 20), "red"),
        ("one/b", (20, 40), "blue"),
        ("one/c", (4000, 10), "green"),
        ("two/a", (10, 9000), "black"),
        ("two/b", (30, 30), (0, 0, 0, 0)),
    ):
        path = tmp_path / "lab" / "figures" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGBA", size, colour).save(path)
    return tmp_path / "lab"


def test_every_figure_has_its_place_and_none_is_stretched(folder: Path) -> None:
    pages = sheet.layout(sheet.figures(folder), folder / "figures")
    placed = [it for page in pages for it in page]
    assert [it.caption for it in placed] == ["one/a", "one/b", "one/c", "two/a", "two/b"]
    assert (placed[0].width, placed[0].height) == (40, 20)
    assert placed[2].width == placed[1].left - placed[0].left - sheet.MARGIN  # a whole column
    assert len(pages) == 2  # the high one takes a page
    for page in pages:
        for it in page:
            assert it.left + it.width <= sheet.WIDTH - sheet.MARGIN
            assert it.top + sheet.CAPTION + it.height <= sheet.HEIGHT - sheet.MARGIN
        for i, a in enumerate(page):
            for b in page[:i]:
                assert b.left + b.width <= a.left or b.top + sheet.CAPTION + b.height <= a.top


def test_pages_are_written_in_colour_and_grey(folder: Path) -> None:
    (folder / "contact_sheet_7.png").write_bytes(b"of an earlier sheet")
    written = sheet.contact_sheet("lab")
    assert sorted(path.name for path in folder.glob("*.png")) == sorted(p.name for p in written)
    assert [path.name for path in written[:2]] == [
        "contact_sheet_1.png",
        "contact_sheet_1_grey.png",
    ]
    first = sheet.layout(sheet.figures(folder), folder / "figures")[0][0]
    spot = (first.left + 20, first.top + sheet.CAPTION + 10)
    with Image.open(written[0]) as colour, Image.open(written[1]) as grey:
        assert colour.getpixel(spot) == (255, 0, 0)
        assert grey.mode == "L"
        assert grey.getpixel(spot) == 76  # red's luma
        assert colour.size == grey.size
    again = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in sheet.contact_sheet("lab")] == again


def test_transparent_is_white(folder: Path) -> None:
    (placed,) = [it for page in sheet.layout(sheet.figures(folder), folder / "figures")
                 for it in page if it.caption == "two/b"]  # fmt: skip
    page = sheet.draw([placed])
    assert page.getpixel((placed.left + 15, placed.top + sheet.CAPTION + 15)) == (255, 255, 255)


def test_without_figures_it_says_so(folder: Path) -> None:
    with pytest.raises(FptError, match="'smoke' has no figures"):
        sheet.contact_sheet("smoke")
