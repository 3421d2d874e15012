"""How often an audit finds that the content of weights helps where it cannot: audits of real nulls.

    python benchmarks/audit_nulls.py            # about 40 core-minutes

Small audits of scikit-learn's digits, of three nulls. Either the labels are permuted, so that
nothing can be learned. Or the backbone that is called pretrained is a draw: of the usual random
initialisation, or of the statistics of English weights, tensor by tensor. Its bodies are further
draws of the same kind. Each audit of a null has its own permutation or draw, and its own seeds.

Arms without a transformer hide an error in the bodies, because the verdict needs both. So the
table also counts the audits in which the model is clearly better than the mean draw of each body.
Writes results/audit_nulls.json and docs/own-data.md after each audit; goes on if it was stopped.
"""

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from blocks import RESULTS, write
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from statsmodels.stats.proportion import proportion_confint

import fpt
from fpt.auditing.runs import BODIES
from fpt.auditing.verdict import HELPS
from fpt.backbones import build
from fpt.backbones.choice import choose
from fpt.backbones.initialisations import initial_state

AUDITS = 20  # of each null; without an error, 60 in all bound its rate by 4.9%
BACKBONE = "nano@2"
SETTINGS: dict[str, Any] = {"steps": 60, "draws": 3, "progress": False}
EXAMPLES = 600
FIRST_DRAW = 2_000_000  # no control of an audit has such a draw
PERMUTED = "labels are permuted"
DRAWN = {
    "the backbone is a random draw": "random",
    "the backbone is a draw of English statistics": "statistics-tensor",
}


def audit_of(null: str, index: int, folder: Path) -> fpt.Audit:
    """One audit of a null; `folder` holds what it makes."""
    images, labels = load_digits(return_X_y=True)
    rows = np.random.default_rng(index).permutation(len(labels))[:EXAMPLES]
    X = fpt.Patches(4).transform(images[rows].reshape(-1, 8, 8))
    y = labels[rows]
    weights = None
    if null == PERMUTED:
        y = np.random.default_rng(index).permutation(y)
    else:
        weights = f"{DRAWN[null]}-{index}"
        save_draw(DRAWN[null], index, folder / "backbones" / weights)
    return fpt.audit(
        X,
        y,
        backbone=BACKBONE,
        weights=weights,
        random_state=100 * index,
        folder=folder / "audits",
        **SETTINGS,
    )


def save_draw(init: str, index: int, folder: Path) -> None:
    """Weights of the backbone as `init` draws them, where an audit finds pretrained ones."""
    architecture, weights = choose(BACKBONE, None)
    state = initial_state(architecture, build(architecture), init, weights, FIRST_DRAW + index)
    folder.mkdir(parents=True)
    tensors = {name: tensor.contiguous() for name, tensor in state.items()}
    save_file(tensors, folder / "model.safetensors")


def entry(audit: fpt.Audit, seconds: float) -> dict[str, Any]:
    """What the results keep of an audit that took `seconds` by the clock."""
    least = audit.table["least"].reindex(BODIES).dropna()
    return {
        "verdict": audit.verdict,
        "beats_all": bool((least > 0).all()),
        "beaten": int((least > 0).sum()),
        "bodies": len(least),
        "language": float(audit.table.loc["language", "score"]),
        "seconds": seconds,
    }


def table(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The table of docs/own-data.md, with the 95% interval of the errors in all nulls."""
    lines = [
        "| null | audits | verdicts | better than the mean draw of every body |",
        "|---|--:|---|--:|",
    ]
    for null, entries in results.items():
        verdicts = Counter(entry["verdict"] for entry in entries).most_common()
        counts = ", ".join(f"{label} {count}" for label, count in verdicts)
        better = sum(entry["beats_all"] for entry in entries)
        lines.append(f"| {null} | {len(entries)} | {counts} | {better} |")
    entries = [entry for of_null in results.values() for entry in of_null]
    errors = sum(entry["verdict"] == HELPS for entry in entries)
    # Clopper and Pearson's bound on one side, at 95%.
    most = proportion_confint(errors, len(entries), alpha=0.1, method="beta")[1]
    better = sum(entry["beats_all"] for entry in entries)
    single = sum(entry["beaten"] for entry in entries)
    compared = sum(entry["bodies"] for entry in entries)
    lines += [
        "",
        f"“{HELPS.capitalize()}” came out in {errors} of {len(entries)} audits (at most "
        f"{most:.1%}, with 95% confidence), and {better} found the model better than the mean draw "
        f"of every body. Of {compared} single comparisons with a mean draw, {single} had an "
        "interval above zero.",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=AUDITS, help="of each null")
    count = parser.parse_args().audits
    path = RESULTS / "audit_nulls.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for index in range(count):
        for null in (PERMUTED, *DRAWN):
            entries = results.setdefault(null, [])
            if index < len(entries):
                continue
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                os.environ["FPT_BACKBONES"] = str(folder / "backbones")
                start = time.time()
                audit = audit_of(null, index, folder)
            entries.append(entry(audit, time.time() - start))
            write("nulls", results, table(results))
            print(f"{null}, {index}: {audit.verdict}, {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
