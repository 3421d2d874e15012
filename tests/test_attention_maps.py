"""Maps and masses of a section's runs, on tiny bodies that are trained for a few steps."""

import sys
from pathlib import Path

import numpy as np
import profiled
import pytest
import torch
import yaml
from made import SETTINGS
from matplotlib.figure import Figure
from tiny import WEIGHTS, task_of

from fpt import config
from fpt.analysis import masses
from fpt.analysis.attention import attention_mass, maps
from fpt.analysis.claim import Evidence
from fpt.analysis.masses import LABELS, attends, by_layer, lifts
from fpt.analysis.stats import mean_interval
from fpt.report import attention_maps, mass_tables, outputs
from fpt.report.attention_maps import heads_figure, one_example, pooled
from fpt.report.mass_tables import share
from fpt.sections import claims
from fpt.sections.section import Section
from fpt.training.kept import trained_model
from fpt.training.model import assemble
from fpt.training.train import train

TASKS = {
    "bit-xor": {"options": {"n": 3}},
    "bit-memory": {"options": {"n": 4, "patterns": 2, "patch": 2, "valid": 10, "test": 20}},
}


@pytest.fixture
def section(tiny: Path, monkeypatch: pytest.MonkeyPatch, rendering: None) -> Section:
    """Two tasks, FPT and a random body, two seeds; nothing is trained yet."""
    assert train.__kwdefaults__ is not None
    monkeypatch.setitem(train.__kwdefaults__, "cache", tiny / "cache")
    monkeypatch.setattr(sys.modules["fpt.sections.section"], "REPORTS", tiny / "reports")
    monkeypatch.setattr("fpt.records.REPORTS", tiny / "reports")
    block = {
        "train_on": ["cpu", "cuda"], "bodies": {"transformer": "tiny"},
        "weights": {"language": WEIGHTS}, "seeds": [0, 1],
        "defaults": SETTINGS | {"steps": 4, "eval_every": 2, "lr": 0.01}, "tasks": TASKS,
        "arms": {}, "sections": {
            "attention": [{"tasks": list(TASKS), "arms": ["fpt", "random"], "keep": True}]
        },
    }  # fmt: skip
    path = tiny / "params.yaml"
    path.write_text(yaml.safe_dump({"profile": "lab", "lab": block}))
    profile = config.load("lab", path)
    masses._measured.cache_clear()
    return Section("attention", profile, tuple(config.expand(profile, "attention")))


@pytest.fixture
def trained(section: Section) -> Section:
    assert section.train(device="cpu", workers=1) == 8
    return section


def texts(section: Section, figure: Figure) -> list[str]:
    outputs.save_figure(section, "figure", figure)
    return profiled.lines(figure)


def run_of(section: Section, arm: str, task: str):
    return next(run.spec for run in section.runs if (run.arm, run.task) == (arm, task))


def test_masses_are_those_of_the_kept_models(trained: Section) -> None:
    found = masses.masses(trained)
    assert len(found) == len(TASKS) * 2 * len(LABELS) * 2 * 2 * 2  # seeds, layers, heads, parts
    for task in TASKS:
        spec = run_of(trained, "fpt", task)
        record = trained.store.read(spec.key)
        assert record is not None
        batch = next(task_of(spec).eval_batches("test", 10**6, torch.device("cpu")))
        untrained, _, _ = assemble([spec], task_of(spec), "cpu")
        models = {"fpt": trained_model(record, trained.store), "untrained": untrained}
        for source, model in models.items():
            mine = found.query(f"source == '{source}' and task == @task and seed == 0")
            theirs = attention_mass(model, batch)["mass"]
            assert mine["mass"].to_list() == pytest.approx(theirs.to_list(), rel=1e-5)
        differ = found.query("task == @task and seed == 0").groupby("source")["mass"].sum()
        assert differ.nunique() == len(LABELS)


def test_by_layer_is_the_mean_or_the_best_of_heads(trained: Section) -> None:
    found = masses.masses(trained)
    at = "source == 'random' and task == 'bit-xor' and seed == 1 and layer == 1"
    heads = found.query(at + " and part == 'partner'")["mass"]
    assert by_layer(found, "mean").query(at)["mass"].item() == pytest.approx(heads.mean())
    assert by_layer(found, "best").query(at)["mass"].item() == heads.max()


def test_lifts_are_above_chance(trained: Section) -> None:
    found = masses.masses(trained).query("part == 'partner' and task == 'bit-memory'")
    first, best = (lifts(trained, where) for where in ("first layer", "best head"))
    for source in LABELS:
        mine = found[found["source"] == source]
        by_hand = mine[mine["layer"] == 0].groupby("seed")["mass"].mean() - mine["chance"].iloc[0]
        assert first[source, "bit-memory"].values == pytest.approx(by_hand.to_list())
        by_hand = mine.groupby("seed")["mass"].max() - mine["chance"].iloc[0]
        assert best[source, "bit-memory"].values == pytest.approx(by_hand.to_list())
        assert best[source, "bit-memory"].expected == 2


def test_claims_are_tested_on_attention(trained: Section) -> None:
    findings = claims.section_findings(trained)
    seen = Evidence({}, {}, section=trained)
    for finding in findings:
        assert finding.verdict.label != "not run"
    effects = {(it.claim.id, it.task): it.measured.effect for it in findings}
    assert len(effects) == 5 * len(TASKS)
    first = lifts(trained, "first layer")
    values = {source: first[source, "bit-xor"].values for source in LABELS}
    found = effects["attends", "bit-xor"]
    assert found is not None
    assert found.effect == pytest.approx(np.mean(values["fpt"]))
    found = effects["first-layer-over-random", "bit-xor"]
    assert found is not None
    assert found.effect == pytest.approx(np.mean(values["fpt"]) - np.mean(values["random"]))
    assert attends("best head", "fpt")(seen, "bit-xor").runs == (2,)


def test_tables_have_every_source_and_layer(trained: Section) -> None:
    found = by_layer(masses.masses(trained), "mean")
    table = mass_tables.mass_table(trained, "mean")
    assert table.shown.shape == (len(LABELS) * 2 + 1, len(TASKS))
    values = found.query("source == 'fpt' and task == 'bit-xor' and layer == 0")["mass"]
    interval = mean_interval(values.to_list())
    shown = table.shown.loc["FPT, trained, layer 1", "bit-xor (fitting)"]
    half = interval.mean - interval.low
    assert shown == f"{share(interval.mean)} ± {share(half, interval.mean)} (2)"
    assert (share(0.123), share(0.0026), share(0.0026, 0.5)) == ("12.3", "0.26", "0.3")
    by_hand = sum(1 / (3 + i) for i in range(1, 4)) / 3
    assert table.shown.loc["chance", "bit-xor (fitting)"] == f"{100 * by_hand:.1f}"
    assert "not run" not in table.shown.to_string()
    even = mass_tables.relevant_table(mass_tables.bit_tasks(trained))
    assert even.numbers.set_index("task")["chance"]["bit-xor"] == pytest.approx(by_hand)


def test_figures_show_what_is_there(trained: Section, monkeypatch: pytest.MonkeyPatch) -> None:
    said = texts(trained, mass_tables.mass_figure(trained))
    assert {*TASKS, *LABELS.values()} <= set(said)
    assert not any("not run" in text for text in said)
    said = texts(trained, attention_maps.first_layer_figure(trained))
    assert {*TASKS, *LABELS.values()} <= set(said)
    assert "not run" not in said
    said = texts(trained, heads_figure(trained, "bit-xor"))
    assert sum("head" in text for text in said) == 4
    monkeypatch.setattr(attention_maps, "ALL_HEADS", 3)
    monkeypatch.setattr(attention_maps, "BEST_HEADS", 2)
    found = masses.masses(trained).query("source == 'fpt' and task == 'bit-xor' and seed == 0")
    shares = found[found["part"] == "partner"].sort_values("mass", ascending=False)
    said = [text for text in texts(trained, heads_figure(trained, "bit-xor")) if "layer" in text]
    best = [
        f"layer {row.layer + 1}, head {row.head + 1}: {share(row.mass)}%"
        for row in shares.head(2).itertuples()
    ]
    assert [text.split(":")[0] for text in said[:2]] == ["layer 1, mean", "layer 2, mean"]
    assert said[2:] == best


def test_what_was_not_run_is_said(section: Section) -> None:
    table = mass_tables.mass_table(section, "best").shown
    assert (table.filter(like="random", axis=0) == "not run").all().all()
    assert (table.filter(regex="^FPT, trained", axis=0) == "not run").all().all()
    assert not table.filter(like="before", axis=0).isin(["not run"]).any().any()
    said = texts(section, mass_tables.mass_figure(section))
    assert said.count("FPT, trained: not run") == len(TASKS)
    said = texts(section, attention_maps.first_layer_figure(section))
    assert said.count("not run") == 2 * len(TASKS)
    assert "not run" in texts(section, heads_figure(section, "bit-xor"))
    labels = {finding.verdict.label for finding in claims.section_findings(section)}
    assert labels == {"not run"}


def test_a_body_that_is_not_here_is_said(trained: Section, tiny: Path) -> None:
    (tiny / "backbones" / WEIGHTS / "model.safetensors").unlink()
    masses._measured.cache_clear()
    table = mass_tables.mass_table(trained, "mean").shown
    assert (table.filter(like="FPT", axis=0) == "weights not here").all().all()
    assert not table.filter(like="random", axis=0).isin(["weights not here"]).any().any()
    said = texts(trained, attention_maps.first_layer_figure(trained))
    assert said.count("weights not here") == 2 * len(TASKS)
    assert "weights not here" in texts(trained, heads_figure(trained, "bit-memory"))


def test_pooling_keeps_what_a_query_gives() -> None:
    found = torch.rand(2, 12, 12).softmax(-1)
    small = pooled(found, 5)
    assert small.shape == (2, 4, 4)
    torch.testing.assert_close(small.sum(-1), torch.ones(2, 4))
    by_hand = found[0, 3:6, 6:9].sum(-1).mean()
    torch.testing.assert_close(small[0, 1, 2], by_hand)
    assert torch.equal(pooled(found, 12), found)
    assert pooled(found, 64).shape == found.shape


def test_maps_of_one_example_are_pooled_while_they_are_made(trained: Section) -> None:
    spec = run_of(trained, "fpt", "bit-xor")
    record = trained.store.read(spec.key)
    assert record is not None
    model = trained_model(record, trained.store)
    batch = one_example(next(model.task.eval_batches("test", 64, torch.device("cpu"))))
    assert batch.inputs.shape == (1, 1, 6, 1)
    assert batch.inputs.any()
    found = attention_maps.all_maps(trained, "fpt", "bit-xor")
    assert found is not None
    np.testing.assert_allclose(found, maps(model, batch)[:, 0].numpy(), rtol=1e-6)
