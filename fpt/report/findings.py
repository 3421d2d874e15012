"""The findings of the registered claims of `lab`, recomputed from its records.

`python -m fpt.report.findings` writes the README's block anew.
"""

import math
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from .. import config
from ..analysis.registered import Claim, Finding, claims, verdicts
from ..analysis.registration import registered_seeds
from ..analysis.steps import steps_frame
from ..config import Run
from ..files import ROOT
from ..pretraining import metadata
from ..records import store
from ..sections.arms import ARMS

PROFILE = "lab"
BEGIN = "<!-- findings: made by python -m fpt.report.findings -->"
END = "<!-- end of findings -->"


def runs_of(them: Sequence[Claim]) -> list[Run]:
    """The runs that some claims are judged on, each once."""
    profile = config.load(PROFILE)
    found: dict[tuple[str, str, int], Run] = {}
    for it in them:
        for arm, count in it.backbones.items():
            for task in it.tasks:
                for seed in registered_seeds(count):
                    spec = config.make_spec(profile, ARMS[arm], task, seed)
                    found[arm, task, seed] = Run(arm, task, spec)
    return list(found.values())


def results(them: Sequence[Claim]) -> pd.DataFrame:
    """One row per recorded run: the columns of `steps_frame`, test accuracy, and by how much the
    accuracy on training examples is above it."""
    runs, there = runs_of(them), store(PROFILE)
    records = there.read_all(run.key for run in runs)
    kept = [(run.arm, run.task, records[run.key]) for run in runs if run.key in records]
    metrics = [record.metrics for _, _, record in kept]
    return steps_frame(kept).assign(
        test_accuracy=[it["test_accuracy"] for it in metrics],
        gap=[it.get("train_accuracy", math.nan) - it["test_accuracy"] for it in metrics],
    )


def corpora(runs: pd.DataFrame) -> pd.DataFrame:
    """Per arm, over its backbones: the nats per token that they learned from context (entropy of
    single tokens minus held-out loss) and the logarithm of their weight scale."""
    rows = []
    pretrained = runs[["arm", "weights"]].dropna().drop_duplicates()
    for arm, name in pretrained.itertuples(index=False):
        found = metadata.read(store(PROFILE).folder, name)
        if "weight_scale" in found and "unigram_entropy" in found:
            learned = found["unigram_entropy"] - found["valid_loss"]
            rows.append({"arm": arm, "learned": learned, "scale": np.log(found["weight_scale"])})
    return pd.DataFrame(rows, columns=["arm", "learned", "scale"]).groupby("arm").mean()


def findings(them: Sequence[Claim]) -> list[Finding]:
    """What the records of `lab` say of registered claims of one kind."""
    runs = results(them)
    return verdicts(them, runs, corpora(runs))


def effect_text(found: Finding) -> str:
    """`0.55 of the steps [0.40, 0.76]`, or points, or a correlation, with a 95% interval."""
    effect = found.effect
    values = np.array([effect.estimate, effect.low, effect.high])
    if found.claim.measure == "predicts":
        return "rank correlation {:.2f} [{:.2f}, {:.2f}]".format(*values)
    if found.claim.measure == "steps":
        return "{:.2f} of the steps [{:.2f}, {:.2f}]".format(*np.exp(values))
    return "{:+.1f} points [{:+.1f}, {:+.1f}]".format(*(100 * values))


def block(root: str = "") -> str:
    """Markdown: how much of the plan is done, and each primary claim whose runs are all here.
    `root` leads from the page to the project's folder."""
    them = claims("primary")
    keys = {run.key for run in runs_of(them)}
    return in_words(findings(them), len(keys & store(PROFILE).keys()), len(keys), root)


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
        n = " and ".join(str(count) for count in it.n.values())
        counts = f"n = {n}" if it.claim.measure != "predicts" else f"{len(it.n)} corpora"
        because = f": {it.reason}" if it.reason else ""
        lines.append(
            f"- **{it.label.capitalize()}**: {it.claim.statement} ({effect_text(it)}, {counts}, "
            f"adjusted p = {it.adjusted:.2g}{because})"
        )
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
