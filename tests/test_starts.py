"""What a start keeps of a pretrained body, as a table and a figure."""

from pathlib import Path

import profiled
import pytest
from made import make_section
from tiny import WEIGHTS

from fpt.report import outputs, starts
from fpt.report.table import label
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section

ARMS = COMPARISONS["initialization"].arms


@pytest.fixture
def section(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    return make_section(tiny, monkeypatch, "initialization", ARMS, ("tiny", WEIGHTS))


def test_what_a_start_keeps(section: Section) -> None:
    shown = starts.starts_table(section).shown
    kept = {
        arm: tuple(word == "kept" for word in shown.loc[label(arm)].tolist()[1:]) for arm in ARMS
    }
    nothing = (False, False, False, False, False)
    # Its values, its singular values, the matrix, norms, positions.
    assert kept.pop("fpt") == (True, True, True, True, True)
    assert kept.pop("shuffled") == (True, False, False, False, False)
    assert kept.pop("permuted-rows") == (True, True, False, True, True)
    assert kept.pop("pretrained-body") == (True, True, True, False, False)
    assert kept.pop("pretrained-layernorm") == (False, False, False, True, False)
    assert kept.pop("pretrained-positions") == (False, False, False, False, True)
    assert kept.pop("random-body") == (False, False, False, True, True)
    assert kept.pop("random-layernorm") == (True, True, True, False, True)
    assert kept.pop("random-positions") == (True, True, True, True, False)
    assert set(kept.values()) == {nothing}


def test_the_figure_has_the_stds_of_the_bodies(section: Section) -> None:
    table = starts.weight_stds_table(section)
    state = starts.start(section, "fpt")
    mine = table[(table["arm"] == "fpt") & (table["layer"] == 1)].set_index("tensor")
    for tensor, std in mine["std"].items():
        assert std == pytest.approx(state[f"gpt2.h.1.{tensor}.weight"].std(correction=0).item())
    assert set(table["arm"]) == set(starts.DRAWN)
    assert outputs.save_figure(section, "f", starts.weight_stds_figure(section)).png


def test_a_body_whose_weights_are_not_here_is_said(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, rendering: None
) -> None:
    absent = make_section(tmp_path, monkeypatch, "initialization", ARMS, ("tiny", "not-here"))
    assert set(starts.weight_stds_table(absent)["arm"]) == {"random", "random-scaled"}
    said = profiled.lines(starts.weight_stds_figure(absent))
    assert f"{label('fpt')}: weights not here" in said
    assert f"{label('random')}: weights not here" not in said
