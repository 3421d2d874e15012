"""What others begin with: links, the container, the site. It needs no engine of containers."""

import json
import re
from pathlib import Path

import yaml

from lab import links
from lab.lock import OLDEST_PYTHON

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_links_have_the_address_of_the_project():
    assert links.README.read_text() == links.readme()
    assert links.START.read_text() == links.start()


def test_the_first_cell_of_the_shared_notebook_installs_the_project():
    cells = json.loads(links.START.read_text())["cells"]
    code = next(cell["source"] for cell in cells if cell["cell_type"] == "code")
    assert f"git+{links.address()}" in "".join(code)


def test_the_container_copies_what_is_there():
    copied = re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.M)
    assert all((ROOT / name).exists() for line in copied for name in line.split())


def test_the_container_has_a_python_for_the_lock_and_the_programs_of_the_makefile():
    version = re.search(r"^FROM python:(\d+)\.(\d+)-", DOCKERFILE, re.M)
    assert [*map(int, version.groups())] >= [*map(int, OLDEST_PYTHON.split(".")[:2])]
    assert {"git", "make"} <= set(re.search("install (.*) \\\\", DOCKERFILE)[1].split())


def test_the_devcontainer_is_a_stage_of_the_container():
    development = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    build, stages = development["build"], re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.M)
    assert (ROOT / ".devcontainer" / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert build["target"] in stages
    assert f"RUN {development['postCreateCommand']}\n" in DOCKERFILE


def test_workflows_call_what_the_makefile_has():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        jobs = yaml.safe_load(path.read_text())["jobs"].values()
        for command in (step["run"] for job in jobs for step in job["steps"] if "run" in step):
            first, *words = command.split()
            assert (ROOT / first).exists() or (first == "make" and set(words) <= set(targets))
