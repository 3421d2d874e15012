"""What the frozen backbone has and computes, by hand."""

import pytest
from made import LANGUAGE, make_plan

from fpt.backbones import backbone, build
from fpt.backbones.base import SIZES, matrices
from fpt.tasks import task_of
from fpt.training.flops import matrix_parameters, planned_flops

DEEPER = [size for size, (layers, _, _) in SIZES.items() if layers > 3]


def test_matrices_by_hand():
    """12 width^2 per layer of a transformer, 8 per layer of an LSTM; GPT-2 is not built for it."""
    built = sum(weight.numel() for _, weight, _ in matrices(build(backbone("nano"))))
    assert matrix_parameters(backbone("nano")) == 4 * 12 * 128**2 == 786_432 == built
    assert matrix_parameters(backbone("lstm-nano")) == 3 * 8 * 128**2
    assert matrix_parameters(backbone("linformer")) == 3 * 8 * 64**2


@pytest.mark.parametrize("size", DEEPER)
def test_the_matched_lstm_has_the_matrices_of_the_transformer(size):
    lstm, transformer = backbone(f"lstm-matched-{size}"), backbone(size)
    assert matrix_parameters(lstm) == matrix_parameters(transformer)


def test_what_runs_are_planned_to_compute(project):
    """A probe: every split once, or 4,096 examples of an endless training set."""
    probe = "output only, converged"
    whole = make_plan(project.root, arms=(LANGUAGE, probe))
    planned = {
        (run.arm, run.task): planned_flops(run.spec, task_of(run.spec)) for run in whole.runs
    }
    length = {run.task: task_of(run.spec).length for run in whole.runs}
    token = 2 * 786_432
    for task, examples in (("bit-xor", 4096 + 1024 + 1024), ("digits", 4388 + 200 + 500)):
        assert planned[probe, task] == token * examples * length[task]
        assert planned[LANGUAGE, task] == 2 * token * 120 * 4 * length[task]
