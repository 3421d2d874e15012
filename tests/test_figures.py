"""Figures, on no, some and all of a section's records; what they say is read from the SVG."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import profiled
import pytest
from made import fill, make_record, make_section, spread
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from fpt import config
from fpt.report import figures, outputs, pictures
from fpt.report.style import LOOKS, styled
from fpt.sections.arms import ARMS
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section
from fpt.tasks import get_task

DRAW: list[Callable[[Section], Figure]] = [
    figures.transfer_bars,
    figures.effects,
    figures.learning_curves,
]


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rendering: None) -> Section:
    return make_section(tmp_path, monkeypatch)


def texts(section: Section, figure: Figure, name: str = "figure") -> list[str]:
    """Every text of the figure; checks that its file is there and whole."""
    picture = outputs.save_figure(section, name, figure)
    folder = section.folder / "figures" / section.name
    assert picture._repr_png_() == (folder / f"{name}.png").read_bytes()
    assert picture.png.startswith(b"\x89PNG")
    return profiled.lines(figure)


def test_every_arm_has_a_look_of_its_own_in_its_section() -> None:
    assert set(LOOKS) == set(ARMS)
    for name, blocks in config.load("paper").sections.items():
        arms = {arm for block in blocks for arm in block["arms"]}
        looks = {(LOOKS[arm].colour, LOOKS[arm].marker, LOOKS[arm].hollow) for arm in arms}
        assert len(looks) == len(arms), name
    bars = COMPARISONS["transfer"].arms
    for trait in ("colour", "marker", "hatch", "line"):
        assert len({getattr(LOOKS[arm], trait) for arm in bars}) == len(bars)


@pytest.mark.parametrize("name", COMPARISONS)
def test_arms_that_are_compared_can_be_told_apart(name: str) -> None:
    looks = [LOOKS[arm] for arm in COMPARISONS[name].arms]
    for trait in ("colour", "marker"):
        assert len({(getattr(look, trait), look.hollow) for look in looks}) == len(looks)


@pytest.mark.parametrize("draw", DRAW)
def test_without_records_everything_is_not_run(section: Section, draw) -> None:
    said = texts(section, draw(section))
    assert "bit-xor" in said
    assert "digits" in said
    # 3 tasks of 4 arms; 3 tasks of 3 effects; 3 panels and 4 arms in the legend.
    least = {"transfer_bars": 12, "effects": 9, "learning_curves": 3}[draw.__name__]
    assert sum("not run" in text for text in said) >= least


@pytest.mark.parametrize("draw", DRAW)
def test_with_all_records_nothing_is_missing(section: Section, draw) -> None:
    fill(section, spread)
    said = texts(section, draw(section))
    assert not any("not run" in text for text in said)
    assert any(ARMS["random"].label in text for text in said)


def test_what_is_missing_is_said_in_its_place(section: Section) -> None:
    fill(section, lambda run: None if (run.arm, run.task) == ("full", "mnist") else spread(run))
    said = texts(section, figures.transfer_bars(section))
    assert sum(text == "not run" for text in said) == 1
    assert any("6 of 9 runs" in text for text in said)
    said = texts(section, figures.effects(section))
    assert sum("not run" in text for text in said) == 1


def test_a_panel_without_any_of_the_arms_drawn_is_not_run(section: Section) -> None:
    fill(section, lambda run: None if (run.arm, run.task) == ("random", "mnist") else spread(run))
    assert "not run" in texts(section, figures.learning_curves(section, ["random"]))
    assert "not run" not in texts(section, figures.learning_curves(section, ["random", "fpt"]))


def test_a_diverged_cell_is_called_so(section: Section) -> None:
    fill(section, spread)
    for run in section.runs:
        if (run.arm, run.task) == ("lstm", "digits"):
            section.store.write(make_record(run, 0.1, "diverged"))
    said = texts(section, figures.transfer_bars(section))
    assert "diverged" in said
    assert any("6 of 9 runs, 3 diverged" in text for text in said)
    texts(section, figures.learning_curves(section))


@pytest.mark.parametrize("draw", DRAW)
def test_equal_records_give_equal_files(section: Section, draw) -> None:
    fill(section, spread)
    folder = section.folder / "figures" / section.name
    made = []
    for _ in range(2):
        outputs.save_figure(section, "figure", draw(section))
        made.append((folder / "figure.png").read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("draw", DRAW)
def test_no_text_lies_on_another(section: Section, draw) -> None:
    fill(section, lambda run: spread(run) if run.task != "mnist" else None)
    figure = draw(section)
    with styled():
        FigureCanvasAgg(figure).draw()
    boxes = [
        text.get_window_extent().shrunk(0.9, 0.8)
        for text in dict.fromkeys(figure.findobj(Text))
        if text.get_text().strip() and text.get_visible()
    ]
    clashes = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    assert not clashes


def test_samples_show_an_example_or_say_what_is_needed(
    section: Section, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fpt.tasks.base.prepared_path", lambda dataset: tmp_path / "not there")
    names = {"bit-xor": {}, "digits": {}, "mnist": {}, "bit-memory": {"n": 100}}
    shown = {name: get_task(name, **options) for name, options in names.items()}
    assert [name for name, task in shown.items() if figures.not_here(task)] == ["mnist"]
    said = texts(section, figures.task_samples(shown))
    assert any("fpt data mnist" in text for text in said)
    assert sum(text.startswith("answer:") for text in said) == 3
    assert any("64 tokens of 16 numbers" in text for text in said)


def test_what_is_clear_in_a_picture_becomes_white() -> None:
    clear = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    clear.putpixel((1, 0), (0, 0, 255, 255))
    packed = Image.open(io.BytesIO(pictures.packed(clear))).convert("RGB")
    assert [packed.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (0, 0, 255)]


def test_an_arm_keeps_its_colour_in_a_picture_of_many() -> None:
    """Of few pixels among the many shades of a photograph, too."""
    own = list(pictures.OWN)
    assert (255, 255, 255) in own
    many = Image.frombytes("RGB", (256, 256), np.random.default_rng(0).bytes(3 * 256**2))
    many.paste((253, 253, 253), (0, 128, 256, 256))  # much of what is nearly white
    for place, colour in enumerate(own):
        many.putpixel((place, 0), colour)
    packed = Image.open(io.BytesIO(pictures.packed(many)))
    assert len(packed.getcolors() or ()) <= pictures.COLOURS
    shown = packed.convert("RGB")
    assert [shown.getpixel((place, 0)) for place in range(len(own))] == own
    away = np.abs(np.asarray(shown, int) - np.asarray(many, int)).mean()
    assert away < 64  # of 255; the others are near what they were
