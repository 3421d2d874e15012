"""params.yaml: every mistake is one sentence that names the place; every run follows from it."""

import copy
from pathlib import Path

import pytest
import yaml
from refusals import refuses
from ruamel.yaml import YAML

from fpt.config import expand, load, make_spec
from fpt.files import read_yaml
from fpt.project import PACKAGE
from fpt.sections.arms import arm

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


def test_a_section_is_tasks_by_arms_by_seeds(tmp_path):
    runs = runs_of(tmp_path)
    assert [(run.task, run.arm, run.spec.seed) for run in runs] == [
        (task, arm, seed)
        for task in ("bit-xor", "digits")
        for arm in ("fpt", "full", "lstm")
        for seed in (0, 1)
    ]
    assert len({run.spec for run in runs}) == len(runs)
    assert runs_of(tmp_path, "tasks") == []


def test_a_backbone_without_positions_trains_none(tmp_path):
    profile = load("smoke", written(tmp_path, smoke__backbones__t5="t5-encoder-nano"))
    spec = make_spec(profile, "random-t5", "bit-xor", 0)
    assert "positions" in arm("random-t5").trainable
    assert spec.trainable == ("input", "layernorm", "output")


def test_the_nearest_to_the_table_wins(tmp_path):
    def lr_and_steps(arm, **changes):
        runs = runs_of(tmp_path, **changes)
        (spec,) = {
            (run.spec.lr, run.spec.steps)
            for run in runs
            if run.arm == arm and run.task == "bit-xor"
        }
        return spec

    assert lr_and_steps("fpt") == (0.003, 600)
    assert lr_and_steps("full") == (0.001, 600)
    assert lr_and_steps("full", smoke__tasks__long__lr=0.9) == (0.001, 600)
    changes = {"smoke__tasks__bit-xor": {"options": {"n": 5}, "lr": 0.5}}
    assert lr_and_steps("fpt", **changes) == (0.5, 400)
    assert lr_and_steps("full", **changes) == (0.001, 400)
    changes["smoke__arms__full__lr"] = {"digits": 0.2}  # nothing for bit-xor: as its task says
    assert lr_and_steps("full", **changes) == (0.5, 400)
    changes["smoke__sections__transfer__0__lr"] = 1
    changes["smoke__sections__transfer__0__seeds"] = [7]
    assert lr_and_steps("full", **changes) == (1.0, 400)
    assert {seed for _, _, seed in keys(tmp_path, **changes)} == {7}


def test_one_task_under_two_names(tmp_path):
    runs = runs_of(tmp_path, smoke__sections__transfer__0__tasks=["bit-xor", "long"])
    assert {(run.task, run.spec.task, run.spec.options["n"]) for run in runs} == {
        ("bit-xor", "bit-xor", 5),
        ("long", "bit-xor", 20),
    }


@pytest.mark.parametrize(
    ("place", "value", "moved"),
    [
        ("smoke__tasks__bit-xor__lr", 0.5, lambda arm, task: task == "bit-xor" and arm != "full"),
        ("smoke__tasks__digits", {"batch": 8}, lambda arm, task: task == "digits"),
        ("smoke__defaults__clip", 0.5, lambda arm, task: True),
        ("smoke__backbones__lstm", "lstm-micro", lambda arm, task: arm == "lstm"),
        ("smoke__train_on", ["cuda"], lambda arm, task: False),
    ],
)
def test_an_edit_changes_the_keys_that_depend_on_it(place, value, moved, tmp_path):
    before, after = keys(tmp_path), keys(tmp_path, **{place: value})
    assert before.keys() == after.keys()
    changed = {run for run in before if before[run] != after[run]}
    assert changed == {(arm, task, seed) for arm, task, seed in before if moved(arm, task)}


def test_a_block_with_rates_is_searched_and_reported_at_each(tmp_path):
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
    plain = keys(tmp_path, smoke__sections__transfer__0__lr=1)
    assert {run.spec.key for run in runs if run.spec.lr == 1 and not run.search} == {
        *plain.values()
    }
    assert not any(run.search for run in runs_of(tmp_path))
    # A rate that is asked for takes the place of the search.
    changed = expand(profile, "transfer", {"lr": 1.0})
    assert {run.spec.key for run in changed} == {*plain.values()}
    assert not any(run.search for run in changed)


def test_what_fits_a_length(tmp_path):
    """A table of positions, and an LSTM that costs as much as the transformer does there."""
    long = {"smoke__tasks__long__options": {"n": 513}}
    long["smoke__sections__transfer__0__tasks"] = ["long"]
    refuses(lambda: runs_of(tmp_path, **long), "1026 tokens", "at most 1024")
    costly = load("smoke", written(tmp_path, **{"smoke__backbones__lstm-flops": "lstm-flops-nano"}))
    assert make_spec(costly, "random-lstm-flops", "bit-xor", 0).backbone == "lstm-flops-nano@6"


def test_a_search_reads_the_weights_of_its_own_seeds(tmp_path):
    """So a rate is chosen on other backbones than those that are reported."""
    changes = {"lrs": [0.001, 1], "search": [7]}
    changes = {f"smoke__sections__transfer__0__{name}": value for name, value in changes.items()}
    runs = runs_of(tmp_path, smoke__weights__language="nano-english@5M-{seed}", **changes)
    read = {(run.search, run.spec.seed, run.spec.weights) for run in runs if run.arm == "fpt"}
    assert read == {(seed == 7, seed, f"nano-english@5M-{seed}") for seed in (7, 0, 1)}


# ------------------------------------------------------------------------------------------ wrong


PART = "sections__transfer__0"
SEARCH = {"tasks": ["digits"], "arms": ["fpt"], "lrs": [1, 2], "search": [7]}
# A place below `smoke`, its value, and what the sentence has to say of it.
WRONG = [
    ("seeds", DELETE, "smoke: seeds missing", "train_on"),
    ("seed", 1, "smoke: 'seed' is not known (did you mean seeds"),
    ("defaults__clip", DELETE, "smoke.defaults: clip missing"),
    ("train_on", ["gpu"], "smoke.train_on", "'gpu'", "cpu, cuda"),
    ("defaults__lr", "0,001", "smoke.defaults.lr", "from 1e-12", "found '0,001'"),
    ("defaults__lr", True, "smoke.defaults.lr", "found True"),
    ("defaults__augment", 1, "smoke.defaults.augment: expected true or false"),
    ("seeds", [3, 3], "smoke.seeds: 3 appears twice"),
    ("seeds", {"first": 3}, "smoke.seeds: 'first'", "registered"),
    ("seeds", {"registered": 0}, "smoke.seeds.registered", "from 1 to 1000, found 0"),
    ("tasks__bitxor", {"steps": 3}, "smoke.tasks.bitxor", "bit-memory, bit-xor"),
    ("tasks__bit-xor__epochs", 5, "smoke.tasks.bit-xor: 'epochs'", "name, options"),
    ("backbones__depth-1", "nano@9", "smoke.backbones.depth-1", "'nano@9'", "from 1 to 4"),
    ("backbones__depth-1", "nano@2", "smoke.backbones.depth-1", "has 2 layers, not 1"),
    ("backbones__transformer", "lstm-nano", "does not fit this role", "a causal GPT-2"),
    ("backbones__transformer", "bidirectional-nano", "does not fit", "a causal GPT-2"),
    ("backbones__lstm", "nano", "does not fit", "called lstm, or lstm- and a size"),
    ("backbones", {"transformer": "nano"}, "transfer.arms: backbone of lstm: 'lstm'"),
    ("weights", {"image": "nano-english-0"}, "transfer.arms: weights of fpt: 'language'"),
    ("weights__language", "models/gpt2", "smoke.weights.language", "a path is not taken"),
    ("weights__language", "hub:a/b/c@main", "not of the form hub:OWNER/REPO@REVISION"),
    ("tasks", {7: {"name": "bit-xor"}}, "smoke.tasks", "found 7"),
    ("arms", {7: {"lr": 0.1}}, "smoke.arms", "found 7"),
    ("sections__transfr", [], "smoke.sections: 'transfr' is not known (did you mean transfer?)"),
    (f"{PART}__arms", DELETE, "smoke.sections.transfer.arms: expected a list", "None"),
    (f"{PART}__arms", ["ftp"], "smoke.sections.transfer.arms: 'ftp'", "did you mean fpt"),
    # What is evaluated is the same for all arms.
    ("arms__full", {"eval_items": 50}, "smoke.arms.full: 'eval_items' is not"),
    ("arms__full", {"threshold": 0.5}, "smoke.arms.full: 'threshold' is not"),
    (f"{PART}__keep", 1, "transfer.keep: expected true or false, found 1"),
    (PART, {"tasks": ["digits"], "arms": ["probe"], "keep": True}, "keeps no parameters"),
    (PART, SEARCH | {"lrs": [1, 1.0]}, "transfer.lrs: 1 appears twice"),
    (PART, SEARCH | {"search": None}, "transfer.search: expected", "None"),
    (PART, SEARCH | {"lrs": None}, "transfer.lrs: expected a list", "None"),
    (PART, SEARCH | {"lr": 0.1}, "transfer.lr: a block with lrs"),
    (PART, SEARCH | {"search": [7, 1]}, "transfer.search: ", "others than 1."),
    (PART, SEARCH | {"arms": ["probe"]}, "transfer: a probe has no"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_a_mistake_is_one_sentence_that_names_its_place(case, tmp_path, monkeypatch):
    monkeypatch.setenv("FPT_ROOT", str(PACKAGE.parent))
    place, value, *parts = case
    path = written(tmp_path, **{f"smoke__{place}": value})
    refuses(lambda: load("smoke", path), *parts)


INVALID = "is not valid YAML"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"profile: [", [INVALID]),
        (b"", ["expected `profile`"]),
        (b"profile: smoke\nprofile: lab\n", [INVALID, "the key 'profile' appears twice", "line 1"]),
        (b"profile: sm\xf6ke\n", [INVALID]),
        (b"profile: yes\n", [INVALID, "yes is read as true; write that"]),
        (b"profile: 010\n", [INVALID, "010 is read as 8; write that"]),
        (b"profile: !!python/object/apply:os.mkdir [x]", [INVALID, "a constructor for the tag"]),
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


def test_a_section_is_empty_rather_than_left_out(tmp_path, monkeypatch):
    """The pipeline executes the notebook of every section."""
    monkeypatch.setenv("FPT_ROOT", str(tmp_path))
    (tmp_path / "notebooks").mkdir()
    for name in ("00_tasks", "01_transfer", "02_modality"):
        (tmp_path / "notebooks" / f"{name}.ipynb").touch()
    refuses(lambda: load("smoke", written(tmp_path)), "smoke.sections: modality missing")
    load("smoke", written(tmp_path, smoke__sections__modality=[]))


def test_no_file(tmp_path):
    refuses(lambda: load("smoke", tmp_path / "params.yaml"), "There is no", "FPT_ROOT")
    refuses(lambda: read_yaml(tmp_path), f"Cannot read {tmp_path}: ")


def test_a_table_has_no_mean_over_runs_of_other_settings(tmp_path):
    blocks = [{"tasks": ["digits"], "arms": ["fpt"]}, {"tasks": ["digits"], "arms": ["fpt"]}]
    assert runs_of(tmp_path, smoke__sections__transfer=blocks)
    blocks[1]["lr"] = 0.01
    refuses(
        lambda: runs_of(tmp_path, smoke__sections__transfer=blocks),
        "smoke.sections.transfer: two blocks train fpt on digits with other settings",
    )
