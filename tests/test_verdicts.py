"""The whole ledger: one adjustment, what each claim was tested on, and nothing from half a cell."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made import fill, make_record, make_section

from fpt import config
from fpt.analysis.stats import holm
from fpt.report import headline, verdict_figures
from fpt.sections import verdicts
from fpt.sections.claims import unadjusted
from fpt.sections.ledger import CLAIMS
from fpt.sections.section import Section
from fpt.sections.section import section as fpt_section

LEVELS = {"fpt": 0.9, "random": 0.8, "full": 0.91, "lstm-released": 0.7}


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    """The one section of a profile, with all its runs recorded."""
    part = make_section(tmp_path, monkeypatch, arms=tuple(LEVELS))
    monkeypatch.setattr(config, "load", lambda name: part.profile)
    monkeypatch.setattr(sys.modules["fpt.sections.verdicts"], "section", lambda name, profile: part)
    fill(part, lambda run: LEVELS[run.arm] + 0.001 * run.spec.seed)
    return part


def test_claims_are_known_apart_and_say_whose_runs_they_need() -> None:
    for name, claims in CLAIMS.items():
        assert len({claim.id for claim in claims}) == len(claims)
        for claim in claims:
            assert claim.source, f"{name}: {claim.id}"
            assert claim.arms, f"{name}: {claim.id}"


def test_at_least_25_claims_have_a_source_outside_this_project() -> None:
    from fpt.analysis.claim import OURS

    assert sum(claim.source != OURS for claims in CLAIMS.values() for claim in claims) >= 25


def test_one_adjustment_over_all_tests(section: Section) -> None:
    found = verdicts.entries("lab")
    raw = [finding.verdict.p for finding in unadjusted(section)]
    assert [entry.finding.verdict.p for entry in found] == pytest.approx(holm(raw), nan_ok=True)
    assert sum(entry.finding.verdict.p for entry in found) > sum(raw)


def test_every_claim_says_profile_and_body(section: Section) -> None:
    found = verdicts.entries("lab")
    table = verdicts.ledger_table(found, "lab")
    assert table.notes[0].startswith("Profile lab; ")
    lead = table.shown.loc["transfer: A frozen language body beats a frozen random one"]
    assert lead["tested on"] == "nano (nano-english-0)"
    assert lead["supported on"] == "mnist, digits"
    lstm = next(it for it in found if it.finding.claim.id == "beats-lstm")
    assert lstm.bodies == "nano, lstm-released-nano (nano-english-0)"
    text = headline.headline(found, "lab")
    assert "Profile `lab`" in text
    assert "nano-english-0" in text


def test_without_one_record_what_needs_it_is_not_run(section: Section) -> None:
    before = {(it.finding.claim.id, it.finding.task): it.finding for it in verdicts.entries("lab")}
    gone = next(r for r in section.runs if (r.arm, r.task) == ("random", "mnist"))
    section.store.path(gone.spec.key).unlink()
    after = {(it.finding.claim.id, it.finding.task): it.finding for it in verdicts.entries("lab")}
    changed = {
        at
        for at, finding in after.items()
        if (finding.verdict.label == "not run") != (before[at].verdict.label == "not run")
    }
    assert changed == {("beats-random", "mnist")}
    # The others are adjusted over as many tests as before.
    left = after.keys() - changed
    assert all(after[at].verdict.p >= before[at].verdict.p for at in left)
    assert after["beats-random", "mnist"].measured.effect is None
    assert "not run on mnist" in headline.headline(verdicts.entries("lab"), "lab")


def test_what_is_left_of_runs_that_diverged_decides_nothing(section: Section) -> None:
    def judged() -> str:
        found = (it.finding for it in verdicts.entries("lab") if it.finding.task == "mnist")
        return next(it.verdict.label for it in found if it.claim.id == "beats-random")

    assert judged() == "supported"
    run = next(r for r in section.runs if (r.arm, r.task) == ("random", "mnist"))
    section.store.write(make_record(run, 0.1, "diverged"))
    assert judged() == "inconclusive"


def test_figures_count_each_test_once(section: Section) -> None:
    found = verdicts.entries("lab")
    (axes,) = verdict_figures.by_section(found).axes
    widths = sum(patch.get_width() for patch in axes.patches)
    assert widths == len(found)
    panels = verdict_figures.effects(found, "transfer").axes
    assert len(panels) == len({it.finding.claim.id for it in found})


@pytest.mark.parametrize(("steps", "said"), [(400, "bit-xor 400 of 500"), (500, None)])
def test_budgets_below_the_papers_convergence_are_said(steps: int, said: str | None) -> None:
    whole = fpt_section("transfer", "lab").part(["bit-xor"])
    runs = tuple(replace(run, spec=replace(run.spec, steps=steps)) for run in whole.runs)
    assert headline.shorter(replace(whole, runs=runs)) == ([said] if said else [])
