"""Positions for backbones without a table, a token in front, warm-up, evaluations that are closer
at first, and the facts at step 0."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from test_zero_tokens import configured
from tiny import CPU, assembled, close, columns_of, loop_of, measured_of, one_of, spec, task_of

from fpt import config
from fpt.backbones import BACKBONES, backbone
from fpt.errors import FptError
from fpt.spec import FOUR_GROUPS
from fpt.training.evaluation import start_facts
from fpt.training.settings import check_spec

WITHOUT = tuple(group for group in FOUR_GROUPS if group != "positions")
RELATIVE = ["llama", "gpt_neox", "gemma2", one_of("t5-encoder")]


@pytest.fixture
def name(request, monkeypatch):
    """The name of a backbone that is known in a test."""
    param = request.param
    architecture = replace(configured(param), name=param) if isinstance(param, str) else param
    monkeypatch.setitem(BACKBONES, architecture.name, architecture)
    return architecture.name


of_kinds = partial(pytest.mark.parametrize, "name", indirect=True, ids=str)


@of_kinds([*RELATIVE, one_of("vit")])
def test_gradients_reach_positions(name):
    loop = loop_of(spec(options={"n": 5}, backbone=name, dropout=0.0))
    columns = columns_of(loop.rows)["positions"]
    before = loop.rows.values[0, columns].clone()
    if not backbone(name).positions:
        assert not before.any()
    loop.train_step()
    assert (loop.rows.values[0, columns] != before).all()


@of_kinds(RELATIVE)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_frozen_table_of_zeros_changes_no_bit(name, precision):
    def of(*trainable):
        runs = [
            spec(backbone=name, trainable=groups, seed=seed)
            for seed, groups in enumerate(trainable)
        ]
        loop = loop_of(*runs, precision=precision)
        loop.run()
        return loop.progress

    # In a pack with a run that trains positions, a run without them has a frozen table.
    frozen, trained = of(WITHOUT, FOUR_GROUPS)
    without, also_without = of(WITHOUT, WITHOUT)
    assert measured_of(frozen) == measured_of(without)
    assert trained.curve != also_without.curve


@of_kinds(["llama"])
def test_a_table_of_zeros_leaves_the_drawn_bias(name):
    _, with_table, _ = assembled(spec(backbone=name))
    _, without, _ = assembled(spec(backbone=name, trainable=WITHOUT))
    bias = with_table.values[0, columns_of(with_table)["input.bias"]]
    assert bias.any()
    close(bias, without.values[0, columns_of(without)["input.bias"]], 0, 0)


def test_an_lstm_gets_no_table():
    assert "positions" not in one_of("lstm").trainable


# ------------------------------------------------------------------------------- a token in front


def prefixed(name, **changes):
    return spec(backbone=name, prefix=3, dropout=0.0, **changes)


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "bert"])
def test_the_model_reads_its_own_token_first(kind, put):
    folder = put(kind)
    run = prefixed(folder, init="pretrained", weights=backbone(folder).name)
    run = replace(run, backbone=run.weights)
    model, _, _ = assembled(run)
    batch = task_of(run).train_batch([0], 0, 4, CPU)
    logits = model.eval()(batch)
    # transformers' own model, to which this backbone adds no table of positions of its own.
    reference = saved(folder)
    x, _, read = model.tokens(batch)
    first = reference.get_input_embeddings()(torch.tensor([3])).bfloat16().float()
    close(x[:, 0], first.expand(len(x), -1), 0, 0)
    plain, _, _ = assembled(replace(run, prefix=None))
    without, _, places = plain.eval().tokens(batch)
    close(x[:, 1:], without, 0, 0)
    close(read, places + 1, 0, 0)
    assert logits.shape == plain(batch).shape
    assert not torch.equal(logits, plain(batch))


def saved(folder):
    """transformers' model in a folder."""
    from transformers import AutoModel

    return AutoModel.from_pretrained(folder, dtype=torch.float32).eval()


def test_padding_stays_padding_behind_a_token(put):
    name = backbone(put("bert")).name
    run = prefixed(name, init="pretrained", weights=name)
    batch = task_of(run).train_batch([0], 0, 2, CPU)
    length = task_of(run).length
    last = torch.tensor([[length - 1, 0]])
    mask = torch.arange(length) <= last[..., None]
    padded = replace(batch, last=last, mask=mask, targets=batch.targets[..., :1])
    model, _, _ = assembled(run)
    _, seen, read = model.eval().tokens(padded)
    assert seen.tolist() == [[True] * (length + 1), [True, True] + [False] * (length - 1)]
    assert read.tolist() == [[length], [1]]


@pytest.mark.parametrize(("init", "std"), [("random", 0.02), ("random-own", 0.3)])
def test_a_drawn_body_meets_a_drawn_token(init, std, put):
    name = backbone(put("llama", hidden_size=512, initializer_range=0.3)).name
    first, second = (assembled(prefixed(name, init=init, seed=s))[0].prefix for s in (0, 1))
    assert first.std().item() == pytest.approx(std, rel=0.15)
    assert not torch.equal(first, second)


def test_statistics_of_all_tokens_are_those_of_the_drawn_one(put):
    folder = put("llama", hidden_size=512)
    name = backbone(folder).name
    run = prefixed(name, init="statistics-tensor", weights=name)
    table = saved(folder).get_input_embeddings().weight
    assert assembled(run)[0].prefix.std().item() == pytest.approx(table.std().item(), rel=0.15)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"backbone": "gpt2"}, "no token embeddings here"),
        ({"prefix": 10**6}, "the tokens of .* are 0 to"),
        ({"init": "shuffled"}, "initialisation with a `prefix`"),
    ],
)
def test_a_token_that_is_not_there_is_refused(changes, sentence, put):
    name = backbone(put("llama")).name
    run = prefixed(name, trainable=FOUR_GROUPS)
    if changes.get("init"):
        changes = {**changes, "weights": name}
    with pytest.raises(FptError, match=sentence):
        check_spec("run", replace(run, **changes))


# --------------------------------------------------------------------- warm-up, closer evaluations


def test_the_rate_rises_linearly(tiny):
    slow, fast = (loop_of(spec(warmup=warmup)) for warmup in (4, 0))
    start = fast.rows.values.clone()
    for loop in (slow, fast):
        loop.train_step()
    close(slow.rows.values - start, (fast.rows.values - start) / 4, 1e-3, 1e-8)
    rates = []
    for _ in range(5):
        before = slow.rows.values.clone()
        slow.train_step()
        update = (slow.rows.values - before).abs()
        moments = slow.adam
        count = slow.step
        first = moments.first / (1 - moments.beta1**count)
        second = (moments.second / (1 - moments.beta2**count)).sqrt() + moments.eps
        moved = first.abs() > 1e-6
        rates.append((update[moved] / (first / second).abs()[moved]).median().item() / 0.01)
    assert rates == pytest.approx([0.5, 0.75, 1, 1, 1], rel=1e-2)


def test_evaluations_are_closer_at_first(tiny):
    loop = loop_of(spec(steps=160, eval_every=25, eval_early=20))
    loop.run()
    steps = [point["step"] for point in loop.progress[0].curve]
    assert steps == [20, 40, 60, 80, 100, 125, 150, 160]


def test_settings_of_an_arm_may_name_them():
    tier = config.load("smoke")
    names = ("nano GPT-2", "fully trained", "digits")
    run = config.make_spec(tier, *names, 0, warmup=5, eval_early=10)
    assert (run.warmup, run.eval_early, run.prefix) == (5, 10, None)
    with pytest.raises(FptError, match="warmup: expected a whole number"):
        config.make_spec(tier, *names, 0, warmup=-1)


# --------------------------------------------------------------------------------- facts at step 0


def test_facts_are_those_of_the_hidden_states(put):
    folder = put("llama", num_hidden_layers=4)
    name = backbone(folder).name
    run = prefixed(name, init="pretrained", weights=name)
    model, _, _ = assembled(run)
    (facts,) = start_facts(model)
    batch = next(iter(task_of(run).eval_batches("valid", 64, CPU, 0)))
    with torch.no_grad():
        x, _, _ = model.tokens(batch)
        outputs = saved(folder)(inputs_embeds=x, output_hidden_states=True)
    # The last of them has passed the last norm, so the stream after the last block is not here.
    streams = torch.stack(outputs.hidden_states[:-1])[:, :, 1:]
    norms = streams.norm(dim=-1)
    shares = (streams.abs().amax(-1).square() / norms.square() > 0.9).float().mean((1, 2))
    assert facts["start_stream_before"] == pytest.approx(norms[0].mean().item(), rel=1e-5)
    assert facts["start_coordinate_share"] == pytest.approx(shares[2].item(), abs=1e-6)


@of_kinds(["llama", one_of("gpt2"), one_of("bert"), one_of("t5-encoder"), one_of("vit")])
def test_a_body_that_does_nothing_is_still(name):
    model, _, frozen = assembled(spec(backbone=name, trainable=("output",)), spec(backbone=name))
    is_post_norm = "bert" in name
    frozen.bind(torch.zeros_like(frozen.values))
    with torch.no_grad():
        for part in model.backbone.parameters():
            part.zero_()
    first, second = start_facts(model)
    assert first == second
    if not is_post_norm:
        assert first["start_still_blocks"] == backbone(name).layers
        assert first["start_stream_before"] == pytest.approx(first["start_stream_after"])


def test_one_large_coordinate_is_seen(tiny):
    model, _, _ = assembled(spec())
    with torch.no_grad():
        model.input.bias[0, 3] = 1e4
    (facts,) = start_facts(model)
    assert facts["start_coordinate_share"] == facts["start_coordinate_share_max"] == 1


def test_records_hold_the_facts(tiny):
    loop = loop_of(spec(), spec(seed=1))
    loop.run()
    names = {name for name in loop.progress[0].metrics if name.startswith("start_")}
    assert len(names) == 5
    assert {*loop.progress[1].metrics} >= names


def test_a_body_without_blocks_has_no_facts(tiny):
    loop = loop_of(spec(backbone="lstm-tiny", trainable=WITHOUT))
    loop.run()
    assert not any(name.startswith("start_") for name in loop.progress[0].metrics)
