"""Tasks, arms and models of the reader's own, which are known by their content."""

import sys

import numpy as np
import pandas as pd
import pytest
from made import LANGUAGE, NANO, block_of, write_params
from refusals import refuses

import fpt
from fpt import config, own_task, tasks
from fpt.plan import plan
from fpt.project import REGISTRIES

MODULE = """
from pathlib import Path

import fpt
import pandas as pd


def reviews():
    table = pd.read_csv(Path(__file__).with_name("reviews.csv"))
    texts = [list(text.encode()[:256]) for text in table["text"]]
    return fpt.own_task("reviews", texts, table["label"])


fpt.register_task("reviews", reviews)
fpt.register_arm(fpt.Arm("norms only", trainable=("output", "layernorm")))
fpt.register_model(fpt.Model("nano, half", "nano@2", "nano-english-0"))
"""


def write_reviews(folder, count):
    texts = [f"number {n}" for n in range(count)]
    table = pd.DataFrame({"label": np.arange(count) % 2, "text": texts})
    table.to_csv(folder / "reviews.csv", index=False)


@pytest.fixture
def registries():
    """A test forgets what it registered. First, so that it ends after other fixtures."""
    before = [dict(registry) for registry in REGISTRIES]
    yield
    for registry, content in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(content)


@pytest.fixture
def folder(registries, project, tmp_path, monkeypatch):
    """A checkout with a module of the reader's, its data and its lines of params.yaml."""
    (tmp_path / f"{module_in(tmp_path)}.py").write_text(MODULE)
    write_reviews(tmp_path, 40)
    plan_on(tmp_path, "reviews", "norms only")
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def module_in(folder):
    return f"reviews_{folder.name}"


def plan_on(folder, task, arm, model=NANO, modules=None):
    """A params.yaml that trains language, and this arm, on the task."""
    block = block_of(
        arms=dict.fromkeys([LANGUAGE, arm]), model=model, tasks=[task], steps=4, eval_every=2
    )
    write_params(folder, block, "own", modules=modules or [module_in(folder)])


def test_a_task_an_arm_and_a_model_of_ones_own_train_and_are_keyed_by_content(folder):
    plan_on(folder, "reviews", "norms only", "nano, half")
    whole = plan()
    assert {(run.model, run.arm) for run in whole.runs} == {
        ("nano, half", LANGUAGE), ("nano, half", "norms only")
    }  # fmt: skip
    (trained, *_) = whole.runs
    whole.only([trained.key]).train(device="cpu", workers=1)
    whole.write_index()
    row = fpt.results("transfer", "own", arm=trained.arm).iloc[0]
    assert (row["task"], row["model"], row["key"]) == ("reviews", "nano, half", trained.key)
    record = whole.records()[trained.key]
    assert record.metrics["test_items"] == 6
    assert record.environment["data_digest"] == tasks.get_task("reviews").digest()
    assert not record.notes
    write_reviews(folder, 41)
    assert not {run.key for run in plan().runs} & {run.key for run in whole.runs}
    # The runs were planned on data that are not here any more.
    refuses(lambda: whole.train(device="cpu", workers=1), "'reviews' has other data here")


def test_an_arm_of_ones_own_needs_no_task_of_ones_own(folder):
    plan_on(folder, "digits", "norms only")
    assert {run.arm for run in plan().runs} == {LANGUAGE, "norms only"}


def test_a_plan_asks_for_a_task_once(folder, monkeypatch):
    tier = plan().tier
    factory, calls = tasks.REGISTRY["reviews"], []
    monkeypatch.setitem(tasks.REGISTRY, "reviews", lambda: calls.append(1) or factory())
    config.expand(tier, "transfer")
    assert calls == [1]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("digits", "other data here than the run names"), ("mine", "calls itself 'mine'")],
)
def test_a_task_has_the_name_that_it_is_registered_by(name, sentence, folder, monkeypatch):
    """By another name, its runs would learn from other data than their keys say."""
    tier = plan().tier
    task = own_task(name, np.arange(80).reshape(40, 2), np.arange(40) % 2)
    monkeypatch.setitem(tasks.REGISTRY, "reviews", lambda: task)
    refuses(lambda: config.expand(tier, "transfer"), sentence)


def test_a_module_that_cannot_be_imported(folder):
    plan_on(folder, "reviews", "norms only", modules=["missing"])
    refuses(plan, "cannot be imported", "No module named")


def test_a_module_that_was_mended_is_imported(folder):
    """What it had registered before it failed is not in its way."""
    path = folder / f"{module_in(folder)}.py"
    arm = 'fpt.register_arm(fpt.Arm("of mine", trainable=("output", "layernorn")))\n'
    path.write_text(f"{MODULE}\n{arm}")
    refuses(plan, "layernorn", "layernorm")
    sys.path_importer_cache.clear()  # two versions within one second
    path.write_text(f"{MODULE}\n{arm.replace('layernorn', 'layernorm')}# mended\n")
    assert plan().runs


def test_a_task_that_its_own_code_cannot_make_is_named(folder):
    (folder / "reviews.csv").unlink()
    refuses(plan, "'reviews' cannot be made", "reviews.csv")


FRAME = pd.DataFrame(np.arange(60.0).reshape(20, 3)).assign(label=["x", "y"] * 10)


def test_tables_become_sequences(tmp_path):
    FRAME.to_csv(tmp_path / "own.csv", index=False)
    task = own_task("own", FRAME, "label")
    assert own_task("own", tmp_path / "own.csv", "label").digest() == task.digest()
    assert (task.kind, task.length, task.dim, task.classes) == ("vector", 3, 1, 2)
    assert task.sizes == {"train": 14, "valid": 3, "test": 3}
    sequences = list(FRAME.drop(columns="label").to_numpy())
    column = pd.DataFrame({"series": sequences, "label": FRAME["label"]})
    assert own_task("own", column, "label").digest() == task.digest()


# Test examples would leak into training.
def test_a_task_is_standardised_by_its_training_examples():
    numbers = np.random.default_rng(0).normal(1e9, 3, size=(40, 6, 2))
    tokens = own_task("mine", numbers, np.arange(40) % 2).splits["train"][0].tokens
    np.testing.assert_allclose(tokens.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(tokens.std(0), 1, atol=1e-5)


# A file may be sorted by label, and a class that few test examples have would move the floors.
def test_a_split_is_drawn_and_fixed_with_each_class_in_proportion():
    def split():
        task = own_task("mine", np.arange(200)[:, None], np.repeat([0, 1], [150, 50]))
        assert task.floors() == {"majority": pytest.approx(0.75, abs=0.02)}
        return [sequences.tokens.tolist() for sequences, _ in task.splits.values()]

    parts = split()
    assert parts == split()
    assert sorted(sum(parts, [])) == list(range(200))
    for part in parts:
        assert np.mean(np.array(part) < 150) == pytest.approx(0.75, abs=0.02)


# Missing labels once became a class of their own.
@pytest.mark.parametrize("column", [0, "label"])
@pytest.mark.parametrize("form", ["file", "frame", "nullable"])
def test_gaps_of_a_table_are_no_class(tmp_path, column, form):
    table = FRAME.copy()
    table.loc[3, column] = None
    table.to_csv(tmp_path / "gaps.csv", index=False)
    forms = {"file": tmp_path / "gaps.csv", "frame": table, "nullable": table.convert_dtypes()}
    refuses(lambda: own_task("mine", forms[form], "label"), "contains NaN", "example 3")


def test_data_that_cannot_be_read(tmp_path):
    refuses(lambda: own_task("own", tmp_path / "no.csv", "label"), "'own' cannot be")
    (tmp_path / "own.csv").write_text("label,x\na,1\nb,1,2\n")
    refuses(lambda: own_task("own", tmp_path / "own.csv", "label"), "line 3")
    refuses(lambda: own_task("own", np.zeros((4, 2)), [0, 1, 0, 1]), "ten examples")
    refuses(lambda: own_task("own", np.zeros((60, 3)), np.arange(60)), "60 classes")
