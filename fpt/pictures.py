"""Pictures in few bytes, as they look: reports are in Git."""

import base64
import io
import re
from collections import Counter

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


def slim(svg: str) -> str:
    """`svg`, as Matplotlib writes it, in half the bytes: without indentation, blanks in paths and
    styles and groups that say nothing, coordinates to a hundredth of a point, pictures packed, and
    each style said once."""
    svg = re.sub(r"(data:image/png;base64,)([^\"]+)", repacked, svg)
    svg = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), svg)
    svg = re.sub(r'(?<= d=")[^"]+', lambda path: re.sub(r"\s*([A-Za-z])\s*", r"\1", path[0]), svg)
    svg = re.sub(r'(?<= style=")[^"]+', lambda style: re.sub(r"([:;]) ", r"\1", style[0]), svg)
    return classed(re.sub(r">\s+<", ">\n<", without_groups(svg)))


def repacked(found: re.Match[str]) -> str:
    inside = Image.open(io.BytesIO(base64.b64decode(found[2])))
    return found[1] + base64.b64encode(packed(inside)).decode()


def without_groups(svg: str) -> str:
    """`svg` without the groups that only have a name."""
    said: list[bool] = []  # of the groups that are open

    def group(tag: re.Match[str]) -> str:
        if tag[0] != "</g>":
            said.append(" " in tag[0])
            return tag[0] if said[-1] else ""
        return tag[0] if said.pop() else ""

    return re.sub(r"<g[^>]*>|</g>", group, re.sub(r'<g id="[^"]*"', "<g", svg))


def classed(svg: str) -> str:
    """`svg` with each style that is there more than once as a class."""
    styles = Counter(re.findall(r' style="([^"]*)"', svg))
    names = {style: f"s{at}" for at, (style, count) in enumerate(styles.items()) if count > 1}

    def name(style: re.Match[str]) -> str:
        return f' class="{names[style[1]]}"' if style[1] in names else style[0]

    rules = "".join(f".{name}{{{style}}}\n" for style, name in names.items())
    svg = re.sub(r' style="([^"]*)"', name, svg)
    return re.sub(r"<svg[^>]*>", rf"\g<0>\n<style>{rules}</style>", svg, count=1) if names else svg
