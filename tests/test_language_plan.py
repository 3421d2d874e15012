"""The registration of the experiment on real language models, and the plan that follows from it.

Nothing here reads a record of the experiment, so the tests are the same before and after its runs.
"""

import hashlib
from collections import Counter

import pytest

from fpt.backbones.published import PUBLISHED
from fpt.claims.model_claims import model_claims, planned_runs
from fpt.errors import FptError
from fpt.sections import registration
from fpt.sections.registration import LANGUAGE, registered_draws, registered_seeds
from lab import language, search

CLAIMS = [
    claim
    for kind in ("primary", "secondary")
    for claim in model_claims(kind)
    if not claim.withdrawn
]


@pytest.fixture(scope="module")
def runs():
    return planned_runs()


def test_seeds_and_draws_follow_from_the_file_and_from_nothing_else():
    content = registration.file_of(LANGUAGE).read_bytes().replace(b"\r\n", b"\n")
    digest = hashlib.sha256(content).hexdigest()
    for name, numbers in (("", registered_seeds(3, LANGUAGE)), ("draw/", registered_draws(3))):
        texts = [f"{digest}/{name}{index}" for index in range(3)]
        drawn = [hashlib.sha256(text.encode()).digest()[:4] for text in texts]
        assert numbers == [int.from_bytes(four, "big") // 2 for four in drawn]


def test_reported_runs_have_registered_seeds_and_draws_alone(runs):
    seeds, draws = {run.spec.seed for run in runs}, {run.spec.draw for run in runs} - {None}
    assert seeds <= set(registered_seeds(8, LANGUAGE))
    assert draws <= set(registered_draws(39))
    assert not (seeds | draws) & set(search.search_settings()["seeds"])


def test_the_registration_covers_the_settings_and_the_weights():
    content = registration.registration(LANGUAGE)
    covered = content["covers"]
    is_covered = covered["settings"] == registration.settings_digest(LANGUAGE)
    assert is_covered or not content["registered"], "a draft may wait for its rates"
    assert {"code", *(run.spec.weights for run in planned_runs() if run.spec.weights)} < {*covered}
    assert all(name in PUBLISHED for name in covered if name not in ("settings", "code"))


def test_another_setting_or_line_of_code_has_another_digest(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    before = registration.code_digest(tmp_path)
    (tmp_path / "a.py").write_bytes(b"x = 1\r\n")
    assert registration.code_digest(tmp_path) == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert registration.code_digest(tmp_path) != before


# A change of the code between registration and training could make results what one hopes for.
def test_nothing_is_launched_from_code_that_is_not_registered(
    monkeypatch,
):
    covered = dict(registration.registration(LANGUAGE)["covers"])
    monkeypatch.setattr(language, "digests", lambda: {**covered, "code": "other"})
    with pytest.raises(FptError, match="covers other code than"):
        next(language.launch("1/1", 1.0))


def test_nothing_is_launched_at_rates_that_the_search_did_not_choose(monkeypatch, runs):
    covered = dict(registration.registration(LANGUAGE)["covers"])
    monkeypatch.setattr(language, "digests", lambda: covered)
    rates = {}
    for run in runs:
        rates.setdefault(run.arm, {"lr": {}})["lr"][run.task] = run.spec.lr
    monkeypatch.setattr(search, "best_rates", lambda profile: rates)
    language.check_registration()
    rates["fpt"]["lr"]["bit-xor"] *= 3
    with pytest.raises(FptError, match="rate of fpt on bit-xor is not that of the search"):
        language.check_registration()


def test_there_are_at_most_eight_primary_claims_each_of_one_task():
    names = [claim.name for claim in CLAIMS]
    assert len(model_claims("primary")) <= 8
    assert len(set(names)) == len(names)
    pairs = Counter((*claim.backbones, *claim.tasks, claim.test) for claim in CLAIMS)
    assert set(pairs.values()) == {1}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_the_arms_of_a_claim_share_enough_seeds_and_draws(claim, runs):
    sizes = language.sizes_of(claim, runs)
    assert sizes.seeds >= 4
    if claim.test == "rank":
        assert sizes.second_draws >= 39
    for arm in claim.backbones:
        cell = [run.spec for run in runs if (run.arm, run.task) == (arm, claim.tasks[0])]
        assert len(cell) == claim.backbones[arm]
        layout = Counter(spec.draw for spec in cell)
        assert len(set(layout.values())) == 1, "every draw meets every seed"


def test_the_plan_is_paid_for():
    """Thirty core-hours on the processor that trains it."""
    blocks = language.blocks()
    hours = [sum(map(language.cost, block.runs)) / 3600 for block in blocks]
    assert sum(hours) <= 30
    keys = [run.key for block in blocks for run in block.runs]
    assert len(keys) == len(set(keys))


def test_no_primary_claim_is_withdrawn_and_no_withdrawn_cell_is_planned(
    runs,
):
    assert not any(claim.withdrawn for claim in model_claims("primary"))
    places = {(run.arm, run.task) for run in runs}
    assert ("fpt@6", "bit-memory-small") in places
    withdrawn = {("fpt@6", "listops-short"), ("random", "bit-memory-small")}
    assert not places & {*withdrawn, ("statistics-tensor", "bit-xor")}


def test_all_runs_of_an_arm_and_task_differ_in_seed_and_draw_alone(runs):
    cells = {}
    for run in runs:
        fields = run.spec.to_dict() | {"seed": None, "draw": None}
        cells.setdefault((run.arm, run.task), set()).add(str(sorted(fields.items())))
    assert all(len(kinds) == 1 for kinds in cells.values())
    assert {run.spec.threshold for run in runs} == {0.0}, "no run ends early"
