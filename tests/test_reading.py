"""What a reader calls: results, ours beside the paper's, effects and their words, figures, a live
run."""

import json
import math
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

import fpt
from fpt.errors import FptError
from fpt.names import ARMS, MODELS
from fpt.reading import front, judge
from fpt.reading import results as results_module
from fpt.reading.beside import TRIVIAL, tasks
from fpt.reading.effect import (
    NOTHING,
    Effect,
    Word,
    corrected,
    paired,
    power,
    together,
    values_of,
    word_of,
)

ROOT = Path(__file__).parents[1]
EXPERIMENTS = ROOT / "reports" / "experiments"
VERDICTS = EXPERIMENTS / "language" / "verdicts"
SIX = "six layers of SmolLM2"
# The names of the arms of the registered claims, by their names here.
REGISTERED = {
    "fpt": "language", "random": "N(0, 0.02)", "random-own": "model's default",
    "random-at-scale": "same scale", "random-at-scale-norms": "same scale, language norms",
    "statistics-tensor": "same mean and sd", "shuffled": "shuffled weights",
    "spectrum": "same spectrum", "full": "fully trained", "no-transformer-mean": "no transformer",
    "no-transformer-last": "no transformer, last token",
}  # fmt: skip


@pytest.fixture(autouse=True)
def records(monkeypatch):
    """The records of the checkout."""
    monkeypatch.setenv("FPT_ROOT", str(ROOT))


# --------------------------------------------------------------------------------------- results


def test_results_have_a_row_for_each_reported_run():
    runs = fpt.results(experiment="language")
    assert len(runs) == runs["key"].nunique() == 1348
    assert {*runs["role"]} == {"reported"}
    assert len(fpt.results(experiment="language", role="search")) == 957
    assert len(fpt.results(experiment="gpu-2026-11", task="cifar10")) == 20


def test_a_run_of_several_sections_is_in_each():
    transfer = fpt.results("transfer", "lab")
    efficiency = fpt.results("efficiency", "lab")
    assert {*transfer["key"]} & {*efficiency["key"]}


def test_a_wrong_name_names_those_that_there_are():
    with pytest.raises(FptError, match="MiniLM"):
        fpt.results(model="minilm")


def test_facts_are_in_the_paper_s_units():
    runs = fpt.results(model=SIX, arm="language", task="mnist")
    assert runs["test_accuracy"].mean() == pytest.approx(95.228)
    assert {*runs["steps"]} == {5000}
    assert not runs["positions"].any()


def write_experiment(folder, rows):
    """An experiment whose index has these rows, and records of those that are said to be done."""
    sealed = fpt.results(model=SIX, arm="language", task="bit-xor")
    store = results_module.Store(EXPERIMENTS / "language")
    here = results_module.Store(folder)
    index = []
    for key, (done, row) in zip(sealed["key"], rows, strict=False):
        index.append({"key": key, "model": SIX, "arm": "language", "task": "bit-xor", **row})
        if done:
            here.write(store.read(key))
    folder.mkdir(exist_ok=True)
    (folder / "index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("rows", "readable"),
    [
        ([(True, {"block": 1, "role": "reported"}), (True, {"block": 1, "role": "search"})], 2),
        ([(True, {"block": 1, "role": "reported"}), (False, {"block": 1, "role": "reported"})], 0),
        # Before the rates are chosen, the reported runs are not known.
        ([(True, {"block": 1, "role": "search"})], 0),
        ([(True, {"block": 1, "role": "reported"}), (False, {"block": 2, "role": "search"})], 1),
        # Runs that were not registered are shown as they come.
        ([(True, {"role": "reported"}), (False, {"role": "reported"})], 1),
    ],
)
def test_no_table_reads_a_registered_block_before_it_is_complete(rows, readable, tmp_path):
    write_experiment(tmp_path / "mine", rows)
    assert len(results_module.everything(tmp_path)) == readable


# ---------------------------------------------------------------------------- ours and the paper's


def cells_of(table, model):
    return table.frame.loc[model]


def test_the_paper_s_table_has_ours_in_it():
    runs = fpt.results(model=SIX)
    cells = cells_of(fpt.beside(fpt.paper("T9"), runs), SIX)
    assert cells.index[-1] == TRIVIAL
    accuracy = runs[(runs["arm"] == "language") & (runs["task"] == "mnist")]["test_accuracy"]
    assert cells.loc["language", "MNIST"] == f"**{accuracy.mean():.1f}** / 98 (5)"
    assert cells.loc["language", "Remote homology"] == "– / 12.7"  # printed, and not run
    assert cells.loc["shuffled weights", "MNIST"] == ""  # neither
    assert cells.loc[TRIVIAL, "MNIST"] == "92.5"
    assert "nan" not in cells.to_string()


def test_a_short_form_is_marked_and_explained():
    table = fpt.beside(fpt.paper("T9"), fpt.results(model=SIX))
    cells = cells_of(table, SIX)
    short = tasks()["listops-short"]["short"]
    mark = cells.loc["language", "ListOps"].split("**")[2][0]
    assert f"{mark} {short[0].upper()}{short[1:]}." in table.caption
    assert mark not in cells.loc["language", "MNIST"]
    assert f"Positions were not trained in {SIX}." in table.caption


def test_accuracies_of_runs_that_ended_at_a_threshold_are_marked():
    runs = fpt.results("efficiency", "lab", model="nano GPT-2", arm="language")
    cells = cells_of(fpt.beside(fpt.paper("T1"), runs), "nano GPT-2")
    assert "*" in cells.loc["language", "Bit XOR"].split("**")[2]


def test_steps_stand_beside_the_paper_s_steps():
    runs = fpt.results("efficiency", "lab", model="nano GPT-2", arm="language", task="bit-xor")
    table = fpt.beside(fpt.paper("T6"), runs, "steps_to_threshold")
    mean = stats.gmean(runs["steps_to_threshold"])
    assert cells_of(table, "nano GPT-2").loc["language", "Bit XOR"] == f"**{mean:.0f}** / 500 (12)"


@pytest.mark.parametrize("name", ["T1", "T2", "T9", "T13", "T15", "T18", "T20", "T21"])
def test_rows_of_the_paper_have_one_name(name):
    known = {"bit", "vit"}  # other models, which are no arms
    assert {*fpt.paper(name).index} <= {*ARMS} | known


def test_names_and_marks_are_unique():
    for rows in (ARMS, MODELS):
        assert len({*map(str.lower, rows)}) == len(rows)
    assert len({row.id for row in ARMS.values()}) == len(ARMS)
    colours = [row.color for row in ARMS.values() if row.color]
    assert len({*colours}) == len(colours)


# ---------------------------------------------------------------------------------------- effects


def test_an_effect_is_student_s_t_of_pairs():
    draw = np.random.default_rng(0)
    first, second = draw.normal(1, 1, 8), draw.normal(0, 1, 8)
    effect = paired(pd.Series(first), pd.Series(second))
    expected = stats.ttest_rel(first, second)
    assert effect.p == pytest.approx(expected.pvalue)
    assert (effect.low, effect.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert (effect.low90, effect.high90) == pytest.approx(tuple(expected.confidence_interval(0.9)))


def test_draws_of_a_seed_count_by_their_mean():
    drawn = pd.Series([1.0, 3, 5, 7], index=[0, 0, 1, 1])
    assert paired(drawn, pd.Series([0.0, 1], index=[0, 1])).estimate == 3.5
    with pytest.raises(FptError, match="share no seed"):
        paired(drawn, pd.Series([0.0], index=[7]))


def test_power_is_the_share_of_simulated_experiments():
    draw = np.random.default_rng(0)
    samples = draw.normal(1, 1.2, (20_000, 8))
    decided = stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05
    assert power(1, 1.2, 8) == pytest.approx(decided.mean(), abs=0.01)
    assert power(50, 1, 8) == 1


EFFECTS = {
    # low, high, low90, high90, more is better, as good -> the word
    "better": ((1, 3, 1.2, 2.8), 1, False, "replicates"),
    "worse": ((-3, -1, -2.8, -1.2), 1, False, "does not replicate"),
    "unclear": ((-1, 3, -0.5, 2.5), 1, False, "could not tell"),
    "fewer steps": ((-3, -1, -2.8, -1.2), -1, False, "replicates"),
    "as good": ((-1.5, 1.5, -1, 1), 1, True, "replicates"),
    "far better is not as good": ((3, 9, 4, 8), 1, True, "could not tell"),
    "not as good": ((-9, -3, -8, -4), 1, True, "does not replicate"),
    "maybe as good": ((-3, 1.5, -2.5, 1), 1, True, "could not tell"),
    "better by far where the paper has equals": ((3, 9, 4, 8), 1, "equal", "does not replicate"),
    "equal as in the paper": ((-1.5, 1.5, -1, 1), 1, "equal", "replicates"),
    "one seed": ((math.nan,) * 4, 1, False, "could not tell"),
}


@pytest.mark.parametrize(("bounds", "sign", "as_good", "word"), EFFECTS.values(), ids=EFFECTS)
def test_an_interval_gives_a_word(bounds, sign, as_good, word):
    effect = Effect(0.0, *bounds, 0.5, 8, 1.0, False)
    assert word_of(effect, sign, 2.0, as_good is True, as_good == "equal") == word


def test_several_words_make_one():
    assert together(["replicates", "replicates", NOTHING]) == "replicates"
    assert together(["replicates", "could not tell"]) == "in part"
    assert together(["does not replicate", "could not tell"]) == "could not tell"
    assert together([NOTHING]) == NOTHING


def test_two_arms_that_learned_nothing_are_not_compared():
    runs = fpt.results(model=SIX, task="cifar10")
    comparison = fpt.compare(runs, "language", "N(0, 0.02)", "cifar10", trivial=40.7)
    assert comparison.word == NOTHING


def test_a_comparison_says_who_at_what_by_how_much_and_how_sure():
    runs = fpt.results(model=SIX)
    text = str(fpt.compare(runs, "language", "same mean and sd", "mnist"))
    assert "95.2 / 95.7 % right" in text
    assert "could not tell (power" in text
    steps = fpt.compare(runs, "language", "N(0, 0.02)", "bit-xor", "steps_to_99")
    assert steps.word == "replicates"
    assert steps.effect.ratio < 1


# ------------------------------------------------------------- the registered claims of `language`


def registered(kind):
    """Each registered claim of a kind, with its arms' log areas by draw and seed."""
    runs = fpt.results(experiment="language")
    for row in pd.read_csv(VERDICTS / f"{kind}.csv", keep_default_na=False).itertuples():
        first, second, task, *test = row.claim.split("/")
        tables = []
        for name in (first, second):
            arm, _, cut = name.partition("@")
            model = SIX if cut or arm.startswith("no-") else "whole SmolLM2"
            if arm.endswith("-minilm"):
                arm, model = arm.removesuffix("-minilm"), "MiniLM"
            of_arm = runs[(runs["model"] == model) & (runs["arm"] == REGISTERED[arm])]
            of_arm = of_arm[of_arm["task"] == task]
            tables.append(of_arm.assign(value=np.log(of_arm["area"])))
        yield row, (test or ["difference"])[0], tables


def by_draw(rows):
    """Values of an arm, draws by seeds."""
    return rows.fillna({"draw": -1}).pivot(index="draw", columns="seed", values="value").to_numpy()


def crossed(first, second, margin):
    """Estimate, error and degrees of freedom of a difference of two arms, draws by seeds, as they
    were registered: seeds act on both alike, and draws add their own variance."""
    by_seed = first.mean(0) - second.mean(0)
    parts = [by_seed, *[arm.mean(1) for arm in (first, second) if len(arm) > 1]]
    variances = [part.var(ddof=1) / len(part) for part in parts]
    freedoms = [len(part) - 1 for part in parts]
    total = sum(variances)
    squares = sum(v**2 / f for v, f in zip(variances, freedoms, strict=True))
    return by_seed.mean() - math.log(margin), math.sqrt(total), total**2 / squares


@pytest.mark.parametrize(("kind", "method"), [("primary", "holm"), ("secondary", "fdr_bh")])
def test_the_verdicts_of_language_follow_from_its_records(kind, method):
    rows, p_values, tests = [], [], []
    for row, test, (first, second) in registered(kind):
        seeds = sorted({*first["seed"]} & {*second["seed"]})
        first, second = (arm[arm["seed"].isin(seeds)] for arm in (first, second))
        margin = 1.25 if test == "suffices" else 1.0
        estimate, error, freedom = crossed(by_draw(first), by_draw(second), margin)
        p = stats.t.cdf(estimate / error, freedom)
        if test == "difference":
            p = 2 * min(p, 1 - p)
        if test == "rank":
            means = by_draw(second).mean(1)
            model = by_draw(first).mean()
            fewer = min((means < model).sum(), (means > model).sum())
            p = min(1.0, 2 * (fewer + 1) / (len(means) + 1))
        assert p == pytest.approx(float(row.p), rel=1e-9)
        rows.append(row)
        tests.append(test)
        p_values.append(p)
    adjusted = multipletests(p_values, method=method)[1]
    for row, p in zip(rows, adjusted, strict=True):
        assert p == pytest.approx(float(row.adjusted), rel=1e-9)


@pytest.mark.parametrize(("kind", "method"), [("primary", "holm"), ("secondary", "fdr_bh")])
def test_one_judge_changes_no_verdict(kind, method):
    claims = list(registered(kind))
    effects = [
        paired(values_of(first, "area"), values_of(second, "area"))
        for _, _, (first, second) in claims
    ]
    tested = [test == "difference" for _, test, _ in claims]
    pairs = zip(effects, tested, strict=True)
    adjusted = corrected([e.p if is_tested else math.nan for e, is_tested in pairs], method)
    for (row, test, _), effect, p in zip(claims, effects, adjusted, strict=True):
        if test == "difference":
            word = "helps" if effect.estimate < 0 else "hurts"
            assert (row.verdict == word) == (p < 0.05)
            assert effect.ratio == pytest.approx(float(row.effect))


# ------------------------------------------------------------------------------ the paper's claims


def test_every_claim_of_the_paper_has_ours_the_paper_s_and_a_word():
    table = judge.verdicts(fpt.results()).frame
    assert {*table["word"]} <= {*get_args(Word)}
    better = table.loc["Language is more accurate than the same mean and sd."]
    assert "MNIST 95.2 / 95.7" in better.loc[SIX, "ours"]
    assert "MNIST 98 / 97.2" in better.loc[SIX, "the paper"]
    needed = table.loc["A frozen transformer is more accurate than no transformer."]
    assert needed.loc[SIX, "word"] == "replicates"


def test_a_claim_about_accuracy_does_not_read_runs_that_ended_at_a_threshold():
    runs = fpt.results("transfer", "lab", model="nano GPT-2", task="bit-xor")
    measures = {claim["measure"]: judge.measure_of(claim, runs) for claim in judge.claims()}
    assert measures == {"accuracy": None, "steps": "steps_to_threshold"}


def test_claims_name_arms_and_tables():
    for claim in judge.claims():
        assert {claim["first"], claim["second"]} <= {*ARMS}
        assert {*claim} <= {"id", "claim", "table", "first", "second", "measure", "as_good"}
        if claim["table"]:
            assert {claim["first"], claim["second"]} <= {*fpt.paper(claim["table"]).index}


def test_runs_at_several_rates_have_no_mean():
    runs = fpt.results("learning_rate", "lab", model="nano GPT-2", arm="language")
    with pytest.raises(FptError, match="differ in rate"):
        fpt.beside(fpt.paper("T9"), runs)


# --------------------------------------------------------------------------------- the front pages


def test_of_several_experiments_the_longest_stands_on_the_front_page(monkeypatch):
    runs = fpt.results(experiment="language", model=SIX, task="bit-xor")
    few = runs.head(4)
    for other, expected in [
        (few.assign(experiment="evening"), "language"),  # as long, and fewer
        (few.assign(experiment="converged", planned_steps=1000), "converged"),
    ]:
        both = pd.concat([runs, other])
        monkeypatch.setattr(front, "results", lambda found=both: found)
        assert {*front.shown_runs()["experiment"]} == {expected}


def test_the_small_model_stands_where_the_other_has_no_runs(monkeypatch):
    runs = fpt.results()
    lists = runs[(runs["model"] == SIX) & (runs["column"] == "listops")]
    small = lists.assign(model="nano GPT-2", task="homology-short", column="homology")
    others = runs[(runs["model"] == SIX) & (runs["column"] == "bit-xor")]
    both = pd.concat([others, others.assign(model="nano GPT-2"), small])
    monkeypatch.setattr(front, "results", lambda: both)
    table = front.front_table()
    assert "on Remote homology nano GPT-2" in table.caption
    homology = both.loc[both["column"] == "homology"]
    mean = homology.loc[homology["arm"] == "language", "test_accuracy"].mean()
    assert table.frame.loc["language", "Remote homology"].startswith(f"**{mean:.1f}**")
    assert "At most 256 tokens" in table.caption


def test_the_front_pages_are_what_the_records_say():
    text = (ROOT / "README.md").read_text()
    assert front.in_readme(text, front.block()) == text
    assert (ROOT / "reports" / "README.md").read_text() == front.report()


def test_the_readme_is_short_and_begins_with_the_table():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 450
    assert text.count("![") == 1
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert text.index("|language|") < text.index(headings[0])


def test_every_task_of_a_model_is_in_the_answer_about_each_claim():
    sentences = list(front.answers(SIX))
    assert len(sentences) == len(front.ANSWERS)
    for task in ("Bit XOR", "Bit Memory", "ListOps", "MNIST", "CIFAR-10"):
        assert task in sentences[0]


# --------------------------------------------------------------------------------- figures, a run


def test_figures_have_one_colour_and_mark_for_an_arm():
    runs = fpt.results(model=SIX)
    names = ["language", "N(0, 0.02)"]
    figure = fpt.plot.accuracy(runs, "T9", names)
    panels = [ax.get_title(loc="left") for ax in figure.axes]
    assert panels == ["Bit Memory", "Bit XOR", "ListOps", "MNIST", "CIFAR-10"]
    for ax in figure.axes:
        hollow = [line for line in ax.lines if line.get_markerfacecolor() == "none"]
        assert len(hollow) == 2  # the paper has both arms on all of these tasks
        colours = {line.get_color() for line in ax.lines}
        assert colours == {fpt.plot.colour_of(name) for name in names}


def test_an_arm_learns_while_you_watch():
    curve = fpt.learn("bit-xor", arm="fully trained", steps=100, n=2)
    assert curve["accuracy"].iloc[-1] > 80 > curve["accuracy"].iloc[0]
    assert curve["step"].iloc[-1] == 100
    figure = fpt.plot.curves([curve, curve.assign(arm="language")])
    assert {text.get_text() for text in figure.axes[0].texts} == {"fully trained", "language"}


def test_another_deviation_is_of_drawn_weights_alone():
    with pytest.raises(FptError, match="std"):
        fpt.learn(std=0.2)
    with pytest.raises(FptError, match="std"):
        fpt.learn(arm="fully trained", std=0.2)
    with pytest.raises(FptError, match="fully trained"):
        fpt.learn(arm="full trained")
    with pytest.raises(FptError, match="without steps"):
        fpt.learn(arm="output only, converged")


def test_weights_are_matrices_by_name():
    weights = fpt.load("nano")
    assert weights["positions"].shape[1] == 128
    assert all(value.isfinite().all() for value in weights.values())
