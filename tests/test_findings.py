"""The findings of registered claims, from records to the README's block."""

from dataclasses import replace
from pathlib import Path

import pytest
from made import make_record

from fpt.analysis.registered import Claim
from fpt.records import Store, store
from fpt.report import findings, index

CLAIM = Claim("it", "A beats B.", "us", "solved", {"random": 3, "full": 3}, ("bit-xor",))


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("fpt.records.REPORTS", tmp_path)
    return store("lab")


def test_the_readme_block_is_replaced_and_nothing_else() -> None:
    text = f"before\n{findings.BEGIN}\nold\n{findings.END}\nafter\n"
    assert findings.in_readme(text, "new \\1\n") == text.replace("old", "new \\1")


def test_claims_without_runs_are_counted_and_not_judged(records: Store) -> None:
    found = findings.findings([CLAIM])
    assert [it.label for it in found] == ["undecided"]
    text = findings.in_words(found, 0, 6)
    assert "Of the 6 runs that they need, 0 are done; 0 claims have all of theirs." in text
    assert "A beats B" not in text


def test_a_claim_with_all_its_runs_is_judged(records: Store) -> None:
    runs = findings.runs_of([CLAIM])
    assert len(runs) == 6
    for run in runs:
        made = make_record(run, 1.0 if run.arm == "random" else 0.5)
        last = made.curve[-1] | {"step": 130}  # two evaluations at the threshold
        records.write(replace(made, curve=[*made.curve, last]))
    frame = findings.results([CLAIM])
    assert list(frame["arm"]) == ["random"] * 3 + ["full"] * 3
    assert list(frame["censored"]) == [False] * 3 + [True] * 3
    assert set(frame["test_accuracy"]) == {1.0, 0.5}
    text = findings.in_words(findings.findings([CLAIM]), 6, 6)
    assert "- **Supported**: A beats B. (+100.0 points [" in text
    assert "n = 3 and 3, adjusted p = 0.0" in text


def test_what_corpora_taught_comes_from_their_pretraining_metadata(
    records: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Claim("it", "A.", "us", "predicts", {"fpt-bigram": 2, "random": 1}, ("bit-xor",))
    losses = {run.spec.weights: 5.0 + index for index, run in enumerate(findings.runs_of([claim]))}
    monkeypatch.setattr(
        "fpt.pretraining.metadata.read",
        lambda folder, name: {
            "weight_scale": 1.0, "unigram_entropy": 7.0, "valid_loss": losses[name]
        },
    )  # fmt: skip
    for run in findings.runs_of([claim]):
        records.write(make_record(run, 1.0))
    found = findings.corpora(findings.results([claim]))
    assert found.to_dict("index") == {"fpt-bigram": {"learned": 1.5, "scale": 0.0}}


def test_the_index_of_the_lab_says_the_same_as_the_readme(records: Store) -> None:
    text = "\n".join(index.paragraphs("lab"))
    assert findings.block("../../").strip() in text
    assert "(../../docs/plan.md)" in text
    assert "## Claims" not in text
