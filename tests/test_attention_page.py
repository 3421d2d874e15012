"""The page of attention maps in a browser, at the width of a desk and of a telephone."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from refusals import check_said, refusal

from fpt.analysis.attention import maps, mass, needed
from fpt.analysis.study import section
from fpt.report.figures import attention_page
from fpt.sections.arms import ARMS
from fpt.training.kept import trained_model

PROJECT = Path(__file__).parent / "project"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of the committed runs of `smoke`."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("checkout")
        shutil.copytree(PROJECT, root, dirs_exist_ok=True)
        patch.setenv("FPT_ROOT", str(root))
        patch.setitem(ARMS, "fpt", replace(ARMS["fpt"], label="</script>"))
        yield attention_page.write("smoke")


# What a reader does, in the page itself, and what they see.
READER = """<script>(() => {
  const map = canvases[1], cell = () => document.getElementById("cell").textContent;
  const point = (query, key) => {
    const box = map.getBoundingClientRect(), size = box.width / length;
    const place = {clientX: box.x + (key + 0.5) * size, clientY: box.y + (query + 0.5) * size};
    map.dispatchEvent(new PointerEvent("pointermove", place));
    return cell();
  };
  const press = key => {
    map.dispatchEvent(new KeyboardEvent("keydown", {key}));
    return cell();
  };
  const choose = (name, index) => {
    pick[name].selectedIndex = index;
    pick[name].dispatchEvent(new Event("change"));
  };
  const seen = {
    fits: document.documentElement.scrollWidth <= innerWidth,
    opened: [pick.layer.selectedIndex, pick.head.selectedIndex],
    rows: document.querySelector(".rows").textContent,
  };
  ["task", "example", "layer", "head"].forEach(choose);
  seen.pointed = point(7, 2);
  seen.below = press("ArrowDown");
  seen.later = point(2, 7);
  choose("task", 1);
  seen.emptied = cell();
  parent.postMessage(JSON.stringify(seen), "*");
})()</script>"""
# Chromium has no window as narrow as a telephone, but a frame.
FRAME = """<iframe src="read.html" width="{width}" height="1000"></iframe><pre></pre>
<script>onmessage = event => document.querySelector("pre").textContent = event.data</script>"""


@pytest.fixture(params=[1280, 420])
def reader(page, tmp_path, request):
    """What a reader sees in a browser of this width."""
    if BROWSER is None:
        pytest.skip("needs Chromium or Chrome")
    (tmp_path / "read.html").write_text(page.read_text() + READER)
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(width=request.param))
    options = "--headless --no-sandbox --disable-gpu --dump-dom --virtual-time-budget=5000"
    command = [BROWSER, *options.split(), f"--user-data-dir={tmp_path}", frame.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(html.unescape(re.search("<pre>(.*?)</pre>", dom)[1]))


def test_pointer_keys_and_choices_read_the_weights_of_the_model(reader):
    study = section("attention", "smoke")
    run = next(run for run in study.runs if run.task == "bit-xor")
    model = trained_model(study.records()[run.key], study.store)
    batch = next(model.task.eval_batches("test", 6, "cpu", 6))
    layers = maps(model, batch)
    masses = torch.stack([mass(layer, needed(model.task, batch)) for layer in layers])
    assert reader["fits"]
    assert reader["opened"] == list(divmod(int(masses.argmax()), masses.shape[1]))
    assert reader["rows"] == "".join(str(int(bit)) for bit in batch.inputs[0, 0, :, 0])
    percent = re.search(r"and (.*)% after it from token 3", reader["pointed"])[1]
    expected = 100 * layers[2][1, 3, 7, 2].item()
    assert float(percent) == pytest.approx(expected, abs=0.3)  # a byte for each weight
    assert reader["below"].startswith("Token 9 (")
    assert reader["later"] == "Token 3 cannot see token 8, which comes later."
    assert reader["emptied"] == ""


def test_the_page_fetches_nothing_and_no_name_ends_its_script(page):
    text = page.read_text()
    assert not re.search(r"https?:|src=|@import", text)
    assert text.count("<script") == text.count("</script>")


def test_without_trained_models_there_is_no_page(planned):
    check_said(refusal(lambda: attention_page.write("smoke")), ["no trained model", "fpt run"])
    check_said(refusal(lambda: attention_page.write("language")), ["choose another profile"])
