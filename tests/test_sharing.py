"""What others begin with: links, the container, the site. It needs no engine of containers."""

import re
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from mkdocs.structure.files import Files

from lab import links, site

ROOT = Path(__file__).parents[1]


def test_links_have_the_address_of_the_project():
    assert links.README.read_text() == links.readme()
    assert links.START.read_text() == links.start()


def test_workflows_call_what_the_makefile_has():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        jobs = yaml.safe_load(path.read_text())["jobs"].values()
        for command in (step["run"] for job in jobs for step in job["steps"] if "run" in step):
            first, *words = command.split()
            assert (ROOT / first).exists() or (first == "make" and set(words) <= set(targets))


@pytest.fixture
def report(tmp_path, monkeypatch):
    """A project on whose reports Git has Markdown and a figure, and which has more."""
    monkeypatch.setattr(site, "ROOT", tmp_path)
    folder = tmp_path / "reports"
    (folder / "figures").mkdir(parents=True)
    for name in ("README.md", "01.md", "02.md", "figures/f.png", "index.json"):
        (folder / name).touch()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    (folder / "02.md").unlink()
    (folder / "01.html").touch()
    return folder


def test_the_site_has_the_pages_of_reports_that_are_committed(report):
    config = Mock(site_dir="site", use_directory_urls=False)
    files = site.on_files(Files([]), config)
    made = {"README.md", "01.md", "figures/f.png"}
    assert {file.src_uri for file in files} == {f"reports/{name}" for name in made}


@pytest.mark.parametrize(
    ("page", "words", "expected"),
    [
        # Pages of docs/ are the root of the site.
        ("trust.md", "[a](../reports/01.md#x)", "[a](reports/01.md#x)"),
        ("trust.md", "[a](../reports/02.md) and [b](../fpt/names.py)", "a and b"),
        ("trust.md", "[a](https://localhost/02.md)", "[a](https://localhost/02.md)"),
        (
            "reports/01.md",
            "![f](figures/f.png) [a](README.md)",
            "![f](figures/f.png) [a](README.md)",
        ),
        ("reports/01.md", "[a](experiments/lab/plan.md)", "a"),
        ("trust.md", "```\n[a](none.md)\n```", "```\n[a](none.md)\n```"),  # code
    ],
)
def test_a_link_leads_to_a_page_of_the_site_or_is_its_words(page, words, expected, report):
    files = site.on_files(Files([]), Mock(site_dir="site", use_directory_urls=False))
    place = Mock(file=Mock(src_uri=page))
    assert site.on_page_markdown(words, place, files) == expected
