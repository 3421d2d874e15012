"""Every verdict on the lab's committed records, recomputed by other code, is that of tables and
metrics."""

import json
import math
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from test_summary import permuted

from fpt.analysis.study import section
from fpt.claims import contrasts
from fpt.claims.claim import KINDS, claims
from fpt.claims.headlines import write_headlines
from fpt.claims.verdicts import findings, runs_of
from fpt.records import Store

ROOT = Path(__file__).parents[1]
LAB = ROOT / "reports" / "lab"
RECORDS = ROOT / "reports" / "experiments" / "lab"
UNTESTED = (1.0, 1.0)


def steps_of(record, threshold):
    """The first of two consecutive evaluations at a threshold."""
    pairs = pairwise(point["valid_accuracy"] for point in record.curve)
    points = zip(record.curve, pairs, strict=False)
    return next((point["step"] for point, pair in points if min(pair) >= threshold), None)


def measure_of(record, measure):
    """A record in the unit of a claim, less being better for the first arm."""
    if measure == "gap":
        return record.metrics["train_accuracy"] - record.metrics["test_accuracy"]
    if measure == "accuracy":
        return -record.metrics["test_accuracy"]
    steps = steps_of(record, record.spec.threshold)
    if measure == "solved":
        return float(steps is None)
    return math.log(steps or record.spec.steps)


def p_values(claim):
    """p of the claim and of its opposite; 1 if runs are missing."""
    rows = []
    for run in runs_of([claim]).runs:
        record = Store(RECORDS).read(run.key)
        if record is None:
            return UNTESTED
        rows.append((run.arm, run.spec.seed, measure_of(record, claim.measure)))
    if not rows:
        return UNTESTED
    values = pd.DataFrame(rows, columns=["arm", "seed", "value"])
    units = values.groupby(["arm", "seed"])["value"].mean()
    if claim.measure == "predicts":
        return partial_correlation(claim, units.groupby("arm").mean())
    first, second = (units[arm].to_numpy() for arm in claim.backbones)
    if claim.measure == "solved":
        table = [[(1 - first).sum(), (1 - second).sum()], [first.sum(), second.sum()]]
        p, opposite = (
            stats.boschloo_exact(table, alternative=way).pvalue for way in ("greater", "less")
        )
        return p, opposite
    margin = math.log(claim.margin or 1.0) if claim.measure == "steps" else claim.margin
    if np.ptp(units) == 0:
        return UNTESTED
    if min(len(first), len(second)) < 5 or min(np.ptp(first), np.ptp(second)) == 0:
        return permuted(first + margin, second, "less"), permuted(first, second, "greater")
    p = stats.ttest_ind(first + margin, second, equal_var=False, alternative="less").pvalue
    opposite = stats.ttest_ind(first, second, equal_var=False, alternative="greater").pvalue
    return p, opposite


def partial_correlation(claim, means):
    """Student's t of Spearman's partial correlation of steps with nats learned."""
    corpora = {}
    for weights, arm in {run.spec.weights: run.arm for run in runs_of([claim]).runs}.items():
        metadata = json.loads((RECORDS / "bodies" / f"{weights}.json").read_text())
        learned = metadata["unigram_entropy"] - metadata["valid_loss"]
        corpora.setdefault(arm, []).append((learned, math.log(metadata["weight_scale"])))
    x = np.array([np.mean(corpora[arm], axis=0) for arm in means.index])
    ranks = stats.rankdata(np.column_stack([means, x]), axis=0)
    inverse = np.linalg.inv(np.corrcoef(ranks.T))
    r = -inverse[0, 1] / math.sqrt(inverse[0, 0] * inverse[1, 1])
    freedom = len(means) - 3
    t = r * math.sqrt(freedom / (1 - r**2))
    return float(stats.t.cdf(t, freedom)), float(stats.t.sf(t, freedom))


def recomputed():
    """The verdict of every claim by the adjusted p alone."""
    for kind in KINDS:
        registered = claims(kind)
        p, opposite = np.transpose([p_values(claim) for claim in registered])
        method = "holm" if kind == "primary" else "fdr_bh"
        supported = multipletests(np.nan_to_num(p, nan=1.0), method=method)[0]
        contradicted = multipletests(np.nan_to_num(opposite, nan=1.0), method=method)[0]
        for claim, *verdict in zip(registered, supported, contradicted, strict=True):
            labels = {(True, False): "supported", (False, True): "contradicted"}
            yield claim.name, labels.get(tuple(verdict), "undecided")


def test_every_place_has_the_recomputed_verdicts(project):
    shutil.copytree(ROOT / "tests" / "project", project.root, dirs_exist_ok=True)
    (project.reports / "lab").mkdir(parents=True)
    (project.reports / "lab" / "records").symlink_to(RECORDS)
    write_headlines([section("verdict", "lab")])
    metrics = json.loads((project.reports / "lab" / "metrics.json").read_text())
    tables = [pd.read_csv(LAB / f"tables/verdict/{kind}.csv", index_col=0) for kind in KINDS]
    in_tables = pd.concat(tables)["verdict"].to_dict()
    by_p_alone = dict(recomputed())
    assert {"supported", "undecided", "depends on the task"} <= set(in_tables.values())
    assert metrics["verdict"] == in_tables
    for finding in (finding for kind in KINDS for finding in findings(kind)):
        name = finding.claim.name
        assert finding.label == in_tables.pop(name)
        # A gate (opposite tasks, nothing learned, the budget) has its reason.
        assert finding.label == by_p_alone[name] or finding.reason, name
        if finding.label in ("supported", "contradicted"):
            assert finding.label == by_p_alone[name], name
        if finding.label == "depends on the task":
            signs = {math.copysign(1, effect.estimate) for effect in finding.by_task.values()}
            assert len(signs) == 2, name
    assert not in_tables


def test_ratios_by_threshold_are_those_of_the_curves(monkeypatch):
    monkeypatch.setenv("FPT_ROOT", str(ROOT))
    pair = ("fpt-english", "random")
    frame = contrasts.by_threshold(pair)
    assert set(frame["task"]) == set(contrasts.battery())
    study = runs_of(claims("primary"))
    records = study.records()
    for row in frame.sample(4, random_state=0).itertuples():
        first, second = (
            np.mean(
                [
                    math.log(steps_of(records[run.key], row.threshold))
                    for run in study.runs
                    if (run.arm, run.task) == (arm, row.task)
                ]
            )
            for arm in pair
        )
        assert row.ratio == pytest.approx(math.exp(first - second))
