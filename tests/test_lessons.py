"""English taught to the bodies of a section: from params.yaml to a table, a figure and claims."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from made import make_section
from profiled import clashes, texts

from fpt import commands, config
from fpt.__main__ import main
from fpt.analysis.claim import LANGUAGE
from fpt.files import FptError
from fpt.pretraining.adapt import record_path
from fpt.records import digest
from fpt.report import english
from fpt.report.savings import saving
from fpt.report.table import label
from fpt.sections import claims, lessons, verdicts
from fpt.sections.arms import ARMS
from fpt.sections.lessons import Lesson, folder_of, planned, taught
from fpt.sections.section import Section

FROZEN_ARMS = ("random", "fpt-english", "fpt-nesting", "fpt-uniform")
WHOLE_ARMS = ("full", "full-english", "full-nesting", "full-uniform")
BITS = {
    "random": 3.0, "fpt-english": 2.4, "fpt-nesting": 2.7, "fpt-uniform": 3.001,
    "full": 2.5, "full-english": 2.0, "full-nesting": 2.6, "full-uniform": 2.5,
}  # fmt: skip


def with_english(section: Section, folder: Path, **block: Any) -> Section:
    """The section with a block that teaches English."""
    path = folder / "params.yaml"
    content = yaml.safe_load(path.read_text())
    asked = {"english": {"backbone": "nano", "tokens": 100_000}, "arms": [*BITS], **block}
    content["lab"]["sections"][section.name].append(asked)
    path.write_text(yaml.safe_dump(content))
    profile = config.load("lab", path)
    return Section(section.name, profile, tuple(config.expand(profile, section.name)))


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    arms = ("random", "fpt-english", "full")
    name = "synthetic_pretraining"
    return with_english(make_section(tmp_path, monkeypatch, name, arms), tmp_path)


def fill(section: Section, bits: Callable[[Lesson], float | None]) -> None:
    """A record of every lesson for which `bits` gives a number."""
    for lesson in planned(section.profile, section.name):
        value = bits(lesson)
        if value is None:
            continue
        curve = [
            {"step": s, "tokens": 4096.0 * s, "valid_loss": 5.0, "bits_per_byte": value + 4 / s}
            for s in (5, 10, 25)
        ]
        content = {
            "plan": asdict(lesson.plan), "tokens": 102_400, "valid_loss": 5.0, "seconds": 9.0,
            "device": "a CPU", "bits_per_byte": value, "curve": curve, "weights_digest": None,
        }  # fmt: skip
        path = record_path(folder_of(section.profile), lesson.plan)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content | {"digest": digest(content)}))


def level(lesson: Lesson) -> float:
    return BITS[lesson.arm] + 0.002 * lesson.plan.seed


def test_an_arm_says_how_a_body_starts_and_whether_it_is_frozen(section: Section) -> None:
    found = planned(section.profile, section.name)
    assert [it.arm for it in found] == [arm for arm in BITS for _ in range(3)]
    for lesson in found:
        plan, arm = lesson.plan, ARMS[lesson.arm]
        assert (plan.init, plan.frozen) == (arm.init, arm.trainable is not None)
        assert plan.weights == (None if plan.init == "random" else f"{arm.weights}-0")
        assert (plan.backbone, plan.tokens, plan.corpus) == ("nano", 100_000, "english")
    assert len({it.plan.key for it in found}) == len(found)
    assert planned(section.profile, "no such section") == []
    assert all(run.task != LANGUAGE for run in section.runs)


def test_weights_of_a_seed_are_those_of_the_lesson(section: Section) -> None:
    own = {**section.profile.weights, "nesting": "nano-nesting@5M-{seed}"}
    profile = replace(section.profile, weights=own, seeds=(3, 7))
    read: dict[str, list[str | None]] = {}
    for it in planned(profile, section.name):
        read.setdefault(it.arm, []).append(it.plan.weights)
    assert read["full-nesting"] == read["fpt-nesting"] == [f"nano-nesting@5M-{s}" for s in (3, 7)]
    assert read["full-english"] == ["english-0"] * 2


def test_the_lessons_of_the_project() -> None:
    def lessons_of(name: str) -> list[Lesson]:
        profile = config.load(name)
        return [it for section in profile.sections for it in planned(profile, section)]

    found = lessons_of("paper")
    assert len(found) == 5 * len({it.arm for it in found}) == 5 * 10
    assert lessons_of("smoke") == lessons_of("lab") == []


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"english": {"backbone": "nano"}}, "tokens: expected a number of tokens, found None"),
        ({"english": {"backbone": "nano", "tokens": 0}}, "expected a number of tokens, found 0"),
        ({"english": {"backbone": "mega", "tokens": 9}}, "There is no backbone 'mega'"),
        ({"english": {"tokens": 9, "lr": 1}}, "'lr' is not known; allowed are backbone, tokens"),
        ({"english": 5}, "expected settings by name, found 5"),
        ({"arms": ["output"]}, "'output' is not taught English"),
        ({"arms": ["lstm"]}, "'lstm' is not taught English"),
        ({"lr": 0.1}, "'lr' is not known; allowed are english, arms, seeds"),
        ({"tasks": ["mnist"]}, "'tasks' is not known"),
    ],
)
def test_a_wrong_block_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: dict[str, Any], said: str
) -> None:
    section = make_section(tmp_path, monkeypatch, "synthetic_pretraining", ["random"])
    with pytest.raises(FptError, match=said) as caught:
        with_english(section, tmp_path, **block)
    assert "\n" not in str(caught.value)
    assert "lab.sections.synthetic_pretraining" in str(caught.value)


def test_an_arm_gives_no_number_before_each_of_its_lessons_is_recorded(section: Section) -> None:
    fill(section, lambda it: None if (it.arm, it.plan.seed) == ("full-nesting", 2) else level(it))
    found = taught(section.profile, section.name)
    assert found["full-nesting"].interval is None
    assert len(found["full-nesting"].values) == 2
    assert found["full"].interval is not None
    assert found["full"].interval.mean == pytest.approx(2.502)
    assert saving(found, "full-nesting", "full") is None
    left = lessons.missing(section.profile, section.name)
    assert [(it.arm, it.plan.seed) for it in left] == [("full-nesting", 2)]
    shown = english.english_table(section).shown
    assert shown.loc[label("full-nesting"), "bits per byte"] == "not run"
    assert shown.loc[label("full-nesting"), "seeds"] == "2 of 3"


def test_what_is_saved_is_a_share_of_bits_seed_by_seed(section: Section) -> None:
    fill(section, level)
    found = taught(section.profile, section.name)
    saved = saving(found, "fpt-english", "random")
    assert saved is not None
    each = [1 - (2.4 + d) / (3.0 + d) for d in (0, 0.002, 0.004)]
    assert saved.effect == pytest.approx(sum(each) / 3)
    assert saved.low < min(each) < max(each) < saved.high
    table = english.english_table(section)
    assert list(table.shown.index) == [label(arm) for arm in BITS]
    assert table.shown.loc[label("fpt-english"), "saved, %"].startswith("+20.0 [")
    assert table.shown.loc[label("full-nesting"), "saved, %"].startswith("−4.0 [")
    assert table.shown.loc[label("random"), "saved, %"] == "–"
    assert table.shown.loc[label("full"), "trained"] == "everything"
    assert len(table.numbers) == len(BITS) * 3


def test_claims_on_english_are_judged_on_its_bits(section: Section) -> None:
    def verdicts_now() -> dict[str, str]:
        found = claims.section_findings(section)
        return {it.claim.id: it.verdict.label for it in found if it.task == LANGUAGE}

    assert set(verdicts_now().values()) == {"not run"}
    fill(section, level)
    now = verdicts_now()
    assert now["english-to-english-frozen"] == "supported"
    assert now["nesting-to-english-frozen"] == "supported"
    assert now["nesting-to-english-whole"] == "contradicted"
    assert now["uniform-to-english-frozen"] == "supported"
    assert now["english-over-nesting-to-english"] == "supported"
    assert now["dyck-to-english-whole"] == "not run"  # no such arm is taught here
    said = claims.in_words(claims.section_findings(section), "lab")
    assert "supported on English (bits of English that Frozen, English saves" in said


def test_other_claims_are_not_about_english(section: Section) -> None:
    for claim in claims.applicable(section):
        assert claim.covers(LANGUAGE) == ("-to-english" in claim.id)
    judged = claims.grounds(section)
    assert judged == ["bit-xor", "mnist", "digits", LANGUAGE]


def test_the_ledger_names_the_bodies_that_were_taught(section: Section) -> None:
    fill(section, level)
    found = claims.section_findings(section)
    one = next(it for it in found if it.claim.id == "nesting-to-english-frozen")
    assert verdicts.bodies(section, one) == "nano (nesting-0)"


def test_the_index_changes_with_the_lessons(section: Section) -> None:
    path = section.folder / "index" / f"{section.name}.json"
    section.write_index()
    before = json.loads(path.read_text())
    keys = [it.plan.key for it in planned(section.profile, section.name)]
    assert [before[key] for key in keys] == [None] * len(keys)
    fill(section, lambda it: level(it) if it.arm == "full" else None)
    section.write_index()
    after = json.loads(path.read_text())
    changed = {key for key in after if after[key] != before[key]}
    assert changed == {
        it.plan.key for it in planned(section.profile, section.name) if it.arm == "full"
    }


def test_the_figure_has_a_panel_for_each_way_of_training(section: Section) -> None:
    fill(section, lambda it: None if it.arm == "fpt-uniform" else level(it))
    figure = english.english_figure(section)
    assert [len(axes.lines) for axes in figure.axes] == [3, 4]
    said = texts(figure)
    assert f"not run: {label('fpt-uniform')}" in [text.get_text() for text in said]
    assert not clashes(said)


def test_a_lesson_that_cannot_be_given_does_not_keep_the_others(
    section: Section, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = planned(section.profile, section.name)
    monkeypatch.setattr(lessons, "CACHE", tmp_path / "cache")
    given: list[str] = []

    def one(plan: Any, folder: Path, cache: Path, *, budget: float) -> bool:
        if plan.weights is not None:
            raise FptError(f"{plan.weights} is not here.")
        given.append(plan.key)
        return True

    monkeypatch.setattr(lessons, "adapt", one)
    absent = [it.plan.weights for it in wanted if it.plan.weights is not None]
    with pytest.raises(FptError, match=f"{absent[0]} is not here"):
        lessons.teach(section.profile, wanted)
    assert given == [it.plan.key for it in wanted if it.plan.weights is None]
    assert given


def test_the_index_has_what_was_taught_before_a_lesson_failed(
    section: Section, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = section.folder / "index" / f"{section.name}.json"

    def fail(profile: Any, wanted: list[Lesson], budget: float) -> int:
        fill(section, lambda it: level(it) if it.arm == "random" else None)
        raise FptError("a body is not here.")

    monkeypatch.setattr(lessons, "teach", fail)
    monkeypatch.setattr(commands, "sections_of", lambda profile: [section])
    section.write_index()
    before = json.loads(path.read_text())
    assert main(["teach", "--profile", "lab"]) == 2
    assert json.loads(path.read_text()) != before


def test_teaching_goes_on_where_it_was_and_only_what_is_missing(
    section: Section, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = planned(section.profile, section.name)
    monkeypatch.setattr(lessons, "CACHE", tmp_path / "cache")
    given: list[str] = []

    def one(plan: Any, folder: Path, cache: Path, *, budget: float) -> bool:
        if len(given) == 2:
            return False  # the budget is over
        given.append(plan.key)
        mine = [it for it in wanted if it.plan == plan]
        fill(section, lambda it: level(it) if it in mine else None)
        return True

    monkeypatch.setattr(lessons, "adapt", one)
    assert lessons.teach(section.profile, wanted, budget=60) == 2
    assert given == [it.plan.key for it in wanted[:2]]
    given.clear()
    assert lessons.teach(section.profile, wanted, budget=60) == 2
    assert given == [it.plan.key for it in wanted[2:4]]
    assert lessons.teach(section.profile, wanted, budget=0) == 0
    with lessons.lock(tmp_path / "cache" / "locks" / "lab" / wanted[4].plan.key, wait=False):
        given.clear()
        lessons.teach(section.profile, wanted, budget=60)
        assert given == [it.plan.key for it in wanted[5:7]]  # another process has the fifth
