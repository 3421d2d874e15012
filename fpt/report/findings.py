"""The findings of the lab in words: the same text on its front page and in the README.

`python -m fpt.report.findings` writes the README's block anew.
"""

import math
import re
from collections.abc import Sequence

from ..analysis.claims import LAB, Finding, claims, findings, runs_of
from ..analysis.summary import INTERVALS
from ..files import ROOT
from ..records import store

BEGIN = "<!-- findings: made by python -m fpt.report.findings -->"
END = "<!-- end of findings -->"


def block(root: str = "") -> str:
    """Markdown: how much of the plan is done, and each primary claim whose runs are all here.
    `root` leads from the page to the project's folder."""
    keys = set(runs_of(claims("primary")).keys)
    return in_words(findings("primary"), len(keys & store(LAB).keys()), len(keys), root)


def in_words(found: Sequence[Finding], done: int, planned: int, root: str = "") -> str:
    """The `block` of some findings, of whose `planned` runs so many are done."""
    judged = [it for it in found if not math.isnan(it.effect.estimate)]
    lines = [
        f"The profile `lab` has {len(found)} primary claims that were registered before any of "
        f"their runs ([docs/plan.md]({root}docs/plan.md)). Of the {planned} runs that they need, "
        f"{done} are done; {len(judged)} claims have all of theirs.",
        "",
    ]
    for it in judged:
        because = f": {it.reason}" if it.reason else ""
        lines.append(
            f"- **{it.label.capitalize()}**: {it.claim.statement} ({it.effect_text}, {it.n_text}, "
            f"adjusted p = {it.adjusted:.2g}{because})"
        )
    lines += ["", INTERVALS] if judged else []
    return "\n".join(lines).rstrip() + "\n"


def in_readme(text: str, made: str) -> str:
    """The README's text with its block replaced."""
    pattern = re.escape(BEGIN) + ".*?" + re.escape(END)
    return re.sub(pattern, lambda _: f"{BEGIN}\n{made}{END}", text, flags=re.DOTALL)


def main() -> None:
    path = ROOT / "README.md"
    path.write_text(in_readme(path.read_text(encoding="utf-8"), block()), encoding="utf-8")


if __name__ == "__main__":
    main()
