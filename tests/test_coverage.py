"""Every printed cell has the runs that would fill it; every listed run can be built and stepped."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made import make_record, make_section
from tiny import WEIGHTS

import fpt
from fpt import backbones, config
from fpt.backbones import BACKBONES, Backbone, backbone, initialisations
from fpt.files import FptError
from fpt.paper import reader as paper
from fpt.report.coverage import cells, is_own, places
from fpt.sections import status
from fpt.spec import RunSpec
from fpt.tasks import Batch, Task, get_task
from fpt.training.model import Model, assemble
from fpt.training.packing import Adam, losses
from fpt.training.train import task_of

LISTED = {
    name: list(
        dict.fromkeys(
            run.spec
            for section in config.load(name).sections
            for run in config.expand(config.load(name), section)
        )
    )
    for name in config.PROFILES
}


# ------------------------------------------------------------------------------------------ cells


def test_every_cell_of_the_paper_is_listed_with_its_runs() -> None:
    loaded = config.load("paper")
    found = cells([fpt.section(name, "paper") for name in loaded.sections])
    printed = {
        (name, row, column)
        for name, table in paper.tables().items()
        if is_own(name)
        for (row, column), cell in table.cells.items()
        if cell.value is not None
    }
    assert {(it.table, it.row, it.column) for it in found} == printed
    assert len(found) == len(printed) > 250
    seeds = len(loaded.seeds)
    for it in found:
        assert it.counted == (not it.expected), it
        assert len(it.expected) % seeds == 0, it


@pytest.mark.parametrize(
    ("table", "row", "column", "expected"),
    [
        ("T2", "bit", "mnist", {("modality", "fpt-bits", "mnist")}),
        (
            "T1",
            "lstm",
            "homology",
            {("transfer", "lstm", "homology"), ("transfer", "lstm-released", "homology")},
        ),
        (
            "T6",
            "speed-up",
            "listops",
            {("efficiency", "fpt", "listops"), ("efficiency", "random", "listops")},
        ),
        ("T7", "linformer", "train", {("overfitting", "linformer", "cifar10-lra")}),
        ("T8", "large", "random", {("scaling", "random-largest", "cifar10")}),
        ("T11", "random", "layers-6", {("finetuning", "random-output+layernorm@6", "listops")}),
        ("T12", "fpt", "layers-12", {("finetuning", "output", "listops")}),
        ("T16", "random", "frozen-layernorm", {
            ("finetuning", "random-output+input+positions", "cifar10")
        }),
    ],
)  # fmt: skip
def test_a_cell_and_the_arm_beside_it(
    table: str, row: str, column: str, expected: set[tuple[str, str, str]]
) -> None:
    assert {(it.section, it.arm, it.task) for it in places(table, row, column)} == expected


def test_a_recorded_run_is_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = make_section(tmp_path, monkeypatch)
    found = cells([section])

    def shown(table: str, row: str) -> str:
        missing = {run.key for run in section.missing()}
        lines = status.lines([], found, missing).splitlines()
        (line,) = [line for line in lines if line.split()[:2] == [table, row]]
        return line

    assert "mnist 0/3" in shown("T1", "fpt")
    run = next(run for run in section.runs if (run.arm, run.task) == ("fpt", "mnist"))
    section.store.write(make_record(run, 0.9))
    assert "mnist 1/3" in shown("T1", "fpt")
    assert "bit-memory no runs" in shown("T1", "fpt")  # this profile has no such task


# ------------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("profile", config.PROFILES)
def test_every_listed_run_fits_its_backbone(profile: str) -> None:
    shapes = {(spec.backbone, spec.data): spec for spec in LISTED[profile]}
    for spec in shapes.values():
        with torch.device("meta"):
            model = Model(backbone(spec.backbone), task_of(spec), spec.dropout)
        assert all(parameter.is_meta for parameter in model.backbone.parameters())
    for name, trainable in {(spec.backbone, spec.trainable) for spec in LISTED[profile]}:
        assert set(trainable) <= set(backbone(name).trainable)


def shrunk(body: Backbone) -> Backbone:
    """The same architecture, tiny: a layer or two, each 16 wide."""
    layers = min(body.layers, 2)
    heads, vocabulary = min(body.heads, 2), min(body.vocabulary, 16)
    window = min(body.window, 4)
    name = f"tiny of {body.name}".replace("@", ", layers ")
    return replace(
        body, name=name, layers=layers, width=16, heads=heads, vocabulary=vocabulary,
        window=window, hub=None,
    )  # fmt: skip


def random_batch(task: Task, size: int) -> Batch:
    """Noise in the form of the task's batches, so that no data are needed."""
    draw = torch.Generator().manual_seed(0)
    form = (1, size, task.length)
    inputs = (
        torch.randint(task.dim, form, generator=draw)
        if task.kind == "token"
        else torch.randn(*form, task.dim, generator=draw)
    )
    answers = (1, size, task.reads * task.answers)
    return Batch(inputs, torch.randint(task.classes, answers, generator=draw))


SHORT = {
    "token": get_task("listops", max_length=32, train=8, valid=8, test=8),
    "vector": get_task("bit-memory", n=8, patterns=2, patch=4),
}


@pytest.fixture
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretrained weights without a file: a random draw of their own."""
    monkeypatch.setattr(
        initialisations,
        "read_weights",
        lambda spec, body, _: initialisations.random(spec, body, {}, 1),
    )


@pytest.mark.usefixtures("no_files")
def test_every_listed_run_takes_a_step_in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = {
        (
            spec.backbone,
            spec.init,
            spec.trainable,
            task_of(spec).kind,
            spec.input_init,
            spec.order,
            spec.procedure,
        ): spec
        for specs in LISTED.values()
        for spec in specs
    }
    assert len(examples) > 100
    for kind, listed in examples.items():
        body = shrunk(backbone(listed.backbone))
        monkeypatch.setitem(BACKBONES, body.name, body)  # type: ignore[call-overload]
        task = SHORT[task_of(listed).kind]
        spec = replace(listed, backbone=body.name, lr=0.01, dropout=0.0)
        step(spec, task, kind)


def step(spec: RunSpec, task: Task, kind: object) -> None:
    model, rows, fixed = assemble([spec], task, "cpu")
    model.draws.seeds = (spec.seed,)
    before, still = rows.values.clone(), fixed.values.clone()
    body = {
        name: parameter.detach().clone()
        for name, parameter in model.backbone.named_parameters()
        if not parameter.requires_grad
    }
    loss = losses(model(random_batch(task, 4)), random_batch(task, 4).targets).sum()
    loss.backward()
    Adam(rows, torch.tensor([[spec.lr]]), torch.tensor([[spec.clip]])).step(1)
    assert loss.isfinite(), kind
    assert {part.group for part in rows.slices} == set(spec.trainable), kind
    moved = rows.values != before
    columns = rows.columns()
    for group in spec.trainable:
        parts = [moved[0][columns[part.name]].any() for part in rows.slices if part.group == group]
        assert any(parts), (kind, group)
    assert torch.equal(fixed.values, still), kind
    after = dict(model.backbone.named_parameters())
    assert all(torch.equal(after[name], value) for name, value in body.items()), kind


def test_layers_of_a_backbone() -> None:
    first = backbone("gpt2@2")
    assert (first.layers, first.width, first.hub) == (2, 768, "openai-community/gpt2")
    with pytest.raises(FptError, match="gpt2 has 12 layers, so write gpt2@L with L from 1 to 12"):
        backbone("gpt2@13")
    with pytest.raises(FptError, match="no backbone 'gtp2@2'"):
        backbones.backbone("gtp2@2")


def test_the_first_layers_of_pretrained_weights(tiny: Path) -> None:
    def state(name: str) -> dict[str, torch.Tensor]:
        spec = backbone(name)
        body = backbones.build(spec)
        return initialisations.body_state(spec, body, "pretrained", WEIGHTS, 0)

    whole, part = state("tiny"), state("tiny@1")
    assert all(torch.equal(part[name], whole[name]) for name in part)
    assert {name for name in whole if ".h.1." in name} == whole.keys() - part.keys() != set()
