"""What the frozen backbone has and computes, by hand and by counting what runs."""

import pytest
import torch
from made import make_study
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from fpt.backbones import backbone, build
from fpt.backbones.base import SIZES
from fpt.training.flops import as_costly, forward_flops, planned_flops
from fpt.training.train import task_of

DEEPER = [size for size, (layers, _, _) in SIZES.items() if layers > 3]


@pytest.mark.parametrize("size", DEEPER)
def test_the_lstm_of_equal_cost_takes_the_flops_of_the_transformer(size):
    lstm, transformer = backbone(f"lstm-flops-{size}"), backbone(size)
    assert lstm.width == transformer.width
    assert forward_flops(lstm, 1024) == forward_flops(transformer, 1024)
    assert as_costly(lstm, transformer, 1024) == lstm
    for length in (4, 64, 200, 512):
        short = as_costly(lstm, transformer, length)
        assert short.layers < lstm.layers
        layer = forward_flops(lstm, length) / lstm.layers
        difference = forward_flops(short, length) - forward_flops(transformer, length)
        assert abs(difference) <= layer / 2


@pytest.mark.filterwarnings("ignore::UserWarning")  # transformers on its own tokens
@pytest.mark.parametrize(
    "name",
    ["nano", "bidirectional-nano", "lstm-matched-nano", "lstm-flops-nano", "bert-nano"]
    + ["t5-encoder-nano", "longformer-nano", "vit-nano", "vanilla", "linformer"],
)
@torch.no_grad()
def test_flops_are_those_that_pytorch_counts(name):
    architecture = backbone(name)
    module = build(architecture).to_empty(device="cpu").eval()
    for parameter in module.parameters():
        parameter.zero_()
    # This kernel is made of matrix products, which is what the counter sees.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(torch.zeros(1, 24, architecture.width))
    assert counter.get_total_flops() == 24 * forward_flops(architecture, 24)


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
