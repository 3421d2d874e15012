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
    (verbs,) = (
        action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    parts = [
        f"## fpt {name}\n\n```text\n{verb.format_help()}```" for name, verb in verbs.choices.items()
    ]
    return markdown.replace(MARK, "\n\n".join(parts))


class Comments(griffe.Extension):
    """The comment behind a field of a dataclass is the field's docstring."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **more: Any) -> None:
        comment = re.search("  # (.*)", attr.source)
        if comment and attr.docstring is None and "dataclass" in attr.parent.labels:
            text = comment[1][:1].upper() + comment[1][1:] + "."
            attr.docstring = griffe.Docstring(text, parent=attr)
