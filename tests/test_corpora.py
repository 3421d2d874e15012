"""What bodies learned from their corpora, beside how they transfer; on made-up records."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import made
import pytest
from made import fill, make_record, make_section

from fpt.analysis import provenance as origins
from fpt.config import Run
from fpt.report import corpora, tables
from fpt.report.style import LOOKS
from fpt.report.table import label
from fpt.sections import claims
from fpt.sections.arms import AMOUNTS, ARMS, CORPORA, ENGLISH
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section

NAMES = {
    "english-last": "english@5M-last",
    "english-1M": "english@1M",
    "english-21M": "english",
    "dyck": "dyck-64",
}
SEVERAL = ("english", "nesting", "dyck")  # of which there is a body per seed
ROLES = {
    role: f"nano-{NAMES.get(role, f'{role}@5M')}-{'{seed}' if role in SEVERAL else 0}"
    for role in CORPORA | ENGLISH
}
TASKS: dict[str, dict[str, object]] = {"bit-xor": {}, "mnist": {}}
LEVELS = {"fpt-english": 0.8, "fpt-dyck": 0.95, "random": 0.6, "fpt-unigram": 0.6}


def accuracy(run: Run) -> float:
    default = 0.62 if run.arm.startswith("statistics") else 0.7
    return LEVELS.get(run.arm, default) + 0.001 * run.spec.seed


def said(_: Section, weights: str | None) -> dict[str, Any]:
    """What lies beside made-up weights; Kannada is not here."""
    if weights is None or "kannada" in weights:
        return {}
    synthetic = {"entropy": 3.9, "entropy_exact": "nesting" not in weights, "below_entropy": False}
    return {
        "tokens": 5_000_000,
        "positions_seen": 1024,
        "unigram_entropy": 6.5,
        "valid_loss": 4.5,
        **({"bits_per_byte": 2.0} if "english" in weights else synthetic),
    }


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    """Every arm of the section, with records."""
    monkeypatch.setattr(made, "weights", lambda _: made_weights())
    monkeypatch.setattr(corpora, "pretraining", said)
    arms = dict.fromkeys(
        arm
        for name in ("corpora", "corpora_statistics", "english_variants")
        for arm in COMPARISONS[name].arms
    )
    built = make_section(tmp_path, monkeypatch, "synthetic_pretraining", list(arms), tasks=TASKS)
    fill(built, accuracy)
    return built


def made_weights() -> dict[str, str]:
    return {arm.weights: "nano-english-0" for arm in ARMS.values()} | ROLES


def test_every_corpus_has_an_arm_a_control_and_a_look() -> None:
    for corpus in CORPORA:
        assert ARMS[f"fpt-{corpus}"].weights == ARMS[f"statistics-{corpus}"].weights == corpus
    looks = [(LOOKS[f"fpt-{corpus}"].colour, LOOKS[f"fpt-{corpus}"].marker) for corpus in CORPORA]
    assert len(set(looks)) == len(looks)
    assert set(AMOUNTS) <= {f"fpt-{corpus}" for corpus in CORPORA | ENGLISH}


def test_seeds_differ_in_their_body_where_the_name_says_so(section: Section) -> None:
    found = corpora.bodies(section)
    assert found["fpt-english"] == [f"nano-english@5M-{seed}" for seed in (0, 1, 2)]
    assert found["fpt-unigram"] == ["nano-unigram@5M-0"]
    assert "random" not in found
    assert not any(arm.startswith("statistics") for arm in found)


def test_the_table_puts_the_loss_between_two_entropies(section: Section) -> None:
    table = corpora.corpora_table(section)
    assert table.name not in COMPARISONS  # whose tables lie in the same folder
    assert list(table.shown.index) == [label(f"fpt-{corpus}") for corpus in CORPORA | ENGLISH]
    row = table.shown.loc[label("fpt-nesting")]
    assert (row["one token"], row["held out"], row["generator"]) == ("6.500", "4.500", "≥ 3.900")
    assert row["learned"] == "76.9%"  # 2.0 of 2.6 nats
    assert table.shown.loc[label("fpt-unigram"), "generator"] == "3.900"
    assert table.shown.loc[label("fpt-english"), "bits per byte"] == "2.000"
    assert table.shown.loc[label("fpt-kannada"), "tokens"] == "5 M planned"
    assert "Of 1 further bodies there is neither a record nor a file here." in table.notes
    assert any("none, of " in note for note in table.notes)


def test_a_loss_below_the_entropy_is_said(
    section: Section, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(section: Section, weights: str | None) -> dict[str, Any]:
        return said(section, weights) | (
            {"below_entropy": True} if "uniform" in str(weights) else {}
        )

    monkeypatch.setattr(corpora, "pretraining", wrong)
    notes = corpora.corpora_table(section).notes
    assert any("nano-uniform@5M-0, which is an error" in note for note in notes)


def test_figures_have_a_panel_per_task(section: Section) -> None:
    figure = corpora.transfer_figure(section)
    assert [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()] == list(TASKS)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"not run or not here: 1 of {len(CORPORA)}"]
    tokens = corpora.tokens_figure(section)
    assert tokens is not None
    assert [axes.get_title(loc="left") for axes in tokens.axes] == list(TASKS)
    assert [arm for _, arm in corpora.tokens_seen(section)] == list(AMOUNTS)


def test_one_body_of_english_is_no_trend(section: Section) -> None:
    alone = [run for run in section.runs if run.task != "mnist" or run.arm not in AMOUNTS[1:]]
    figure = corpora.tokens_figure(replace(section, runs=tuple(alone)))
    assert figure is not None
    assert "mnist" in TASKS
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [task for task in TASKS if task != "mnist"]


def test_no_figure_where_no_task_has_two_bodies_of_english(section: Section) -> None:
    own = dict(zip(TASKS, AMOUNTS, strict=False))  # several sizes, each on a task of its own
    apart = [r for r in section.runs if r.arm not in AMOUNTS or own.get(r.task) == r.arm]
    assert len({run.arm for run in apart} & set(AMOUNTS)) > 1
    assert corpora.tokens_figure(replace(section, runs=tuple(apart))) is None


def test_a_panel_counts_the_bodies_that_its_task_has(section: Section) -> None:
    two = ("fpt-kannada", "fpt-dyck")
    runs = [run for run in section.runs if run.task != "mnist" or run.arm in two]
    figure = corpora.transfer_figure(replace(section, runs=tuple(runs)))
    texts = [text.get_text() for text in figure.axes[1].texts]
    assert texts == ["not run or not here: 1 of 2"]


def test_a_task_of_which_nothing_ran_is_named_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: Section
) -> None:
    arms = list(dict.fromkeys(run.arm for run in section.runs))
    more = make_section(
        tmp_path, monkeypatch, "synthetic_pretraining", arms, tasks=TASKS | {"digits": {}}
    )
    fill(more, lambda run: accuracy(run) if run.task != "digits" else None)
    figure = corpora.transfer_figure(more)
    assert [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()] == list(TASKS)
    assert figure.get_supxlabel().endswith("nats (not run: digits)")
    for run in more.runs:  # what diverged did run
        if run.task == "digits":
            more.store.write(replace(make_record(run, 0.5), status="diverged"))
    assert corpora.transfer_figure(more).get_supxlabel().endswith("nats")


def test_a_body_that_did_not_learn_its_corpus_is_compared_with_none(
    section: Section, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless its corpus leaves nothing to learn beyond frequencies."""

    def loss(section: Section, weights: str | None) -> dict[str, Any]:
        at = {"nano-flat-128@5M-0": 6.52, "nano-uniform@5M-0": 6.52}.get(str(weights), 4.5)
        found = said(section, weights)
        little = {"entropy": 6.45} if "uniform" in str(weights) else {}
        return found and found | {"valid_loss": at} | little

    monkeypatch.setattr(origins, "pretraining", loss)
    assert origins.unlearned(section) == {"fpt-flat-128", "statistics-flat-128"}
    table = tables.differences_table(section, COMPARISONS["corpora"])
    rows = [str(row) for row in table.shown.index]
    name = label("fpt-flat-128")
    assert not any(row.startswith(name) for row in rows)
    assert any(row.startswith(label("fpt-uniform")) for row in rows)
    assert any(note.startswith("Not compared") and name in note for note in table.notes)
    found = {(it.claim.id, it.task): it for it in claims.section_findings(section)}
    barred = found["flat-128-over-unigram", "mnist"]
    assert barred.measured.barred == "a body did not learn its corpus"
    assert barred.measured.effect is None
    assert barred.verdict.label == "inconclusive"
    assert not found["nesting-over-unigram", "mnist"].measured.barred


def test_claims_are_judged_on_bodies(section: Section) -> None:
    for run in section.runs:  # arrives at steps that differ
        if (run.arm, run.task) == ("fpt-english", "bit-xor"):
            section.store.write(make_record(run, 0.8 + 0.08 * run.spec.seed))
    found = {(it.claim.id, it.task): it.verdict.label for it in claims.section_findings(section)}
    assert found["dyck-over-english", "mnist"] == "supported"
    assert ("english-over-dyck", "mnist") not in found  # one test for both directions
    assert found["unigram-like-random", "mnist"] == "supported"
    assert ("english-helps", "bit-xor") not in found  # every body solves it
    alone = {(it.claim.id, it.task): it.verdict.label for it in claims.unadjusted(section)}
    assert alone["english-sooner", "bit-xor"] == "supported"
    assert alone["dyck-sooner", "bit-xor"] == "inconclusive"  # steps without any spread
    assert found["nesting-over-unigram", "mnist"] == "supported"
    on_text = {"english-helps-text", "nesting-helps-text", "dyck-helps-text"}
    assert {claim for claim, _ in found} == {it.id for it in claims.CLAIMS[section.name]} - on_text
