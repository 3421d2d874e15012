"""The lock: what `make setup` installs is complete, pinned and known by its digests."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from lab.lock import CPU_BUILDS, LOCK, finished

ROOT = Path(__file__).parents[1]
ENTRY = re.compile(
    r"^(\S+?)==(\S+)(?: ; (.*?))? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M
)
LOCKED = {name: version for name, version, *_ in ENTRY.findall(LOCK.read_text())}


def test_every_line_belongs_to_a_pinned_package_with_digests():
    """So no line names a host or a path either."""
    assert not re.sub("^#.*\n", "", ENTRY.sub("", LOCK.read_text()), flags=re.M)


def test_the_lock_fits_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    for line in [*project["dependencies"], *(line for extra in extras for line in extra)]:
        requirement = Requirement(line)
        if requirement.name != project["name"]:
            assert LOCKED[canonicalize_name(requirement.name)] in requirement.specifier


def test_builds_of_torch_for_the_cpu_are_those_of_the_locked_version():
    for file, digest in CPU_BUILDS.items():
        name, version, *_ = parse_wheel_filename(file)
        assert (LOCKED[name], version.local) == (version.public, "cpu")
        assert digest in LOCK.read_text()


def test_conditions_that_always_hold_are_left_out():
    everywhere = (
        "python_full_version < '3.15' and (sys_platform == 'darwin' or sys_platform == 'linux')"
    )
    lines = [
        f"numpy==2 ; {everywhere} \\",
        "triton==3 ; python_full_version < '3.15' and sys_platform == 'linux' \\",
    ]
    text = "\n".join(lines)
    assert finished(text).endswith("numpy==2 \\\ntriton==3 ; sys_platform == 'linux' \\")


@pytest.mark.parametrize("keep", [False, True])
def test_setup_installs_all_but_the_libraries_of_cuda(keep, tmp_path):
    """With the machine's own torch, it installs no other."""
    lines = subprocess.check_output(["make", "-n", "-B", "setup"], cwd=ROOT, text=True)
    filters = re.search(r"then (awk .*?); else (awk .*?); fi", lines)
    text = subprocess.check_output(filters[1 if keep else 2], shell=True, cwd=ROOT, text=True)
    names = {name for name, *_ in ENTRY.findall(text)}
    left_out = set(LOCKED) - names
    assert all(re.match("nvidia-|cuda-|triton", name) for name in left_out - {"torch"})
    assert ("torch" in names) != keep
