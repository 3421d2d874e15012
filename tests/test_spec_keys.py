"""The keys of all planned runs: a change that renames records, or drops a run, is on purpose."""

import hashlib

import pytest

from fpt import config
from fpt.config import Run

PLANNED = {
    "smoke": (218, "fdba816cbe66b2d51a22160a82542c429610acdb0e2b136ce43d58eee3939d93"),
    "lab": (680, "4b082788c7807357de99499287363ae6be8aa1247cb3dea26e59aa5cf94f362b"),
    "paper": (7370, "2f13ce937c95be29d724b376c19fa8c1aadf1f7bbaa6e78e26506a86ad9ca8a1"),
}


def planned(name: str) -> list[Run]:
    profile = config.load(name)
    return [run for part in profile.sections for run in config.expand(profile, part)]


@pytest.mark.parametrize("name", PLANNED)
def test_the_runs_of_a_profile_keep_their_keys(name: str) -> None:
    keys = {run.key for run in planned(name)}
    found = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()
    assert (len(keys), found) == PLANNED[name]
