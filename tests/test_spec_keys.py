"""The keys of all planned runs: a change that renames records, or drops a run, is on purpose."""

import hashlib

import pytest

from fpt import config
from fpt.config import Run

PLANNED = {
    "smoke": (218, "fdba816cbe66b2d51a22160a82542c429610acdb0e2b136ce43d58eee3939d93"),
    "lab": (677, "185ea76a2574781ab666b61b086db4a926079870d2b9cf4cec941384cc01ae21"),
    "paper": (7420, "737b4ef40f2dfc158685f64891b4994319799adc59275e7babbada5f49d4504d"),
}


def planned(name: str) -> list[Run]:
    profile = config.load(name)
    return [run for part in profile.sections for run in config.expand(profile, part)]


@pytest.mark.parametrize("name", PLANNED)
def test_the_runs_of_a_profile_keep_their_keys(name: str) -> None:
    keys = {run.key for run in planned(name)}
    found = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()
    assert (len(keys), found) == PLANNED[name]
