"""What mkdocs.yml adds to the site: the committed pages of reports/, the help of every command, and
the comments beside fields."""

import argparse
import os
import posixpath
import re
import subprocess
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from fpt.__main__ import parser

MARK = "<!-- commands -->"
ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[([^]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
CODE = re.compile(r"^```.*?^```$|^ {4}.*?$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """A hook of MkDocs: the pages and figures of reports/ that are committed."""
    committed = subprocess.check_output(["git", "ls-files", "reports"], cwd=ROOT, text=True)
    for name in committed.splitlines():
        if name.endswith((".md", ".png")) and (ROOT / name).exists():
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def linked(link: re.Match[str], page: str, files: Files) -> str:
    """A link of a page, to a page of the site; its words alone if it leads to another file of the
    repository."""
    picture, words, target, anchor = link.groups(default="")
    if re.match("https?:", target):
        return link[0]
    # Pages of docs/ are the root of the site, and the reports lie beside docs/ in the repository.
    here = page if page.startswith("reports/") else f"docs/{page}"
    place = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
    place = place.removeprefix("docs/")
    if files.get_file_from_path(place) is None:
        return words
    place = posixpath.relpath(place, posixpath.dirname(page) or ".")
    return f"{picture}[{words}]({place}{anchor})"


def on_page_markdown(markdown: str, page: Page, files: Files, **site: Any) -> str:
    """A hook of MkDocs: links between docs/ and reports/, and what `fpt VERB --help` prints in the
    place of MARK."""
    parts, end = [], 0
    for code in [*CODE.finditer(markdown), None]:
        prose = markdown[end : code.start() if code else None]
        parts += [LINK.sub(lambda link: linked(link, page.file.src_uri, files), prose)]
        if code:
            parts.append(code[0])
            end = code.end()
    markdown = "".join(parts)
    return markdown.replace(MARK, helps()) if MARK in markdown else markdown


def helps() -> str:
    """The help of every verb."""
    os.environ["COLUMNS"] = "64"  # the width of the help
    (verbs,) = (
        action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    parts = [
        f"## fpt {name}\n\n```text\n{verb.format_help()}```" for name, verb in verbs.choices.items()
    ]
    return "\n\n".join(parts)


class Comments(griffe.Extension):
    """The comment behind a field of a dataclass is the field's docstring."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **more: Any) -> None:
        comment = re.search("  # (.*)", attr.source)
        labels = attr.parent.labels if attr.parent else ()
        if comment and attr.docstring is None and "dataclass" in labels:
            text = comment[1][:1].upper() + comment[1][1:] + "."
            attr.docstring = griffe.Docstring(text, parent=attr)
