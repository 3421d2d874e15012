"""The command line: every verb on a small project; wrong input is one line, status 2, no trace."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from processes import lives, until, workers_of
from refusals import check_said
from test_records import made
from tiny import WEIGHTS, task_of

from fpt import records
from fpt.__main__ import main, seconds
from fpt.config import expand, load
from fpt.files import PACKAGE, FptError
from fpt.records import ARCHIVE, Store
from fpt.sections import declared
from fpt.tasks import TASKS
from fpt.training.flops import planned_flops

PARAMETERS = {
    "profile": "smoke",
    "smoke": {
        "train_on": ["cpu", "cuda"],
        "backbones": {"transformer": "tiny", "lstm": "lstm-tiny"},
        "weights": {"language": WEIGHTS},
        "seeds": [0, 1],
        "defaults": {
            "lr": 0.01,
            "batch": 8,
            "steps": 12,
            "eval_every": 3,
            "eval_items": 0,
            "patience": 0,
            "clip": 1.0,
            "dropout": 0.1,
            "augment": False,
        },
        "tasks": {
            "bit-xor": {"options": {"n": 2}},
            "bit-memory": {"options": {"n": 4, "patterns": 2, "patch": 2, "valid": 10, "test": 20}},
        },
        "arms": {},
        "sections": {
            "transfer": [{"tasks": ["bit-xor", "bit-memory"], "arms": ["fpt", "random", "lstm"]}],
            "tasks": [],
        },
    },
}
PARAMETERS["lab"] = {**PARAMETERS["smoke"], "train_on": ["cuda"]}  # type: ignore[dict-item]
# On backbones that every process knows.
ALONE = {
    "profile": "smoke",
    "smoke": {**PARAMETERS["smoke"], "backbones": {"transformer": "pico", "lstm": "lstm-pico"}},
}
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def project(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own: parameters, reports, locks and checkpoints in the test's folder."""
    root = tiny / "project"
    root.mkdir()
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMETERS, sort_keys=False))
    enter(root, monkeypatch)
    return root


def enter(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `root` the project of this process."""
    monkeypatch.setattr("fpt.files.PARAMS", root / "params.yaml")
    for module in ("fpt.files", "fpt.analysis.study"):
        monkeypatch.setattr(f"{module}.CACHE", root / ".cache")
    monkeypatch.setattr(records, "REPORTS", root / "reports")
    monkeypatch.setattr("fpt.analysis.study.REPORTS", root / "reports")
    for module in ("fpt.tasks.datasets", "fpt.commands"):
        monkeypatch.setattr(f"{module}.PREPARED", root / "data" / "prepared")
    monkeypatch.setattr("fpt.training.train.CACHE", root / ".cache")


@pytest.fixture
def fpt(project: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Calls the command line in this process; returns status, output, errors."""

    def call(*arguments: str) -> tuple[int, str, str]:
        if arguments[0] == "run":
            arguments += ("--device", "cpu", "--workers", "1")
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
        return code, *capsys.readouterr()

    return call


def store_of(project: Path, profile: str = "smoke") -> Store:
    return Store(project / "reports" / profile / "records")


def files_of(project: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in project.rglob("*") if path.is_file()}


# ----------------------------------------------------------------------------------- what is right


def test_run_trains_a_section_once(fpt: Cli, project: Path) -> None:
    code, out, err = fpt("run", "transfer")
    assert (code, err) == (0, "")
    assert out.startswith("12 new records in ")
    keys = [run.spec.key for run in expand(load("smoke"), "transfer")]
    assert store_of(project).keys() == set(keys)
    index = json.loads((project / "reports/smoke/index/transfer.json").read_text())
    assert index == store_of(project).digests(keys)
    assert None not in index.values()
    before = files_of(project / "reports")
    assert fpt("run", "--all")[:2] == (0, out.replace("12", "0", 1))
    (project / "reports/smoke/index/tasks.json").unlink()  # of the section without runs
    assert re.search(r"^Frozen random .*\(2\)", out, re.MULTILINE)
    metrics = json.loads((project / "reports/smoke/metrics.json").read_text())
    assert list(metrics["transfer"]) == ["fpt - random"]
    curves = pd.read_csv(project / "reports/smoke/curves.csv")
    assert set(curves["panel"]) == {"transfer: bit-xor", "transfer: bit-memory"}
    assert len(curves) == 2 * 2 * 4  # tasks, arms, evaluations; means over seeds
    for name in ("metrics.json", "curves.csv"):  # what DVC compares, of all sections at once
        (project / "reports/smoke" / name).unlink()
    assert files_of(project / "reports") == before


def test_the_runs_of_an_experiment_share_one_precision(fpt: Cli, project: Path) -> None:
    chosen = ("--only", "random", "--only", "bit-xor")
    first = fpt("run", "transfer", *chosen, "--seed", "1", "--precision", "bf16")
    assert first[1].startswith("1 new")
    code, _, said = fpt("run", "transfer", *chosen)
    assert code == 2
    assert said.count("\n") == 1
    assert len(store_of(project).keys()) == 1
    params = project / "params.yaml"
    params.write_text(
        re.sub("^smoke:.*$", "smoke:\n  precision: bf16", params.read_text(), flags=re.M)
    )
    assert fpt("run", "transfer", *chosen)[1].startswith("1 new")
    made = {record.environment["precision"] for record in read(store_of(project))}
    assert made == {"bf16 autocast"}


def test_only_and_shard_choose_runs(fpt: Cli, project: Path) -> None:
    chosen = ("--only", "fpt", "--only", "bit-xor")
    assert fpt("run", "transfer", *chosen)[1].startswith("2 new")
    specs = [record.spec for record in read(store_of(project))]
    assert {(run.init, run.task) for run in specs} == {("pretrained", "bit-xor")}
    random = ("--only", "random", "--only", "bit-xor")
    assert fpt("run", "transfer", *random, "--seed", "1")[1].startswith("1 new")
    made = [fpt("run", "transfer", "--shard", f"{part}/3")[1] for part in (1, 2, 3)]
    assert sum(int(line.split()[0]) for line in made) == 9
    index = json.loads((project / "reports/smoke/index/transfer.json").read_text())
    assert len(index) == 12
    assert None not in index.values()


def read(store: Store) -> list[records.Record]:
    return [record for record in map(store.read, store.keys()) if record]


def test_a_budget_stops_and_a_later_call_goes_on(fpt: Cli, project: Path) -> None:
    code, out, _ = fpt("run", "transfer", "--budget", "0")
    assert (code, out.startswith(f"0 new records in {store_of(project).folder}\n")) == (0, True)
    missing = "missing: 12 of 12 runs, cost unknown: no run was measured yet\n  fpt on bit-xor: 2\n"
    assert missing in out
    assert out.endswith("\nThe same command goes on from the last checkpoints.\n")
    before = files_of(project)
    assert fpt("run", "transfer", "--dry-run")[1].startswith(missing)
    assert files_of(project) == before
    index = json.loads((project / "reports/smoke/index/transfer.json").read_text())
    assert set(index.values()) == {None}
    assert fpt("run", "transfer", "--budget", "9m", "--only", "random")[1].startswith("4 new")


def test_the_pipeline_obeys_the_profile(fpt: Cli, project: Path, monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, out, _ = fpt("run", "transfer", "--profile", "lab", "--pipeline")
    assert (code, out) == (0, "Profile 'lab' trains on cuda only; nothing is trained here.\n")
    assert list((project / "reports/lab/records").iterdir()) == []  # which DVC looks for
    index = json.loads((project / "reports/lab/index/transfer.json").read_text())
    assert set(index.values()) == {None}
    asked = fpt("run", "transfer", "--profile", "lab", "--only", "random")
    assert asked[1].startswith("4 new")
    assert store_of(project).keys() == set()


def test_merge(fpt: Cli, project: Path) -> None:
    fpt("run", "transfer", "--only", "random")
    elsewhere = project / "elsewhere"
    shutil.copytree(store_of(project).folder, elsewhere)
    for path in sorted(store_of(project).folder.iterdir())[:3]:
        path.unlink()
    assert fpt("merge", str(elsewhere))[:2] == (0, "3 files taken, 1 were here already\n")
    assert len(store_of(project).keys()) == 4


def test_pack(fpt: Cli, project: Path) -> None:
    """What was packed is shown, counted and verified as before, and not trained again."""
    assert fpt("pack") == (0, f"0 files packed; {ARCHIVE} holds 0 records\n", "")
    assert not store_of(project).folder.exists()
    fpt("run", "transfer", "--only", "random")
    before = fpt("status", "--json"), fpt("show", "transfer")
    assert fpt("pack") == (0, f"4 files packed; {ARCHIVE} holds 4 records\n", "")
    assert [path.name for path in store_of(project).folder.iterdir()] == [ARCHIVE]
    assert (fpt("status", "--json"), fpt("show", "transfer")) == before
    assert fpt("run", "transfer", "--only", "random")[1].startswith("0 new")
    assert fpt("verify", "transfer", "--retrain", "--count", "1")[1].endswith(
        "1 match, 0 differ, 0 could not be checked\n"
    )
    assert fpt("run", "transfer")[1].startswith("8 new")
    assert fpt("pack")[1] == f"8 files packed; {ARCHIVE} holds 12 records\n"


def test_status(fpt: Cli, project: Path) -> None:
    def row() -> dict[str, Any]:
        found = json.loads(fpt("status", "--json")[1])
        assert [row["section"] for row in found["sections"]] == ["transfer", "tasks"]
        return found["sections"][0]

    keys = [run.spec.key for run in expand(load("smoke"), "transfer")]
    assert row() == {
        "section": "transfer", "expected": 12, "done": 0, "diverged": 0, "missing": 12,
        "missing_keys": keys, "hours_left": None,
    }  # fmt: skip
    fpt("run", "transfer", "--only", "random")
    (first, *_) = read(store_of(project))
    store_of(project).write(replace(first, status="diverged"))
    found = row()
    assert (found["done"], found["diverged"], found["missing"]) == (3, 1, 8)
    assert first.key not in found["missing_keys"]
    assert 0 < found["hours_left"] < 1
    text = fpt("status")[1]
    assert re.search(r"transfer +4 of 12 runs, 1 diverged, 1 min left at the measured", text)
    assert re.search(r"tasks +0 of 0 runs$", text, re.MULTILINE)
    assert re.search(r"all +4 of 12 runs, 1 diverged, 1 min left", text)


def test_the_cost_of_the_rest_is_at_the_measured_speed(fpt: Cli, project: Path) -> None:
    """Of the runs on the same backbone: 2 processor seconds on one, 30 on another, whatever the
    clock said."""
    runs = {run.arm: run for run in expand(load("smoke"), "transfer") if run.task == "bit-xor"}
    for arm, spent in (("fpt", 2.0), ("lstm", 30.0)):
        record = replace(made(), spec=runs[arm].spec, pack=[runs[arm].key])
        record.cost.update(seconds=99.0, process_seconds=spent, flops=1e6)
        store_of(project).write(record)
    (row, _) = json.loads(fpt("status", "--json")[1])["sections"]
    every = expand(load("smoke"), "transfer")
    missing = [run.spec for run in every if run.key in row["missing_keys"]]
    expected = sum(
        planned_flops(spec, task_of(spec)) * (30e-6 if spec.backbone == "lstm-tiny" else 2e-6)
        for spec in missing
    )
    assert row["hours_left"] == pytest.approx(expected / 3600)


def test_other_settings_are_no_part_of_the_report(fpt: Cli, project: Path) -> None:
    command = ("run", "transfer", "--set", "lr=0.5", "--set", "steps=6", "--only", "bit-xor")
    code, out, _ = fpt(*command)
    assert (code, out.startswith("6 new records in ")) == (0, True)
    assert "FPT (frozen, language) − Frozen random" in out
    assert fpt(*command)[1].startswith("0 new records in ")
    assert not (project / "reports").exists()
    made = read(Store(project / ".cache/trials/smoke/records"))
    assert {(it.spec.lr, it.spec.steps, it.metrics["steps"]) for it in made} == {(0.5, 6, 6)}


def test_show_prints_the_table(fpt: Cli) -> None:
    fpt("run", "transfer", "--only", "random")
    code, out, _ = fpt("show", "transfer")
    assert (code, out.splitlines()[0]) == (0, declared("transfer").comparisons[0].title)
    assert re.search(r"^Frozen random +[0-9.]+( ± [0-9.]+)? \(2\)", out, re.MULTILINE)
    assert re.search(r"^LSTM \(layer norm\) +– \(0 of 2\)", out, re.MULTILINE)


def test_tasks_and_params(fpt: Cli) -> None:
    code, out, _ = fpt("tasks")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(TASKS)
    code, out, _ = fpt("params", "--backbone", "gpt2", "--task", "mnist")
    counts = {line.rsplit(maxsplit=1)[0].strip(): line.split()[-1] for line in out.splitlines()}
    assert counts["layernorm"] == f"{25 * 2 * 768:,}"
    assert counts["fpt trains"] == f"{106_752 + 10 + 2 * 768:,}"  # see tests/test_model.py
    _, smaller, _ = fpt("params", "--backbone", "gpt2", "--task", "mnist:size=28")
    assert f"positions    {49 * 768:>13,}\n" in smaller


def test_data_names_what_was_prepared(fpt: Cli, project: Path) -> None:
    code, out, _ = fpt("data", "bit-xor:n=3", "digits")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["bit-xor", "digits"]
    assert len(list((project / "data" / "prepared").glob("digits*.safetensors"))) == 1


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("9m", 540), ("1.5h", 5400), ("0", 0)]
)
def test_times(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "h", "9 m", "-1", "1e3", "nan", "9min", "1h30m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(FptError, match=r"is not a time; write 90s, 9m or 2h\.$"):
        seconds(text)


# ----------------------------------------------------------------------------------- what is wrong

WRONG: dict[str, list[str]] = {
    "": ["VERB"],
    "stauts": ["'stauts' is not known (did you mean status?)", "run"],
    # what is run
    "run": ["one section, or --all"],
    "run transfer --all": ["one section, or --all"],
    "run tranfser": ["'tranfser'", "transfer, tasks"],
    "run transfer --profile smok": ["'smok'", "smoke, lab, paper"],
    "run transfer --profile paper": ["paper: expected settings by name, found None"],
    "run transfer --only ftp": ["'ftp'", "bit-memory, bit-xor, fpt, lstm, random"],
    "run transfer --only fpt --only random": ["No run here is all of fpt, random"],
    "run transfer --only bit-xor --only bit-memory --seed 1": ["bit-xor, bit-memory, seed 1"],
    "run transfer --seed 7": ["--seed: 7 is not known; allowed are 0, 1"],
    "run transfer --prfile lab": ["fpt run: '--prfile' is not known (did you mean --profile?)"],
    "run transfer --set lrr=1": ["'lrr' is not known (did you mean lr?)"],
    "run transfer --set steps=0": ["settings.steps: expected a whole number from 1"],
    "run transfer --set lr=fast": ["--set takes a number or true, as in lr=0.01, not 'lr=fast'"],
    "run transfer --track tensorbord": ["'tensorbord' is not known (did you mean tensorboard?)"],
    "show tranfser": ["'tranfser' is not known (did you mean transfer?)"],
    "show tasks": ["Section 'tasks' has no runs"],
    "run transfer --budget soon": ["'soon'", "9m"],
    "run transfer --shard 3/2": ["'3/2'", "2/8"],
    # on what
    "run transfer --workers 0": ["--workers", "at least 1", "0"],
    "run transfer --workers 1.5": ["--workers: must be a whole number of at least 1, not 1.5"],
    "run transfer --device tpu": ["'tpu'", "cuda"],
    "run transfer --ray --gpus 0": ["--gpus must be above 0 and at most 1, not 0"],
    "run transfer --ray --gpus nan": ["--gpus", "not nan"],
    "run transfer --ray --device cpu": ["pip install 'fpt[ray]'"],
    # what is here
    "merge": ["DIR"],
    "merge nowhere": ["There are no records in nowhere"],
    "merge params.yaml": ["There are no records in params.yaml"],
    "merge . --profile smok": ["'smok'", "smoke, lab, paper"],
    "status --profile=": ["'' is not known", "smoke, lab, paper"],
    "status transfer": ["unrecognized arguments: transfer"],
    "params --backbone gpt3": ["'gpt3'", "names are gpt2, "],
    "params --task minst:size=28": ["task: 'minst' is not known (did you mean mnist"],
    "params --task mnist:size=28,size=32": ["'mnist:size=28,size=32'", "each once"],
    "params --task bit-xor:n=600": ["1200 tokens, and backbone 'gpt2' takes at most 1024"],
    # data
    "data minst": ["'minst'", "mnist"],
    "data mnist:size": ["'mnist:size'", "option=value"],
    "data mnist:sise=28": ["'sise'", "size"],
    # reports
    "render ../01_transfer": ["section: '../01_transfer' is not known"],
    "index --profile smok": ["'smok'", "smoke, lab, paper"],
    "verify nothing": ["section: 'nothing' is not known"],
    "verify transfer": ["Profile 'smoke' has no record here"],
    "verify transfer --count 0": ["--count: must be a whole number of at least 1, not 0"],
    # pretraining
    "pretrain --seed 0": ["Options of fpt pretrain need an OBJECTIVE"],
    "pretrain uniform@99999M": ["at most 10,000,000,000 tokens here, not 99,999,000,000"],
    "pretrain ../../x": ["There is no corpus '../../x'"],
    "pretrain english --backbone nano@2": ["'nano@2' is not pretrained as a language model"],
    "pretrain english": ["'english-train-0.txt'", "FPT_CORPORA"],
}


@pytest.mark.parametrize("line", WRONG, ids=[line or "nothing" for line in WRONG])
def test_wrong_input_is_one_line_and_leaves_no_trace(
    line: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("FPT_CORPORA", "nowhere")
    monkeypatch.setitem(sys.modules, "ray", None)  # as if the extra is not installed
    before = files_of(project)
    with pytest.raises(SystemExit) as caught:
        sys.exit(main(line.split()))
    out, err = capsys.readouterr()
    assert (caught.value.code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("fpt")
    check_said(err, WRONG[line])
    assert files_of(project) == before


def test_wrong_parameters_and_missing_weights_too(fpt: Cli, project: Path, tiny: Path) -> None:
    before = files_of(project / "reports")
    (tiny / "backbones" / WEIGHTS / "model.safetensors").unlink()
    code, _, err = fpt("run", "transfer", "--only", "fpt")
    assert code == 2
    assert f"weights '{WEIGHTS}' are in none of" in err
    path = project / "params.yaml"
    path.write_text(path.read_text().replace("lr: 0.01", "lr: '1e-2'"))
    for verb in ("run transfer", "status", "data"):
        code, out, err = fpt(*verb.split())
        assert (code, out) == (2, "")
        assert err.startswith("fpt: smoke.defaults.lr: expected a number such as 0.001 or 1.0e-3")
        assert err.endswith("found '1e-2'.\n")
    assert files_of(project / "reports") == before


def shell(line: str, root: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """`line` in a shell where $fpt is the command, for the project in `root`."""
    env = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "FPT_ROOT": str(root)}
    env |= {"fpt": f"{sys.executable} -m fpt"}
    command, output = ["bash", "-c", line], {"capture_output": True, "text": True}
    return subprocess.run(command, env=env, cwd=root, **output, **options)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A folder with parameters on backbones that every process knows."""
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(ALONE))
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


def test_help_and_merge_start_without_torch(plain: Path) -> None:
    Store(plain / "other").write(made())
    (plain / "light.py").write_text(TORCH_FREE)
    for words in ("--help", "run --help", "--version", "merge other"):
        done = shell(f"{sys.executable} light.py {words}", plain)
        assert (done.returncode, done.stderr) == (0, ""), words
    assert done.stdout == "1 files taken, 0 were here already\n"


def test_a_terminal_without_a_size_shows_bars_too(plain: Path) -> None:
    done = shell('script -qc "$fpt run transfer --only random --workers 1" /dev/null', plain)
    assert re.search(r"random on bit-xor: .*accuracy=0\.\d+, loss=0\.\d+", done.stdout)


def test_who_reads_may_stop_reading(plain: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = shell(f"$fpt status >&{writer}", plain, pass_fds=[writer])
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_a_terminal_without_a_sign_shows_another(plain: Path) -> None:
    for encoding in ("ascii", "latin-1"):
        line = f"PYTHONIOENCODING={encoding} $fpt show transfer"
        done = shell(line, plain, encoding=encoding)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Frozen random" in done.stdout


def test_a_module_that_ends_the_process_is_one_line(plain: Path) -> None:
    (plain / "ends.py").write_text("import sys; sys.exit(0)")
    params = {**ALONE, "modules": ["ends"]}
    smoke: dict[str, Any] = params["smoke"]  # type: ignore[assignment]
    sections = {"transfer": [{"tasks": ["bit-xor"], "arms": ["mine"]}]}
    params["smoke"] = {**smoke, "sections": sections}
    (plain / "params.yaml").write_text(yaml.safe_dump(params))
    done = shell("$fpt status", plain)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the module 'ends' cannot be imported (SystemExit: 0)" in done.stderr


def test_merging_says_how_many_files_are_damaged(plain: Path) -> None:
    other = Store(plain / "other")
    for seed in range(2):
        other.write(made(seed))
    other.path(made(0).key).write_text("{}")
    (plain / "other" / "composer.json").write_text("{}")
    done = shell("$fpt merge other", plain)
    assert (done.returncode, done.stdout) == (0, "1 files taken, 0 were here already\n")
    assert done.stderr.startswith(f"fpt: 1 file of other could not be taken: {made(0).key}.json")
    assert len(list((plain / "other").iterdir())) == 3


def test_a_closed_output_and_python_without_docstrings_do_no_harm(plain: Path) -> None:
    for line in ("$fpt tasks >&-", f"{sys.executable} -OO -m fpt --help"):
        done = shell(line, plain)
        assert (done.returncode, done.stderr) == (0, ""), line


def test_a_working_directory_that_is_gone_is_one_line(plain: Path) -> None:
    (plain / "gone").mkdir()
    done = shell("cd gone; rmdir ../gone; FPT_ROOT=here $fpt status", plain)
    said = "fpt: The working directory is gone, so FPT_ROOT must be absolute."
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, said)


def test_a_full_disk_behind_the_output_is_one_line(plain: Path) -> None:
    done = shell("$fpt status > /dev/full", plain)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(("number", "begun"), [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_a_signal_ends_all_processes(number: signal.Signals, begun: bool, tmp_path: Path) -> None:
    """Workers are about to start, or train, and more packs wait. Ctrl-C goes to all of them."""
    smoke: dict[str, Any] = {**PARAMETERS["smoke"], "backbones": {"attention": "attention-pico"}}  # type: ignore[dict-item]
    smoke["defaults"] = {**smoke["defaults"], "steps": 10**9}
    smoke |= {
        "seeds": [0, 1, 2],
        "sections": {"long": [{"tasks": ["bit-xor"], "arms": ["random-attention"]}]},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"profile": "smoke", "smoke": smoke}))
    words = ["--device", "cpu", "--workers", "2", "--budget", "5m"]  # if nobody ends it
    command = [sys.executable, "-m", "fpt", "run", "long", *words]
    env = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "FPT_ROOT": str(tmp_path)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def heard() -> None:  # also where the tests run in the background of a shell, which ignores it
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    driver = subprocess.Popen(command, env=env, start_new_session=True, preexec_fn=heard, **pipes)
    locks = tmp_path / ".cache/locks/smoke"
    until(lambda: driver.poll() is not None or len(workers_of(driver.pid)) == 2)
    if begun:  # two packs of one run, each with a lock of its own
        until(lambda: driver.poll() is not None or (locks.exists() and len(os.listdir(locks)) == 4))
    workers = workers_of(driver.pid)
    os.kill(driver.pid, number) if begun else os.killpg(driver.pid, number)
    out, err = driver.communicate(timeout=300)
    said = "fpt: interrupted; what was finished is kept\n"
    assert (driver.returncode, out) == (128 + number, "")
    assert said in err
    assert not begun or "Traceback" not in err  # a worker that starts hears of Ctrl-C by itself
    assert len(workers) == 2
    until(lambda: not any(map(lives, workers)))


def test_a_warning_is_one_line(plain: Path) -> None:
    key = expand(load("smoke", plain / "params.yaml"), "transfer")[0].key
    path = store_of(plain).path(key)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    done = shell("$fpt status", plain)
    assert done.returncode == 0
    assert re.fullmatch(rf"fpt: {key}.json is damaged \(.*\); .*\.\n", done.stderr)
