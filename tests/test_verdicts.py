"""Every verdict, recomputed from the records by other code, is the one in the notebook, the tables,
the metrics, the index and the README; of made-up runs of all claims, and of the lab's."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import zlib
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made import make_record
from scipy import stats

from fpt.claims.claim import KINDS, Claim, claims
from fpt.claims.verdicts import findings, runs_of
from fpt.config import Run
from fpt.files import write_json
from fpt.pretraining import metadata
from fpt.records import Record, Store
from fpt.report import findings as report

ROOT = Path(__file__).parents[1]
LAB = ROOT / "reports" / "lab"
FASTER = {"fpt": 0.6, "fpt-english": 0.6, "full": 0.4, "random-lstm-released": 3.0, "output": 1.1}


def made_up(run: Run) -> Record:
    """A record whose steps or accuracy depend on its arm, and a little on its seed."""
    draw = np.random.default_rng(int(run.key, 16))
    level = FASTER.get(run.arm, 1.0)
    made = make_record(run, 0.85 - 0.05 * level + 0.01 * draw.random())
    spec = run.spec
    if not spec.threshold:
        return made
    reached = math.ceil(500 * level * math.exp(0.2 * draw.normal()) / spec.eval_every)
    steps = range(1, min(reached + 2, spec.steps // spec.eval_every) + 1)
    curve = [
        {**made.curve[0], "step": it * spec.eval_every, "valid_accuracy": float(it >= reached)}
        for it in steps
    ]
    return replace(made, curve=curve)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose lab has a made-up record of every claim's runs, with its pages rendered."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "tests" / "project", root, dirs_exist_ok=True)
    (root / "notebooks").symlink_to(ROOT / "notebooks")
    folder = root / "reports" / "lab" / "records"
    for kind in KINDS:
        for run in runs_of(claims(kind)).runs:
            Store(folder).write(made_up(run))
            if weights := run.spec.weights:
                draw = np.random.default_rng(zlib.crc32(weights.encode()))
                content: dict[str, Any] = {
                    "unigram_entropy": 7.0,
                    "valid_loss": 6.9 - draw.random(),
                }
                content["weight_scale"] = 0.1 + 0.1 * draw.random()
                content["digest"] = metadata.digest(content)
                write_json(metadata.copy_of(folder, weights), content)
    for words in ("run --all --pipeline --device cpu", "render verdict", "index"):
        command = [sys.executable, "-m", "fpt", *words.split(), "--profile", "lab"]
        subprocess.run(command, env=os.environ | {"FPT_ROOT": str(root)}, check=True)
    return root / "reports" / "lab"


def score(record: Record, measure: str) -> float:
    """A record in the unit of a claim, less being better for the first arm."""
    if measure == "gap":
        return record.metrics["train_accuracy"] - record.metrics["test_accuracy"]
    if measure == "accuracy":
        return -record.metrics["test_accuracy"]
    pairs = pairwise(point["valid_accuracy"] for point in record.curve)
    points = zip(record.curve, pairs, strict=False)
    solved = (point["step"] for point, pair in points if min(pair) >= record.spec.threshold)
    found = next(solved, None)
    if measure == "solved":
        return float(found is None)
    return math.log(found or record.spec.steps)


def p_values(it: Claim, folder: Path) -> tuple[float, float]:
    """p of the claim and of its opposite; 1 if runs are missing."""
    rows = []
    for run in runs_of([it]).runs:
        record = Store(folder).read(run.key)
        if record is None:
            return 1.0, 1.0
        rows.append((run.arm, run.spec.seed, score(record, it.measure)))
    if not rows:
        return 1.0, 1.0
    frame = pd.DataFrame(rows, columns=["arm", "seed", "score"])
    units = frame.groupby(["arm", "seed"])["score"].mean()
    if it.measure == "predicts":
        means, known = units.groupby("arm").mean(), {}
        for weights, arm in {run.spec.weights: run.arm for run in runs_of([it]).runs}.items():
            seen = json.loads((folder / "bodies" / f"{weights}.json").read_text())
            row = seen["unigram_entropy"] - seen["valid_loss"], math.log(seen["weight_scale"])
            known.setdefault(arm, []).append(row)
        x = np.array([np.mean(known[arm], axis=0) for arm in means.index])
        ranks = stats.rankdata(np.column_stack([means, x]), axis=0)
        partial = np.linalg.inv(np.corrcoef(ranks.T))
        r = -partial[0, 1] / math.sqrt(partial[0, 0] * partial[1, 1])
        t = r * math.sqrt((len(means) - 3) / (1 - r**2))
        return float(stats.t.cdf(t, len(means) - 3)), float(stats.t.sf(t, len(means) - 3))
    first, second = (units[arm].to_numpy() for arm in it.backbones)
    if it.measure == "solved":
        table = [[(1 - first).sum(), (1 - second).sum()], [first.sum(), second.sum()]]
        ways = "greater", "less"
        return tuple(stats.boschloo_exact(table, alternative=way).pvalue for way in ways)
    margin = math.log(it.margin or 1.0) if it.measure == "steps" else it.margin
    if np.ptp(units) == 0:
        return 1.0, 1.0
    if min(len(first), len(second)) < 5 or min(np.ptp(first), np.ptp(second)) == 0:
        return permuted(first + margin, second), permuted(-first, -second)
    p = stats.ttest_ind(first + margin, second, equal_var=False, alternative="less").pvalue
    against = stats.ttest_ind(first, second, equal_var=False, alternative="greater").pvalue
    return p, against


def permuted(a: np.ndarray, b: np.ndarray) -> float:
    """How often a choice of the values of the first arm has so low a mean difference."""
    both, count = np.concatenate([a, b]), len(a)
    if math.comb(len(both), count) < 10_000:
        chosen = [list(part) for part in combinations(range(len(both)), count)]
        sums = both[np.array(chosen)].sum(1)
        return float((sums <= a.sum() + 1e-9).mean())
    draws = np.random.default_rng(1).permuted(np.tile(both, (9_999, 1)), axis=1)
    return float((1 + (draws[:, :count].sum(1) <= a.sum() + 1e-9).sum()) / 10_000)


def adjusted(ps: list[float], holm: bool) -> np.ndarray:
    """Holm's or Benjamini and Hochberg's adjustment."""
    tested = np.nan_to_num(ps, nan=1.0)  # arms without any spread are not tested
    order, count = np.argsort(tested), len(ps)
    ranked = tested[order]
    if holm:
        values = np.maximum.accumulate(ranked * (count - np.arange(count)))
    else:
        scaled = ranked * count / (1 + np.arange(count))
        values = np.minimum.accumulate(scaled[::-1])[::-1]
    found = np.empty(count)
    found[order] = np.minimum(values, 1)
    return found


def expected(folder: Path) -> dict[str, str]:
    """The verdict of every claim by the adjusted p alone."""
    found = {}
    for kind in KINDS:
        them = claims(kind)
        ps = [p_values(it, folder) for it in them]
        for_, against = (adjusted([p[side] for p in ps], kind == "primary") for side in (0, 1))
        for it, p, opposite in zip(them, for_, against, strict=True):
            label = "supported" if p < 0.05 else "undecided"
            found[it.name] = "contradicted" if opposite < 0.05 else label
    return found


@pytest.mark.parametrize("made", [True, False], ids=["made-up", "committed"])
def test_every_place_has_the_recomputed_verdicts(
    made: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = request.getfixturevalue("lab") if made else LAB
    monkeypatch.setattr("fpt.records.REPORTS", folder.parent)
    monkeypatch.setattr("fpt.analysis.study.REPORTS", folder.parent)
    tables = [pd.read_csv(folder / f"tables/verdict/{kind}.csv", index_col=0) for kind in KINDS]
    shown = pd.concat(tables)["verdict"].to_dict()
    recomputed = expected(folder / "records")
    assert shown.keys() == recomputed.keys()
    index = (folder / "README.md").read_text()
    page = re.sub("<[^>]+>", "", (folder / "notebooks/12_verdict.html").read_text())
    found = {kind: findings(kind) for kind in KINDS}
    for it in (*found["primary"], *found["secondary"]):
        name = it.claim.name
        assert shown[name] == it.label
        # A gate (opposite tasks, nothing learned, the budget) has its reason.
        assert it.label == recomputed[name] or it.reason, name
        assert it.label not in ("supported", "contradicted") or it.label == recomputed[name], name
        signs = {math.copysign(1, effect.estimate) for effect in it.by_task.values()}
        assert it.label != "depends on the task" or len(signs) == 2, name
    for it in found["primary"]:
        assert f"| {it.claim.statement} | {it.label}" in index
        assert not it.is_judged or f"{it.label.capitalize()}: {it.claim.statement}" in page
    if made:
        assert json.loads((folder / "metrics.json").read_text())["verdict"] == shown
        kinds = {"supported", "contradicted", "undecided"}
        assert kinds <= {*shown.values()}, "the made-up runs have every kind of verdict"
        return
    readme = (ROOT / "README.md").read_text()
    for line in report.in_words([*found["primary"], *found["secondary"]]):
        assert line in readme
        assert line in index
