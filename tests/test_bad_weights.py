"""Bad weights, and files under names that lead elsewhere: refused in one sentence, never opened.

Missing, damaged and foreign weights, and pickles, are in test_weights.py.
"""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from refusals import check_said, refusal
from safetensors.torch import load_file, save_file
from tiny import WEIGHTS
from torch import Tensor

from fpt.backbones import backbone, build
from fpt.backbones.initialisations import INITS, body_state
from fpt.backbones.weights import find
from fpt.pretraining.ensure import ensure_weights, plan_of

BIAS = "transformer.h.1.mlp.c_fc.bias"
TABLE = "transformer.wpe.weight"


def start(weights: str | None = WEIGHTS, name: str = "tiny", init: str = "pretrained") -> object:
    spec = backbone(name)
    return body_state(spec, build(spec), init, weights, 0)


def file_of(folder: Path) -> Path:
    return folder / "backbones" / WEIGHTS / "model.safetensors"


CHANGES: dict[str, tuple[str, Callable[[Tensor], Tensor], str]] = {
    "NaN": (BIAS, lambda t: t * float("nan"), "of finite floating-point numbers"),
    "infinity": (TABLE, lambda t: t / 0, "positions should be"),
    "whole numbers": (BIAS, lambda t: t.long(), "it holds (64,) of torch."),
    "yes and no": (BIAS, lambda t: t > 0, "it holds (64,) of torch."),
    "one more axis": (
        BIAS,
        lambda t: t[None],
        "c_fc.bias should be (64,) of finite floating-point numbers, it holds (1, 64)",
    ),
    "nothing inside": (BIAS, lambda t: t[:0], "it holds (0,)"),
    "fewer positions": (TABLE, lambda t: t[:32], "it holds (32, 16)"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_tensor_that_does_not_fit(what: str, tiny: Path) -> None:
    name, change, expected = CHANGES[what]
    stored = load_file(file_of(tiny))
    save_file({**stored, name: change(stored[name]).contiguous()}, file_of(tiny))
    check_said(refusal(start), [f"{file_of(tiny)} does not fit backbone 'tiny'", expected])


def test_a_file_that_may_not_be_read(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)
    said = ["Cannot read", str(file_of(tiny)), "Permission denied", "right to read"]
    monkeypatch.setattr("fpt.backbones.weights.stated_digest", lambda path: "a")
    check_said(refusal(start), said)


@pytest.mark.parametrize("init", [init for init in INITS if not init.startswith("random-s")])
def test_every_start_that_reads_weights_says_so(init: str, tiny: Path) -> None:
    stored = load_file(file_of(tiny))
    save_file({**stored, BIAS: stored[BIAS] * float("nan")}, file_of(tiny))
    if init == "random":
        start(init=init)
    else:
        check_said(refusal(lambda: start(init=init)), ["does not fit backbone 'tiny'"])


def test_sixteen_and_sixtyfour_bits_do(tiny: Path) -> None:
    stored = load_file(file_of(tiny))
    for kind in (torch.float16, torch.float64):
        save_file({name: tensor.to(kind) for name, tensor in stored.items()}, file_of(tiny))
        start()


@pytest.mark.parametrize("name", ["bert-pico", "longformer-pico", "t5-encoder-pico", "vit-pico"])
def test_weights_of_another_architecture(name: str, tiny: Path) -> None:
    check_said(refusal(lambda: start(name=name)), [f"does not fit backbone {name!r}", "nothing"])


NAMES = ["../outside", "a/../../outside", "..", ".", "", "./tiny-weights", ".hidden", "~", "a\0b"]


@pytest.mark.parametrize("name", [*NAMES, "a\nb", "x" * 300, "{folder}/outside"])
def test_a_name_that_leads_elsewhere(name: str, tiny: Path) -> None:
    """Right weights lie there; they are not taken."""
    name = name.format(folder=tiny)
    shutil.copytree(file_of(tiny).parent, tiny / "outside")
    shutil.copytree(file_of(tiny).parent, tiny / "backbones/.hidden")
    shutil.copy(file_of(tiny), tiny / "backbones/model.safetensors")
    check_said(refusal(lambda: start(name)), [repr(name), "a path is not taken", str(tiny)])
    for action in (plan_of, lambda identity: ensure_weights([identity], train_here=True)):
        check_said(refusal(lambda action=action: action(name)), [repr(name)])


HUB = ["hub:../../outside@main", "hub:gpt2@../main", "hub:a//b@main", "hub:@main", "hub:gpt2@"]


@pytest.mark.parametrize("name", [*HUB, "hub:gpt2@a b", "hub:.x/gpt2@main"])
def test_a_name_that_is_not_the_hubs(
    name: str, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, **__: pytest.fail("asked"))
    check_said(refusal(lambda: start(name)), [repr(name), "hub:OWNER/REPO@REVISION"])


@pytest.mark.parametrize(
    "error", [ConnectionError("no route"), ValueError("gone"), OSError(28, "full"), TimeoutError()]
)
def test_a_hub_that_fails(error: Exception, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    parts = [
        "model.safetensors of openai-community/gpt2 (revision 1234)",
        "HF_HUB_OFFLINE",
        "HF_HUB_CACHE",
    ]
    check_said(refusal(lambda: start("hub:openai-community/gpt2@1234")), parts)


@pytest.mark.parametrize("what", ["nothing", "itself", "a text", "a folder"])
def test_a_link_or_a_folder_in_place_of_the_file(what: str, tiny: Path) -> None:
    path = file_of(tiny)
    path.unlink()
    if what == "a folder":
        path.mkdir()
    else:
        (tiny / "a text").write_text("secret")
        path.symlink_to(path if what == "itself" else tiny / what)
    said = refusal(start)
    expected = "is damaged" if what == "a text" else "are in none of"
    check_said(said, [expected])
    assert "secret" not in said


@pytest.mark.parametrize("suffix", ["pt", "pth", "bin", "ckpt", "pkl", "npz", "tar.gz", "zip"])
def test_no_other_format_is_looked_for(suffix: str, tiny: Path) -> None:
    path = file_of(tiny)
    path.rename(path.with_name(f"model.{suffix}"))
    check_said(refusal(start), [f"'{WEIGHTS}'", "are in none of"])


@pytest.mark.parametrize("text", ["{", "[]", None])
def test_sizes_come_from_the_table_not_from_a_file(text: str | None, tiny: Path) -> None:
    path = file_of(tiny).with_name("config.json")
    path.unlink()
    if text is not None:
        path.write_text(text)
    start()


@pytest.mark.parametrize(("text", "said"), [("{", "is not valid JSON"), ("[]", "holds no values")])
def test_damaged_notes_beside_the_weights(text: str, said: str, tiny: Path) -> None:
    file_of(tiny).with_name("pretraining.json").write_text(text)
    check_said(refusal(start), ["pretraining.json", said])


def test_a_known_file_is_found(tiny: Path) -> None:
    assert find(WEIGHTS) == file_of(tiny)
