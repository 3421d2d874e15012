"""Write requirements.lock: `make lock`, which needs the program `uv` and a network.

The lock has every package of the environment at one version, with the SHA-256 of each of its files
in the Python Package Index, so an installation takes the very files that were locked or none.
Versions stay as they are, unless pyproject.toml no longer allows them.

torch has builds outside that index. The digests in CPU_BUILDS let pip take one of these, which is
smaller by some gigabytes, if pip is configured to find it.
"""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
EXTRAS = ("setup", "pipeline", "test")
OLDEST_PYTHON = "3.11.5"
# The conditions that all packages have, since `environments` in pyproject.toml excludes the others.
ALWAYS = (
    r"python_full_version < '3\.15'( and \(sys_platform == 'darwin' or sys_platform == 'linux'\))?"
)
# The version of torch is the one in the lock; tests/test_lock.py compares.
CPU_BUILDS = {
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl": (
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
    ),
}
HEADER = "# Written by `make lock` from pyproject.toml; `make setup` installs it.\n"


def compile_lock() -> str:
    """The lock as uv writes it; the versions in the present one are preferred."""
    command = [
        "uv",
        "pip",
        "compile",
        "pyproject.toml",
        "--universal",
        f"--python-version={OLDEST_PYTHON}",
    ]
    command += [f"--extra={extra}" for extra in EXTRAS]
    command += ["--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate"]
    subprocess.run([*command, "--quiet", f"--output-file={LOCK}"], cwd=ROOT, check=True)
    return LOCK.read_text()


def finished(text: str) -> str:
    """The text of uv with the CPU builds of torch, and without conditions that always hold."""
    text = re.sub(rf" ; {ALWAYS}(?= \\$)", "", text, flags=re.MULTILINE)
    text = re.sub(rf"(?<= ; ){ALWAYS} and ", "", text)
    cpu = "".join(f"    --hash=sha256:{digest} \\\n" for digest in CPU_BUILDS.values())
    text = text.replace(cpu, "")  # uv keeps what the present lock has
    return HEADER + re.sub(r"^torch==.*\n", lambda line: line[0] + cpu, text, flags=re.MULTILINE)


if __name__ == "__main__":
    LOCK.write_text(finished(compile_lock()))
