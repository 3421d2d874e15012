"""What mkdocs.yml adds to the site: the help of every command, and the comments beside fields."""

import argparse
import os
import re
from typing import Any

import griffe

from fpt.__main__ import parser

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **site: Any) -> str:
    """A hook of MkDocs: what `fpt VERB --help` prints, in the place of MARK."""
    if MARK not in markdown:
        return markdown
    os.environ["COLUMNS"] = "64"  # the width of the help
    (verbs,) = (it for it in parser()._actions if isinstance(it, argparse._SubParsersAction))
    parts = [
        f"## fpt {name}\n\n```text\n{verb.format_help()}```" for name, verb in verbs.choices.items()
    ]
    return markdown.replace(MARK, "\n\n".join(parts))


class Comments(griffe.Extension):
    """The comment behind a field of a dataclass is the field's docstring."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **more: Any) -> None:
        found = re.search("  # (.*)", attr.source)
        if found and attr.docstring is None and "dataclass" in attr.parent.labels:
            text = found[1][:1].upper() + found[1][1:] + "."
            attr.docstring = griffe.Docstring(text, parent=attr)
