"""Pictures in few bytes, as they look: reports are in Git."""

import io

import numpy as np
from PIL import Image, ImageColor

from .style import GRID, INK, LOOKS, MUTED

COLOURS = 64  # more are not seen
OWN = dict.fromkeys(
    ImageColor.getrgb(name)
    for name in ("white", INK, MUTED, GRID, *(look.colour for look in LOOKS.values()))
)


def packed(picture: Image.Image) -> bytes:
    """`picture` on white as PNG, in a third of the bytes: the style's own colours as they are, for
    an arm is known by its colour, and in place of all others the few that they need most."""
    png = io.BytesIO()
    paper = Image.new("RGBA", picture.size, "white")
    paper.alpha_composite(picture.convert("RGBA"))
    drawn = paper.convert("RGB")
    there, place = np.unique(
        np.asarray(drawn, np.int32).reshape(-1, 3), axis=0, return_inverse=True
    )
    own = [colour for colour in OWN if (there == colour).all(1).any()]
    others = drawn.quantize(COLOURS - len(own), dither=Image.Dither.NONE).getpalette() or []
    palette = np.array([*own, *np.reshape(others, (-1, 3))], np.int32)
    nearest = np.argmin([((there - colour) ** 2).sum(1) for colour in palette], axis=0)
    few = Image.fromarray(nearest[place].astype(np.uint8).reshape(drawn.height, drawn.width))
    few.putpalette(palette.astype(np.uint8).tobytes())
    few.save(png, "PNG", optimize=True)
    return png.getvalue()
