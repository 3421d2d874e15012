"""The lock: what `make setup` installs is complete, pinned and known by its digests."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.lock import LOCK, finished

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


def test_a_lock_that_is_written_again_is_the_same():
    text = LOCK.read_text()
    assert finished(text.partition("\n")[2]) == text
