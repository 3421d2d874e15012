"""The pilot of the lab, which set thresholds and learning rates: its runs.

The pilot trained runs on seeds and backbones that no reported run uses. Its records are in
`reports/lab/records/pilot.tar.xz`; the rules are in pilot.yaml, and tests/test_rates.py applies
them. The code that trained it is at commit `aa38af81`.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fpt import config
from fpt.files import read_yaml
from fpt.profile import Run

FILE = Path(__file__).with_name("pilot.yaml")


@cache
def plan() -> Mapping[str, Any]:
    """The content of pilot.yaml."""
    content: Mapping[str, Any] = read_yaml(FILE)
    return content


def runs(arms: Iterable[str]) -> list[Run]:
    """Every run that the pilot of `arms` can have, on all tasks at all rates, each on a backbone
    that is drawn or pretrained with the same seed."""
    profile = config.load("lab")
    planned = []
    for arm in arms:
        for task, settings in plan()["battery"].items():
            threshold = max(settings["thresholds"])
            for lr in [*plan()["lrs"], *plan()["beyond"].get(arm, {}).get(task, [])]:
                for seed in plan()["arms"][arm]:
                    spec = config.make_spec(profile, arm, task, seed, lr=lr, threshold=threshold)
                    planned.append(Run(arm, task, spec))
    return planned
