"""The new core against the one in use: hidden states, parameters, and thirty steps."""

import pytest
import torch
from refusals import refuses
from safetensors.torch import load
from saved_models import config_of
from tiny import FOUR_GROUPS, spec

from fpt.backbones import Backbone, backbone, build
from fpt.backbones.dropout import Draws
from fpt.backbones.generic import facts
from fpt.backbones.generic.skeleton import text_of
from fpt.backbones.initialisations import initial_state
from fpt.core.frozen import Frozen
from fpt.core.loop import Loop as NewLoop
from fpt.core.probe import probe
from fpt.core.rows import assemble
from fpt.spec import probe_of
from fpt.tasks import task_of
from fpt.training.loop import Loop
from fpt.training.probe import probe as old_probe

BUILT_IN = [
    "pico",
    "bidirectional-pico",
    "bert-pico",
    "t5-encoder-pico",
    "longformer-pico",
    "vit-pico",
]
OURS = [
    "lstm-pico", "lstm-released-pico", "vanilla", "linformer", "split-pico", "attention-pico",
    "mean-token-pico", "last-token-pico",
]  # fmt: skip
OTHERS = ["llama", "qwen3", "gpt_neox", "gemma", "opt"]


def architecture_of(name):
    if name in {*BUILT_IN, *OURS}:
        return backbone(name)
    config = text_of(config_of(name).to_dict())
    return Backbone(name, config=config, **facts(config))


def both(name):
    """The old module and the new, with the same values."""
    architecture = architecture_of(name)
    old = build(architecture)
    state = initial_state(architecture, old, "random", None, 0)
    state.pop("positions", None)
    old.load_state_dict(state, assign=True, strict=False)
    new = Frozen(architecture, 0.0)
    values = {ours: state[theirs] for ours, theirs in new.state_names.items()}
    assert values.keys() == dict(new.named_parameters()).keys()
    assert [*new.state_names.values()] == [key for key in state]  # draws follow this order
    new.load_state_dict(values, assign=True, strict=False)
    return architecture, old.eval(), new


@pytest.mark.parametrize("name", [*BUILT_IN, *OTHERS])
def test_hidden_states_are_those_of_the_old_modules(name):
    architecture, old, new = both(name)
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(3, 12, architecture.width, generator=draw)
    real = torch.arange(12) < torch.tensor([[12], [7], [12]])
    with torch.no_grad():
        expected = old(x, None if architecture.causal else real)
        torch.testing.assert_close(new(x, real)[real], expected[real], rtol=1e-4, atol=2e-5)
        alone = new(x[1:2, :7])
    torch.testing.assert_close(alone[0], new(x, real)[1, :7], rtol=1e-4, atol=2e-5)


def test_a_longer_sequence_than_a_layer_sees_is_refused():
    new = Frozen(architecture_of("modernbert"), 0.0)
    refuses(lambda: new(torch.zeros(1, 12, 16)), "see 4 tokens", "12", "shorten")


def batch_of(task, seeds, step, size):
    batch = task.train_batch(seeds, step, size, "cpu")
    length = batch.inputs.shape[2]
    read = torch.arange(length - task.reads, length).expand(len(seeds), size, -1)
    read = read if batch.last is None else batch.last[..., None]
    return batch.inputs, batch.mask, read, batch.targets


def compare(specs, architecture=None, steps=30):
    """Losses and norms of each step, by the old loop and by the new step."""
    task = task_of(specs[0])
    architecture = architecture or backbone(specs[0].backbone)
    loop = Loop(specs, task, torch.device("cpu"), quiet=True, architecture=architecture)
    runs = assemble(specs, task, "cpu", architecture)
    step, rows = runs.step, runs.rows
    first = {name: torch.zeros_like(row) for name, row in rows.items()}
    second = {name: torch.zeros_like(row) for name, row in rows.items()}
    seeds = [run.seed for run in specs]
    size = specs[0].batch
    draws = Draws(seeds)
    draws.sites = loop.model.draws.sites
    longest = task.length + (specs[0].prefix is not None)
    for count in range(steps):
        loop.reset_sums()
        loop.train_step()
        draws.begin(count, (size, longest, architecture.width), "cpu")
        kept = [draws.kept(site) for site in range(len(draws.sites))]
        masks = torch.stack(kept, 1) if kept and specs[0].dropout else None
        noise = None
        if architecture.family == "lstm-released":
            shape = (architecture.layers, 2, size, architecture.width)
            noise = draws.normal("lstm state", shape, masks.float(), training=True)
        inputs, real, read, targets = batch_of(task, seeds, count, size)
        rows, first, second, losses, norms = step(
            rows, first, second, torch.tensor(count + 1.0), runs.fixed, inputs, real, read,
            targets, masks, noise,
        )  # fmt: skip
        assert masks is None or step.net.backbone.masks.next == len(draws.sites)
        torch.testing.assert_close(losses, loop.sums[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(norms, loop.sums[1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("name", [*BUILT_IN, *OURS, "llama", "gpt_neox", "gemma"])
def test_thirty_steps_are_those_of_the_old_loop(name, runs):
    """With dropout, three rates, one of them clipped, one with a warm-up."""
    architecture = architecture_of(name)
    groups = tuple(sorted({*FOUR_GROUPS} & {*architecture.trainable}))
    specs = [
        spec(
            "bit-xor", {"n": 3}, backbone=name, seed=seed, trainable=groups, dropout=0.1, batch=4,
            lr=[0.003, 0.01, 0.001][seed], clip=[1.0, 0.05, 1.0][seed], warmup=[0, 10, 0][seed],
            draw=0,
        )
        for seed in range(runs)
    ]  # fmt: skip
    compare(specs, architecture)


LISTS = {"min_length": 4, "max_length": 16, "max_args": 3, "train": 60, "valid": 20, "test": 20}


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("name", ["pico", "bert-pico", "vit-pico", "linformer", "llama"])
def test_padding_and_symbols(name, runs):
    options = {"backbone": name, "dropout": 0.0, "draw": 0, "batch": 4}
    specs = [spec("listops", LISTS, seed=seed, **options) for seed in range(runs)]
    compare(specs, architecture_of(name), steps=8)


@pytest.mark.parametrize("name", ["pico", "bert-pico", "t5-encoder-pico", "vit-pico", "lstm-pico"])
def test_all_of_a_backbone_is_trained(name):
    groups = tuple(sorted({*backbone(name).groups, "positions"} & {*backbone(name).trainable}))
    compare([spec(backbone=name, dropout=0.1, trainable=groups)], steps=8)


def test_runs_of_a_pack_train_different_groups():
    parts = [("output",), ("input", "output", "positions"), FOUR_GROUPS]
    specs = [
        spec(backbone="pico", seed=seed, draw=0, dropout=0.1, trainable=tuple(sorted(part)))
        for seed, part in enumerate(parts)
    ]
    compare(specs, steps=8)


def test_untrained_nets_are_those_of_each_run():
    compare(
        [spec(backbone="pico", seed=s, draw=0, trainable=("output",)) for s in range(2)], steps=4
    )


def test_a_prefix_stands_in_front():
    options = {"backbone": "llama", "draw": 0, "prefix": 3, "dropout": 0.1}
    for lists in (None, LISTS):
        task = "listops" if lists else "bit-xor"
        specs = [spec(task, lists, seed=seed, batch=4, **options) for seed in range(2)]
        compare(specs, architecture_of("llama"), steps=8)


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("name", ["pico", "bert-pico", "t5-encoder-pico", "vit-pico", "llama"])
def test_a_step_is_one_graph(name, runs):
    """What cannot be compiled whole, a GPU cannot capture."""
    specs = [
        spec(backbone=name, seed=seed, dropout=0.1, batch=2, trainable=("input", "layernorm"))
        for seed in range(runs)
    ]
    architecture = architecture_of(name)
    task = task_of(specs[0])
    assembled = assemble(specs, task, "cpu", architecture)
    step, rows = assembled.step, assembled.rows
    batch = (assembled.fixed, *batch_of(task, range(runs), 0, 2))
    zeros = {name: torch.zeros_like(row) for name, row in rows.items()}
    step(rows, zeros, zeros, torch.tensor(1.0), *batch, None)  # counts the places of dropout
    sites = step.net.backbone.masks.next
    masks = torch.rand(runs, sites, 2, task.length, architecture.width) < 0.9
    arguments = (rows, zeros, zeros, torch.tensor(1.0), *batch, masks)
    torch.compiler.reset()
    compiled = torch.compile(step.__call__, backend="aot_eager", fullgraph=True)
    for ours, theirs in zip(compiled(*arguments), step(*arguments), strict=True):
        torch.testing.assert_close(ours, theirs)


# ------------------------------------------------------------------------------------------ loop


def of_both(specs, architecture=None):
    """The progress of each run by the old loop and by the new one."""
    task = task_of(specs[0])
    old = Loop(specs, task, torch.device("cpu"), quiet=True, architecture=architecture)
    new = NewLoop(specs, task, "cpu", quiet=True, architecture=architecture)
    assert old.run()
    assert new.run()
    return old, new


def check_alike(old, new):
    for ours, theirs in zip(new.progress, old.progress, strict=True):
        assert (ours.status, ours.tokens, ours.waited) == (
            theirs.status,
            theirs.tokens,
            theirs.waited,
        )
        assert len(ours.curve) == len(theirs.curve)
        for point, expected in zip(ours.curve, theirs.curve, strict=True):
            assert point == pytest.approx(expected, rel=1e-3, abs=1e-5)
        assert ours.metrics.keys() == theirs.metrics.keys()
        assert ours.metrics == pytest.approx(theirs.metrics, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("pico", {}),
        ("pico", {"threshold": 0.6, "steps": 40}),
        ("pico", {"patience": 2, "steps": 40, "dropout": 0.1}),
        ("llama", {"draw": 0}),
        ("lstm-released-pico", {}),
        ("vit-pico", {"order": "shuffled"}),
    ],
    ids=str,
)
def test_a_pack_has_the_curves_and_metrics_of_the_old_loop(name, options):
    architecture = architecture_of(name)
    groups = tuple(sorted({*FOUR_GROUPS} & {*architecture.trainable}))
    rates = (0.01, 0.003, 1e30) if name == "pico" else (0.01, 0.003)  # the last one diverges
    specs = [
        spec(
            backbone=name,
            seed=seed,
            lr=rate,
            trainable=groups,
            **{"dropout": 0.0, "draw": 0, **options},
        )
        for seed, rate in enumerate(rates)
    ]
    old, new = of_both(specs, architecture)
    check_alike(old, new)
    if rates[-1] == 1e30:
        assert new.progress[-1].status == "diverged"


def test_kept_parameters_have_the_names_of_files():
    run = spec(backbone="bert-pico", steps=3)
    old, new = of_both([run])
    theirs = load(old.rows.stored(old.selected[0], run.trainable))
    assert new.selected[0].keys() == theirs.keys()
    for name, part in theirs.items():
        torch.testing.assert_close(new.selected[0][name], part, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("stops", [1, 4])
def test_a_pack_that_is_stopped_goes_on_bit_for_bit(stops, tmp_path, monkeypatch):
    """Also after runs have left it, and after evaluations in between."""
    specs = [
        spec(backbone="pico", seed=seed, draw=0, lr=lr, dropout=0.1, patience=2, steps=18)
        for seed, lr in enumerate((0.01, 1e30, 0.003))
    ]
    task = task_of(specs[0])
    whole = NewLoop(specs, task, "cpu", quiet=True)
    whole.run()
    times = iter(range(10**6))
    monkeypatch.setattr("fpt.core.loop.time.monotonic", lambda: float(next(times)))
    for _ in range(100):
        part = NewLoop(specs, task, "cpu", tmp_path / "checkpoint.safetensors", quiet=True)
        if part.run(deadline=next(times) + 3 * stops):
            break
    for ours, theirs in zip(part.progress, whole.progress, strict=True):
        assert (ours.status, ours.curve, ours.metrics) == (
            theirs.status,
            theirs.curve,
            theirs.metrics,
        )
    for index, values in whole.selected.items():
        for name, tensor in values.items():
            assert torch.equal(part.selected[index][name], tensor)


@pytest.mark.parametrize(("task", "options"), [("bit-xor", None), ("digits", {"train": 300})])
def test_the_probe_reaches_what_the_old_one_reaches(task, options):
    run = probe_of(spec(task, options, backbone="pico", trainable=("output",)))
    old = old_probe(run, task_of(run), torch.device("cpu"))
    new = probe(run, task_of(run), "cpu")
    assert new.metrics["test_accuracy"] == pytest.approx(old.metrics["test_accuracy"], abs=0.01)
    assert new.metrics["test_items"] == old.metrics["test_items"]
    assert new.cost["tokens"] == old.cost["tokens"]
    for ours, theirs in zip(new.curve, old.curve, strict=True):
        assert ours["penalty"] == theirs["penalty"]
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], abs=0.01)
