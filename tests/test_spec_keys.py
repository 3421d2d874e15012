"""The keys of all planned runs: a change that renames records, or drops a run, is on purpose."""

import hashlib

import pytest

from fpt import config

PLANNED = {
    "smoke": (218, "95343f6130e00d31333e3140d38b4f6565d80a337af54532b1a8946ae30bcdc5"),
    "lab": (680, "fbc2ce4b13cca690ad5457f85c46d9aa212a40d5d6169b6a3cb93c6b158bac06"),
    "paper": (7415, "4e189a3463e97b7c11cbb9e9cf69b882521fdd44fb58bebd0302c74278eab17e"),
    "language": (1348, "e318917098b1e05b48192cf385949ee9341b5003b98ebea694843aaaf144f009"),
}


def planned(name):
    profile = config.load(name)
    return [run for part in profile.sections for run in config.expand(profile, part)]


@pytest.mark.parametrize("name", PLANNED)
def test_the_runs_of_a_profile_keep_their_keys(name):
    keys = {run.key for run in planned(name)}
    digest = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()
    assert (len(keys), digest) == PLANNED[name]
