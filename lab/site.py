"""What mkdocs.yml adds to the site: the reports, the help of every command, and the comments beside
fields."""

import argparse
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

from fpt.__main__ import parser

MARK = "<!-- commands -->"
ROOT = Path(__file__).parents[1]
# A link to the front page of a report, in the Markdown that a Git host shows.
REPORT = re.compile(r"\[([^]]+)\]\(\.\./(reports/\w+)/README\.md\)")


def on_files(files: Files, config: Any) -> Files:
    """A hook of MkDocs: the committed figures of the reports and the HTML that was made here of
    their committed pages."""
    committed = subprocess.check_output(["git", "ls-files", "reports"], cwd=ROOT, text=True)
    for name in committed.splitlines():
        shown = re.sub(r"\.md$", ".html", name.replace("/README.md", "/index.md"))
        if shown.endswith((".html", ".png")) and (ROOT / shown).exists():
            files.append(File.generated(config, shown, abs_src_path=str(ROOT / shown)))
    return files


def linked(link: re.Match[str]) -> str:
    """The link to a report leads to its HTML, and is its words alone where that was not made."""
    words, report = link.groups()
    page = f"{report}/index.html"
    return f"[{words}]({page})" if (ROOT / page).exists() else words


def on_page_markdown(markdown: str, **site: Any) -> str:
    """A hook of MkDocs: links to the reports' pages, and what `fpt VERB --help` prints in the place
    of MARK."""
    markdown = REPORT.sub(linked, markdown)
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
