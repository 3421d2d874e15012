"""Plans with made-up records, for the tests of what is shown."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from fpt.plan import Plan, plan
from fpt.project import Project
from fpt.records import Record
from fpt.tasks import task_of
from fpt.training.progress import TRAIN_ITEMS

LAB = Path(__file__).parents[1] / "reports" / "experiments" / "lab"
SETTINGS = {
    "lr": 0.001, "batch": 4, "steps": 120, "eval_every": 10, "eval_items": 0, "patience": 0,
    "clip": 1.0, "dropout": 0.1, "augment": False,
}  # fmt: skip
NANO = "nano GPT-2"
LANGUAGE, RANDOM = "language", "N(0, 0.02)"
ARMS = (LANGUAGE, RANDOM, "fully trained", "LSTM")
TASKS = ("bit-xor", "digits")


def tree(folder):
    """The content of every file below a folder, by its name there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def block_of(section="transfer", arms=ARMS, model=NANO, tasks=TASKS, seeds=3, **defaults):
    """A tier of params.yaml: arms of a model on tasks, which are names, or blocks by name."""
    named = tasks if isinstance(tasks, Mapping) else dict.fromkeys(tasks, {})
    blocks = [{"tasks": [*named], "models": [model], "arms": [*arms]}]
    return {
        "train_on": ["cuda"],
        "seeds": list(range(seeds)),
        "defaults": SETTINGS | defaults,
        "tasks": {task: {**block} for task, block in named.items()},
        "sections": {section: blocks},
    }


def write_params(root, block, tier="smoke", **more):
    """A params.yaml with this block of its tier, and what else is given."""
    content = {"tier": tier, tier: block, **more}
    (root / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def make_plan(folder, tier="smoke", **block) -> Plan:
    """A plan of 4 arms on 2 tasks with 3 seeds without records, of the project in `folder`."""
    write_params(folder, block_of(**block), tier)
    with Project(folder).in_force():
        return plan()


def make_record(run, accuracy, status="done", train=None):
    curve = [
        {
            "step": step, "train_loss": 1.0, "valid_loss": 1.0, "gradient_norm": 1.0,
            "clipped": 0.5, "valid_accuracy": accuracy * step / 120,
        }
        for step in range(10, 130, 10)
    ]  # fmt: skip
    sizes = task_of(run.spec).sizes
    scored = {
        "train_accuracy": min(1.0, accuracy + 0.03) if train is None else train,
        "train_items": min(sizes["train"], TRAIN_ITEMS),
    }
    return Record(
        spec=run.spec,
        status=status,
        metrics={
            "test_accuracy": accuracy,
            "test_items": sizes["test"],
            "last_test_accuracy": max(0.0, accuracy - 0.02),
            "valid_accuracy": accuracy,
            "best_step": 120,
            "steps": 120,
        }
        | (scored if sizes["train"] else {}),
        curve=curve,
        cost={
            "seconds": 50.0,
            "process_seconds": 40.0,
            "tokens": 1e6,
            "flops": 2e12,
            "peak_bytes": 3e9,
        },
        environment={"device": "a test CPU", "kind": "cpu"},
        pack=[run.spec.key],
    )


def fill(whole, accuracy=0.75):
    """A record of every run of a plan."""
    for run in whole.runs:
        whole.store_of(run).write(make_record(run, accuracy))
