"""`fpt.audit`: fair arms, verdicts that are calibrated, results that are kept."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fpt
from fpt import FptError
from fpt.__main__ import main
from fpt.auditing import arms, baselines, data, engine, plan, runs, verdict
from fpt.auditing.arms import CONTROLS, PRETRAINED, TRAINED
from fpt.auditing.verdict import Difference, difference, judge

# One layer of a backbone that ships with the package, for a few steps.
SMALL = {"backbone": "nano@1", "steps": 8, "draws": 3, "workers": 1}
SMALL["progress"] = False
rng = np.random.default_rng(0)
X = rng.normal(size=(160, 4, 2))
Y = np.where(X[:, :, 0].sum(1) > 0, "up", "down")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("audits")


@pytest.fixture(scope="module")
def audit(folder):
    return fpt.audit(X, Y, folder=folder, **SMALL)


def test_a_sum_needs_no_transformer(audit):
    assert audit.verdict == "no transformer is needed"
    assert audit.table.loc["linear", "score"] > 0.9
    assert {*TRAINED, "linear", "probe"} <= set(audit.table.index)
    assert audit.cuts == ()


def test_all_arms_are_treated_alike(audit):
    """One grid, the same seeds, and draws of every control crossed with them."""
    by_arm = {arm: rows for arm, rows in audit.runs.groupby("arm")}
    layouts = {
        arm: sorted(zip(by_arm[arm]["draw"], by_arm[arm]["seed"], strict=True)) for arm in CONTROLS
    }
    assert len({str(layout) for layout in layouts.values()}) == 1
    assert audit.table.loc[list(CONTROLS), "draws"].min() >= 3
    assert set(by_arm["random"]["seed"]) <= set(by_arm[PRETRAINED]["seed"])
    assert set(audit.table["lr"].dropna()) <= set(audit.facts["rates"])
    search = {seed for seed in plan.SEARCH_SEEDS}
    assert not search & {*audit.runs["seed"], *audit.runs["draw"].dropna()}


def test_the_same_audit_again_only_reads(audit, folder, monkeypatch):
    monkeypatch.setattr(engine, "train_pack", lambda *_, **__: pytest.fail("a pack was trained"))
    again = fpt.audit(X, Y, folder=folder, **SMALL)
    pd.testing.assert_frame_equal(again.table, audit.table)
    # The time of the runs, not of the call that reads them.
    assert again.facts["minutes_taken"] == audit.facts["minutes_taken"] > 0


def test_numpy_scalars_are_numbers(audit, folder, monkeypatch):
    monkeypatch.setattr(engine, "train_pack", lambda *_, **__: pytest.fail("a pack was trained"))
    numbers = {"steps": 8, "draws": 3, "workers": 1, "batch": 16, "random_state": 0}
    scalars = {name: np.int64(value) for name, value in numbers.items()}
    scalars |= {
        "minutes": np.float32(30),
        "margin": np.float64(0.02),
        "validation": np.float64(0.15),
    }
    again = fpt.audit(X, Y, folder=folder, **SMALL | scalars)
    assert again.to_dict() == audit.to_dict()


def test_an_audit_that_was_stopped_goes_on(audit, folder, monkeypatch):
    (results,) = folder.iterdir()
    lost = sorted(path for path in results.iterdir() if len(path.stem) == 16)[0]
    lost.unlink()
    packs = []
    train_pack = runs.train_pack
    monkeypatch.setattr(
        engine, "train_pack", lambda pack, **more: packs.append(pack) or train_pack(pack, **more)
    )
    again = fpt.audit(X, Y, folder=folder, **SMALL)
    assert len(packs) == 1
    pd.testing.assert_frame_equal(again.table, audit.table)


def test_results_of_a_cpu_and_of_a_gpu_are_kept_apart(tmp_path, monkeypatch):
    """In fp32 and in bf16, which a comparison must not mix; "auto" is what is there."""
    folders = []

    def stop(layout, machine, results, *_):
        folders.append(results.folder)
        raise InterruptedError

    monkeypatch.setattr(engine, "planned_sizes", stop)
    for device, has_gpu in (("cpu", True), ("auto", False), ("cuda", True), ("auto", True)):
        monkeypatch.setattr("torch.cuda.is_available", lambda has_gpu=has_gpu: has_gpu)
        with pytest.raises(InterruptedError):
            fpt.audit(X, Y, device=device, folder=tmp_path, **SMALL)
    assert folders[0] == folders[1] != folders[2] == folders[3]


# A search that reads them makes every verdict too sure.
def test_the_search_of_rates_never_reads_the_test_examples(audit, folder):
    (results,) = folder.iterdir()
    contents = [json.loads(path.read_text()) for path in results.iterdir() if len(path.stem) == 16]
    reported = audit.runs[audit.runs["arm"].isin(TRAINED)]
    assert sum(len(content["correct"]) > 0 for content in contents) == len(reported) < len(contents)


def test_the_page_needs_no_other_file_and_has_no_foreign_markup(audit, tmp_path):
    named = replace(audit, facts={**audit.facts, "backbone": "<i>", "inputs": "<i>"})
    page = named.to_html(tmp_path / "audit.html").read_text()
    assert "<i>" not in page
    assert audit.verdict.capitalize() in page
    assert 'src="http' not in page
    assert "<link" not in page


# At most 5% of audits of nothing may say that content helps.
def test_labels_that_mean_nothing_give_no_verdict(folder):
    shuffled = np.random.default_rng(1).permutation(Y)
    audit = fpt.audit(X, shuffled, folder=folder, **SMALL)
    assert audit.verdict in (verdict.UNCLEAR, verdict.NO_TRANSFORMER_NEEDED)


def test_numbers_are_predicted_too(folder):
    audit = fpt.audit(X, X[:, :, 1].sum(1), folder=folder, **SMALL)
    assert audit.facts["task"] == "regression"
    assert audit.table.loc["linear", "score"] > 0.99
    # The mean of the training targets, in units of their variance.
    assert abs(audit.facts["guess"]) < 0.5


def test_the_time_is_kept(folder):
    with pytest.raises(FptError, match="before the pretrained backbone was trained"):
        fpt.audit(X[:100], Y[:100], minutes=1e-6, folder=folder, **SMALL)


def test_what_the_time_allows_is_planned():
    layout = plan.Layout([None], dict.fromkeys(TRAINED), 16, arms.Sizes(0, 0, 0, 0), 0)
    costs = dict.fromkeys(TRAINED, plan.Cost(0.01, 0.02, 0.05, 0.05))
    fewest = {sizes.draws: count for count, sizes in plan.SIZES}
    steps = []
    for minutes in (10, 60):
        sizes = plan.affordable_sizes(layout, costs, 60 * minutes, None, None)
        planned = plan.Layout([None], layout.bodies, 16, sizes, 0)
        assert plan.total_cost(planned, costs) <= 60 * minutes
        assert sizes.steps >= fewest[sizes.draws]
        steps.append(sizes.steps)
    assert steps[0] < steps[1]
    # Steps that are asked for may be fewer.
    assert plan.affordable_sizes(layout, costs, 1e9, 8, None).draws == max(fewest)


def test_a_best_rate_at_the_edge_extends_the_grid():
    assert plan.beyond([0.003], plan.RATES) == []
    assert plan.beyond([0.03, 0.0003], plan.RATES) == [0.0001, 0.1]
    assert plan.beyond([0.3], [*plan.RATES, 0.1, 0.3]) == []


def test_no_arm_keeps_a_rate_at_an_edge_that_the_grid_could_leave(tmp_path, monkeypatch):
    """The best of a first look may lie inside the grid, and the best after all steps at its
    edge."""
    score = {0.01: 0.9, 0.03: 0.8, 0.1: 0.7}

    def trained(pack, **_):
        contents = []
        for spec in pack.specs:
            is_last = spec.steps == SMALL["steps"]
            valid_score = (
                0.95
                if is_last and (pack.arm, spec.lr) == ("random", 0.03)
                else score.get(spec.lr, 0.6)
            )
            test = pack.task.sizes["test"] if pack.is_reported else 0
            contents.append(
                {
                    "correct": [1.0] * test,
                    "valid_score": valid_score,
                    "valid_loss": 0.0,
                    "best_step": 1,
                    "curve": [],
                    "diverged": False,
                }
            )
        return contents

    monkeypatch.setattr(engine, "train_pack", trained)
    audit = fpt.audit(X, Y, folder=tmp_path, **SMALL)
    assert audit.table.loc["random", "lr"] == 0.03
    assert audit.facts["rates"] == [*plan.RATES, 0.1]
    assert not audit.table["at_edge"].any()


# Halving drops a rate that learns late, which would make an arm worse than it is.
def test_an_arm_that_only_guessed_at_its_first_look_tries_all_rates_for_all_steps(
    tmp_path, monkeypatch
):
    trained = []
    train_pack = runs.train_pack
    monkeypatch.setattr(
        engine, "train_pack", lambda pack, **more: trained.append(pack) or train_pack(pack, **more)
    )
    learned = {arm: arm != "random" for arm in TRAINED}
    monkeypatch.setattr(plan, "has_learned", lambda results, packs, _: learned[packs[0].arm])
    fpt.audit(X, Y, folder=tmp_path, **SMALL)
    all_rates_and_steps = {
        pack.arm
        for pack in trained
        if len({spec.lr for spec in pack.specs}) >= 5 and pack.specs[0].steps == SMALL["steps"]
    }
    assert all_rates_and_steps == {"random"}


def test_what_only_guesses_has_not_learned(tmp_path):
    results = runs.Results(tmp_path)
    spec = type("Spec", (), {"key": "a"})
    pack = type("Pack", (), {"specs": [spec]})
    content = {"correct": [], "valid_loss": 0.0, "best_step": 1, "curve": [], "diverged": False}
    guesses = np.repeat([0.0, 1.0], 50)
    for score, learned in ((0.5, False), (0.6, False), (0.7, True)):
        results.write("a", {**content, "valid_score": score})
        assert plan.has_learned(results, [pack], guesses) is learned


def test_groups_and_given_folds_are_kept():
    groups = np.repeat(np.arange(40), 4)
    examples = data.read_examples(X, Y, groups, "auto")
    for cv in (4, np.int64(4)):
        for fold in data.folds_of(examples, cv, 0.2, 0):
            members = [set(groups[rows]) for rows in fold.rows.values()]
            assert len(set().union(*members)) == sum(map(len, members))
    training, test = np.arange(120), np.arange(120, 160)
    is_test = np.arange(160) >= 120
    rare = np.where(np.arange(160) == 3, "once", Y)  # which cannot be in every part
    examples = data.read_examples(X, rare, None, "auto")
    for pair in (
        (training, test),
        (training.tolist(), tuple(test)),
        (range(120), pd.Series(test)),
        (~is_test, is_test.tolist()),
    ):
        (fold,) = data.folds_of(examples, [pair], 0.2, 0)
        assert (fold.rows["test"] == test).all()
        assert set(fold.rows["train"]) | set(fold.rows["valid"]) == set(training)


def test_a_wide_backbone_computes_in_bf16_where_the_processor_has_it(monkeypatch):
    for instructions, wide, precision in (
        ("amx", True, "bf16"),
        ("amx", False, "auto"),
        ("none", True, "auto"),
    ):
        monkeypatch.setattr(runs.devices, "bf16_instructions", lambda has=instructions: has)
        assert runs.machine_for("cpu", 1, wide).precision == precision


def test_flat_tokens_are_those_of_the_sequences():
    symbols = [np.array([2, 0, 1]), np.array([1])] * 20
    examples = data.read_examples(symbols, np.arange(40) % 2, None, "auto")
    (fold,) = data.folds_of(examples, None, 0.2, 0)
    flat = fold.flat("train").toarray()
    for row, number in zip(flat, fold.rows["train"], strict=True):
        expected = np.zeros((3, 3))
        expected[np.arange(len(symbols[number])), symbols[number]] = 1
        assert (row == expected.ravel()).all()


def test_random_convolutions_are_fitted_if_a_library_is_there(tmp_path, monkeypatch):
    """By a stand-in for aeon, whose MiniRocket gives the mean of each channel."""
    package = tmp_path / "aeon" / "transformations" / "collection"
    package.mkdir(parents=True)
    (package / "convolution_based.py").write_text(
        "class MiniRocket:\n"
        "    def __init__(self, n_kernels, random_state): pass\n"
        "    def fit_transform(self, X): return X.mean(2)\n"
        "    transform = fit_transform\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    series = np.random.default_rng(0).normal(size=(200, 12, 2))
    examples = data.read_examples(series, series[:, :, 1].sum(1) > 0, None, "auto")
    (fold,) = data.folds_of(examples, None, 0.2, 0)
    assert baselines.has_convolutions(fold)
    assert np.mean(baselines.convolutions(fold)["correct"]) > 0.9


# ------------------------------------------------------------------------------------- verdicts


def gaps(half=1, **differences):
    """Differences in points, each with an interval of `half` points to either side."""
    points = {arm.replace("_", "-"): value / 100 for arm, value in differences.items()}
    half /= 100
    return {
        arm: Difference(value, value - half, value + half, value + 0.8 * half)
        for arm, value in points.items()
    }


@pytest.mark.parametrize(
    ("label", "differences"),
    [
        ("no transformer is needed", {"random": 5, "linear": 0}),
        ("any frozen body suffices", {"random": 0.5, "random_at_scale": 0, "linear": 5}),
        ("its scale suffices", {"random": 5, "random_at_scale": 0.5, "linear": 5}),
        ("its statistics suffice", {"random": 5, "random_at_scale": 5, "statistics_tensor": 0.5}),
        ("its statistics suffice", {"random": 5, "statistics_tensor": 5, "shuffled": 0.5}),
        ("its content helps", {"random": 5, "statistics_tensor": 4, "linear": 5, "probe": 0}),
        ("it hurts", {"random": -5, "random_at_scale": 5, "linear": 5}),
        ("no clear difference", {"random": 5, "shuffled": 1.5, "half": 2}),
        ("no clear difference", {"random": 5, "linear": 1.5, "half": 2}),
    ],
)
def test_the_first_verdict_that_holds_is_given(label, differences):
    best_without = "linear" if "linear" in differences else None
    decision = judge(gaps(**differences), 0.02, best_without, learned=True)
    assert decision.label == label
    assert bool(decision.remedy) == (label == "no clear difference")


def test_a_model_that_is_one_more_draw_is_rarely_called_better():
    draws = np.random.default_rng(0)
    helped = 0
    for _ in range(400):
        means = 0.8 + 0.03 * draws.normal(size=6)
        runs = means[:, None, None] + 0.01 * draws.normal(size=(6, 2, 1))
        scores = (draws.uniform(size=(1, 1, 200)) < runs).astype(float)
        gap = difference(scores[:1], scores[1:])
        helped += gap.low > 0 or gap.high < 0
    assert helped / 400 <= 0.05


def test_a_difference_is_that_of_the_means_with_a_known_interval():
    """Constant examples leave the spread of the draws alone: sd * sqrt(1 + 1/3) * t(2)."""
    model = np.full((1, 2, 50), 0.9)
    control = np.stack([np.full((2, 50), mean) for mean in (0.5, 0.6, 0.7)])
    gap = difference(model, control)
    assert gap.estimate == pytest.approx(0.3)
    assert gap.high - gap.estimate == pytest.approx(4.3027 * 0.1 * np.sqrt(4 / 3), rel=1e-4)


def test_power_for_one_deviation_is_that_of_a_simulation():
    draws = np.random.default_rng(0).normal(size=(20_000, 6))
    means, deviations = draws[:, 1:].mean(1), draws[:, 1:].std(1, ddof=1)
    unlike = np.abs(draws[:, 0] + 1 - means) > 2.7764 * deviations * np.sqrt(1.2)
    assert verdict.power_of_one_deviation(5) == pytest.approx(unlike.mean(), abs=0.01)


# ------------------------------------------------------------------------------------ wrong input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.array(["one"] * 160)}, "one class"),
        ({"y": np.tile(Y[:, None], 4)}, r"y should be \(N,\)"),
        ({"groups": [1, 2]}, r"groups should be \(160,\)"),
        ({"cv": "many"}, "folds cannot be made"),
        ({"cv": [(range(100), [160])]}, "folds cannot be made: index 160 is out of bounds"),
        ({"cv": [(range(100), [0.5])]}, "folds cannot be made"),
        ({"draws": 2}, "audit.draws: expected a whole number from 3 to 6, found 2"),
        ({"draws": 3.5}, "audit.draws: expected a whole number"),
        ({"steps": 0}, "audit.steps: expected a whole number"),
        ({"minutes": "ten"}, "audit.minutes: expected a number"),
        ({"task": "ranking"}, "task: 'ranking' is not known"),
        ({"X": X[:10], "y": Y[:10]}, "at least 20 examples"),
    ],
)
def test_wrong_data_are_one_sentence(changes, message):
    with pytest.raises(FptError, match=message):
        fpt.audit(**{"X": X, "y": Y, **SMALL, **changes})


def test_a_table_is_audited_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FPT_ROOT", str(tmp_path))
    table = pd.DataFrame(X[:, :, 0], columns=["north", "east", "south", "west"])
    table.assign(answer=Y).to_csv(tmp_path / "winds.csv", index=False)
    command = ["audit", str(tmp_path / "winds.csv"), "--target", "answer", "--backbone", "nano@1"]
    page, numbers = tmp_path / "audit.html", tmp_path / "audit.json"
    command += ["--steps", "4", "--draws", "3", "--html", str(page), "--json", str(numbers)]
    assert main(command) == 0
    content = json.loads(numbers.read_text())
    assert content["facts"]["examples"] == len(Y)
    assert content["verdict"] in capsys.readouterr().out
    assert content["verdict"].capitalize() in page.read_text()
    assert main(["audit", str(tmp_path / "missing.csv")]) == 2


def test_arrays_are_read_from_a_file(tmp_path):
    path = tmp_path / "series.npz"
    np.savez(path, X=X, y=Y, groups=np.arange(len(Y)))
    inputs, answers, groups = data.read_file(path, "")
    assert (inputs == X).all()
    assert (answers == Y).all()
    assert len(groups) == len(Y)
    np.savez(path, X=X, labels=Y)
    with pytest.raises(FptError, match=r"series.npz cannot be read \('y is not a file in"):
        data.read_file(path, "")
