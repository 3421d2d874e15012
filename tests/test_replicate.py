"""`fpt replicate`: accuracies that a training gives again, and accuracies that were changed."""

from dataclasses import replace

import pytest
import torch
from made import LANGUAGE, make_plan
from refusals import check_said, one_sentence, refuses

from fpt.__main__ import main
from fpt.backbones.weights import find
from fpt.training.device import threads
from fpt.training.kept import TRAINED_ELSEWHERE, retrained
from fpt.training.train import train

CPU = torch.device("cpu")


@pytest.fixture
def trained(tiny_nano):
    """A plan of two runs of a tiny backbone that were trained in one pack."""
    settings = {"lr": 0.01, "batch": 8, "steps": 12, "eval_every": 3}
    tasks = {"bit-xor": {"options": {"n": 5}}}
    whole = make_plan(tiny_nano, arms=[LANGUAGE], tasks=tasks, seeds=2, **settings)
    whole.train(device="cpu", workers=1)
    whole.write_index()
    return whole


@pytest.fixture
def store(trained):
    return trained.store_of(trained.runs[0])


def first(trained):
    return trained.records()[trained.runs[0].key]


def lowered(record, points):
    accuracy = record.metrics["test_accuracy"] - points / 100
    return replace(record, metrics=record.metrics | {"test_accuracy": accuracy})


def replicated(capsys, *options):
    """Exit status and output of `fpt replicate`."""
    code = main(["replicate", "--device", "cpu", *options])
    return code, capsys.readouterr().out


def test_a_training_gives_the_recorded_accuracy_and_a_changed_one_is_found(trained, store, capsys):
    code, out = replicated(capsys)
    assert code == 0
    check_said(out, ["2 of 2 reproduce; the largest difference is 0.0 points"])
    record = store.write(lowered(first(trained), 1.5))
    code, out = replicated(capsys)
    assert code == 1
    name = f"bit-xor on pretrained tiny, seed 0 ({record.key[:8]})"
    check_said(out, [f"DIFFERS      {name}", "largest difference is 1.5 points"])
    once = replicated(capsys, "smoke", "--count", "1", "--seed", "1")
    assert replicated(capsys, "smoke", "--count", "1", "--seed", "1") == once
    assert replicated(capsys, "smoke", "--key", record.key)[0] == 1
    assert replicated(capsys, "--key", trained.runs[1].key)[0] == 0


def test_what_cannot_be_drawn_is_one_sentence(trained, capsys):
    wrong = {
        "smok": "smoke",
        "--key 0123456789abcdef": "record 0123456789abcdef",
        "--longest 0": "took at most 0",
    }
    for line, sentence in wrong.items():
        assert main(["replicate", *line.split()]) == 2
        assert sentence in one_sentence(capsys.readouterr().err.strip())


# Without its pack, sums come in another order, and the last bits differ.
def test_a_run_is_trained_in_its_pack_if_all_of_it_is_recorded(trained, store, monkeypatch):
    """And with as many threads, among which its sums are split."""
    packs = []

    def training(specs, job):
        packs.append(specs)
        assert torch.get_num_threads() == first(trained).environment["threads"]
        return train(specs, job)

    monkeypatch.setattr("fpt.training.kept.train", training)
    with threads(torch.get_num_threads() + 1):
        assert retrained(first(trained), store, CPU).tolerance == 0.0
    store.path(trained.runs[1].key).unlink()
    alone = retrained(first(trained), store, CPU)
    assert alone.tolerance == TRAINED_ELSEWHERE
    assert "up to 2.00 points allowed, since it trained without its pack" in str(alone)
    assert [len(specs) for specs in packs] == [2, 1]


def test_runs_whose_weights_are_not_here_are_passed_over(trained, store, capsys, monkeypatch):
    """Or whose data; and a sentence if there is nothing else to check."""
    record = first(trained)
    other_data = record.environment | {"data_digest": "0" * 64}
    changed = replace(record, environment=other_data)
    refuses(lambda: retrained(changed, store, CPU), "The data of the task 'bit-xor' are not")
    environment = record.environment | {"weights_digest": "0" * 64}
    store.write(replace(record, environment=environment))
    code, out = replicated(capsys, "--count", "2")
    assert code == 0
    check_said(out, ["1 of 1 reproduce", "1 could not be checked, such as:", "are not those"])
    find(record.spec.weights).unlink()
    looked_for = []
    place = "fpt.reading.replicate.files"
    monkeypatch.setattr(place, lambda name: looked_for.append(name) or find(name))
    assert main(["replicate", "--device", "cpu"]) == 2
    check_said(capsys.readouterr().err, [f"The weights {record.spec.weights!r} are in none of"])
    assert looked_for == [record.spec.weights]  # once: it may be a download that fails


@pytest.mark.parametrize("name", ["device", "torch"])
def test_another_machine_excuses_two_points_and_no_more(name, trained, store):
    record = first(trained)
    moved = replace(record, environment=record.environment | {name: "another"})
    assert retrained(lowered(moved, 1.5), store, CPU).matches
    assert not retrained(lowered(moved, 2.5), store, CPU).matches
