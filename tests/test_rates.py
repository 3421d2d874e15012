"""“Each at its best learning rate”: the rule that set thresholds and rates from the pilot, and what
it tried for each arm and task of such a claim."""

import shutil
from pathlib import Path

import pandas as pd

from fpt import config
from fpt.analysis.steps import steps_to
from fpt.claims.claim import KINDS, claims
from fpt.records import Store
from lab import pilot

ROOT = Path(__file__).parents[1]
SAME = {"fpt": "fpt-english", "bit-xor-1000": "bit-xor"}  # arms and tasks of the pilot
LEAST_TRIALS = 10  # six rates with one seed, then the best two with two more
EXCEPTIONS = {
    ("fpt-unigram", "mnist-short"): "few trials",
    ("fpt", "mnist-equal"): "not searched",
    ("full", "mnist-equal"): "not searched",
}


LEAST_REACHED = 0.8  # of the runs of each arm that sets thresholds
LEAST_EVALUATIONS = 5  # before any run of these is at a threshold


def results(store):
    """One row per recorded run and threshold: arm, task, lr, seed, threshold, steps, censored,
    evaluations up to the threshold, budget in steps and highest validation accuracy."""
    rows = []
    for run in pilot.runs(pilot.plan()["arms"]):
        record = store.read(run.key)
        if record is None:
            continue
        for threshold in pilot.plan()["battery"][run.task]["thresholds"]:
            rows.append(
                {
                    "arm": run.arm,
                    "task": run.task,
                    "lr": run.spec.lr,
                    "seed": run.spec.seed,
                    "threshold": threshold,
                    **vars(steps_to(record, threshold)),
                    "eval_every": run.spec.eval_every,
                    "budget": run.spec.steps,
                    "accuracy": max(point["valid_accuracy"] for point in record.curve),
                }
            )
    return pd.DataFrame(rows).rename(columns={"count": "steps"})


def best_rate(results):
    """The rate with the fewest median steps among runs of one arm, task and threshold, of those
    that were tried with all seeds; of equal ones the most accurate on validation."""
    by_rate = results.groupby("lr")
    medians = by_rate[["steps", "accuracy"]].median()
    finalists = medians[by_rate.size() == by_rate.size().max()]
    return float(finalists.sort_values(["steps", "accuracy"], ascending=[True, False]).index[0])


def threshold_of(results):
    """The threshold that the rule in pilot.yaml sets for a task, from its results; None if none
    fits."""
    fitting = []
    for threshold, rows in results[results["arm"].isin(pilot.plan()["first"])].groupby("threshold"):
        best = pd.concat([arm[arm["lr"] == best_rate(arm)] for _, arm in rows.groupby("arm")])
        missed = best.groupby("arm")["censored"].mean().max()
        random = best.loc[best["arm"] == "random", "steps"].median()
        soonest = (best["steps"] // best["eval_every"]).min()
        if (
            missed <= 1 - LEAST_REACHED
            and soonest >= LEAST_EVALUATIONS
            and 2 * random <= best["budget"].max()
        ):
            fitting.append(float(threshold))
    return max(fitting, default=None)


def settings(results):
    """The threshold of each task, and the best rates by arm and task."""
    thresholds = {}
    rates = {}
    for task, rows in results.groupby("task"):
        threshold = threshold_of(rows)
        if threshold is not None:
            thresholds[str(task)] = threshold
            at_threshold = rows[rows["threshold"] == threshold].groupby("arm")
            rates |= {(str(arm), str(task)): best_rate(of_arm) for arm, of_arm in at_threshold}
    return thresholds, rates


def test_no_reported_run_has_a_seed_of_the_pilot():
    profile = config.load("lab")
    runs = [run for name in profile.sections for run in config.expand(profile, name)]
    reported = {run.spec.seed for run in runs if not run.search}
    assert reported.isdisjoint(seed for seeds in pilot.plan()["arms"].values() for seed in seeds)


def test_the_rate_of_a_claim_is_the_pilots_best(tmp_path):
    shutil.unpack_archive(ROOT / "reports/lab/records/pilot.tar.xz", tmp_path)
    profile = config.load("lab")
    table = results(Store(tmp_path / "pilot"))
    thresholds, best = settings(table)
    tasks = profile.tasks
    assert thresholds == {task: tasks[task]["threshold"] for task in pilot.plan()["battery"]}
    exceptions = {}
    places = {
        (arm, task)
        for kind in KINDS
        for claim in claims(kind)
        if "each at its best learning rate" in claim.statement
        for arm in claim.backbones
        for task in claim.tasks
    }
    assert len(places) > 20
    for arm, task in places:
        pilots_arm = SAME.get(arm, arm)
        pilots_task = SAME.get(task, task)
        trials = table[(table["arm"] == pilots_arm) & (table["task"] == pilots_task)]
        trials = trials.drop_duplicates(["lr", "seed"])
        if trials.empty:
            exceptions[arm, task] = "not searched"
            continue
        rate = config.make_spec(profile, arm, task, 0).lr
        assert rate == best[pilots_arm, pilots_task], (arm, task)
        assert trials["lr"].min() < rate < trials["lr"].max(), (arm, task)
        if len(trials) < LEAST_TRIALS:
            exceptions[arm, task] = "few trials"
    assert exceptions == EXCEPTIONS
