"""What the frozen backbone has and computes, by hand and by counting what runs."""

import pytest
import torch
from made import make_study
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from fpt.backbones import backbone, build
from fpt.backbones.base import SIZES, matrices
from fpt.tasks import task_of
from fpt.training.flops import as_costly, matrix_parameters, planned_flops

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


@torch.no_grad()
def counted_flops(architecture, length):
    """The FLOPs of one sequence, as PyTorch counts them."""
    module = build(architecture).to_empty(device="cpu").eval()
    for parameter in module.parameters():
        parameter.zero_()
    # This kernel is made of matrix products, which is what the counter sees.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(torch.zeros(1, length, architecture.width))
    return counter.get_total_flops()


@pytest.mark.parametrize("length", [4, 64, 200, 1024])
def test_the_lstm_of_equal_cost_takes_the_flops_of_the_transformer(length):
    lstm, transformer = backbone("lstm-flops-nano"), backbone("nano")
    short = as_costly(lstm, transformer, length)
    assert short.residual  # so many layers would pass nothing on
    layer = 2 * 8 * lstm.width**2 * length
    assert counted_flops(short, length) == short.layers * layer
    assert abs(counted_flops(transformer, length) - short.layers * layer) <= layer / 2


def test_what_runs_are_planned_to_compute(tmp_path):
    """A probe: every split once, or 4,096 examples of an endless training set."""
    arms, tasks = ("fpt", "probe"), ("bit-xor", "digits")
    study = make_study(tmp_path, arms=arms, tasks=tasks)
    planned = {
        (run.arm, run.task): planned_flops(run.spec, task_of(run.spec)) for run in study.runs
    }
    length = {run.task: task_of(run.spec).length for run in study.runs}
    token = 2 * 786_432
    for task, examples in (("bit-xor", 4096 + 1024 + 1024), ("digits", 4388 + 200 + 500)):
        assert planned["probe", task] == token * examples * length[task]
        assert planned["fpt", task] == 2 * token * 120 * 4 * length[task]
