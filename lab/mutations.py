"""Twenty mistakes that the tests have to notice: `python -m lab.mutations [NAME ...]`.

Each is one small change of the library, made in a copy of the working tree, against which a few
test files run until the first failure. A mistake is killed if a test fails, and survives if all
pass. Exit status 1 if one survives, or if the text that it changes is no longer in its file: then
this list has to follow the code.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutation(NamedTuple):
    file: str  # in fpt/
    old: str  # stands there once
    new: str
    tests: str  # names of test files, without `test_`


MUTATIONS = {
    "Adam without bias correction": Mutation(
        "training/packing.py", "(1 - beta**count for", "(1.0 for", "pack"
    ),
    "small gradients are scaled up to the clip": Mutation(
        "training/packing.py", ".clamp(max=1.0)", "", "pack"
    ),
    "the mask of a run that left stays": Mutation(
        "training/loop.py", "[spec.trainable for spec in specs]",
        "[spec.trainable for spec in self.specs[: len(specs)]]", "pack loop",
    ),
    "all runs of a pack train at the rate of the first": Mutation(
        "training/loop.py", "[[spec.lr] for spec in specs]", "[[specs[0].lr] for _ in specs]",
        "pack",
    ),
    "a threshold has to be exceeded": Mutation(
        "training/loop.py", "min(pair) >= threshold", "min(pair) > threshold", "study"
    ),
    "the last parameters are tested, not the best": Mutation(
        "training/loop.py", "self.rows.bind(best)", "self.rows.bind(last)",
        "loop",
    ),
    "initial values are drawn for another purpose": Mutation(
        "training/model.py", '"init", part.name', '"start", part.name', "loop"
    ),
    "runs of unequal evaluations share a pack": Mutation(
        "training/sweep.py", "(spec.eval_every, spec.eval_items, spec.test_items)",
        "(spec.eval_every, spec.test_items)", "sweep",
    ),
    "a run that is stopped early costs all its steps": Mutation(
        "training/train.py", 'progress.metrics["steps"] * spec.batch', "spec.steps * spec.batch",
        "loop sweep",
    ),
    "the last block does not see the token that is read": Mutation(
        "backbones/gpt2.py", "places <= read[..., None]", "places < read[..., None]", "model gpt2"
    ),
    "dropout does not scale what it keeps": Mutation(
        "backbones/layers.py", "float(1 / np.float32(1 - p))", "1.0", "speed"
    ),
    "an arm keeps the finer weights of float32": Mutation(
        "backbones/initialisations.py", "tensor.bfloat16().float()", "tensor.float()",
        "inits weights",
    ),
    "every epoch has the order of the first": Mutation(
        "tasks/base.py", '"order", epoch', '"order", 0', "tasks"
    ),
    "validation inputs are trained on": Mutation(
        "tasks/bits.py", "allowed = membership(bits) == 0", "allowed = membership(bits) <= 1",
        "bits",
    ),
    "a subset is the head of the set": Mutation(
        "tasks/base.py", "return borders[:-1] + within.long()", "return torch.arange(count)",
        "subsets",
    ),
    "the warm-up begins at a rate of zero": Mutation(
        "pretraining/plan.py", "(step + 1) / plan.warmup", "step / plan.warmup",
        "pretrain",
    ),
    "a record is read under another key": Mutation(
        "records/content.py", "if not key == stated_key", "if not stated_key", "records"
    ),
    "Holm's adjustment is that of Bonferroni": Mutation(
        "analysis/claims.py", '"holm" if', '"bonferroni" if', "claims"
    ),
    "a diverged run reaches its threshold": Mutation(
        "analysis/steps.py", 'index is None or record.status != "done"', "index is None", "study"
    ),
    "of equal rates the slowest is chosen": Mutation(
        "analysis/tuning.py", '-done["best_step"].mean()', 'done["best_step"].mean()', "study"
    ),
}  # fmt: skip


def copy(folder: Path) -> None:
    """The files that Git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def passes(folder: Path, tests: str) -> tuple[bool, str]:
    """Whether the tests pass in the copy, and the last line that pytest printed."""
    files = [f"tests/test_{name}.py" for name in tests.split()]
    options = ["-q", "-x", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest did not run {' '.join(files)}:\n{done.stdout}{done.stderr}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, failed[-1] if failed else done.stdout.splitlines()[-1]


def outcome(folder: Path, mutation: Mutation) -> tuple[str, str]:
    """`killed`, `survived` or `outdated`, and by what."""
    path = folder / "fpt" / mutation.file
    source = path.read_text() if path.exists() else ""
    if source.count(mutation.old) != 1:
        return "outdated", f"fpt/{mutation.file} has not once: {mutation.old}"
    path.write_text(source.replace(mutation.old, mutation.new))
    passed, said = passes(folder, mutation.tests)
    path.write_text(source)
    return ("survived" if passed else "killed"), said


def main() -> None:
    wanted = sys.argv[1:] or list(MUTATIONS)
    found = []
    with tempfile.TemporaryDirectory(prefix="fpt-mutations-") as name:
        folder = Path(name)
        copy(folder)
        for title in wanted:
            result, said = outcome(folder, MUTATIONS[title])
            print(f"{result:9} {title}: {said}", flush=True)
            found.append(result)
    killed = found.count("killed")
    print(f"{killed} of {len(found)} killed")
    sys.exit(killed < len(found))


if __name__ == "__main__":
    main()
