"""The command line: every verb on a small project; wrong input is one line, status 2, no trace."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from made import LANGUAGE, NANO, RANDOM, SETTINGS, fill, tree, write_params
from processes import environment, lives, until, workers_of
from test_records import made
from tiny import WEIGHTS, task_of

from fpt import __version__
from fpt.__main__ import main, seconds
from fpt.errors import FptError
from fpt.plan import plan, status
from fpt.price import GPUS, corrected, hours, seconds_of
from fpt.project import Project
from fpt.reading.made import sections
from fpt.records import Store
from fpt.training.flops import planned_flops
from fpt.training.progress import write_checkpoint

SMOKE = {
    "train_on": ["cpu", "cuda"],
    "seeds": [0, 1],
    "defaults": {**SETTINGS, "lr": 0.01, "batch": 8, "steps": 12, "eval_every": 3},
    "tasks": {
        "bit-xor": {"options": {"n": 2}},
        "bit-memory": {"options": {"n": 4, "patterns": 2, "patch": 2, "valid": 10, "test": 20}},
    },
    "sections": {
        "transfer": [
            {
                "tasks": ["bit-xor", "bit-memory"],
                "models": [NANO],
                "arms": [LANGUAGE, RANDOM, "LSTM"],
            }
        ],
        "tasks": [],
    },
}
PAPER = {**SMOKE, "train_on": ["cuda"]}
RANDOM_ON_XOR = ("--only", RANDOM, "--only", "bit-xor")


def alone(model="pico GPT-2", arm=RANDOM):
    """A tier on a model that every process knows."""
    block = {"tasks": ["bit-xor"], "models": [model], "arms": [arm]}
    return {**SMOKE, "sections": {"transfer": [block]}}


@pytest.fixture
def project(tiny_nano, monkeypatch):
    """A project of its own: parameters, reports, locks and checkpoints in the test's folder."""
    root = tiny_nano / "project"
    root.mkdir()
    write_params(root, SMOKE, hour=PAPER)
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


def store_of(project, experiment="smoke"):
    return Store(project / "reports" / "experiments" / experiment)


def index_of(project, experiment="smoke"):
    rows = json.loads((store_of(project, experiment).folder / "index.json").read_text())
    return [row["key"] for row in rows]


def keys():
    return [run.key for run in plan("smoke").runs]


# ----------------------------------------------------------------------------------- what is right


def test_run_trains_a_section_once(fpt, project):
    code, out, err = fpt("run", "transfer")
    assert (code, err) == (0, "")
    assert out.startswith("12 new records\n")
    assert index_of(project) == keys()
    assert store_of(project).keys() == set(keys())
    before = tree(project / "reports")
    assert fpt("run", "--all")[:2] == (0, out.replace("12", "0", 1))
    assert tree(project / "reports") == before
    shown = fpt("show", "transfer")[1]
    assert all(name in shown for name in (NANO, LANGUAGE, RANDOM, "LSTM"))


def test_only_and_shard_choose_runs(fpt, project):
    assert fpt("run", "transfer", "--only", LANGUAGE, "--only", "bit-xor")[1].startswith("2 new")
    store = store_of(project)
    specs = [record.spec for record in store.read_all(store.keys()).values()]
    assert {(run.init, run.task) for run in specs} == {("pretrained", "bit-xor")}
    assert fpt("run", "transfer", *RANDOM_ON_XOR, "--seed", "1")[1].startswith("1 new")
    lines = [fpt("run", "transfer", "--shard", f"{part}/3")[1] for part in (1, 2, 3)]
    assert sum(int(line.split()[0]) for line in lines) == 9
    assert store.keys() == set(index_of(project)) == set(keys())


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
    code, _, error = fpt("run", "transfer", "--only", LANGUAGE, "--precision", "bf16")
    assert (code, "share one" in error) == (2, True)
    assert fpt("run", "transfer")[0] == 0


def test_a_setting_is_given_once(fpt, project):
    code, _, error = fpt("run", "transfer", "--set", "steps=6", "--set", "steps=9")
    assert (code, "appears twice" in error) == (2, True)


def test_a_budget_stops_and_a_later_call_goes_on(fpt, project):
    code, out, _ = fpt("run", "transfer", "--budget", "0")
    assert (code, out.startswith("0 new records\n")) == (0, True)
    missing = "missing: 12 of 12 runs"
    assert missing in out
    before = tree(project)
    assert fpt("run", "transfer", "--dry-run")[1].startswith(missing)
    assert tree(project) == before
    assert fpt("run", "transfer", "--budget", "9m", "--only", RANDOM)[1].startswith("4 new")


def test_the_pipeline_obeys_the_tier_and_writes_its_outputs(fpt, project, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    write_params(project, PAPER, "hour", none={"sections": {}})
    code, out, _ = fpt("run", "--all", "--pipeline")
    assert (code, out) == (0, "Tier 'hour' trains on cuda; nothing is trained here.\n")
    reports = tree(project / "reports")
    digests = {f"index/{section}.json" for section in sections()}
    index = "experiments/hour/index.json"
    assert reports.keys() == {"metrics.json", "curves.csv", index} | digests
    assert fpt("run", "--all", "--only", RANDOM)[1].startswith("4 new")  # by hand
    assert fpt("run", "--all", "--pipeline", "--tier", "none")[:2] == (0, "")
    assert json.loads((project / "reports/metrics.json").read_text())["transfer"][NANO].keys() == {
        RANDOM
    }


def test_missing_weights_cost_their_runs_and_not_the_stage(fpt, project):
    here = {"tasks": ["bit-xor"], "models": [NANO], "arms": [RANDOM]}
    elsewhere = {**here, "models": ["GPT-2 on bit memory"], "arms": [LANGUAGE]}
    write_params(project, {**SMOKE, "sections": {"transfer": [here, elsewhere]}})
    code, out, _ = fpt("run", "--all", "--pipeline")
    assert (code, len(plan().missing())) == (0, len(plan().runs) // 2)
    assert "Not trained" in out
    assert "gpt2-bit-memory-0" in out
    assert fpt("run", "--all")[0] == 2  # by hand, it is a mistake to be told


def test_a_tier_has_a_budget_in_the_pipeline(fpt, project):
    write_params(project, {**SMOKE, "budget": "0s"})
    assert fpt("run", "--all", "--pipeline")[0] == 0
    assert len(plan().missing()) == len(plan().runs)
    write_params(project, {**SMOKE, "budget": "soon"})
    assert "expected a time such as 50m, found 'soon'" in fpt("run", "--all", "--pipeline")[2]


def test_packed_records_are_shown_and_not_trained_again(fpt, project):
    fpt("run", "transfer", "--only", RANDOM)
    before = fpt("status"), fpt("show", "transfer")
    assert store_of(project).pack() == (4, 4)
    assert (fpt("status"), fpt("show", "transfer")) == before
    assert "1 of 1 reproduce" in fpt("replicate", "smoke", "--count", "1")[1]
    assert fpt("run", "transfer")[1].startswith("8 new")


def test_what_is_done_and_missing(fpt, project):
    def row():
        return status(plan())[0]

    assert (row()["missing_keys"], row()["hours_left"]) == (keys(), None)
    fpt("run", "transfer", "--only", RANDOM)
    first = store_of(project).read(min(store_of(project).keys()))
    store_of(project).write(replace(first, status="diverged"))
    assert row() | {"expected": 12, "done": 3, "diverged": 1, "missing": 8} == row()
    assert first.key not in row()["missing_keys"]
    assert re.search("transfer +4 of 12 runs, 1 diverged", fpt("status")[1])


# Wall time depends on what else the machine does.
def test_the_cost_of_the_rest_is_at_the_measured_speed(project):
    """Of the runs on the same backbone: 2 processor seconds on one, 30 on another, whatever the
    clock said."""
    every = plan("smoke").runs
    runs = {run.arm: run for run in every if run.task == "bit-xor"}
    seconds = {"tiny": 2e-6, "lstm-tiny": 30e-6}  # per FLOP
    assert status(plan())[0]["not_timed"] == len(every)
    for arm in (LANGUAGE, "LSTM"):
        record = replace(made(), spec=runs[arm].spec, pack=[runs[arm].key])
        spent = 1e6 * seconds[record.spec.backbone]
        record.cost.update(seconds=99.0, process_seconds=spent, flops=1e6)
        store_of(project).write(record)
    row = status(plan())[0]
    specs = [run.spec for run in every if run.key in row["missing_keys"]]
    left = [planned_flops(spec, task_of(spec)) * seconds[spec.backbone] for spec in specs]
    assert row["hours_left"] == pytest.approx(sum(left) / 3600)
    assert row["not_timed"] == 0


def test_status_says_what_is_in_training_and_what_a_gpu_takes(fpt, project):
    out = fpt("status", "--tier", "hour")[1]
    assert "in training" not in out
    assert re.search(r"H200 +[0-9.]+ h in eight processes .* about \$[0-9]", out)
    assert re.search("memory: [0-9]+ GB for one pack", out)
    first = next(run for run in plan("hour").runs if run.arm == LANGUAGE)
    path = Project(project).cache / "checkpoints" / "pack.safetensors"
    write_checkpoint(path, {}, {"keys": [first.key, "another"], "step": 6})
    assert f"  {first.title}: step 6 of 12, 0 min ago\n" in fpt("status", "--tier", "hour")[1]
    # Records of a GPU say how long its runs take: twice as long as computed.
    record = replace(made(), spec=first.spec, pack=[first.key], metrics={"steps": 12})
    taken = 2 * max(seconds_of(first.spec, GPUS[0]))
    record.cost["seconds"] = taken
    record.environment.update(kind="cuda", device="a GPU")
    missing = [run.spec for run in plan("hour").missing()]
    (line,) = corrected(missing, [record])
    assert (
        line == f"  a GPU: {2 * hours(missing, GPUS[0])[0]:,.1f} hours of processes, by 1 records"
    )
    assert corrected(missing, []) == []


def test_weights_of_a_model_are_fetched_by_its_name(fpt, project):
    assert fpt("weights", NANO)[1] == "tiny-weights: present\n".replace("tiny-weights", WEIGHTS)
    code, _, err = fpt("weights", "pico GPT-2")
    assert (code, err) == (2, "fpt: pico GPT-2 has no pretrained weights to fetch.\n")
    assert "is no model" in fpt("weights", "GPT-9")[2]


def test_runs_with_other_settings_belong_to_own(fpt, project):
    command = ("run", "transfer", "--set", "lr=0.5", "--set", "steps=6", "--only", "bit-xor")
    code, out, _ = fpt(*command)
    assert (code, out.startswith("6 new records\n")) == (0, True)
    assert fpt(*command)[1].startswith("0 new records\n")
    assert not store_of(project).folder.exists()
    own = store_of(project, "own")
    assert own.keys() == {*index_of(project, "own")}
    settings = {
        (record.spec.lr, record.spec.steps, record.metrics["steps"])
        for record in own.read_all(own.keys()).values()
    }
    assert settings == {(0.5, 6, 6)}
    assert "0.5" in fpt("show", "transfer")[1]


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
    "run transfer --all": "one section, or --all",
    "run tranfser": "transfer, tasks",
    "run transfer --tier smok": "'smok' is not known (did you mean smoke?); allowed are smoke,",
    "run transfer --tier own": "tier: 'own' is not known",
    "run transfer --only langage": "LSTM, N(0, 0.02), bit-memory, bit-xor, language",
    "run transfer --only LSTM --only language": "every --only narrows the choice",
    "run transfer --seed 7": "--seed: 7 is not known",
    "run transfer --prfile own": "unrecognized arguments: --prfile",
    "run transfer --set lr=fast": "as in lr=0.01, not 'lr=fast'",
    "run transfer --set tier=1": "settings: 'tier' is not known",
    "run transfer --set name=1": "settings: 'name' is not known",
    "data bit-xor:name=1": "'name' is not known",
    "show": "no runs that were trained here",
    "show transfer": "Section 'transfer' has no runs",
    "run tasks": "Section 'tasks' has no runs in tier 'smoke'",
    "run transfer --workers 1.5": "at least 1, not 1.5",
    "run transfer --device tpu": "cuda",
    "run transfer --gpus 2": "above 0 and at most 1, not 2",
    "run transfer --ray --device cpu": "pip install 'fpt[ray]'",
    "render ../01_transfer": "'../01_transfer' is not known",
    "replicate": "There is no record",
    "pretrain --seed 1": "required: OBJECTIVE",
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
    """A folder with parameters on a model that every process knows, and one record."""
    write_params(tmp_path, alone())
    with Project(tmp_path).in_force():
        whole = plan()
    fill(whole.only([whole.runs[0].key]))
    whole.write_index()
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
def test_help_starts_without_torch(plain):
    (plain / "light.py").write_text(TORCH_FREE)
    for words in ("--help", "run --help", "--version"):
        done = shell(f"{sys.executable} light.py {words}", plain)
        assert (done.returncode, done.stderr) == (0, ""), words


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
    write_params(plain, alone(arm="mine"), modules=["ends"])
    done = shell("$fpt status", plain)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the module 'ends' cannot be imported (SystemExit: 0)" in done.stderr


def test_a_warning_is_one_line(plain):
    (key,) = store_of(plain).keys()
    store_of(plain).path(key).write_text("{")
    done = shell("$fpt status", plain)
    assert done.returncode == 0
    assert re.fullmatch(rf"fpt: {key}.json is damaged \(.*\); .*\.\n", done.stderr)


@pytest.mark.parametrize(("number", "begun"), [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_a_signal_ends_all_processes(number, begun, tmp_path):
    """Workers are about to start, or train, and more packs wait. Ctrl-C goes to all of them."""
    defaults = {**SMOKE["defaults"], "steps": 10**9}
    block = {**alone("nano one attention layer"), "defaults": defaults, "seeds": [0, 1, 2]}
    write_params(tmp_path, block)
    words = ["--device", "cpu", "--workers", "2", "--budget", "5m"]  # if nobody ends it
    command = [sys.executable, "-m", "fpt", "run", "transfer", *words]
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
    assert "fpt: interrupted; records are kept" in err
    assert not begun or "Traceback" not in err  # a worker that starts hears of Ctrl-C by itself
    assert len(workers) == 2
    until(lambda: not any(map(lives, workers)))
