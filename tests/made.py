"""Studies with made-up records, for the tests of tables, figures and claims."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from fpt import config
from fpt.analysis.study import Study
from fpt.project import Project
from fpt.records import Record, Store
from fpt.sections.arms import roles
from fpt.tasks import task_of
from fpt.training.progress import TRAIN_ITEMS

LAB = Path(__file__).parents[1] / "reports" / "experiments" / "lab"
PARAMS = Path(__file__).parent / "project" / "params.yaml"
SETTINGS = {
    "lr": 0.001, "batch": 4, "steps": 120, "eval_every": 10, "eval_items": 0, "patience": 0,
    "clip": 1.0, "dropout": 0.1, "augment": False,
}  # fmt: skip
ARMS = ("fpt", "random", "full", "lstm")
TASKS = ("bit-xor", "mnist", "digits")


def tree(folder):
    """The content of every file below a folder, by its name there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def exploratory():
    """The records of lab that no plan expects any more."""
    store = Store(LAB)
    return [*store.read_all(sorted(store.keys_of("exploratory", "verdict"))).values()]


def backbones(transformer):
    """A small backbone for every kind that an arm names."""
    deeper = {"depth-6": "gpt2@6", "depth-24": "gpt2-medium"}  # no small one is so deep
    return {**config.load("smoke", PARAMS).backbones, **deeper, "transformer": transformer}


def weights(language):
    """Weights from every source that an arm names."""
    return {source: f"{source}-0" for source in roles("weights")} | {"language": language}


def make_study(
    folder,
    name="transfer",
    arms=ARMS,
    body=("nano", "nano-english-0"),
    tasks=TASKS,
    seeds=3,
    **defaults,
):
    """A study of 3 tasks, 4 arms and so many seeds without records, of the project in `folder`.

    `tasks`: their names, or their blocks in params.yaml by name.
    """
    block = {
        "train_on": ["cuda"], "backbones": backbones(body[0]), "weights": weights(body[1]),
        "seeds": list(range(seeds)), "defaults": SETTINGS | defaults,
        "tasks": {task: dict(tasks[task]) if isinstance(tasks, Mapping) else {} for task in tasks},
        "arms": {},
        "sections": {name: [{"tasks": list(tasks), "arms": list(arms)}]},
    }  # fmt: skip
    params = folder / "params.yaml"
    params.write_text(yaml.safe_dump({"profile": "lab", "lab": block}))
    profile = config.load("lab", params)
    runs = tuple(config.expand(profile, name))
    return Study(name, profile, runs, project=Project(folder))


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


def fill(study, accuracy):
    """A record of every run for which `accuracy` gives a number."""
    for run in study.runs:
        value = accuracy(run)
        if value is not None:
            study.store.write(make_record(run, value))


# Accuracies with a little spread over seeds, FPT ahead of all but the full transformer.
LEVELS = {"fpt": 0.95, "random": 0.80, "full": 0.952, "lstm": 0.60}


def spread(run):
    return LEVELS[run.arm] + 0.002 * run.spec.seed
