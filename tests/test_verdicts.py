"""Every verdict on the lab's committed records, recomputed by other code, is that of the page,
tables, metrics, the index and the README."""

import json
import math
import re
import shutil
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from fpt.analysis.study import section
from fpt.claims.claim import KINDS, Claim, claims
from fpt.claims.headlines import write_headlines
from fpt.claims.verdicts import findings, runs_of
from fpt.project import Project
from fpt.records import Record, Store
from fpt.report import answers

ROOT = Path(__file__).parents[1]
LAB = ROOT / "reports" / "lab"
UNTESTED = (1.0, 1.0)


def measure_of(record: Record, measure: str) -> float:
    """A record in the unit of a claim, less being better for the first arm."""
    if measure == "gap":
        return record.metrics["train_accuracy"] - record.metrics["test_accuracy"]
    if measure == "accuracy":
        return -record.metrics["test_accuracy"]
    pairs = pairwise(point["valid_accuracy"] for point in record.curve)
    points = zip(record.curve, pairs, strict=False)
    solved = (point["step"] for point, pair in points if min(pair) >= record.spec.threshold)
    steps = next(solved, None)
    if measure == "solved":
        return float(steps is None)
    return math.log(steps or record.spec.steps)


def p_values(claim: Claim) -> tuple[float, float]:
    """p of the claim and of its opposite; 1 if runs are missing."""
    rows = []
    for run in runs_of([claim]).runs:
        record = Store(LAB / "records").read(run.key)
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
        return permuted(first + margin, second), permuted(-first, -second)
    p = stats.ttest_ind(first + margin, second, equal_var=False, alternative="less").pvalue
    opposite = stats.ttest_ind(first, second, equal_var=False, alternative="greater").pvalue
    return p, opposite


def partial_correlation(claim: Claim, means: pd.Series) -> tuple[float, float]:
    """Student's t of Spearman's partial correlation of steps with nats learned."""
    corpora: dict[str, list[tuple[float, float]]] = {}
    for weights, arm in {run.spec.weights: run.arm for run in runs_of([claim]).runs}.items():
        metadata = json.loads((LAB / "records" / "bodies" / f"{weights}.json").read_text())
        learned = metadata["unigram_entropy"] - metadata["valid_loss"]
        corpora.setdefault(arm, []).append((learned, math.log(metadata["weight_scale"])))
    x = np.array([np.mean(corpora[arm], axis=0) for arm in means.index])
    ranks = stats.rankdata(np.column_stack([means, x]), axis=0)
    inverse = np.linalg.inv(np.corrcoef(ranks.T))
    r = -inverse[0, 1] / math.sqrt(inverse[0, 0] * inverse[1, 1])
    freedom = len(means) - 3
    t = r * math.sqrt(freedom / (1 - r**2))
    return float(stats.t.cdf(t, freedom)), float(stats.t.sf(t, freedom))


def permuted(first: np.ndarray, second: np.ndarray) -> float:
    """How often a choice of the values of the first arm has so low a mean difference."""
    values = np.concatenate([first, second])
    count = len(first)
    most = first.sum() + 1e-9
    if math.comb(len(values), count) < 10_000:
        chosen = [list(part) for part in combinations(range(len(values)), count)]
        return float((values[chosen].sum(1) <= most).mean())
    draws = np.random.default_rng(1).permuted(np.tile(values, (9_999, 1)), axis=1)
    return float((1 + (draws[:, :count].sum(1) <= most).sum()) / 10_000)


def adjusted(p_values: list[float], holm: bool) -> np.ndarray:
    """Holm's or Benjamini and Hochberg's adjustment."""
    tested = np.nan_to_num(p_values, nan=1.0)  # arms without any spread are not tested
    order = np.argsort(tested)
    count = len(tested)
    if holm:
        values = np.maximum.accumulate(tested[order] * (count - np.arange(count)))
    else:
        scaled = tested[order] * count / (1 + np.arange(count))
        values = np.minimum.accumulate(scaled[::-1])[::-1]
    in_place = np.empty(count)
    in_place[order] = np.minimum(values, 1)
    return in_place


def recomputed() -> Iterator[tuple[str, str]]:
    """The verdict of every claim by the adjusted p alone."""
    for kind in KINDS:
        registered = claims(kind)
        p, opposite = np.transpose([p_values(claim) for claim in registered])
        holm = kind == "primary"
        supported = adjusted(list(p), holm) < 0.05
        contradicted = adjusted(list(opposite), holm) < 0.05
        for claim, *verdict in zip(registered, supported, contradicted, strict=True):
            labels = {(True, False): "supported", (False, True): "contradicted"}
            yield claim.name, labels.get(tuple(verdict), "undecided")


def test_every_place_has_the_recomputed_verdicts(project: Project) -> None:
    shutil.copytree(ROOT / "tests" / "project", project.root, dirs_exist_ok=True)
    (project.reports / "lab").mkdir(parents=True)
    (project.reports / "lab" / "records").symlink_to(LAB / "records")
    write_headlines([section("verdict", "lab")])
    metrics = json.loads((project.reports / "lab" / "metrics.json").read_text())
    tables = [pd.read_csv(LAB / f"tables/verdict/{kind}.csv", index_col=0) for kind in KINDS]
    in_tables = pd.concat(tables)["verdict"].to_dict()
    by_p_alone = dict(recomputed())
    primary, secondary = (findings(kind) for kind in KINDS)
    in_lab = {finding.claim.name: finding for finding in (*primary, *secondary)}
    assert {"supported", "undecided", "depends on the task"} <= set(in_tables.values())
    assert metrics["verdict"] == in_tables
    for finding in (*primary, *secondary):
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
    index = (LAB / "README.md").read_text()
    page = re.sub("<[^>]+>", "", (LAB / "notebooks/12_verdict.html").read_text())
    for finding in primary:
        assert f"| {finding.claim.statement} | {finding.label}" in index
        assert f"{finding.label.capitalize()}: {finding.claim.statement}" in page
    readme = (ROOT / "README.md").read_text()
    for row in answers.prose()["rows"]:
        for name, pair in row["nano"].items():
            for text in (index, readme) if "language" in row else (index,):
                assert f"{pair}: {in_lab[name].brief()}" in text
