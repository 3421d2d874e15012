"""The ways of a GPU, driven on a CPU: bf16 bodies, steps that are replayed, compiled, planned."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import pretrained, spec, task_of
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import fpt.backbones.common as common
from fpt import device as devices
from fpt import replay
from fpt.loop import Loop
from fpt.records import Store
from fpt.replay import Replayed, compiling_pays
from fpt.room import check_room, step_bytes
from fpt.train import train

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("tiny")


class Recorded(TorchDispatchMode):
    """What a CUDA graph does, on a CPU: operations with the very tensors and numbers they had. To
    replay it does each again into the tensor that its result lay in. An operation that would wait
    for the device is an error, as in a capture."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default):
            raise RuntimeError(f"{func} waits for the device")
        result = func(*args, **(kwargs or {}))
        self.done.append((func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, recorded in self.done:
                results = tree_leaves(func(*args, **kwargs))
                for old, new in zip(tree_leaves(recorded), results, strict=True):
                    if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """`torch.cuda`, as far as `fpt.replay` uses it. A capture leaves all tensors as they were."""
    made = SimpleNamespace(captured=[], on=True, state=[])

    @contextmanager
    def graph(into: Recorded, **_: Any) -> Iterator[None]:
        state = [it for it in kept() if isinstance(it, torch.Tensor)]
        before = [it.clone() for it in state]
        with into:
            yield
        for it, value in zip(state, before, strict=True):
            it.copy_(value)
        made.captured.append(into)

    loops: list[Loop] = []

    def kept() -> list[Any]:
        return made.state + [
            it
            for loop in loops
            for it in (loop.rows.values, loop.rows.grads, loop.sums, *vars(loop.adam).values())
        ]

    begin = Loop._made_quick

    def made_quick(loop: Loop) -> None:
        loops[:] = [loop]
        begin(loop)
        if loop.alive and made.on:
            loop.learn = Replayed(loop._learn, CPU)

    stream = SimpleNamespace(wait_stream=lambda _: None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda _: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recorded)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(Loop, "_made_quick", made_quick)
    return made


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"backbone": "lstm-released-tiny", "init": "random", "weights": None},
        {"order": "shuffled"},
        {"patience": 1, "eval_every": 6},
    ],
)
def test_replayed_steps_are_steps(changes: dict[str, Any], graphs: SimpleNamespace) -> None:
    """To the last bit: everything that a step reads anew (batch, masks, noise, Adam's corrections)
    is where the graph reads it, also after runs have left and the pack has other tensors."""
    groups = ("input", "layernorm", "output")
    first = pretrained(**{"steps": 24, "dropout": 0.1, "trainable": groups} | changes)
    specs = [first, replace(first, lr=0.03), replace(first, lr=0.001, clip=0.05)]
    found = []
    for graphs.on in (True, False):
        loop = Loop(specs, task_of(first), CPU)
        assert loop.run()
        found.append([vars(it) | {"seconds": 0.0} for it in loop.progress])
    assert graphs.captured, "nothing was captured"
    assert found[0] == found[1]


def test_a_step_that_waits_goes_on_kernel_by_kernel(graphs: SimpleNamespace) -> None:
    graphs.on = False
    run = spec()
    loop, calls = Loop([run], task_of(run), CPU), []

    def step(batch: Any) -> None:
        calls.append(float(batch.inputs.sum().item()))

    replayed = Replayed(step, CPU)
    batch = loop.task.train_batch([0], 0, 8, CPU)
    for _ in range(replay.WARM_UP):
        replayed(batch)
    with pytest.warns(UserWarning, match="cannot be captured as a CUDA graph"):
        replayed(batch)
    replayed(batch)
    assert len(calls) == replay.WARM_UP + 2
    assert not replayed.graphs


def test_a_graph_is_of_one_shape(graphs: SimpleNamespace) -> None:
    run, total, expected = spec(), torch.zeros(()), 0.0
    graphs.state = [total]
    replayed = Replayed(lambda batch: total.add_(batch.inputs.sum()), CPU)
    for at in range(24):
        batch = task_of(run).train_batch([0], at, 8 if at % 3 else 4, CPU)
        replayed(batch)
        expected += float(batch.inputs.sum())
    assert len(replayed.graphs) == len(graphs.captured) == 2
    assert float(total) == expected


def test_compiling_pays_for_long_packs_alone() -> None:
    run = spec(backbone="gpt2", task="shapes", options={}, batch=16)
    task = task_of(run)
    assert compiling_pays([run] * 15, task, 100_000)
    assert not compiling_pays([run] * 15, task, 100)
    assert not compiling_pays([run], task, 5_000)
    assert not compiling_pays([replace(run, backbone="lstm-small")] * 15, task, 10**6)


def quick(loop: Loop, monkeypatch: pytest.MonkeyPatch, backend: str = "aot_eager") -> None:
    """Make the steps of `loop` by torch.compile, which must not break its graph."""
    monkeypatch.setattr(common.Gelu, "forward", lambda _, x: torch.nn.functional.gelu(x))
    how = {"dynamic": False, "fullgraph": True, "backend": backend}
    loop.forward = torch.compile(loop.model, **how)
    loop.update = torch.compile(loop.adam.update, **how)
    loop.learn = loop._learn_compiled


@pytest.mark.parametrize("trainable", [("input", "layernorm", "output"), "all"])
def test_compiled_steps_are_steps(trainable: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On bf16 bodies under autocast, frozen in a pack and trained whole."""
    every = ("attention", "feedforward", "input", "layernorm", "output", "positions")
    whole = trainable == "all"
    groups = every if whole else trainable
    specs = [pretrained(backbone="tiny@1", trainable=groups, dropout=0.1)]
    specs += [] if whole else [replace(specs[0], lr=0.02)]
    monkeypatch.setattr("fpt.loop.autocast", lambda _: torch.autocast("cpu", torch.bfloat16))
    loops = [Loop(specs, task_of(specs[0]), CPU) for _ in range(2)]
    torch._dynamo.reset()
    quick(loops[1], monkeypatch)
    for _ in range(3):
        for loop in loops:
            loop.train_step()
    a, b = (loop.rows.values for loop in loops)
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
    torch._dynamo.reset()


def test_without_a_compiler_steps_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    run = pretrained()
    loops = [Loop([run], task_of(run), CPU) for _ in range(2)]

    def broken(*_: Any) -> Any:
        raise RuntimeError("no C compiler")

    torch._dynamo.reset()
    quick(loops[1], monkeypatch, broken)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with pytest.warns(UserWarning, match="torch.compile failed"):
        loops[1].train_step()
    loops[0].train_step()
    assert loops[1].forward is loops[1].model
    torch.testing.assert_close(loops[0].rows.values, loops[1].rows.values)
    torch._dynamo.reset()


def test_bodies_kept_in_bf16_compute_what_autocast_computes() -> None:
    run = pretrained(dropout=0.0)
    loops = [Loop([run], task_of(run), CPU) for _ in range(2)]
    common.round_frozen(loops[1].model.body)
    dtypes = {name: it.dtype for name, it in loops[1].model.body.named_parameters()}
    assert {it for name, it in dtypes.items() if ".ln_" not in name} == {torch.bfloat16}
    assert {it for name, it in dtypes.items() if ".ln_" in name} == {torch.float32}
    batch = loops[0].task.train_batch([0], 0, 8, CPU)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        one, other = (loop.model.eval()(batch) for loop in loops)
    assert torch.equal(one, other)


def test_room_grows_with_runs_and_sequences() -> None:
    run = pretrained(dropout=0.1)

    def needed(runs: int, batch: int) -> int:
        specs = [replace(run, lr=0.01 * (1 + i), batch=batch) for i in range(runs)]
        return step_bytes(Loop(specs, task_of(run), CPU))

    one = needed(1, 4)
    assert needed(1, 8) == 2 * one
    assert needed(4, 4) == pytest.approx(4 * one, rel=0.25)
    masks = 5 * 4 * task_of(run).length * 16 * 4  # sites, sequences, tokens, width, bytes
    assert one > masks + 2 * 4 * task_of(run).length * 8 * 16 * 4  # of each layer: gelu, queries...


def test_a_pack_is_cut_to_the_memory_that_is_free(
    monkeypatch: pytest.MonkeyPatch, tiny: Any
) -> None:
    """Before its first step, and down to single runs, which are tried whatever is free."""
    runs = [spec(lr=0.01 * (1 + i), steps=3) for i in range(4)]
    needed = step_bytes(Loop(runs, task_of(runs[0]), CPU))
    monkeypatch.setattr("fpt.room.free_memory", lambda _: needed * 3 // 4)
    with pytest.warns(UserWarning, match="A pack of 4 runs"):
        made = train(runs, Store(tiny / "records"), device=CPU, cache=tiny)
    assert sorted(len(record.pack) for record in made) == [2, 2, 2, 2]
    monkeypatch.setattr("fpt.room.free_memory", lambda _: 0)
    check_room(Loop(runs[:1], task_of(runs[0]), CPU))


def test_free_memory_counts_what_the_allocator_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (70, 100))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 25)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 5)
    assert devices.free_memory(torch.device("cuda")) == 90
    assert devices.free_memory(CPU) == float("inf")


def test_on_cuda_long_trainings_are_captured_and_compiled(
    graphs: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs.on = False
    monkeypatch.setattr("fpt.loop.compiling_pays", lambda specs, task, steps: steps > 500)
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda *args: function(*args))
    monkeypatch.setattr(torch.compiler, "reset", lambda: None)
    for steps, captured, compiled in ((20, False, False), (200, True, False), (900, True, True)):
        run = spec(steps=steps)
        loop = Loop([run], task_of(run), CPU)
        assert loop.learn is None
        loop.device = torch.device("cuda")
        loop._made_quick()
        assert isinstance(loop.learn, Replayed) == captured
        assert (loop.forward is not loop.model) == compiled
