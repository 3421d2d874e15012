"""`fpt.audit`: fair arms, verdicts that are calibrated, results that are kept."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fpt
from fpt import FptError
from fpt.auditing import arms, baselines, data, engine, folds, plan, runs, verdict
from fpt.auditing.arms import CONTROLS, PRETRAINED, TRAINED
from fpt.backbones import backbone
from fpt.files import lock

# One layer of a backbone that ships with the package, for a few steps.
SMALL = {"backbone": "nano@1", "steps": 8, "draws": 3, "workers": 1, "progress": False}
rng = np.random.default_rng(0)
X = rng.normal(size=(160, 4, 2))
Y = np.where(X[:, :, 0].sum(1) > 0, "up", "down")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("audits")


@pytest.fixture(scope="module")
def audit(folder):
    return fpt.audit(X, Y, folder=folder, **SMALL)


@pytest.fixture
def trained(monkeypatch):
    """The packs that are trained from here on."""
    packs, train_pack = [], runs.train_pack
    monkeypatch.setattr(
        engine, "train_pack", lambda pack, **more: packs.append(pack) or train_pack(pack, **more)
    )
    return packs


def test_a_sum_needs_no_transformer(audit):
    assert audit.verdict == "no transformer is needed"
    assert audit.table.loc["linear", "score"] > 0.9
    assert {*TRAINED, "linear", "probe"} <= set(audit.table.index)
    assert audit.cuts == ()
    assert f"A constant answer has the accuracy {audit.facts['guess']:.3f}" in repr(audit)
    # Eight steps are too few for the nets, whatever the rate.
    print(audit.advice, audit.table)


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


def test_the_same_audit_in_numbers_of_numpy_only_reads(audit, folder, monkeypatch):
    """Its time is that of the runs, not of the call that reads them."""
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
    assert audit.facts["minutes_taken"] > 0


def test_an_audit_that_was_stopped_goes_on(audit, folder, trained):
    (results,) = folder.iterdir()
    lost = sorted(path for path in results.iterdir() if len(path.stem) == 16)[0]
    lost.unlink()
    again = fpt.audit(X, Y, folder=folder, **SMALL)
    assert len(trained) == 1
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
    assert f"{100 * audit.table.loc['linear', 'difference']:+.1f} [" in page
    assert "Best at the edge" not in page
    at_edge = replace(
        audit,
        facts={**audit.facts, "train": [7, 9], "valid": [5, 5]},
        table=audit.table.assign(at_edge=audit.table.index == PRETRAINED),
    )
    page = at_edge.to_html(tmp_path / "audit.html").read_text()
    assert "Best at the edge of this grid: pretrained" in page
    assert "7 to 9 training, 5 validation" in page


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


LAYOUT = plan.Layout([None], dict.fromkeys(TRAINED), 16, arms.Sizes(0, 0, 0, 0), 0)
COSTS = dict.fromkeys(TRAINED, plan.Cost(0.01, 0.02, 0.05, 0.05))


def test_a_cost_is_that_of_one_run_of_a_pack(monkeypatch):
    """Two runs, of which each step, evaluation and building takes one second."""
    examples = data.read_examples(X, Y, None, "auto")
    (fold,) = folds.folds_of(examples, None, 0.2, 0)
    bare = arms.body_of("last-token", backbone("nano@1"), None)
    layout = replace(LAYOUT, folds=[fold], bodies={"last-token": bare})
    seconds = itertools.count()
    monkeypatch.setattr(plan, "now", lambda device: float(next(seconds)))
    cost = plan.measured_cost(layout, "last-token", runs.machine_for("cpu", 1, False))
    assert (cost.step, cost.evaluation, cost.building) == (0.5, 0.5, 0.5)
    sizes = fold.task.sizes
    assert cost.test == pytest.approx(0.5 * sizes["test"] / sizes["valid"])


# Workers wait for each other, so many of them do not do as much more.
@pytest.mark.parametrize("workers", [1, 2, 16, 64])
def test_what_the_time_allows_is_planned(workers):
    fewest = {sizes.draws: count for count, sizes in plan.SIZES}
    steps = []
    for minutes in (10 / workers, 60 / workers):
        sizes = plan.affordable_sizes(LAYOUT, COSTS, 60 * minutes, workers, None, None)
        planned = replace(LAYOUT, sizes=sizes)
        assert plan.duration(planned, COSTS, workers) <= plan.SHARE_PLANNED * 60 * minutes
        assert sizes.steps >= fewest[sizes.draws]
        steps.append(sizes.steps)
    assert steps[0] < steps[1]
    # Without time for any, the smallest ends with the time.
    least = replace(plan.SIZES[-1][1], steps=plan.FEWEST_STEPS)
    assert plan.affordable_sizes(LAYOUT, COSTS, 0.0, workers, None, None) == least
    assert plan.affordable_sizes(LAYOUT, COSTS, 0.0, workers, 8, None).steps == 8
    # Steps that are asked for may be fewer.
    assert plan.affordable_sizes(LAYOUT, COSTS, 1e9, workers, 8, None).draws == max(fewest)


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
    tmp_path, trained, monkeypatch
):
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


def test_a_wide_backbone_computes_in_bf16_where_the_processor_has_it(monkeypatch):
    for instructions, wide, precision in (
        ("amx", True, "bf16"),
        ("amx", False, "auto"),
        ("none", True, "auto"),
    ):
        monkeypatch.setattr(runs.devices, "bf16_instructions", lambda has=instructions: has)
        assert runs.machine_for("cpu", 1, wide).precision == precision


def test_a_search_leaves_the_reported_runs_their_time():
    layout = replace(LAYOUT, sizes=arms.Sizes(200, 5, 2, 5))
    for workers in (1, 8):
        steps = plan.in_steps(layout)
        whole = plan.duration(layout, steps, workers)
        share = plan.makespan(plan.stages(layout, steps)[-1], workers) / whole
        left = 1 - plan.share_of_search(layout, workers)
        assert left == pytest.approx(plan.SHARE_PLANNED * share)


def test_workers_take_the_next_pack_as_they_are_free():
    assert plan.makespan([3.0, 1.0, 1.0, 1.0], 1) == 6
    assert plan.makespan([3.0, 1.0, 1.0, 1.0], 2) == 3
    assert plan.makespan([1.0, 1.0, 3.0], 2) == 4
    assert plan.by_rounds(["ab", "c", "de"]) == [*"acdbe"]


def test_a_pack_that_comes_too_late_builds_no_model(monkeypatch):
    monkeypatch.setattr(runs, "Loop", lambda *_, **__: pytest.fail("a model was built"))
    pack = type("Pack", (), {"specs": ()})
    assert runs.train_pack(pack, runs.machine_for("cpu", 1, False), deadline=0.0) is None


def test_no_pack_keeps_more_activations_than_one_of_a_sweep(tmp_path, trained, monkeypatch):
    tokens = 16 * X.shape[1]  # of a step of one run
    monkeypatch.setattr("fpt.training.sweep.MAX_TOKENS_PER_STEP", 2 * tokens + 1)
    audit = fpt.audit(X, Y, folder=tmp_path, **SMALL)
    assert {len(pack.specs) for pack in trained} == {1, 2}
    assert audit.cuts == ()
    keys = [spec.key for pack in trained for spec in pack.specs]
    assert len(keys) == len({*keys})


def test_a_probe_that_is_late_is_cut(tmp_path, monkeypatch):
    """It reads all examples, which may take longer than is left."""
    monkeypatch.setattr(
        baselines, "features_of", lambda _, batches: [*baselines.until(0.0, batches)]
    )
    audit = fpt.audit(X, Y, folder=tmp_path, **SMALL)
    assert "probe" not in audit.table.index
    assert audit.cuts == ("“linear probe of its features” was not fitted.",)


def test_a_pack_without_memory_is_one_sentence(tmp_path, monkeypatch):
    def full(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(plan, "Loop", full)
    with pytest.raises(FptError, match="smaller batch or fewer workers"):
        fpt.audit(X, Y, folder=tmp_path, **SMALL)


def test_an_audit_whose_search_is_late_reports_what_its_first_look_found(tmp_path, monkeypatch):
    train = engine.Engine.train

    def only_first_looks(self, packs, deadline):
        is_search = deadline == self.search_end
        looks = [pack for pack in packs if pack.specs[0].steps == 2 and pack.arm != "shuffled"]
        train(self, looks if is_search else packs, deadline)

    monkeypatch.setattr(engine.Engine, "train", only_first_looks)
    monkeypatch.setattr(plan, "beyond", lambda *_: [])
    audit = fpt.audit(X, Y, folder=tmp_path, **SMALL)
    assert {*TRAINED} - {"shuffled"} == {*TRAINED} & set(audit.table.index)
    assert sum("did not end" in cut for cut in audit.cuts) == len(TRAINED) - 1
    assert "No rate of “its entries shuffled” was found." in audit.cuts


def test_draws_that_are_asked_for_get_as_many_steps_as_the_time_pays():
    free = plan.affordable_sizes(LAYOUT, COSTS, 600, 1, None, None)
    fixed = plan.affordable_sizes(LAYOUT, COSTS, 600, 1, None, 6)
    assert fixed.draws == 6
    assert free.steps / 2 < fixed.steps <= free.steps


# A damaged score changed the numbers of the next call without a word.
def test_a_damaged_result_is_made_again(tmp_path):
    first = fpt.audit(X, Y, folder=tmp_path, **SMALL)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    result = next(path for path in folder.iterdir() if "0.0" in path.read_text())
    result.write_text(result.read_text().replace("0.0", "1.0", 1))
    (folder / "plan.json").write_text("{}")
    with pytest.warns(UserWarning, match="is damaged .* is made again"):
        again = fpt.audit(X, Y, folder=tmp_path, **SMALL)
    assert again.to_dict()["runs"] == first.to_dict()["runs"]


def test_one_process_audits_the_same_data_at_a_time(tmp_path, monkeypatch):
    class Begun(Exception):
        """The audit would train now."""

    def begin(layout, machine, results, *_):
        with lock(results.folder.with_suffix(".lock"), wait=False) as is_free:
            assert not is_free
        raise Begun

    monkeypatch.setattr(engine, "planned_sizes", begin)
    with pytest.raises(Begun):
        fpt.audit(X, Y, folder=tmp_path, **SMALL)
