"""What others begin with: links, the container, the site. It needs no engine of containers."""

import re
from pathlib import Path

import yaml

from lab import links

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
