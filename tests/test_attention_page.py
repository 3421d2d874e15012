"""The page of attention maps in a browser, at the width of a desk and of a telephone."""

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import websocket
from refusals import check_said, refusal

from fpt.analysis.attention import maps, mass, needed
from fpt.analysis.study import section
from fpt.errors import FptError
from fpt.report import attention_page
from fpt.training.kept import trained_model

PROJECT = Path(__file__).parent / "project"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
Send = Callable[..., Any]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of the committed runs of `smoke`."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("checkout")
        shutil.copytree(PROJECT, root, dirs_exist_ok=True)
        patch.setenv("FPT_ROOT", str(root))
        yield attention_page.write("smoke")


@pytest.fixture(params=[1280, 420])
def send(page, tmp_path, request):
    """Sends commands of the DevTools protocol to a browser that shows the page."""
    if BROWSER is None:
        pytest.skip("needs Chromium or Chrome")
    options = "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"
    command = [BROWSER, *options, f"--user-data-dir={tmp_path}", page.as_uri()]
    browser = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = next(line for line in browser.stderr if "DevTools" in line)
    port = re.search(r":(\d+)/", line)[1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
        (tab,) = (target for target in json.load(answer) if target["type"] == "page")
    socket = websocket.create_connection(tab["webSocketDebuggerUrl"], suppress_origin=True)

    def send(method, **parameters):
        socket.send(json.dumps({"id": 1, "method": method, "params": parameters}))
        reply = json.loads(socket.recv())
        while reply.get("id") != 1:
            reply = json.loads(socket.recv())
        return reply["result"]

    size = {"width": request.param, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    send("Emulation.setDeviceMetricsOverride", **size)
    yield send
    socket.close()
    browser.kill()
    browser.communicate()


def evaluate(send, code):
    answer = send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
    assert "exceptionDetails" not in answer, answer
    return answer["result"].get("value")


def shown(send):
    """What the page says of the cell that is pointed at."""
    return str(evaluate(send, "document.getElementById('cell').textContent"))


def point(send, query, key, length, event="mouseMoved"):
    """Move the pointer to a cell of the map after training."""
    box = evaluate(send, "after.scrollIntoView(), after.getBoundingClientRect().toJSON()")
    cell = box["width"] / length
    place = {"x": box["x"] + (key + 0.5) * cell, "y": box["y"] + (query + 0.5) * cell}
    send("Input.dispatchMouseEvent", type=event, **place, button="left", clickCount=1)


def choose(send, name, index):
    code = f"{name}.selectedIndex = {index}, {name}.dispatchEvent(new Event('change'))"
    evaluate(send, f"(() => {{ const {name} = document.getElementById('{name}'); {code} }})()")


def test_pointer_keys_and_choices_read_the_weights_of_the_model(send):
    study = section("attention", "smoke")
    run = next(run for run in study.runs if run.task == "bit-xor")
    model = trained_model(study.records()[run.key], study.store)
    batch = next(model.task.eval_batches("test", 6, "cpu", 6))
    length = model.task.length
    evaluate(send, "document.readyState === 'complete' || new Promise(done => onload = done)")
    assert evaluate(send, "document.documentElement.scrollWidth <= innerWidth")
    masses = torch.stack([mass(layer, needed(model.task, batch)) for layer in maps(model, batch)])
    opened = evaluate(send, "[pick.layer.selectedIndex, pick.head.selectedIndex]")
    assert opened == list(divmod(int(masses.argmax()), masses.shape[1]))
    bits = "".join(str(int(bit)) for bit in batch.inputs[0, 0, :, 0])
    for side in ("rows", "columns"):
        assert evaluate(send, f"document.querySelector('.{side}').textContent") == bits
    for index, name in enumerate(("task", "example", "layer", "head")):
        choose(send, name, index)
    expected = 100 * maps(model, batch)[2][1, 3]
    point(send, 7, 2, length)
    percent = re.search(r"and (.*)% after it from token 3", shown(send))[1]
    assert float(percent) == pytest.approx(expected[7, 2].item(), abs=0.3)  # a byte for each weight
    point(send, 7, 2, length, "mousePressed")
    send("Input.dispatchKeyEvent", type="keyDown", key="ArrowDown", windowsVirtualKeyCode=40)
    assert shown(send).startswith("Token 9 (")
    point(send, 2, 7, length)
    assert shown(send) == "Token 3 cannot see token 8, which comes later."
    choose(send, "task", 1)
    assert shown(send) == ""
    assert evaluate(send, "run.tokens[0].length") != length


def test_the_page_fetches_nothing(page):
    assert not re.search(r"https?:|src=|@import", page.read_text())


def test_an_arm_without_its_backbone_is_named(page, monkeypatch):
    def trained(record, store):
        if record.spec.weights:
            raise FptError("The weights are missing.")
        return trained_model(record, store)

    monkeypatch.setenv("FPT_ROOT", str(page.parents[2]))
    assert "Not shown" not in page.read_text()
    complete = page.read_bytes()
    monkeypatch.setattr(attention_page, "trained_model", trained)
    attention_page.write("smoke")
    text = page.read_text()
    page.write_bytes(complete)  # other tests look at it
    assert "Not shown: FPT (frozen, language)." in text
    assert "Frozen random" in text


def test_without_trained_models_there_is_no_page(project):
    shutil.copy(PROJECT / "params.yaml", project.root)
    check_said(refusal(lambda: attention_page.write("smoke")), ["no trained model", "fpt run"])
