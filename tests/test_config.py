"""params.yaml: every mistake is one sentence that names the place; every run follows from it."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from refusals import refuses
from ruamel.yaml import YAML

from fpt.config import expand, load, make_spec
from fpt.files import read_yaml
from fpt.names import MODELS, model
from fpt.project import Project
from fpt.spec import FOUR_GROUPS
from fpt.training.settings import OF_ARMS, SETTINGS

PARAMETERS = read_yaml(Path(__file__).with_name("small_params.yaml"))


def written(tmp_path, **changes):
    """A params.yaml; `changes` by dotted place, `__` for a dot, DELETE to leave it out."""
    content = copy.deepcopy(PARAMETERS)
    for place, value in changes.items():
        *parents, last = (int(name) if name.isdigit() else name for name in place.split("__"))
        block = content
        for name in parents:
            block = block[name]
        if value is DELETE:
            del block[last]
        else:
            block[last] = value
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


DELETE = object()


def runs_of(folder, section="transfer", **changes):
    """The runs of a section of a params.yaml with changes."""
    return expand(load("smoke", written(folder, **changes)), section)


def keys(folder, **changes):
    runs = runs_of(folder, **changes)
    return {(run.arm, run.task, run.spec.seed): run.spec.key for run in runs}


# ------------------------------------------------------------------------------------------ right

FULL = "fully trained"
PART = "smoke__sections__transfer__0"


def test_a_section_is_tasks_by_arms_by_seeds(tmp_path):
    runs = runs_of(tmp_path)
    assert [(run.task, run.model, run.arm, run.spec.seed) for run in runs] == [
        (task, "nano GPT-2", arm, seed)
        for task in ("bit-xor", "digits")
        for arm in ("language", FULL, "LSTM")
        for seed in (0, 1)
    ]
    assert len({run.spec for run in runs}) == len(runs)


def test_a_block_may_take_a_share_of_each_tasks_steps(tmp_path):
    whole = {(run.task, run.arm): run.spec.steps for run in runs_of(tmp_path)}
    part = {**PARAMETERS["smoke"]["sections"]["transfer"][0], "share": 0.25}
    shares = {(run.task, run.arm): run.spec.steps for run in runs_of(tmp_path, **{PART: part})}
    assert shares == {place: -(-steps // 4) for place, steps in whole.items()}


def test_a_section_is_models_by_arms(tmp_path):
    models = ["nano GPT-2", "pico GPT-2"]
    part = {"tasks": ["digits"], "models": models, "arms": ["random", "LSTM"]}
    runs = runs_of(tmp_path, **{PART: part})
    assert {(run.model, run.arm, run.spec.backbone) for run in runs} == {
        ("nano GPT-2", "N(0, 0.02)", "nano"),  # its id is a name, too
        ("nano GPT-2", "LSTM", "lstm-nano"),
        ("pico GPT-2", "N(0, 0.02)", "pico"),
        ("pico GPT-2", "LSTM", "lstm-pico"),
    }


def test_a_backbone_trains_those_of_an_arm_s_groups_that_it_has(tmp_path):
    tier = load("smoke", written(tmp_path))

    def groups(*names):
        return make_spec(tier, *names, "bit-xor", 0).trainable

    assert groups("nano T5 encoder", "N(0, 0.02)") == FOUR_GROUPS  # a table of zeros
    assert "positions" not in groups("nano LSTM", "N(0, 0.02)")
    assert {"attention", "feedforward", *FOUR_GROUPS} == {*groups("nano GPT-2", FULL)}


def test_the_nearest_to_the_table_wins(tmp_path):
    def lr_and_steps(arm, **changes):
        runs = runs_of(tmp_path, **changes)
        (spec,) = {
            (run.spec.lr, run.spec.steps)
            for run in runs
            if run.arm == arm and run.task == "bit-xor"
        }
        return spec

    assert lr_and_steps("language") == (0.003, 600)
    assert lr_and_steps(FULL) == (0.001, 600)
    assert lr_and_steps(FULL, smoke__tasks__long__lr=0.9) == (0.001, 600)
    changes = {"smoke__tasks__bit-xor": {"options": {"n": 5}, "lr": 0.5}}
    assert lr_and_steps("language", **changes) == (0.5, 400)
    assert lr_and_steps(FULL, **changes) == (0.001, 400)
    # A rate of another task says nothing of bit-xor: as its task says.
    changes["smoke__arms"] = {FULL: {"lr": {"digits": 0.2}}}
    assert lr_and_steps(FULL, **changes) == (0.5, 400)
    changes[f"{PART}__lr"] = 1
    changes[f"{PART}__seeds"] = [7]
    assert lr_and_steps(FULL, **changes) == (1.0, 400)
    assert {seed for _, _, seed in keys(tmp_path, **changes)} == {7}


def test_one_task_under_two_names(tmp_path):
    runs = runs_of(tmp_path, **{f"{PART}__tasks": ["bit-xor", "long"]})
    assert {(run.task, run.spec.task, run.spec.options["n"]) for run in runs} == {
        ("bit-xor", "bit-xor", 5),
        ("long", "bit-xor", 20),
    }


@pytest.mark.parametrize(
    ("place", "value", "moved"),
    [
        ("smoke__tasks__bit-xor__lr", 0.5, lambda arm, task: task == "bit-xor" and arm != FULL),
        ("smoke__tasks__digits", {"batch": 8}, lambda arm, task: task == "digits"),
        ("smoke__defaults__clip", 0.5, lambda arm, task: True),
        ("smoke__train_on", ["cuda"], lambda arm, task: False),
        ("smoke__shown", False, lambda arm, task: False),
    ],
)
def test_an_edit_changes_the_keys_that_depend_on_it(place, value, moved, tmp_path):
    before, after = keys(tmp_path), keys(tmp_path, **{place: value})
    assert before.keys() == after.keys()
    changed = {run for run in before if before[run] != after[run]}
    assert changed == {(arm, task, seed) for arm, task, seed in before if moved(arm, task)}


def test_a_block_with_rates_is_searched_and_reported_at_each(tmp_path):
    reported = {f"{PART}__lrs": [0.001, 1], f"{PART}__search": [7], f"{PART}__seeds": [0, 1]}
    path = written(tmp_path, **reported)
    tier = load("smoke", path)
    runs = expand(tier, "transfer")
    assert len(runs) == 2 * 3 * 2 * 3
    assert [(run.spec.lr, run.spec.seed, run.search) for run in runs[:6]] == [
        (lr, seed, seed == 7) for lr in (0.001, 1.0) for seed in (7, 0, 1)
    ]
    assert {run.spec.lr for run in runs if run.arm == FULL} == {0.001, 1.0}  # not its own
    assert len({run.spec for run in runs}) == len(runs)
    plain = keys(tmp_path, **{f"{PART}__lr": 1})
    assert {run.spec.key for run in runs if run.spec.lr == 1 and not run.search} == {
        *plain.values()
    }
    assert not any(run.search for run in runs_of(tmp_path))
    # A rate that is asked for takes the place of the search.
    changed = expand(tier, "transfer", {"lr": 1.0})
    assert {run.spec.key for run in changed} == {*plain.values()}
    assert not any(run.search for run in changed)


def test_draws_are_of_arms_that_draw_a_backbone(tmp_path):
    arms = ["language", "random", "LSTM"]
    runs = runs_of(tmp_path, **{f"{PART}__draws": [5, 6], f"{PART}__arms": arms})
    drawn = {(run.arm, run.spec.draw) for run in runs}
    assert drawn == {("language", None), ("N(0, 0.02)", 5), ("N(0, 0.02)", 6), ("LSTM", None)}


def test_what_fits_a_length(tmp_path):
    long = {"smoke__tasks__long__options": {"n": 513}, f"{PART}__tasks": ["long"]}
    refuses(lambda: runs_of(tmp_path, **long), "1026 tokens", "at most 1024")


def test_a_search_reads_the_weights_of_its_own_seeds(tmp_path, monkeypatch):
    """So a rate is chosen on other backbones than those that are reported."""
    own = replace(model("nano GPT-2"), source="nano-english@5M-{seed}")
    monkeypatch.setitem(MODELS, "nano GPT-2", own)
    runs = runs_of(tmp_path, **{f"{PART}__lrs": [0.001, 1], f"{PART}__search": [7, 8]})
    read = {(run.search, run.spec.seed, run.spec.weights) for run in runs if run.arm == "language"}
    assert read == {(True, seed, f"nano-english@5M-{seed}") for seed in (7, 8)}


# ------------------------------------------------------------------------------------------ wrong


def outside(allowed):
    """A value of each way in which a setting can be wrong."""
    kind, least, most = allowed
    if kind is bool:
        return [1, "yes", None]
    return [least - 1, most * 2, True, str(most), None, [most]]


@pytest.mark.parametrize("place", ["defaults", "tasks__bit-xor", "sections__transfer__0"])
@pytest.mark.parametrize("name", SETTINGS)
def test_each_value_outside_of_its_range_is_refused_with_its_place(name, place, tmp_path):
    for value in outside(SETTINGS[name]):
        path = written(tmp_path, **{f"smoke__{place}__{name}": value})
        if "sections" in place and name not in OF_ARMS:  # the same for all arms
            refuses(lambda path=path: load("smoke", path), f"'{name}' is not known")
        else:
            dotted = place.removesuffix("__0").replace("__", ".")
            expected = [f"smoke.{dotted}.{name}: expected ", f"found {value!r}"]
            refuses(lambda path=path: load("smoke", path), *expected)


@pytest.mark.parametrize("place", ["", "__defaults", "__tasks__bit-xor", "__arms__fully trained",
                                   "__sections", "__sections__transfer__0"])  # fmt: skip
def test_a_name_that_is_not_known_is_refused_with_its_place(place, tmp_path):
    path = written(tmp_path, **{f"smoke{place}__nonsense": []})
    dotted = f"smoke{place}".removesuffix("__0").replace("__", ".")
    if place == "__sections":  # of any name, without notebooks
        (tmp_path / "notebooks").mkdir()
        (tmp_path / "notebooks" / "01_transfer.ipynb").touch()
    with Project(tmp_path).in_force():
        refuses(lambda: load("smoke", path), f"{dotted}: 'nonsense' is not known")


BLOCK = "sections__transfer__0"
SEARCH = {"tasks": ["digits"], "models": ["nano GPT-2"], "arms": ["language"], "lrs": [1, 2],
          "search": [7]}  # fmt: skip
PROBE = SEARCH | {"arms": ["probe"]}
# A place below `smoke`, its value, and what the sentence has to say of it.
WRONG = [
    ("seeds", DELETE, "smoke.sections.transfer: there are no seeds"),
    ("seed", 1, "smoke: 'seed' is not known (did you mean seeds"),
    ("seeds", [3, 3], "smoke.seeds: 3 appears twice"),
    ("seeds", {"first": 3}, "smoke.seeds: expected a list"),
    ("defaults__clip", DELETE, "smoke.defaults: clip missing"),
    ("train_on", ["gpu"], "smoke.train_on", "'gpu'", "cpu, cuda"),
    ("shown", 0, "smoke.shown: expected true or false"),
    ("precision", "fp16", "smoke.precision: 'fp16'", "bf16"),
    ("tasks__bitxor", {"steps": 3}, "smoke.tasks.bitxor", "bit-memory, bit-xor"),
    ("tasks", {7: {"name": "bit-xor"}}, "smoke.tasks", "found 7"),
    ("arms", {7: {"lr": 0.1}}, "smoke.arms", "found 7"),
    ("arms", {"fully traned": {}}, "smoke.arms: 'fully traned'", "fully trained"),
    ("arms", {FULL: {"lr": {}}}, "smoke.arms.fully trained.lr: expected a rate"),
    ("arms", {FULL: {"lr": {"digit": 1}}}, "smoke.arms.fully trained.lr: 'digit'", "digits"),
    ("sections", {"transfer": {}}, "smoke.sections.transfer: expected a list of blocks"),
    (f"{BLOCK}__arms", DELETE, "smoke.sections.transfer.arms: names: expected a list", "None"),
    (f"{BLOCK}__arms", ["langage"], "smoke.sections.transfer.arms: 'langage'", "language"),
    (f"{BLOCK}__models", ["nano GPT"], "smoke.sections.transfer.models: 'nano GPT'", "nano GPT-2"),
    (f"{BLOCK}__models", ["pico GPT-2"], "'language' starts from pretrained", "has none"),
    (f"{BLOCK}__tasks", ["xor"], "smoke.sections.transfer.tasks: 'xor'", "bit-xor"),
    # What is evaluated is the same for all arms.
    ("arms", {FULL: {"eval_items": 50}}, "smoke.arms.fully trained: 'eval_items' is not"),
    ("arms", {FULL: {"threshold": 0.5}}, "smoke.arms.fully trained: 'threshold' is not"),
    (f"{BLOCK}__keep", 1, "transfer.keep: expected true or false, found 1"),
    (BLOCK, {**PROBE, "lrs": [1]}, "transfer: a probe has no learning rate"),
    (BLOCK, {"tasks": ["digits"], "models": ["nano GPT-2"], "arms": ["probe"], "keep": True},
     "keeps no parameters"),
    (BLOCK, SEARCH | {"lrs": [1, 1.0]}, "transfer.lrs: 1 appears twice"),
    (BLOCK, SEARCH | {"search": None}, "transfer.search: expected", "None"),
    (BLOCK, SEARCH | {"lrs": None}, "transfer.lrs: expected a list", "None"),
    (BLOCK, SEARCH | {"lr": 0.1}, "transfer.lr: a block with lrs"),
    (BLOCK, SEARCH | {"search": [7, 1]}, "transfer.search: ", "others than 1."),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_a_mistake_is_one_sentence_that_names_its_place(case, tmp_path):
    place, value, *parts = case
    path = written(tmp_path, **{f"smoke__{place}": value})
    refuses(lambda: load("smoke", path), *parts)


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


def test_a_table_has_no_mean_over_runs_of_other_settings(tmp_path):
    part = {"tasks": ["digits"], "models": ["nano GPT-2"], "arms": ["language"]}
    blocks = [part, dict(part)]
    assert runs_of(tmp_path, smoke__sections__transfer=blocks)
    blocks[1]["lr"] = 0.01
    refuses(
        lambda: runs_of(tmp_path, smoke__sections__transfer=blocks),
        "smoke.sections.transfer: two blocks train nano GPT-2, language on digits with other",
    )
