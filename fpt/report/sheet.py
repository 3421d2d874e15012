"""A contact sheet: all figures of a report on one or a few pages, in colour and in grey.

A look over it shows whether figures belong together, and whether each can be read without colour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from ..files import REPORTS, FptError

WIDTH, HEIGHT = 1800, 2400  # of a page, pixels
COLUMNS = 3
MARGIN, CAPTION = 24, 22


@dataclass(frozen=True)
class Placed:
    """A figure on a page: its file, caption, left and upper edge, width and height."""

    path: Path
    caption: str
    left: int
    top: int
    width: int
    height: int


def figures(folder: Path) -> list[Path]:
    """The PNG figures below `folder`/figures, by section and name."""
    return sorted((folder / "figures").rglob("*.png"))


def layout(
    paths: Sequence[Path],
    root: Path,
    columns: int = COLUMNS,
    page: tuple[int, int] = (WIDTH, HEIGHT),
) -> list[list[Placed]]:
    """Places for all figures, page by page: rows of `columns`, each as high as its highest figure.

    A figure keeps its proportions and never grows; one too high for a page is made to fit.
    """
    wide = (WIDTH - MARGIN * (COLUMNS + 1)) // COLUMNS
    most = HEIGHT - 2 * MARGIN - CAPTION
    pages: list[list[Placed]] = [[]]
    top = MARGIN
    for start in range(0, len(paths), COLUMNS):
        row = paths[start : start + COLUMNS]
        sizes = [_size(path, wide, most) for path in row]
        high = max(height for _, height in sizes) + CAPTION
        if top + high > HEIGHT - MARGIN and pages[-1]:
            pages.append([])
            top = MARGIN
        for column, (path, (width, height)) in enumerate(zip(row, sizes, strict=True)):
            caption = path.relative_to(root).with_suffix("").as_posix()
            left = MARGIN + column * (wide + MARGIN)
            pages[-1].append(Placed(path, caption, left, top, width, height))
        top += high + MARGIN
    return pages


def _size(path: Path, wide: int, high: int) -> tuple[int, int]:
    with Image.open(path) as image:
        scale = min(1.0, wide / image.width, high / image.height)
        return max(1, round(image.width * scale)), max(1, round(image.height * scale))


def draw(placed: Sequence[Placed]) -> Image.Image:
    """One page, as high as its figures need."""
    height = max(it.top + it.height for it in placed) + CAPTION + MARGIN
    sheet = Image.new("RGB", (WIDTH, height), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    for it in placed:
        pen.text((it.left, it.top), it.caption, fill="black", font=font)
        with Image.open(it.path) as image:
            # A transparent figure stands on white, as on a page.
            drawn = image.convert("RGBA").resize((it.width, it.height), Image.Resampling.LANCZOS)
        sheet.paste(drawn, (it.left, it.top + CAPTION), drawn)
    return sheet


def contact_sheet(profile: str) -> list[Path]:
    """Write reports/<profile>/contact_sheet_N.png and contact_sheet_N_grey.png; returns the paths.

    Pages of an earlier, longer sheet are removed. FptError where the profile has no figure.
    """
    folder = REPORTS / profile
    found = figures(folder)
    if not found:
        raise FptError(
            f"Profile {profile!r} has no figures in reports/{profile}/figures yet: run dvc repro."
        )
    for old in folder.glob("contact_sheet_*.png"):
        old.unlink()
    written = []
    for number, placed in enumerate(layout(found, folder / "figures"), start=1):
        page = draw(placed)
        for kind, image in (("", page), ("_grey", page.convert("L"))):
            path = folder / f"contact_sheet_{number}{kind}.png"
            image.save(path, optimize=True)
            written.append(path)
    return written
