"""Tasks and arms of the reader's own: the module of docs/own-task.md, known by its content."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from refusals import refuses

from fpt import config, own_task, tasks
from fpt.analysis.study import section
from fpt.sections import arms
from fpt.training.train import Job, train

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "own-task.md").read_text(encoding="utf-8")


def write_reviews(folder, count):
    texts = [f"number {n}" for n in range(count)]
    table = pd.DataFrame({"label": np.arange(count) % 2, "text": texts})
    table.to_csv(folder / "reviews.csv", index=False)


@pytest.fixture
def folder(project, tmp_path, monkeypatch):
    """A checkout with the page's module, its data and its lines of params.yaml."""
    (module,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    name = f"reviews_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(module)
    write_reviews(tmp_path, 40)
    params = yaml.safe_load((ROOT / "params.yaml").read_text()) | {"modules": [name]}
    params["smoke"]["tasks"]["reviews"] = {"steps": 4, "eval_every": 2}
    block = {"tasks": ["reviews"], "arms": ["fpt", "norms-only"]}
    params["smoke"]["sections"]["transfer"] = [block]
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    monkeypatch.setattr(tasks, "REGISTRY", dict(tasks.REGISTRY))
    monkeypatch.setattr(arms, "ARMS", dict(arms.ARMS))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_the_pages_task_and_arm_train_and_are_keyed_by_content(folder):
    study = section("transfer", "smoke")
    assert {run.arm for run in study.runs} == {"fpt", "norms-only"}
    assert study.runs[0].spec.trainable != study.runs[-1].spec.trainable
    # Pages have it, too.
    assert "norms-only" in study.declared.comparisons[0].arms
    job = Job(study.store, device="cpu", cache=folder)
    (record,) = train([study.runs[0].spec], job)
    assert record.metrics["test_items"] == 6
    assert record.environment["data_digest"] == study.tasks["reviews"].digest()
    assert not record.notes
    write_reviews(folder, 41)
    changed_runs = config.expand(config.load("smoke"), "transfer")
    assert not {run.key for run in changed_runs} & set(study.keys)
    # The run was planned on data that are not here any more.
    refuses(lambda: train([study.runs[1].spec], job), "'reviews' has other data here")


def test_an_arm_of_ones_own_needs_no_task_of_ones_own(folder):
    params = yaml.safe_load((folder / "params.yaml").read_text())
    del params["smoke"]["tasks"]["reviews"]
    params["smoke"]["sections"]["transfer"] = [{"tasks": ["digits"], "arms": ["norms-only"]}]
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    assert {run.arm for run in section("transfer", "smoke").runs} == {"norms-only"}


def test_an_arm_of_ones_own_may_have_a_role_of_ones_own(folder):
    (path,) = folder.glob("reviews_*.py")
    arm = 'fpt.register_arm(fpt.Arm("of-mine", "Mine", backbone="mine", weights="my-weights"))\n'
    path.write_text(f"{path.read_text()}\n{arm}")
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params["smoke"]["backbones"]["mine"] = "pico"
    params["smoke"]["weights"]["my-weights"] = "pico-english-0"
    params["smoke"]["sections"]["transfer"] = [{"tasks": ["digits"], "arms": ["of-mine"]}]
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    runs = section("transfer", "smoke").runs
    assert {(run.spec.backbone, run.spec.weights) for run in runs} == {("pico", "pico-english-0")}


def test_a_plan_asks_for_a_task_once(folder, monkeypatch):
    profile = config.load("smoke")
    factory, calls = tasks.REGISTRY["reviews"], []
    monkeypatch.setitem(tasks.REGISTRY, "reviews", lambda: calls.append(1) or factory())
    config.expand(profile, "transfer")
    assert calls == [1]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("digits", "other data here than the run names"), ("mine", "calls itself 'mine'")],
)
def test_a_task_has_the_name_that_it_is_registered_by(name, sentence, folder, monkeypatch):
    """By another name, its runs would learn from other data than their keys say."""
    profile = config.load("smoke")
    task = own_task(name, np.arange(80).reshape(40, 2), np.arange(40) % 2)
    monkeypatch.setitem(tasks.REGISTRY, "reviews", lambda: task)
    refuses(lambda: config.expand(profile, "transfer"), sentence)


def test_a_module_that_cannot_be_imported(folder):
    params = yaml.safe_load((folder / "params.yaml").read_text()) | {"modules": ["missing"]}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    refuses(lambda: config.load("smoke"), "cannot be imported", "No module named")


def test_a_module_that_was_mended_is_imported(folder):
    """What it had registered before it failed is not in its way."""
    (path,) = folder.glob("reviews_*.py")
    module = path.read_text()
    arm = 'fpt.register_arm(fpt.Arm("of-mine", "Mine", trainable=("output", "layernorn")))\n'
    path.write_text(f"{module}\n{arm}")
    refuses(lambda: section("transfer", "smoke"), "did you mean layernorm")
    sys.path_importer_cache.clear()  # two versions within one second
    path.write_text(f"{module}\n{arm.replace('layernorn', 'layernorm')}# mended\n")
    assert section("transfer", "smoke").runs


def test_a_task_that_its_own_code_cannot_make_is_named(folder):
    (folder / "reviews.csv").unlink()
    refuses(lambda: section("transfer", "smoke"), "'reviews' cannot be made", "reviews.csv")


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


def inputs_of(task, split):
    rows = torch.arange(task.sizes[split])[None]
    return task.examples(split, rows, "cpu").inputs[0]


# Test examples would leak into training.
def test_a_task_is_standardised_by_its_training_examples():
    numbers = np.random.default_rng(0).normal(1e9, 3, size=(40, 6, 2))
    tokens = inputs_of(own_task("mine", numbers, np.arange(40) % 2), "train").flatten(0, 1)
    np.testing.assert_allclose(tokens.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(tokens.std(0, correction=0), 1, atol=1e-5)


def test_a_split_is_drawn_and_fixed():
    """Each example is a symbol of its own, in the order of the file, sorted by label."""

    def split():
        task = own_task("mine", np.arange(100)[:, None], np.arange(100) // 50)
        return [inputs_of(task, name).flatten().tolist() for name in task.sizes]

    parts = split()
    assert parts == split()
    assert sorted(sum(parts, [])) == list(range(100))
    assert all({symbol // 50 for symbol in part} == {0, 1} for part in parts)


def test_the_best_constant_answer_is_a_baseline():
    task = own_task("mine", np.arange(80)[:, None], np.repeat([0, 1], [60, 20]))
    assert task.floors() == {"majority": 0.75}


# A test of 8 and 22 examples of two equal classes moves the trivial baselines.
def test_each_class_has_its_share_in_all_parts():
    task = own_task("mine", np.arange(200)[:, None], np.arange(200) % 2)
    for split, size in task.sizes.items():
        assert np.bincount(task.splits[split][1][:, 0]).tolist() == [size // 2] * 2


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
    refuses(lambda: own_task("own", np.zeros((60, 3)), np.arange(60)), "60 different labels")
