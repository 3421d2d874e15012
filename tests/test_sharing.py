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
    """A project on whose report Git has Markdown and a figure, and which has pages in HTML too."""
    monkeypatch.setattr(site, "ROOT", tmp_path)
    folder = tmp_path / "reports/lab"
    (folder / "notebooks").mkdir(parents=True)
    for name in ("README.md", "notebooks/01.md", "notebooks/02.md", "answers.png"):
        (folder / name).touch()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    for name in ("index", "notebooks/01", "notebooks/02.failed", "attention"):
        (folder / f"{name}.html").touch()
    return folder


def test_the_site_has_the_pages_of_reports_that_were_made(report):
    config = Mock(site_dir="site", use_directory_urls=False)
    files = site.on_files(Files([]), config)
    names = {"index.html", "notebooks/01.html", "answers.png"}
    assert {file.src_uri for file in files} == {f"reports/lab/{name}" for name in names}
    words = "on [nano backbones](../reports/lab/README.md) and [more](more.md)"
    made = "on [nano backbones](reports/lab/index.html) and [more](more.md)"
    assert site.on_page_markdown(words) == made
    (report / "index.html").unlink()
    assert site.on_page_markdown(words) == "on nano backbones and [more](more.md)"
