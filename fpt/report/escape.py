"""Text that this package did not write, in a page: one function for each format.

Names of tasks and arms come from params.yaml and from a reader's modules, devices and notes
from records that other machines made. Wherever such a text enters a page, it goes through
the function of that page's format, and is read as the text that it is: never as markup,
never as a script.
"""

import html
import json
import re
from typing import Any

# What Markdown reads as more than a character within a line. Brackets alone are a text, as
# in `[0.40, 0.76]`; they make a link only if one of these follows.
SPECIAL = re.compile(r"[\\`*_~|$]|\](?=[(\[:])")
CODE = re.compile("`([^`]+)`")


def in_html(text: object) -> str:
    """The text in an element or an attribute of HTML."""
    return html.escape(str(text))


def in_markdown(text: object) -> str:
    """The text within a line of Markdown, also in a cell of a table; line breaks become
    spaces."""
    line = re.sub(r"\s+", " ", str(text))
    return SPECIAL.sub(r"\\\g<0>", html.escape(line, quote=False))


def in_script(value: Any) -> str:
    """The value as JSON in a <script>, which nothing in it can end."""
    text = json.dumps(value, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def prose_in_html(text: str) -> str:
    """A caption as HTML, with `code` between backticks."""
    return CODE.sub(r"<code>\1</code>", in_html(text))


def prose_in_markdown(text: str) -> str:
    """A caption as Markdown, with `code` between backticks."""
    parts = CODE.split(text)  # plain text and code by turns
    parts[::2] = map(in_markdown, parts[::2])
    parts[1::2] = [re.sub(r"\s+", " ", f"`{code}`") for code in parts[1::2]]
    return "".join(parts)
