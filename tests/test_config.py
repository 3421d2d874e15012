"""params.yaml: every mistake is one sentence that names the place; every run follows from it."""

import copy
import reprlib
from dataclasses import fields, replace
from functools import reduce
from itertools import product
from operator import getitem
from pathlib import Path

import pytest
import yaml
from refusals import refusal, refuses
from ruamel.yaml import YAML

from fpt.backbones import BACKBONES
from fpt.backbones.initialisations import INITS
from fpt.config import expand, load
from fpt.files import read_yaml
from fpt.names import MODELS, model
from fpt.project import TIERS, Project, check, schema
from fpt.spec import FOUR_GROUPS, RunSpec

HERE = Path(__file__).parent
PARAMETERS = read_yaml(HERE / "small_params.yaml")
FULL = "fully trained"
PART = "sections.transfer.0"


def written(tmp_path, changes):
    """A params.yaml with changes below `smoke`, by their dotted place."""
    content = copy.deepcopy(PARAMETERS)
    for place, value in changes.items():
        *parents, last = (int(name) if name.isdigit() else name for name in place.split("."))
        block = reduce(getitem, parents, content["smoke"])
        block[last] = value
        if value == "delete":
            del block[last]
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def runs_of(folder, changes):
    """The runs of the section of a params.yaml with changes."""
    return expand(load("smoke", written(folder, changes)), "transfer")


# ------------------------------------------------------------------------------------------ right


def test_a_section_is_tasks_by_models_by_arms_by_seeds(tmp_path):
    models = ["nano GPT-2", "pico GPT-2"]
    # An id is a name, too.
    runs = runs_of(tmp_path, {f"{PART}.models": models, f"{PART}.arms": ["random", "LSTM"]})
    assert [(run.task, run.model, run.arm, run.spec.seed) for run in runs] == [
        *product(("bit-xor", "digits"), models, ("N(0, 0.02)", "LSTM"), (0, 1))
    ]
    assert [run.spec.backbone for run in runs[::2]] == 2 * [
        "nano",
        "lstm-nano",
        "pico",
        "lstm-pico",
    ]


def test_a_backbone_trains_those_of_an_arm_s_groups_that_it_has(tmp_path):
    models = ["nano GPT-2", "nano T5 encoder", "nano LSTM"]
    runs = runs_of(tmp_path, {f"{PART}.models": models, f"{PART}.arms": ["random"]})
    trained = {run.model: run.spec.trainable for run in runs}
    assert trained["nano GPT-2"] == trained["nano T5 encoder"] == FOUR_GROUPS  # a table of zeros
    assert "positions" not in trained["nano LSTM"]


def test_the_nearest_to_the_table_wins(tmp_path):
    changes = {}

    def lr_and_steps(arm):
        runs = runs_of(tmp_path, changes)
        found = [run.spec for run in runs if (run.arm, run.task) == (arm, "bit-xor")]
        return found[0].lr, found[0].steps

    assert (lr_and_steps("language"), lr_and_steps(FULL)) == ((0.003, 600), (0.001, 600))
    changes["tasks.bit-xor"] = {"options": {"n": 5}, "lr": 0.5}
    assert (lr_and_steps("language"), lr_and_steps(FULL)) == ((0.5, 400), (0.001, 400))
    # A rate of another task says nothing of bit-xor: as its task says.
    changes["arms"] = {FULL: {"lr": {"digits": 0.2}}}
    assert lr_and_steps(FULL) == (0.5, 400)
    changes |= {f"{PART}.lr": 1, f"{PART}.share": 0.3}
    assert lr_and_steps(FULL) == (1.0, 120)


def test_an_edit_changes_the_keys_that_depend_on_it(tmp_path):
    before = runs_of(tmp_path, {})
    assert runs_of(tmp_path, {"train_on": ["cuda"], "shown": False}) == before
    after = runs_of(tmp_path, {"tasks.bit-xor.lr": 0.5})
    moved = {(run.arm, run.task) for run in {*after} - {*before}}
    assert moved == {("language", "bit-xor"), ("LSTM", "bit-xor")}


def test_a_block_with_rates_is_searched_and_reported_at_each(tmp_path):
    rates = {f"{PART}.lrs": [0.001, 1], f"{PART}.search": [7]}
    assert {run.spec.seed for run in runs_of(tmp_path, rates)} == {7}
    tier = load("smoke", written(tmp_path, rates | {f"{PART}.seeds": [0, 1]}))
    runs = expand(tier, "transfer")
    assert len({run.spec for run in runs}) == len(runs) == 2 * 3 * 2 * 3
    assert [(run.spec.lr, run.spec.seed, run.search) for run in runs[:6]] == [
        (lr, seed, seed == 7) for lr in (0.001, 1.0) for seed in (7, 0, 1)
    ]
    # A rate that is asked for takes the place of the search, and of an arm's own.
    plain = runs_of(tmp_path, {f"{PART}.lr": 1})
    assert [run for run in runs if run.spec.lr == 1 and not run.search] == plain
    assert expand(tier, "transfer", {"lr": 1.0}) == plain


def test_draws_are_of_arms_that_draw_a_backbone(tmp_path):
    arms = ["language", "random", "LSTM"]
    runs = runs_of(tmp_path, {f"{PART}.draws": [5, 6], f"{PART}.arms": arms})
    drawn = {(run.arm, run.spec.draw) for run in runs}
    assert drawn == {("language", None), ("N(0, 0.02)", 5), ("N(0, 0.02)", 6), ("LSTM", None)}


def test_a_search_reads_the_weights_of_its_own_seeds(tmp_path, monkeypatch):
    """So a rate is chosen on other backbones than those that are reported."""
    own = replace(model("nano GPT-2"), source="nano-english@5M-{seed}")
    monkeypatch.setitem(MODELS, "nano GPT-2", own)
    runs = runs_of(tmp_path, {f"{PART}.lrs": [0.001, 1], f"{PART}.search": [7, 8]})
    read = {(run.spec.seed, run.spec.weights) for run in runs if run.arm == "language"}
    assert read == {(seed, f"nano-english@5M-{seed}") for seed in (7, 8)}


def test_a_number_of_examples_in_defaults_is_a_bound(tmp_path):
    """They are for sets of all sizes."""
    bounds = {"defaults.test_items": 300, "defaults.eval_items": 300}
    items = {
        run.task: (run.spec.test_items, run.spec.eval_items) for run in runs_of(tmp_path, bounds)
    }
    assert items == {"bit-xor": (300, 300), "digits": (300, 0)}  # it has 200


# ------------------------------------------------------------------------------------------ wrong


SEARCH = {"lrs": [1, 2], "search": [7]}
# Parts of the schema, each with what it needs.
PARTS = {
    "tier": {},
    "defaults": PARAMETERS["smoke"]["defaults"],
    "task": {},
    "arm_settings": {},
    "block": PARAMETERS["smoke"]["sections"]["transfer"][0],
    "run": {},
    "arm": {},
}
PROPERTIES = {part: schema()["definitions"][part]["properties"] for part in PARTS}
OF_TYPES = {
    "null": None, "string": "0.5", "number": 2.5, "boolean": True, "array": [], "object": {}
}  # fmt: skip


def wrong(definition):
    """Values that a definition of the schema refuses, and the place below it."""
    allowed = definition.get("type", [])
    yield from ((value, "") for kind, value in OF_TYPES.items() if kind not in allowed)
    if "minimum" in definition:
        yield from ((value, "") for value in (definition["minimum"] - 1, 2 * definition["maximum"]))
    if "uniqueItems" in definition:
        yield ["a", "a"], ""
        yield from (([value], f"[0]{below}") for value, below in wrong(definition["items"]))


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part in PARTS for name in PROPERTIES[part]]
)
def test_what_the_schema_refuses_is_one_sentence_that_names_its_place(part, name):
    # Rates and the seeds that choose one go together.
    beside = PARTS[part] | (SEARCH if name in SEARCH else {})
    for value, below in wrong(PROPERTIES[part][name]):
        sentence = refusal(lambda value=value: check("here", {**beside, name: value}, part))
        assert sentence.startswith(f"here: {name}{below}")
        assert reprlib.repr(value[0] if below else value) in sentence


def test_the_schema_has_the_names_of_the_code():
    groups = {group for architecture in BACKBONES.values() for group in architecture.trainable}
    assert {*schema()["definitions"]["groups"]["items"]["enum"]} == groups
    assert {*PROPERTIES["run"]["init"]["enum"]} == {*INITS}
    assert {*schema()["definitions"]["params"]["properties"]} == {"tier", "modules", *TIERS}
    assert {*PROPERTIES["run"], "semantics"} == {field.name for field in fields(RunSpec)}


@pytest.mark.parametrize("case", read_yaml(HERE / "wrong_params.yaml"), ids=str)
def test_a_mistake_is_one_sentence_that_names_its_place(case, tmp_path):
    refuses(lambda: runs_of(tmp_path, case["change"]), *case["said"])


def test_a_section_has_a_notebook_if_there_are_any(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "01_transfer.ipynb").touch()
    path = written(tmp_path, {"sections.nonsense": []})
    with Project(tmp_path).in_force():
        refuses(lambda: load("smoke", path), "smoke.sections: 'nonsense' is not known")


# ------------------------------------------------------------------------------------------- YAML

INVALID = "is not valid YAML"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"tier: [", [INVALID]),
        (b"", ["expected `tier`"]),
        (b"tier: smoke\ntier: own\n", [INVALID, "the key 'tier' appears twice", "line 1"]),
        (b"tier: sm\xf6ke\n", [INVALID]),
        (b"tier: yes\n", [INVALID, "yes is read as true; write that"]),
        (b"tier: 010\n", [INVALID, "010 is read as 8; write that"]),
        (b"tier: .nan\n", [INVALID, ".nan is read as nan"]),
        (b"tier: !!python/object/apply:os.mkdir [x]", [INVALID, "a constructor for the tag"]),
    ],
)
def test_a_file_that_is_not_read(text, expected, tmp_path):
    (tmp_path / "params.yaml").write_bytes(text)
    refuses(lambda: load("smoke", tmp_path / "params.yaml"), *expected)


VALUES = """1e-05 1e-5 1.e-3 1E5 +1e3 -2.5E+3 .5 5. 1.0e-3 1e+22 00.5 -0.0 .inf +.INF 1e 1e5x e5 .
    1e- 1.5.0 -e inf 7 true ~ '1e-05' '010' '1:30' 'yes'"""


@pytest.mark.parametrize("text", VALUES.split())
def test_a_value_is_read_as_yaml_1_2_has_it(text, tmp_path):
    """As DVC reads it: in YAML 1.1 of PyYAML, 1e-3 is a word."""
    path = tmp_path / "values.yaml"
    path.write_text(f"- {text}\n- {{key: {text}}}\n- [{text}]\n")
    assert repr(read_yaml(path)) == repr(list(YAML(typ="safe").load(path)))


def test_a_merged_mapping_may_be_overridden(tmp_path):
    """As DVC reads it: defaults by <<, and values of one's own."""
    path = tmp_path / "values.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n")
    assert read_yaml(path)["b"] == {"x": 1, "y": 3}
    path.write_text("a:\n  b: &b {x: 1}\n  c: &c {<<: *b, x: 2}\nd: {<<: *c}\n")
    assert read_yaml(path)["d"] == {"x": 2}
    path.write_text("a: &a {x: 1}\nb: {<<: *a, y: 3, y: 4}\n")
    refuses(lambda: read_yaml(path), "the key 'y' appears twice")


def test_no_file(tmp_path):
    refuses(lambda: load("smoke", tmp_path / "params.yaml"), "There is no", "FPT_ROOT")
    refuses(lambda: read_yaml(tmp_path), f"Cannot read {tmp_path}: ")
