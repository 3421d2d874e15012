"""The command line: every verb on a small project; wrong input is one line, status 2, no trace."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import yaml
from made import SETTINGS, tree
from processes import environment, lives, until, workers_of
from test_records import made
from tiny import WEIGHTS, task_of

from fpt import __version__
from fpt.__main__ import main, seconds
from fpt.config import expand, load
from fpt.errors import FptError
from fpt.records import ARCHIVE, Store
from fpt.training.flops import planned_flops

SMOKE = {
    "train_on": ["cpu", "cuda"],
    "backbones": {"transformer": "tiny", "lstm": "lstm-tiny"},
    "weights": {"language": WEIGHTS},
    "seeds": [0, 1],
    "defaults": {**SETTINGS, "lr": 0.01, "batch": 8, "steps": 12, "eval_every": 3},
    "tasks": {
        "bit-xor": {"options": {"n": 2}},
        "bit-memory": {"options": {"n": 4, "patterns": 2, "patch": 2, "valid": 10, "test": 20}},
    },
    "arms": {},
    "sections": {
        "transfer": [{"tasks": ["bit-xor", "bit-memory"], "arms": ["fpt", "random", "lstm"]}],
        "tasks": [],
    },
}
# On backbones that every process knows.
ALONE = {**SMOKE, "backbones": {"transformer": "pico", "lstm": "lstm-pico"}}
RANDOM_ON_XOR = ("--only", "random", "--only", "bit-xor")


def write_params(root, smoke, **blocks):
    content = {"profile": "smoke", "smoke": smoke, **blocks}
    (root / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.fixture
def project(tiny, monkeypatch):
    """A project of its own: parameters, reports, locks and checkpoints in the test's folder."""
    root = tiny / "project"
    root.mkdir()
    write_params(root, SMOKE, lab={**SMOKE, "train_on": ["cuda"]})
    monkeypatch.setenv("FPT_ROOT", str(root))
    return root


@pytest.fixture
def fpt(project, capsys):
    """Calls the command line in this process; returns status, output, errors."""

    def call(*arguments):
        if arguments[0] == "run":
            arguments += ("--device", "cpu", "--workers", "1")
        capsys.readouterr()
        return main(arguments), *capsys.readouterr()

    return call


def store_of(project, profile="smoke"):
    return Store(project / "reports" / profile / "records")


def read(store):
    return list(store.read_all(sorted(store.keys())).values())


def index_of(project, profile="smoke"):
    return json.loads((project / "reports" / profile / "index" / "transfer.json").read_text())


# ----------------------------------------------------------------------------------- what is right


def test_run_trains_a_section_once(fpt, project):
    code, out, err = fpt("run", "transfer")
    assert (code, err) == (0, "")
    assert out.startswith("12 new records in ")
    keys = [run.spec.key for run in expand(load("smoke"), "transfer")]
    assert store_of(project).keys() == set(keys)
    assert index_of(project) == store_of(project).digests(keys)
    assert None not in index_of(project).values()
    before = tree(project / "reports")
    assert fpt("run", "--all")[:2] == (0, out.replace("12", "0", 1))
    after = tree(project / "reports")
    # What DVC compares, of all sections at once.
    metrics = json.loads(after.pop("smoke/metrics.json"))
    # In so few steps, neither arm learns bit-memory.
    assert list(metrics["transfer"]) == ["fpt - random on bit-xor"]
    curves = pd.read_csv(project / "reports/smoke/curves.csv")
    assert set(curves["panel"]) == {"transfer: bit-xor"}
    assert len(curves) == 2 * 4  # arms, evaluations; means over seeds
    del after["smoke/curves.csv"], after["smoke/index/tasks.json"]
    assert after == before


def test_only_and_shard_choose_runs(fpt, project):
    assert fpt("run", "transfer", "--only", "fpt", "--only", "bit-xor")[1].startswith("2 new")
    specs = [record.spec for record in read(store_of(project))]
    assert {(run.init, run.task) for run in specs} == {("pretrained", "bit-xor")}
    assert fpt("run", "transfer", *RANDOM_ON_XOR, "--seed", "1")[1].startswith("1 new")
    lines = [fpt("run", "transfer", "--shard", f"{part}/3")[1] for part in (1, 2, 3)]
    assert sum(int(line.split()[0]) for line in lines) == 9
    assert len(index_of(project)) == 12
    assert None not in index_of(project).values()


def test_a_shard_is_done_when_its_own_runs_are(fpt, project):
    dry = [fpt("run", "transfer", "--shard", f"{part}/2", "--dry-run")[1] for part in (1, 2)]
    counts = [int(text.split()[1]) for text in dry]
    assert sum(counts) == 12
    out = fpt("run", "transfer", "--shard", "2/2")[1]
    assert "resumes" not in out
    assert f"{counts[0]} more runs are those of other shards" in out
    assert fpt("run", "transfer", "--shard", "2/2", "--dry-run")[1] == "Nothing is missing.\n"
    assert fpt("run", "transfer", "--shard", "3/2", "--dry-run")[0] == 2


def test_one_experiment_has_one_arithmetic_whatever_is_chosen(fpt, project):
    assert fpt("run", "transfer", *RANDOM_ON_XOR)[0] == 0
    code, _, error = fpt("run", "transfer", "--only", "fpt", "--precision", "bf16")
    assert (code, "share one" in error) == (2, True)
    assert fpt("run", "transfer")[0] == 0


def test_a_setting_is_given_once(fpt, project):
    code, _, error = fpt("run", "transfer", "--set", "steps=6", "--set", "steps=9")
    assert (code, "appears twice" in error) == (2, True)


def test_records_of_another_profile_are_not_merged(fpt, project):
    folder = project / "reports" / "lab" / "records"
    folder.mkdir(parents=True)
    code, _, error = fpt("merge", str(folder))
    assert (code, "--profile lab" in error) == (2, True)


def test_the_page_of_all_tasks_depends_on_them(fpt, project):
    """That of a section without runs is rendered again if a task changes."""

    def index():
        return json.loads((project / "reports/smoke/index/tasks.json").read_text())

    fpt("run", "--all", "--budget", "0")
    before = index()
    assert set(before) == {"bit-xor", "bit-memory"}
    tasks = {**SMOKE["tasks"], "bit-xor": {"options": {"n": 3}}}
    write_params(project, {**SMOKE, "tasks": tasks})
    fpt("run", "--all", "--budget", "0")
    assert index()["bit-xor"] != before["bit-xor"]
    assert index()["bit-memory"] == before["bit-memory"]


def test_a_budget_stops_and_a_later_call_goes_on(fpt, project):
    code, out, _ = fpt("run", "transfer", "--budget", "0")
    assert (code, out.startswith(f"0 new records in {store_of(project).folder}\n")) == (0, True)
    missing = "missing: 12 of 12 runs"
    assert missing in out
    before = tree(project)
    assert fpt("run", "transfer", "--dry-run")[1].startswith(missing)
    assert tree(project) == before
    assert set(index_of(project).values()) == {None}
    assert fpt("run", "transfer", "--budget", "9m", "--only", "random")[1].startswith("4 new")


def test_the_pipeline_obeys_the_profile(fpt, project, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    command = ("run", "transfer", "--profile", "lab")
    code, out, _ = fpt(*command, "--pipeline")
    assert (code, out) == (0, "Profile 'lab' trains on cuda only; nothing is trained here.\n")
    assert list((project / "reports/lab/records").iterdir()) == []  # which DVC looks for
    assert set(index_of(project, "lab").values()) == {None}
    assert fpt(*command, "--only", "random")[1].startswith("4 new")
    assert store_of(project).keys() == set()


def test_packed_and_merged_records_are_shown_and_not_trained_again(fpt, project):
    assert fpt("pack") == (0, f"0 files packed; {ARCHIVE} holds 0 records\n", "")
    assert not store_of(project).folder.exists()
    fpt("run", "transfer", "--only", "random")
    before = fpt("status", "--json"), fpt("show", "transfer")
    assert fpt("pack") == (0, f"4 files packed; {ARCHIVE} holds 4 records\n", "")
    assert (fpt("status", "--json"), fpt("show", "transfer")) == before
    assert "1 of 1 reproduce" in fpt("replicate", "transfer", "--count", "1")[1]
    elsewhere = store_of(project).folder.rename(project / "elsewhere")
    assert fpt("run", "transfer", *RANDOM_ON_XOR, "--seed", "1")[1].startswith("1 new")
    assert fpt("merge", str(elsewhere))[:2] == (0, "3 files taken, 1 were here already\n")
    assert fpt("run", "transfer")[1].startswith("8 new")
    assert fpt("pack")[1] == f"12 files packed; {ARCHIVE} holds 12 records\n"


def test_status(fpt, project):
    def row():
        return json.loads(fpt("status", "--json")[1])["sections"][0]

    keys = [run.spec.key for run in expand(load("smoke"), "transfer")]
    assert (row()["missing_keys"], row()["hours_left"]) == (keys, None)
    fpt("run", "transfer", "--only", "random")
    first = read(store_of(project))[0]
    store_of(project).write(replace(first, status="diverged"))
    assert row() | {"expected": 12, "done": 3, "diverged": 1, "missing": 8} == row()
    assert first.key not in row()["missing_keys"]
    assert re.search("transfer +4 of 12 runs, 1 diverged", fpt("status")[1])


# Wall time depends on what else the machine does.
def test_the_cost_of_the_rest_is_at_the_measured_speed(fpt, project):
    """Of the runs on the same backbone: 2 processor seconds on one, 30 on another, whatever the
    clock said."""
    every = expand(load("smoke"), "transfer")
    runs = {run.arm: run for run in every if run.task == "bit-xor"}
    seconds = {"tiny": 2e-6, "lstm-tiny": 30e-6}  # per FLOP
    assert json.loads(fpt("status", "--json")[1])["sections"][0]["not_timed"] == len(every)
    for arm in ("fpt", "lstm"):
        record = replace(made(), spec=runs[arm].spec, pack=[runs[arm].key])
        spent = 1e6 * seconds[record.spec.backbone]
        record.cost.update(seconds=99.0, process_seconds=spent, flops=1e6)
        store_of(project).write(record)
    row = json.loads(fpt("status", "--json")[1])["sections"][0]
    specs = [run.spec for run in every if run.key in row["missing_keys"]]
    left = [planned_flops(spec, task_of(spec)) * seconds[spec.backbone] for spec in specs]
    assert row["hours_left"] == pytest.approx(sum(left) / 3600)
    assert row["not_timed"] == 0


def test_other_settings_are_no_part_of_the_report(fpt, project):
    command = ("run", "transfer", "--set", "lr=0.5", "--set", "steps=6", "--only", "bit-xor")
    code, out, _ = fpt(*command)
    assert (code, out.startswith("6 new records in ")) == (0, True)
    assert fpt(*command)[1].startswith("0 new records in ")
    assert not (project / "reports").exists()
    trials = read(Store(project / ".cache/trials/smoke/records"))
    settings = {(record.spec.lr, record.spec.steps, record.metrics["steps"]) for record in trials}
    assert settings == {(0.5, 6, 6)}


def test_times():
    times = {"90": 90, "90s": 90, "9m": 540, "1.5h": 5400, "0": 0}
    assert {text: seconds(text) for text in times} == times
    for text in ("", "h", "9 m", "-1", "1e3", "nan", "9min", "1h30m"):
        with pytest.raises(FptError, match=r"is not a time; write 90s, 9m or 2h\.$"):
            seconds(text)


# ----------------------------------------------------------------------------------- what is wrong

WRONG = {
    "": "VERB",
    "stauts": "status",
    "run": "one section, or --all",
    "run tranfser": "transfer, tasks",
    "run transfer --profile smok": "smoke, lab, paper",
    "run transfer --profile paper": "paper: expected settings by name, found None",
    "run transfer --only ftp": "bit-memory, bit-xor, fpt, lstm, random",
    "run transfer --prfile lab": "unrecognized arguments: --prfile",
    "run transfer --set lr=fast": "as in lr=0.01, not 'lr=fast'",
    "run transfer --set profile=1": "--set: 'profile' is not known",
    "run transfer --set name=1": "--set: 'name' is not known",
    "data bit-xor:name=1": "'name' is not known",
    "show tasks": "Section 'tasks' has no runs",
    "run tasks": "Section 'tasks' has no runs in profile 'smoke'",
    "run transfer --workers 1.5": "at least 1, not 1.5",
    "run transfer --device tpu": "cuda",
    "run transfer --ray --device cpu": "pip install 'fpt[ray]'",
    "render ../01_transfer": "'../01_transfer' is not known",
}


@pytest.mark.parametrize("line", WRONG, ids=[line or "nothing" for line in WRONG])
def test_wrong_input_is_one_line_and_leaves_no_trace(line, project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    monkeypatch.setenv("FPT_CORPORA", "nowhere")
    monkeypatch.setitem(sys.modules, "ray", None)  # as if the extra is not installed
    before = tree(project)
    with pytest.raises(SystemExit) as caught:
        sys.exit(main(line.split()))
    out, err = capsys.readouterr()
    assert (caught.value.code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("fpt")
    assert WRONG[line] in err
    assert tree(project) == before


def test_pages_say_which_packages_they_need(project, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "papermill", None)
    assert main(["render", "transfer"]) == 2
    assert "pip install 'fpt[pipeline]'" in capsys.readouterr().err


# -------------------------------------------------------------------------- in its own process


def shell(line, root, **options):
    """`line` in a shell where $fpt is the command, for the project in `root`."""
    env = environment(root) | {"fpt": f"{sys.executable} -m fpt"}
    return subprocess.run(
        ["bash", "-c", line], env=env, cwd=root, capture_output=True, text=True, **options
    )


@pytest.fixture
def plain(tmp_path):
    """A folder with parameters on backbones that every process knows."""
    write_params(tmp_path, ALONE)
    return tmp_path


TORCH_FREE = """
import sys
from fpt.__main__ import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
heavy = {"torch", "transformers", "pandas"} & set(sys.modules)
assert not heavy, heavy
sys.exit(code)
"""


# On a machine where nothing can be installed, the package is a folder beside the project's.
UNINSTALLED = """
import importlib.metadata, runpy, sys
versions = importlib.metadata.version
def of_installed(name):
    if name == "fpt":
        raise importlib.metadata.PackageNotFoundError(name)
    return versions(name)
importlib.metadata.version = of_installed
sys.argv = ["fpt", *sys.argv[1:]]
runpy.run_module("fpt", run_name="__main__", alter_sys=True)
"""


def test_a_copy_of_the_package_runs_where_it_is_not_installed(plain):
    (plain / "uninstalled.py").write_text(UNINSTALLED)
    done = shell(f"{sys.executable} uninstalled.py --version", plain)
    assert (done.returncode, done.stdout) == (0, f"fpt {__version__}\n")


# torch takes seconds to import, which is too long for a help text.
def test_help_and_merge_start_without_torch(plain):
    foreign = Store(plain / "other")
    for seed in range(2):
        foreign.write(made(seed))
    (plain / "light.py").write_text(TORCH_FREE)
    for words in ("--help", "run --help", "--version", "merge other"):
        done = shell(f"{sys.executable} light.py {words}", plain)
        assert (done.returncode, done.stderr) == (0, ""), words
    assert done.stdout == "2 files taken, 0 were here already\n"
    foreign.path(made(0).key).write_text("{}")
    done = shell("$fpt merge other", plain)
    assert (done.returncode, done.stdout) == (0, "0 files taken, 1 were here already\n")
    assert done.stderr.startswith(f"fpt: 1 file of other could not be taken: {made(0).key}.json")


def test_who_reads_may_stop_reading(plain):
    reader, writer = os.pipe()
    os.close(reader)
    done = shell(f"$fpt status >&{writer}", plain, pass_fds=[writer])
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


# A terminal in Latin-1 once ended `fpt show` in a traceback.
@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("PYTHONIOENCODING=ascii $fpt show transfer", 0, ""),
        ("$fpt tasks >&-", 0, ""),  # a closed output
        (f"{sys.executable} -OO -m fpt --help", 0, ""),  # without docstrings
        ("mkdir gone; cd gone; rmdir ../gone; FPT_ROOT=here $fpt status", 2, "directory is gone"),
        ("$fpt status > /dev/full", 2, "No space left on device"),
        (f"FPT_ROOT={'long' * 100} $fpt status >&-", 2, "File name too long"),
    ],
)
def test_wherever_a_command_runs_it_says_one_sentence_at_most(plain, line, code, sentence):
    done = shell(line, plain)
    assert done.returncode == code
    assert sentence in done.stderr
    sentences = [line for line in done.stderr.splitlines() if line.startswith("fpt: ")]
    assert len(sentences) == bool(sentence)


# SystemExit is no Exception: a module that called sys.exit(0) once made `fpt status` succeed.
def test_a_module_that_ends_the_process_is_one_line(plain):
    (plain / "ends.py").write_text("import sys; sys.exit(0)")
    sections = {"transfer": [{"tasks": ["bit-xor"], "arms": ["mine"]}]}
    write_params(plain, {**ALONE, "sections": sections}, modules=["ends"])
    done = shell("$fpt status", plain)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the module 'ends' cannot be imported (SystemExit: 0)" in done.stderr


def test_a_warning_is_one_line(plain):
    key = expand(load("smoke", plain / "params.yaml"), "transfer")[0].key
    path = store_of(plain).path(key)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    done = shell("$fpt status", plain)
    assert done.returncode == 0
    assert re.fullmatch(rf"fpt: {key}.json is damaged \(.*\); .*\.\n", done.stderr)


@pytest.mark.parametrize(("number", "begun"), [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_a_signal_ends_all_processes(number, begun, tmp_path):
    """Workers are about to start, or train, and more packs wait. Ctrl-C goes to all of them."""
    smoke = {
        **SMOKE,
        "backbones": {"attention": "attention-pico"},
        "defaults": {**SMOKE["defaults"], "steps": 10**9},
        "seeds": [0, 1, 2],
        "sections": {"long": [{"tasks": ["bit-xor"], "arms": ["random-attention"]}]},
    }
    write_params(tmp_path, smoke)
    words = ["--device", "cpu", "--workers", "2", "--budget", "5m"]  # if nobody ends it
    command = [sys.executable, "-m", "fpt", "run", "long", *words]
    env = environment(tmp_path)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def heard():  # also where the tests run in the background of a shell, which ignores it
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    driver = subprocess.Popen(command, env=env, start_new_session=True, preexec_fn=heard, **pipes)
    locks = tmp_path / ".cache/locks/smoke"
    until(lambda: driver.poll() is not None or len(workers_of(driver.pid)) == 2)
    if begun:  # two packs of one run, each with a lock of its own
        until(lambda: driver.poll() is not None or (locks.exists() and len(os.listdir(locks)) == 4))
    workers = workers_of(driver.pid)
    os.kill(driver.pid, number) if begun else os.killpg(driver.pid, number)
    out, err = driver.communicate(timeout=300)
    assert (driver.returncode, out) == (128 + number, "")
    assert "fpt: interrupted; what was finished is kept\n" in err
    assert not begun or "Traceback" not in err  # a worker that starts hears of Ctrl-C by itself
    assert len(workers) == 2
    until(lambda: not any(map(lives, workers)))
