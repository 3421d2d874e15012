"""Does pretraining help on your data, and which part of it? The control that published
claims lack.

An audit is the paper's experiment on other arrays: arms, rates and seeds around one body,
and what suffices of it.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..backbones.choice import choose
from ..backbones.weights import digest, files
from ..errors import FptError
from ..isolation import usual_settings
from ..project import project
from ..records import Store
from ..training import device as devices
from ..training.model import check_length
from ..training.settings import SETTINGS, Allowed, check_value
from ..training.sweep import cores
from .data import read_examples
from .result import Audit
from .runs import LANGUAGE, TRIVIAL, Experiment
from .verdict import cautions, judge, table_of

ALLOWED: Mapping[str, Allowed] = {
    **SETTINGS,
    "minutes": (float, 0, 10**6),
    "margin": (float, 1e-6, 10**6),
    "draws": (int, 3, 1000),
    "random_state": (int, 0, 2**32 - 1),  # as scikit-learn takes it
}


@usual_settings(gradients=True)
def audit(
    X: Any,
    y: Any,
    backbone: str = "nano",
    minutes: float = 30.0,
    *,
    weights: str | None = None,
    task: str = "auto",
    groups: Any = None,
    test: Any = None,
    margin: float = 0.02,
    steps: int = 500,
    draws: int = 5,
    batch: int = 16,
    rivals: Mapping[str, Any] | None = None,
    random_state: int = 0,
    device: str = "auto",
    workers: int | None = None,
    folder: str | Path | None = None,
    progress: bool = True,
) -> Audit:
    """Find out whether pretraining helps on X and y, and which part of it.

    Parameters
    ----------
    X, y : sequences and one answer for each, as `fpt.FrozenTransformer` reads them
    backbone : the pretrained model that is audited, a name, repository, folder or GGUF file
    minutes : a deadline. What it cuts is said, and the same call again goes on
    weights : the identity of others than the model's own, as of `fpt.FrozenTransformer`
    task : `classification`, `regression`, or `auto`, by the type of y
    groups : (N,) are never divided between training, validation and test, and count as one
    test : the rows of the test set; None: a random fifth
    margin : how much worse, in units of the score, something simpler may be and suffice
    steps, draws : gradient steps of a run; seeds of each arm, each with its own draw
    batch : sequences in each step
    rivals : scikit-learn's estimators by name, such as `{"forest":
        RandomForestClassifier()}`. They are fitted to the tokens of each example end to
        end, (N, T * D), standardised or symbols, and to the numbers of the classes
    random_state : the first seed of everything that is drawn
    device, workers : where packs of runs are trained, and how many side by side
    folder : where records are kept, by default `.cache/audits` of the project. The same
        call again reads them
    progress : whether to say what X and y were taken for, and to show bars

    Returns an `Audit`. InputError (a ValueError) for wrong data, FptError for a model that
    is not known or has no pretrained weights.
    """
    settings = {
        name: check_value(f"audit.{name}", number, ALLOWED[name])
        for name, number in locals().items()
        if name in ALLOWED
    }
    seed = settings["random_state"]
    examples = read_examples(X, y, groups, task, test, seed)
    body, identity = choose(backbone, weights)
    check_length(body, examples.task)
    if progress:
        # Numbers that were taken for symbols or classes are noticed before a long audit.
        print(examples.taken, file=sys.stderr)
    kind = devices.choose(device).type
    # A folder may hold other weights tomorrow, and rounding is no treatment.
    place = f"{digest(files(identity, body.folder))[:16]}-{kind}"
    experiment = Experiment(
        examples,
        body,
        identity,
        settings,
        range(seed, seed + settings["draws"]),
        Store(Path(folder or project().cache / "audits") / place),
        {
            "device": device,
            "workers": workers or (1 if kind == "cuda" else cores()),
            "quiet": not progress,
        },
    )
    records, scores, cuts = experiment.run(rivals or {}, settings["minutes"])
    if LANGUAGE not in scores:
        raise FptError(
            "The time was over before language was trained; the same call again goes on. "
            "More minutes, fewer steps or a smaller model end sooner."
        )
    has_classes = examples.task.classes > 1
    if not has_classes:
        # R², 0 for a constant answer: nets are scored in units of the training variance.
        constant = scores[TRIVIAL].to_numpy().mean()
        scores = {arm: 1 - (1 - of_arm) / (1 - constant) for arm, of_arm in scores.items()}
    facts = {
        "data": examples.task.digest(),
        "backbone": body.name,
        "taken": examples.taken,
        "measure": "accuracy" if has_classes else "R²",
        **examples.task.sizes,
        "independent": int(examples.groups.max()) + 1,
        **settings,
    }
    verdict, reason, advice = judge(scores, examples.groups, settings["margin"], cuts)
    table = table_of(scores, records, examples.groups)
    sentences = [advice, *cautions(table, records, examples)]
    return Audit(verdict, reason, " ".join(sentences), table, tuple(cuts), facts)
