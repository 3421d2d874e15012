"""The keys of all planned runs: a change that renames records, or drops a run, is on purpose."""

import hashlib

import pytest

from fpt import config

PLANNED = {
    "smoke": (218, "fdba816cbe66b2d51a22160a82542c429610acdb0e2b136ce43d58eee3939d93"),
    "paper": (7160, "de03d71e39abe383aafb0282ae7fe4d0d574d7f95976a169d0b5c56f528981b3"),
}


@pytest.mark.parametrize("name", PLANNED)
def test_the_runs_of_a_profile_keep_their_keys(name: str) -> None:
    profile = config.load(name)
    keys = {run.key for part in profile.sections for run in config.expand(profile, part)}
    found = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()
    assert (len(keys), found) == PLANNED[name]
