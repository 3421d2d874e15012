"""Bad command lines: one sentence on standard error, status 2, nothing written.

What is wrong by a slip of the pen is in test_cli.py, words for `fpt pretrain` in test_provide.py.
"""

import sys
from pathlib import Path

import pytest
import yaml
from refusals import check_said
from test_cli import PARAMETERS, enter, files_of

from fpt.__main__ import main

CASES: dict[str, list[str]] = {
    # what is run
    "run ../../x": ["section: '../../x' is not known", "transfer, tasks"],
    "run transfer tasks": ["unrecognized arguments: tasks"],
    "run transfer --only fpt --only random": ["No run here is all of fpt, random"],
    "run transfer --only bit-xor --only bit-memory --seed 1": ["bit-xor, bit-memory, seed 1"],
    "run transfer --only": ["--only", "expected one argument"],
    "run transfer --seed one": ["--seed", "invalid int value: 'one'"],
    "run transfer --seed 7": ["--seed 7 is not a seed of these runs", "0, 1"],
    "run --all --profile ../smoke": ["'../smoke' is not known", "smoke, lab, paper"],
    "run --all --profile=": ["'' is not known", "smoke, lab, paper"],
    "run --all --profile": ["--profile", "expected one argument"],
    # how long
    "run transfer --budget=": ["The budget '' is not a time", "9m"],
    "run transfer --budget=-1": ["The budget '-1' is not a time"],
    "run transfer --budget 1e3": ["The budget '1e3' is not a time"],
    "run transfer --budget inf": ["The budget 'inf' is not a time"],
    "run transfer --budget \u0663\u0665m": ["is not a time"],
    "run transfer --budget 1h30m": ["The budget '1h30m' is not a time"],
    # which part
    "run transfer --shard 0/4": ["'0/4' is not I/N", "2/8"],
    "run transfer --shard 1/0": ["'1/0' is not I/N"],
    "run transfer --shard=-1/4": ["'-1/4' is not I/N"],
    "run transfer --shard 2": ["'2' is not I/N"],
    "run transfer --shard 1/2/3": ["'1/2/3' is not I/N"],
    "run transfer --shard x": ["'x' is not I/N"],
    f"run transfer --shard 1/{'9' * 5000}": ["is not I/N"],
    # where
    "run transfer --workers 1.5": ["--workers", "invalid int value: '1.5'"],
    "run transfer --workers=-1": ["--workers must be at least 1, not -1"],
    "run transfer --device gpu": ["invalid choice: 'gpu'", "cuda"],
    "run transfer --executor dask": ["invalid choice: 'dask'", "ray"],
    "run transfer --address 10.0.0.1:6379": ["--executor ray with it"],
    "run transfer --executor ray --gpus 0": ["--gpus must be from 0.0001 to 1, not 0"],
    "run transfer --executor ray --gpus 0.00001": ["--gpus", "not 1e-05"],
    "run transfer --executor ray --workers 2 --address auto": ["--workers", "--address", "one of"],
    "run transfer --executor ray --gpus 1.5": ["--gpus", "not 1.5"],
    "run transfer --executor ray --gpus nan": ["--gpus", "not nan"],
    "run transfer --gpus 0.5": ["--executor ray with it"],
    "run transfer --gpus=-7": ["--executor ray with it"],
    "run transfer --executor ray --gpus half": ["--gpus", "invalid float value: 'half'"],
    "run transfer --executor ray --device cpu": ["pip install 'fpt[ray]'"],
    # merge
    "merge": ["DIR"],
    "merge params.yaml": ["There is no folder params.yaml to merge"],
    f"merge {'a' * 5000}": ["There is no folder aaa"],
    "merge empty": ["There are no records in empty"],
    "merge reports/smoke/records": ["reports/smoke/records is the store itself"],
    # status, tasks, params, bench
    "status transfer": ["unrecognized arguments: transfer"],
    "status --json=1": ["--json", "ignored explicit argument '1'"],
    "tasks --profile smoke": ["unrecognized arguments"],
    "params --backbone ../../nano": ["no backbone '../../nano'", "names are nano, "],
    "params --backbone nano@0": ["no backbone 'nano@0'", "L from 1 to 4"],
    "params --task minst:size=28": ["no task 'minst'", "mnist"],
    "params --task mnist:size=30": ["'size'", "one of 32, 28, not 30"],
    "bench --rounds 0": ["--rounds must be at least 1", "not 0"],
    "bench --rounds few": ["--rounds", "invalid int value: 'few'"],
    "bench --seconds 0": ["--seconds above 0", "0"],
    "bench --seconds nan": ["--seconds above 0", "nan"],
    "bench --seconds inf": ["--seconds above 0", "inf"],
    # data
    "data ../../x": ["no task '../../x'"],
    "data :": ["no task ''"],
    "data mnist:size=30": ["'size'", "one of 32, 28, not 30"],
    "data mnist:size=28,size=32": ["TASK:option=value"],
    "data mnist:size=": ["'size'", "one of 32, 28, not ''"],
    "data bit-xor:n=true": ["'n'", "must be int, not True"],
    "data bit-xor:n=NaN": ["'n'", "must be int, not nan"],
    "data bit-xor:n=[2]": ["'n'", "must be int, not [2]"],
    "data bit-xor:n=257": ["'n'", "at most 256, not 257"],
    f"data bit-xor:n={'9' * 5000}": ["'n'", "must be int"],
    "data bit-memory:n=4294967296": ["'n'", "below 2^31"],
    "data digits:train=5000": ["'train'", "at most 4388, not 5000"],
    "data listops:max_length=long": ["'max_length'", "must be int, not 'long'"],
    "data listops:max_length=null": ["'max_length'", "must be int, not None"],
    # render, verify
    "render ../01_transfer": ["no section '../01_transfer'"],
    "render": ["SECTION"],
    "verify nothing": ["section: 'nothing' is not known"],
    "verify transfer": ["of profile 'smoke' prints no number here", "fpt render"],
    "verify transfer --cells 0": ["--cells must be at least 1, not 0"],
    "verify transfer --cells some": ["--cells", "invalid int value: 'some'"],
    "verify transfer --seed x": ["--seed", "invalid int value: 'x'"],
    # pretrain
    "pretrain --tokens 5 --seed 0": ["--tokens, --seed: of which body?", "fpt pretrain english"],
    "pretrain --compile": ["--compile: of which body?"],
    "pretrain ../../x": ["Nothing is pretrained on '../../x'"],
    f"pretrain {'a' * 300}": ["Nothing is pretrained on 'aaa"],
    "pretrain english@0M": ["Nothing is pretrained on 'english@0M'"],
    "pretrain english --backbone ../nano": ["no backbone '../nano'"],
    "pretrain english --backbone nano@2": ["'nano@2' is not pretrained as a language model"],
    "pretrain english --tokens many": ["--tokens", "invalid int value: 'many'"],
    "pretrain english --tokens=-5": ["at least 1, not -5"],
    f"pretrain english --tokens {2**63}": ["must be below 2^63, not 9223372036854775808"],
    f"pretrain bit-memory --tokens 1{'0' * 400}": ["must be below 2^63, not 1000"],
    "pretrain english --seed=-1": ["seed must be a whole number from 0", "not -1"],
    "pretrain english --seed x": ["--seed", "invalid int value: 'x'"],
    "pretrain english --budget soon": ["The budget 'soon' is not a time"],
    "pretrain english": ["'english-train-0.txt'", "FPT_CORPORA"],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without records, weights and corpora; since nothing is written, one for all."""
    root = tmp_path_factory.mktemp("project")
    bodies = {"bodies": {"transformer": "pico", "lstm": "lstm-pico"}}
    smoke = {**PARAMETERS["smoke"], **bodies}  # type: ignore[dict-item]
    (root / "params.yaml").write_text(
        yaml.safe_dump({**PARAMETERS, "smoke": smoke}, sort_keys=False)
    )
    (root / "empty").mkdir()
    (root / "reports/smoke/records").mkdir(parents=True)
    return root


@pytest.mark.parametrize("line", CASES, ids=[line[:60] for line in CASES])
def test_it_is_refused_in_one_sentence(
    line: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    enter(root, monkeypatch)
    monkeypatch.chdir(root)
    monkeypatch.setenv("FPT_BACKBONES", "empty")
    monkeypatch.setenv("FPT_CORPORA", "empty")
    monkeypatch.setattr("fpt.pretraining.corpus.PREPARED", root / "data")
    monkeypatch.setitem(sys.modules, "ray", None)  # as where the extra is not installed
    before = files_of(root)
    with pytest.raises(SystemExit) as caught:
        sys.exit(main(line.split()))
    out, err = capsys.readouterr()
    assert (caught.value.code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("fpt")
    check_said(err, CASES[line])
    assert files_of(root) == before
