"""The primary claims by a second test each: is a verdict owed to its test?

Welch's test becomes a permutation of backbones between the arms, Boschloo's test becomes
Fisher's, and the permuted rank correlation becomes a regression of log steps on nats
learned and log weight scale. Areas are resampled: draws and seeds, each with replacement,
which is the bootstrap of crossed factors. Holm's correction stays.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..analysis.crossed import on_shared_seeds
from ..analysis.effects import corrected, permuted
from .claim import Claim, compared_values, own_runs
from .finding import Finding
from .model_claims import cells
from .pooled import backbone_means
from .verdicts import corpora

RESAMPLES = 9_999


def second_tests(findings: Sequence[Finding], results: pd.DataFrame) -> pd.DataFrame:
    """The p-values of both tests of each claim that was tested, by its name, as they are
    and adjusted.

    `findings` are those of all primary claims, because one without a test, which waits for
    runs, say, counts in the correction; `results` has the runs of the claims.
    """
    rows = []
    for finding in findings:
        claim = finding.claim
        name, p = second_test(claim, results) if finding.is_tested else (None, math.nan)
        rows.append((claim.name, name, finding.effect.p, p))
    table = pd.DataFrame(rows, columns=["claim", "test", "registered", "second"])
    for column in ("registered", "second"):
        table[f"{column}, adjusted"] = corrected(table[column], "primary")
    return table.dropna(subset="test").set_index("claim")


def second_test(claim: Claim, results: pd.DataFrame) -> tuple[str, float]:
    """The name of the second test of a claim, and its p-value."""
    if claim.measure == "area":
        return "bootstrap", bootstrap(claim, results)
    runs = own_runs(claim, results)
    if claim.measure == "solved":
        return "Fisher", fisher(claim, runs)
    values = runs.assign(value=compared_values(claim, runs))
    backbones = backbone_means(values, claim.tasks)
    if claim.measure == "predicts":
        return "regression", regression(backbones, corpora(runs))
    first, second = (backbones[arm].to_numpy() for arm in claim.backbones)
    return "permutation", permuted(first, second, "less")


def bootstrap(claim: Claim, results: pd.DataFrame) -> float:
    """Twice the share of resampled differences of log areas beyond zero."""
    generator = np.random.default_rng(0)
    runs = cells(claim, results)
    tables = on_shared_seeds(*(runs[runs["arm"] == arm] for arm in claim.backbones))
    first, second = (table.to_numpy() for table in tables)
    # Both arms have the same net seeds, so they are resampled alike.
    chosen = generator.integers(first.shape[1], size=(RESAMPLES, first.shape[1]))
    means = []
    for areas in (first, second):
        draws = generator.integers(len(areas), size=(RESAMPLES, len(areas)))
        means.append(areas[draws[:, :, None], chosen[:, None, :]].mean((1, 2)))
    difference = means[0] - means[1]
    beyond = min((difference >= 0).sum(), (difference <= 0).sum())
    return float(min(1.0, 2 * (1 + beyond) / (1 + RESAMPLES)))


def fisher(claim: Claim, runs: pd.DataFrame) -> float:
    """The p-value of a larger share of solved runs of the first arm."""
    from scipy.stats import fisher_exact

    counts = pd.crosstab(runs["arm"], runs["censored"].astype(bool))
    counts = counts.reindex(
        index=list(claim.backbones), columns=[False, True], fill_value=0
    )
    return float(fisher_exact(counts, alternative="greater").pvalue)


def regression(backbones: pd.Series, learned_and_scale: pd.DataFrame) -> float:
    """The one-sided p-value of fewer log steps with more nats learned, over corpora, at the
    same log weight scale."""
    import statsmodels.api as sm

    steps = backbones.groupby("arm").mean()[learned_and_scale.index]
    fit = sm.OLS(steps, sm.add_constant(learned_and_scale)).fit()
    half = fit.pvalues["learned"] / 2
    return float(half if fit.params["learned"] < 0 else 1 - half)
