"""Make the pages in HTML of the committed reports: `make pages`, or `python -m lab.pages`.

Git has their Markdown. `dvc repro` makes the HTML of one profile; this makes that of all, from the
records that are there, and trains nothing.
"""

import subprocess
from pathlib import Path

from fpt.project import project
from fpt.report.index import index
from fpt.report.render import render


def committed() -> list[Path]:
    """The pages of notebooks in Markdown that Git has, from the root."""
    command = ["git", "ls-files", "reports/*/notebooks/*.md"]
    names = subprocess.check_output(command, cwd=project().root, text=True)
    return [Path(name) for name in names.splitlines()]


def main() -> None:
    profiles = []
    for page in committed():
        profile, section = page.parts[1], page.stem[3:]
        print(f"pages: {render(section, profile).relative_to(project().root)}", flush=True)
        profiles += [profile]
    # Front pages link to the pages of other reports too.
    for profile in sorted(set(profiles)):
        index(profile)


if __name__ == "__main__":
    main()
