"""What is evaluated in part is a random subset of the whole, the same for every run."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made import exploratory, make_study
from tiny import spec, task_of

from fpt import config
from fpt.config import make_spec
from fpt.records import Store
from fpt.report import results_table
from fpt.sections import declared
from fpt.spec import RunSpec
from fpt.tasks import get_task
from fpt.tasks.datasets import Dataset
from fpt.tasks.sequences import end_to_end
from fpt.tasks.text import TextTask
from fpt.training.loop import Loop
from fpt.training.model import evaluate
from fpt.training.settings import LONG_TEST_ITEMS, semantics_of

CPU = torch.device("cpu")
LISTOPS = {"max_length": 64, "train": 500, "valid": 2000, "test": 500}
COUNT = 400


@pytest.fixture
def prepared(tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tiny)


def test_a_subset_of_sorted_labels_has_each_class_in_proportion(prepared: None) -> None:
    labels = torch.arange(10).repeat_interleave(100)

    arrays = end_to_end("valid", [torch.ones(3).numpy()] * 1000, labels.byte().numpy())
    task = TextTask(
        name="sorted", options={}, kind="token", dim=9, length=3, classes=10, names=("a",) * 10,
        sizes={"valid": 1000}, dataset=Dataset("sorted-v1", {}, lambda: arrays),
    )  # fmt: skip
    for count in (10, 250, 999):
        rows = task.subset("valid", count)
        assert len(rows.unique()) == count
        share = torch.bincount(labels[rows], minlength=10)
        assert (share - count / 10).abs().max() <= 1
    assert task.subset("valid", 0).equal(torch.arange(1000))
    assert task.subset("valid", 5000).equal(torch.arange(1000))


def test_inputs_of_bit_xor_that_are_counted_through_are_drawn() -> None:
    task = get_task("bit-xor", n=5)
    first_strings = task.subset("valid", 200) // 32
    assert len(first_strings.unique()) == 32
    (batch,) = task.eval_batches("valid", 200, CPU, 200)
    assert batch.inputs[0, :, :5].unique(dim=0).shape[0] == 32


def test_every_arm_and_pack_is_evaluated_on_the_same_examples(
    prepared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is trained, however many are trained together and however it is batched."""
    run = spec("listops", LISTOPS, steps=2, eval_items=50, test_items=60)
    other = replace(run, trainable=("output",), seed=1)
    seen: list[list[list[int]]] = []
    for specs, size in (([run], 32768), ([other], 640), ([run, other], 1000)):
        monkeypatch.setattr("fpt.training.model.EVAL_TOKENS", size)
        task = task_of(run)
        loop = Loop(specs if len(specs) == 1 else [run, replace(run, lr=0.1)], task, CPU)
        examples: dict[str, list[list[int]]] = {}
        for split, count in (("valid", 50), ("test", 60), ("train", 70)):
            shown: list[list[int]] = []
            loop.model.register_forward_pre_hook(
                lambda _, given, shown=shown: shown.extend(given[0].inputs[0].tolist())
            )
            scores = evaluate(loop.model, split, count)
            assert all(score["items"] == count for score in scores)
            examples[split] = sorted([t for t in tokens if t] for tokens in shown[:count])
        seen.append([tokens for split in examples.values() for tokens in split])
    assert seen[0] == seen[1] == seen[2]


# ------------------------------------------------------------------------- what the specs say


def of(task: str, arm: str = "random") -> RunSpec:
    return make_spec(config.load("paper"), arm, task, 0)


def test_a_task_of_long_sequences_is_tested_on_a_part_that_the_spec_names() -> None:
    long = [of("cifar10-lra", arm) for arm in ("fpt", "random", "full", "lstm")]
    assert {run.test_items for run in long} == {LONG_TEST_ITEMS}
    assert of("cifar10").test_items == 0
    assert of("homology").test_items == 0  # 718 examples: all of them


@pytest.mark.parametrize(
    ("changes", "semantics"),
    [
        ({}, 1),
        ({"eval_items": 5}, 2),  # of all inputs, counted through
        ({"eval_items": 16}, 1),  # all of them
        ({"backbone": "lstm-released-tiny", "trainable": ("recurrent",)}, 2),
        ({"task": "listops"}, 2),
        ({"task": "listops", "procedure": "probe", "dropout": 0.0}, 1),
        ({"task": "mnist", "eval_items": 1000}, 1),  # stored in random order
        ({"backbone": "t5-encoder-nano"}, 3),  # without positions
        ({"backbone": "t5-encoder-nano", "input_init": "default"}, 1),
        ({"backbone": "t5-encoder-nano", "task": "listops"}, 2),  # tokens are never zeros
        ({"backbone": "vit-nano"}, 3),
        ({"backbone": "vit-nano", "init": "pretrained", "weights": "vit-nano-cifar10-0"}, 1),
        ({"backbone": "vit-base", "init": "pretrained", "weights": "hub:a/b@c"}, 3),
        (
            {"backbone": "hub:HuggingFaceTB/SmolLM2-135M@93efa2f097d58c2a74874c7e644dbc9b0cee75a2"},
            3,
        ),
        ({"backbone": "lstm-tiny"}, 1),
    ],
)
def test_semantics_move_with_what_a_run_evaluates_drops_or_starts_from(
    tiny, changes: dict[str, object], semantics: int
) -> None:
    values = dict(changes)
    run = spec(str(values.pop("task", "bit-xor")), **values)
    assert semantics_of(run) == semantics


def test_no_committed_record_is_of_a_superseded_meaning() -> None:
    store = Store(Path(__file__).parents[1] / "reports/lab/records")
    records = store.read_all(store.keys()).values()
    explored = exploratory()
    assert len(records) == len(store.keys()) > 0 < len(explored)
    specs = [record.spec for record in (*records, *explored)]
    assert all(run.semantics == semantics_of(run) for run in specs)


def test_a_table_says_on_how_much_of_a_long_test_set_it_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study(tmp_path, monkeypatch, arms=["fpt"], tasks=["cifar10-lra", "mnist"])
    caption = results_table(study, declared("transfer").comparisons[0]).caption
    assert "cifar10-lra is tested on 2,000 of 10,000 examples" in caption
    assert "mnist is tested" not in caption
