"""params.yaml: every mistake is one sentence that names the place; every run follows from it."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import check_said, refusal

from fpt import config
from fpt.config import PROFILES, expand, load, make_spec
from fpt.errors import FptError
from fpt.files import read_yaml
from fpt.project import PACKAGE, current_profile
from fpt.sections.arms import ARMS, FROZEN, arm
from fpt.training.settings import SETTINGS

BLOCK: dict[str, Any] = {
    "train_on": ["cpu", "cuda"],
    "backbones": {"transformer": "nano", "lstm": "lstm-nano", "depth-1": "nano@1"},
    "weights": {"language": "nano-english-0"},
    "seeds": [0, 1],
    "defaults": {
        "lr": 0.003,
        "batch": 16,
        "steps": 400,
        "eval_every": 20,
        "eval_items": 0,
        "patience": 0,
        "clip": 1.0,
        "dropout": 0.1,
        "augment": False,
    },
    "tasks": {
        "bit-xor": {"options": {"n": 5}, "steps": 600},
        "long": {"name": "bit-xor", "options": {"n": 20}},
        "digits": None,
    },
    "arms": {"full": {"lr": 0.001}},
    "sections": {
        "tasks": [],
        "transfer": [{"tasks": ["bit-xor", "digits"], "arms": ["fpt", "full", "lstm"]}],
    },
}
PARAMETERS = {"profile": "smoke", "smoke": BLOCK}


def written(tmp_path: Path, **changes: Any) -> Path:
    """A params.yaml; `changes` by dotted place, `__` for a dot, DELETE to leave it out."""
    content = copy.deepcopy(PARAMETERS)
    for place, value in changes.items():
        *parents, last = place.split("__")
        block: Any = content
        for name in parents:
            block = block[int(name) if name.isdigit() else name]
        if value is DELETE:
            del block[last]
        else:
            block[last] = value
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


DELETE = object()


def playable(profile: config.Profile) -> list[str]:
    """Arms that the profile has a backbone and weights for."""
    return [
        name
        for name, row in ARMS.items()
        if row.role in profile.backbones and row.weights in profile.weights
    ]


def keys(path: Path, section: str = "transfer") -> dict[tuple[str, str, int], str]:
    runs = expand(load("smoke", path), section)
    return {(run.arm, run.task, run.spec.seed): run.spec.key for run in runs}


# ------------------------------------------------------------------------------------------ right


def test_a_section_is_tasks_by_arms_by_seeds(tmp_path: Path) -> None:
    runs = expand(load("smoke", written(tmp_path)), "transfer")
    assert [(run.task, run.arm, run.spec.seed) for run in runs] == [
        (task, arm, seed)
        for task in ("bit-xor", "digits")
        for arm in ("fpt", "full", "lstm")
        for seed in (0, 1)
    ]
    assert len({run.spec for run in runs}) == len(runs)
    assert expand(load("smoke", written(tmp_path)), "tasks") == []


def test_a_spec_of_every_arm(tmp_path: Path) -> None:
    profile = load("smoke")
    specs = {name: make_spec(profile, name, "bit-xor", 0) for name in playable(profile)}
    assert specs["fpt"].trainable == specs["random"].trainable == FROZEN
    assert (specs["fpt"].init, specs["fpt"].weights) == ("pretrained", "nano-english-0")
    assert (specs["random"].init, specs["random"].weights) == ("random", None)
    assert specs["full"].weights is None
    assert "attention" in specs["full"].trainable
    assert specs["full-pretrained"].weights == "nano-english-0"
    assert specs["lstm"].backbone == "lstm-nano"
    assert specs["lstm-released"].backbone == "lstm-released-nano"
    assert "recurrent" in specs["lstm"].trainable
    for spec in specs.values():
        assert spec.trainable == tuple(sorted(spec.trainable))
        assert spec.options == {"n": 5, "valid": 1024, "test": 1024}


def test_an_arm_trains_what_its_name_says(tmp_path: Path) -> None:
    profile = load("smoke")

    def trained(name: str) -> str:
        return " ".join(make_spec(profile, name, "bit-xor", 0).trainable)

    assert trained("statistics-layer") == trained("permuted-rows") == " ".join(FROZEN)
    assert trained("output") == trained("random-output") == "output"
    assert trained("output+layernorm+input") == "input layernorm output"
    assert trained("random-output+positions") == "output positions"
    assert trained("output+input+positions") == "input output positions"
    assert trained("fpt+feedforward") == "feedforward input layernorm output positions"
    assert trained("fpt+feedforward+last-attention") == (
        "feedforward input last-attention layernorm output positions"
    )
    assert trained("output@1") == trained("probe") == "output"
    assert trained("frozen-input-normal") == "layernorm output positions"
    specs = {name: make_spec(profile, name, "bit-xor", 0) for name in playable(profile)}
    starts = {arm: spec.init for arm, spec in specs.items()}
    fresh = ("random", "full", "full@3", "lstm", "lstm-released", "vanilla", "linformer")
    fresh += ("no-transformer-last", "no-transformer-mean", "full-frozen-qk", "full-fixed")
    assert all(
        (init == "random") == (arm in fresh)
        for arm, init in starts.items()
        if not arm.startswith("random-")
    )
    assert specs["random-output+layernorm@2"].backbone == "nano@2"
    assert specs["input-normal"].input_init == "normal"
    assert (specs["probe"].procedure, specs["probe"].weights) == ("probe", "nano-english-0")
    assert starts["random-output"] == "random"
    assert (starts["random-scaled"], starts["random-body"]) == ("random-scaled", "random-body")
    assert trained("no-transformer-mean") == "input output"
    assert trained("random-attention") == " ".join(FROZEN)
    assert trained("full-fixed") == trained("full-frozen-qk")
    assert trained("full-fixed") == "attention feedforward input layernorm output positions"
    assert trained("full").split() == trained("full-fixed").split()  # GPT-2's queries are inside
    assert {arm for arm, spec in specs.items() if spec.order != "given"} == {"fpt-shuffled"}


def test_a_backbone_without_positions_trains_none(tmp_path: Path) -> None:
    profile = load("smoke", written(tmp_path, smoke__backbones__t5="t5-encoder-nano"))
    spec = make_spec(profile, "random-t5", "bit-xor", 0)
    assert "positions" in arm("random-t5").trainable
    assert spec.trainable == ("input", "layernorm", "output")


def test_the_nearest_to_the_table_wins(tmp_path: Path) -> None:
    def lr_and_steps(arm: str, **changes: Any) -> tuple[float, int]:
        runs = expand(load("smoke", written(tmp_path, **changes)), "transfer")
        (spec,) = {
            (run.spec.lr, run.spec.steps)
            for run in runs
            if run.arm == arm and run.task == "bit-xor"
        }
        return spec

    assert lr_and_steps("fpt") == (0.003, 600)
    assert lr_and_steps("full") == (0.001, 600)
    assert lr_and_steps("full", smoke__tasks__long__lr=0.9) == (0.001, 600)
    changes: dict[str, Any] = {"smoke__tasks__bit-xor": {"options": {"n": 5}, "lr": 0.5}}
    assert lr_and_steps("fpt", **changes) == (0.5, 400)
    assert lr_and_steps("full", **changes) == (0.001, 400)
    changes["smoke__arms__full__lr"] = {"digits": 0.2}  # nothing for bit-xor: as its task says
    assert lr_and_steps("full", **changes) == (0.5, 400)
    changes["smoke__sections__transfer__0__lr"] = 1
    changes["smoke__sections__transfer__0__seeds"] = [7]
    assert lr_and_steps("full", **changes) == (1.0, 400)
    assert {seed for _, _, seed in keys(written(tmp_path, **changes))} == {7}


def test_one_task_under_two_names(tmp_path: Path) -> None:
    path = written(tmp_path, smoke__sections__transfer__0__tasks=["bit-xor", "long"])
    runs = expand(load("smoke", path), "transfer")
    assert {(run.task, run.spec.task, run.spec.options["n"]) for run in runs} == {
        ("bit-xor", "bit-xor", 5),
        ("long", "bit-xor", 20),
    }


@pytest.mark.parametrize(
    ("place", "value", "moved"),
    [
        ("smoke__tasks__bit-xor__lr", 0.5, lambda arm, task: task == "bit-xor" and arm != "full"),
        ("smoke__tasks__digits", {"batch": 8}, lambda arm, task: task == "digits"),
        ("smoke__tasks__long__lr", 0.5, lambda arm, task: False),
        ("smoke__arms__full__lr", 0.5, lambda arm, task: arm == "full"),
        ("smoke__defaults__clip", 0.5, lambda arm, task: True),
        ("smoke__weights__language", "other", lambda arm, task: arm == "fpt"),
        ("smoke__backbones__lstm", "lstm-micro", lambda arm, task: arm == "lstm"),
        ("smoke__train_on", ["cuda"], lambda arm, task: False),
    ],
)
def test_an_edit_changes_the_keys_that_depend_on_it(
    place: str, value: Any, moved: Callable[[str, str], bool], tmp_path: Path
) -> None:
    before, after = keys(written(tmp_path)), keys(written(tmp_path, **{place: value}))
    assert before.keys() == after.keys()
    changed = {run for run in before if before[run] != after[run]}
    assert changed == {(arm, task, seed) for arm, task, seed in before if moved(arm, task)}


def test_a_block_with_rates_is_searched_and_reported_at_each(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        smoke__sections__transfer__0__lrs=[0.001, 1],
        smoke__sections__transfer__0__search=[7],
    )
    profile = load("smoke", path)
    runs = expand(profile, "transfer")
    assert len(runs) == 2 * 3 * 2 * 3
    assert [(run.spec.lr, run.spec.seed, run.search) for run in runs[:6]] == [
        (lr, seed, seed == 7) for lr in (0.001, 1.0) for seed in (7, 0, 1)
    ]
    assert {run.spec.lr for run in runs if run.arm == "full"} == {0.001, 1.0}  # not its own
    assert len({run.spec for run in runs}) == len(runs)
    plain = keys(written(tmp_path, smoke__sections__transfer__0__lr=1))
    assert {run.spec.key for run in runs if run.spec.lr == 1 and not run.search} == {
        *plain.values()
    }
    assert not any(run.search for run in expand(load("smoke", written(tmp_path)), "transfer"))
    # A rate that is asked for takes the place of the search.
    changed = expand(profile, "transfer", {"lr": 1.0})
    assert {run.spec.key for run in changed} == {*plain.values()}
    assert not any(run.search for run in changed)


def test_a_section_says_whether_parameters_are_kept(tmp_path: Path) -> None:
    for keep in (True, False):
        path = written(tmp_path, smoke__sections__transfer__0__keep=keep)
        assert {run.keep for run in expand(load("smoke", path), "transfer")} == {keep}


def test_what_fits_a_length(tmp_path: Path) -> None:
    """A table of positions, and an LSTM that costs as much as the transformer does there."""
    long = written(
        tmp_path,
        smoke__tasks__long__options={"n": 513},
        smoke__sections__transfer__0__tasks=["long"],
    )
    check_said(
        refusal(lambda: expand(load("smoke", long), "transfer")), ["1026 tokens", "at most 1024"]
    )
    costly = load("smoke", written(tmp_path, **{"smoke__backbones__lstm-flops": "lstm-flops-nano"}))
    assert make_spec(costly, "random-lstm-flops", "bit-xor", 0).backbone == "lstm-flops-nano@6"


def test_a_search_reads_the_weights_of_its_own_seeds(tmp_path: Path) -> None:
    """So a rate is chosen on other backbones than those that are reported."""
    runs = expand(
        load(
            "smoke",
            written(
                tmp_path,
                smoke__weights__language="nano-english@5M-{seed}",
                smoke__sections__transfer__0__lrs=[0.001, 1],
                smoke__sections__transfer__0__search=[7],
            ),
        ),
        "transfer",
    )
    read = {(run.search, run.spec.seed, run.spec.weights) for run in runs if run.arm == "fpt"}
    assert read == {(seed == 7, seed, f"nano-english@5M-{seed}") for seed in (7, 0, 1)}


# ------------------------------------------------------------------------------------------ wrong


def rates(lrs: Any, search: Any, **more: Any) -> dict[str, Any]:
    block = {"tasks": ["digits"], "arms": ["fpt"], "lrs": lrs, "search": search, **more}
    return {"smoke__sections__transfer": [{k: v for k, v in block.items() if v is not DELETE}]}


def default(name: str, value: Any) -> dict[str, Any]:
    return {f"smoke__defaults__{name}": value}


def part(name: str, value: Any) -> dict[str, Any]:
    """The one block of a section, changed."""
    return {f"smoke__sections__transfer__0__{name}": value}


TRANSFER, LR = "smoke.sections.transfer", "smoke.defaults.lr: expected a number such as 0.001"
SEEDS = "smoke.seeds: expected a whole number from 0 to"
WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    # blocks and names
    "unknown block": ({"somke": BLOCK}, ["params.yaml", "'somke'", "did you mean smoke"]),
    "no block": ({"smoke": DELETE}, ["smoke: expected settings by name, found None"]),
    "block without a field": ({"smoke__seeds": DELETE}, ["smoke: seeds missing", "train_on"]),
    "unknown field": ({"smoke__seed": 1}, ["smoke: 'seed' is not known (did you mean seeds"]),
    "no default": (default("clip", DELETE), ["smoke.defaults: clip missing"]),
    "unknown device": ({"smoke__train_on": ["gpu"]}, ["smoke.train_on", "'gpu'", "cpu, cuda"]),
    # values of settings
    "number as a word": (default("lr", "0,001"), [LR, "or 1.0e-3, from 1e-12", "found '0,001'"]),
    "lr as yes": (default("lr", True), [LR, "found True"]),
    "lr of zero": ({"smoke__arms__full__lr": 0}, ["smoke.arms.full.lr: expected", "found 0"]),
    "steps with a point": (
        default("steps", 4.5),
        ["smoke.defaults.steps: expected a whole", "4.5"],
    ),
    "batch of zero": (
        default("batch", 0),
        ["smoke.defaults.batch: ", "from 1 to 1000000, found 0"],
    ),
    "dropout of one": (default("dropout", 1.0), ["smoke.defaults.dropout", "from 0 to 0.99"]),
    "augment as one": (default("augment", 1), ["smoke.defaults.augment: expected true or false"]),
    "unknown arm": (
        {"smoke__arms__fulll": {}},
        ["smoke.arms", "'fulll'", "did you mean full"],
    ),
    # seeds
    "seeds a number": ({"smoke__seeds": 3}, ["smoke.seeds: expected a list", "3"]),
    "seeds twice": ({"smoke__seeds": [3, 3]}, ["smoke.seeds: 3 stands twice"]),
    "seeds too large": ({"smoke__seeds": [2**63]}, [SEEDS]),
    "seeds by name": ({"smoke__seeds": {"first": 3}}, ["smoke.seeds: 'first'", "registered"]),
    "none registered": (
        {"smoke__seeds": {"registered": 0}},
        ["smoke.seeds.registered: expected a whole number from 1 to 1000, found 0"],
    ),
    # tasks
    "no tasks": ({"smoke__tasks": None}, ["smoke.tasks: expected settings"]),
    "unknown task": (
        {"smoke__tasks__bitxor": {"steps": 3}},
        ["smoke.tasks.bitxor: ", "task: 'bitxor' is not known", "bit-memory, bit-xor"],
    ),
    "unknown option": (
        {"smoke__tasks__bit-xor__options": {"m": 5}},
        ["smoke.tasks.bit-xor: ", "'m' is not known", "n, valid, test"],
    ),
    "option of another type": (
        {"smoke__tasks__bit-xor__options": {"n": "5"}},
        ["smoke.tasks.bit-xor: ", "must be a whole number", "'5'"],
    ),
    "unknown setting of a task": (
        {"smoke__tasks__bit-xor__epochs": 5},
        ["smoke.tasks.bit-xor: 'epochs'", "name, options"],
    ),
    # backbones and weights
    "too many layers": (
        {"smoke__backbones__depth-1": "nano@9"},
        ["smoke.backbones.depth-1: ", "'nano@9'", "nano has 4 layers", "from 1 to 4"],
    ),
    "no layer": (
        {"smoke__backbones__depth-1": "nano@0"},
        ["smoke.backbones.depth-1: ", "'nano@0'", "from 1 to 4"],
    ),
    "backbone a list": (
        {"smoke__backbones__transformer": ["nano"]},
        ["smoke.backbones.transformer: expected a name", "['nano']"],
    ),
    "an LSTM as transformer": (
        {"smoke__backbones__transformer": "lstm-nano"},
        ["smoke.backbones.transformer: 'lstm-nano' does not fit this role", "a causal GPT-2"],
    ),
    "a GPT-2 that sees ahead": (
        {"smoke__backbones__transformer": "bidirectional-nano"},
        ["smoke.backbones.transformer: 'bidirectional-nano' does not fit", "a causal GPT-2"],
    ),
    "a GPT-2 as LSTM": (
        {"smoke__backbones__lstm": "nano"},
        ["smoke.backbones.lstm: 'nano' does not fit", "called lstm, or lstm- and a size"],
    ),
    "unknown role": ({"smoke__backbones__gpt": "nano"}, ["smoke.backbones: 'gpt'", "lstm"]),
    "no backbone for an arm": (
        {"smoke__backbones": {"transformer": "nano"}},
        [f"{TRANSFER}.arms: backbone of lstm: 'lstm'", "allowed are transformer"],
    ),
    "no weights for an arm": (
        {"smoke__weights": {"image": "nano-english-0"}},
        [f"{TRANSFER}.arms: weights of fpt: 'language'", "allowed are image"],
    ),
    "weights a number": ({"smoke__weights__language": 3}, ["smoke.weights.language: ", "3"]),
    "weights a path": (
        {"smoke__weights__language": "models/gpt2"},
        ["smoke.weights.language: ", "'models/gpt2'", "a path is not taken"],
    ),
    "weights of three names": (
        {"smoke__weights__language": "hub:a/b/c@main"},
        ["smoke.weights.language: ", "not of the form hub:OWNER/REPO@REVISION"],
    ),
    # sections
    "unknown section": (
        {"smoke__sections__transfr": []},
        ["smoke.sections: 'transfr' is not known (did you mean transfer?)", "tasks, transfer, "],
    ),
    "section a table": ({"smoke__sections__tasks": {}}, ["smoke.sections.tasks: expected a list"]),
    "block a word": (
        {"smoke__sections__transfer": ["fpt"]},
        [f"{TRANSFER}: expected settings by name, found 'fpt'"],
    ),
    "no arms in a section": (part("arms", DELETE), [f"{TRANSFER}.arms: expected a list", "None"]),
    "unknown arm in a section": (
        part("arms", ["ftp"]),
        [f"{TRANSFER}.arms: 'ftp'", "did you mean fpt"],
    ),
    "a part twice": (
        part("arms", ["output+output"]),
        [f"{TRANSFER}.arms: 'output+output' is no arm"],
    ),
    "unknown setting of a section": (
        part("task", ["digits"]),
        [f"{TRANSFER}: 'task'", "tasks, arms"],
    ),
    # what is evaluated is the same for all arms
    "test items of a section": (part("test_items", 50), [f"{TRANSFER}: 'test_items' is not"]),
    "validation items of an arm": (
        {"smoke__arms__full": {"eval_items": 50}},
        ["smoke.arms.full: 'eval_items' is not"],
    ),
    "keep a number": (part("keep", 1), [f"{TRANSFER}.keep: expected true or false, found 1"]),
    "keep a probe": (
        {**part("keep", True), **part("arms", ["fpt", "probe"])},
        [f"{TRANSFER}: a probe has no learning rate and keeps no parameters; leave probe out"],
    ),
    # learning rates
    "rates a number": (rates(0.1, [7]), [f"{TRANSFER}.lrs: expected a list", "found 0.1"]),
    "a rate twice": (rates([1, 1.0], [7]), [f"{TRANSFER}.lrs: 1 stands twice"]),
    "a rate of zero": (rates([0, 0.1], [7]), [f"{TRANSFER}.lrs: expected a number", "found 0"]),
    "rates without a search": (rates([1, 2], DELETE), [f"{TRANSFER}.search: expected", "None"]),
    "a search without rates": (rates(DELETE, [7]), [f"{TRANSFER}.lrs: expected a list", "None"]),
    "a rate beside rates": (rates([1, 2], [7], lr=0.1), [f"{TRANSFER}.lr: a block with lrs"]),
    "search seeds reported": (rates([1, 2], [7, 1]), [f"{TRANSFER}.search: ", "others than 1."]),
    "rates of a probe": (rates([1, 2], [7], arms=["probe"]), [f"{TRANSFER}: a probe has no"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_one_sentence_that_names_its_place(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FPT_ROOT", str(PACKAGE.parent))
    changes, expected = WRONG[what]
    check_said(refusal(lambda: load("smoke", written(tmp_path, **changes))), expected)


INVALID = "is not valid YAML"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"profile: [", [INVALID]),
        (b"", ["expected `profile`"]),
        (b"- smoke", ["expected `profile`"]),
        (b"profile: smoke\nprofile: lab\n", [INVALID, "the key 'profile' stands twice", "line 1"]),
        (b"smoke: {seeds: [0], seeds: [1]}", [INVALID, "'seeds' stands twice"]),
        (b"profile: smoke\n? [a, b]\n: 1\n", [INVALID]),
        (b"profile: sm\xf6ke\n", [INVALID]),
        (b"smoke:\n\tseeds: [0]\n", [INVALID, "line 2"]),
        (b"smoke: {batch: 010}", [INVALID, "010 is read as 8; write that", "line 1"]),
        (b"smoke: {steps: 1:30}", [INVALID, "1:30 is read as 90"]),
        (b"smoke: {steps: 1_000}", [INVALID, "1_000 is read as 1000"]),
        (b"smoke: {lr: 1:30.5}", [INVALID, "1:30.5 is read as 90.5"]),
        (b"smoke: {lr: 1_0.5}", [INVALID, "1_0.5 is read as 10.5"]),
        (b"smoke: {augment: yes}", [INVALID, "yes is read as true"]),
        (b"smoke: {arms: [fpt, off]}", [INVALID, "off is read as false"]),
        (b"profile: !!python/object/apply:os.mkdir [x]", [INVALID, "a constructor for the tag"]),
    ],
)
def test_a_file_that_is_not_read(text: bytes, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_bytes(text)
    check_said(refusal(lambda: load("smoke", tmp_path / "params.yaml")), expected)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(text, float(text)) for text in ("1e-05", "1e-5", "1.e-3", "1E5", "+1e3", "-2.5E+3")],
        *[(text, float(text)) for text in (".5", ".5e1", "5.", "1.0e-3", "1e+22", "00.5", "-0.0")],
        *[(text, math.inf) for text in (".inf", "+.INF", ".Inf")],
        *[(text, text) for text in ("1e", "1e5x", "e5", ".", "1e-", "1.5.0", "-e", "inf")],
        *[(repr(text), text) for text in ("1e-05", "010", "1:30", "yes", "off", ".inf")],
        ("7", 7),
        ("true", True),
        ("~", None),
    ],
)
def test_a_value_is_read_as_yaml_1_2_has_it(text: str, value: Any, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(f"- {text}\n- {{key: {text}}}\n- [{text}]\n")
    values = read_yaml(tmp_path / "values.yaml")
    assert values == [value, {"key": value}, [value]]
    assert type(values[0]) is type(value)


def test_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_said(
        refusal(lambda: load("smoke", tmp_path / "params.yaml")), ["There is no", "FPT_ROOT"]
    )
    check_said(refusal(lambda: read_yaml(tmp_path)), [f"Cannot read {tmp_path}: "])


@pytest.mark.parametrize("name", ["smok", None])
def test_an_unknown_profile_on_top(name: str | None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("FPT_ROOT", str(written(tmp_path, profile=name).parent))
    check_said(refusal(current_profile), [f"profile: {name!r}", "smoke, lab, paper"])


def test_an_unknown_profile_or_section_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(FptError, match=r"'labb' is not known \(did you mean lab\?\); allowed are"):
        load("labb", written(tmp_path))
    with pytest.raises(
        FptError, match="section: 'tranfser' .*mean transfer.*allowed are tasks, transf"
    ):
        expand(load("smoke", written(tmp_path)), "tranfser")


# ----------------------------------------------------------------------- the file of this project


def test_settings_are_the_fields_of_a_spec() -> None:
    from dataclasses import fields

    from fpt.spec import RunSpec

    assert set(SETTINGS) < {field.name for field in fields(RunSpec)}


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_of_the_project_is_right(name: str) -> None:
    profile = load(name)
    for section in profile.sections:
        runs = expand(profile, section)
        assert len({(run.arm, run.task, run.spec.seed, run.spec.key) for run in runs}) == len(runs)
        for run in runs:
            if run.spec.procedure == "sgd":
                assert run.spec.steps >= 10 * run.spec.eval_every  # ten points on a curve


def test_the_transfer_section_of_the_project() -> None:
    runs = {name: expand(load(name), "transfer") for name in PROFILES}
    arms = {"fpt", "random", "full", "full-pretrained", "lstm", "lstm-released"}
    seven = {"bit-memory", "bit-xor", "listops", "mnist", "cifar10", "cifar10-lra", "homology"}
    assert {run.arm for run in runs["paper"]} == arms | {"fpt-largest", "full@3"}
    assert {run.task for run in runs["paper"]} == seven
    assert len(runs["paper"]) == 44 * len(load("paper").seeds)
    battery = {"bit-xor", "bit-memory-small", "listops-short", "mnist-short"}
    cells = {(run.arm, run.task) for run in runs["lab"]}
    equal = {(arm, "mnist-equal") for arm in ("fpt", "full")}
    assert cells == {(arm, task) for arm in arms for task in battery} | equal
    assert {bool(run.spec.threshold) for run in runs["lab"] if run.task in battery} == {True}
    assert {run.arm for run in runs["smoke"]} == {"fpt", "random", "full", "lstm"}
    assert {run.task for run in runs["smoke"]} == {"bit-xor", "digits"}
