"""The keys of all planned runs: a change that renames records, or drops a run, is on purpose."""

import hashlib

import pytest

from fpt import config
from fpt.config import Run

PLANNED = {
    "smoke": (218, "fdba816cbe66b2d51a22160a82542c429610acdb0e2b136ce43d58eee3939d93"),
    "paper": (7160, "de03d71e39abe383aafb0282ae7fe4d0d574d7f95976a169d0b5c56f528981b3"),
}
ENGLISH_ARMS = {
    "random", "fpt-english", "fpt-nesting", "fpt-dyck", "fpt-uniform",
    "full", "full-english", "full-nesting", "full-dyck", "full-uniform",
}  # fmt: skip


def planned(name: str) -> list[Run]:
    profile = config.load(name)
    return [run for part in profile.sections for run in config.expand(profile, part)]


@pytest.mark.parametrize("name", PLANNED)
def test_the_runs_of_a_profile_keep_their_keys(name: str) -> None:
    keys = {run.key for run in planned(name) if run.task != "english"}
    found = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()
    assert (len(keys), found) == PLANNED[name]


def test_the_paper_profile_learns_english_in_one_section() -> None:
    runs = [run for run in planned("paper") if run.task == "english"]
    assert {(run.arm, run.spec.seed) for run in runs} == {
        (arm, seed) for arm in ENGLISH_ARMS for seed in range(5)
    }
    assert len({run.key for run in runs}) == len(runs) == 50
    assert {run.spec.backbone for run in runs} == {"gpt2"}
