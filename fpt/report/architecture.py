"""What the frozen bodies of section 3.3 are: their size, what they compute, how far back they hear.

Memories are measured on the bodies of the profile where they start at random. A body with weights
is the small one of profile `smoke`, so that nothing has to be fetched or pretrained for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from .. import config
from ..analysis.cells import section_arms, section_tasks, titles
from ..analysis.memory import LEVEL, gates, memory, memory_length
from ..backbones import backbone
from ..backbones.initialisations import INITS
from ..files import FptError
from ..sections.arms import ARMS
from ..sections.section import Section
from ..training.flops import forward_flops, matrix_parameters
from .table import NONE, Table, label, si

MEASURED = ("random", "random-lstm-released", "random-lstm", "fpt", "fpt-lstm")
LENGTH, SAMPLES, SEED = 64, 2, 0
BACK = (8, 32, 56)  # distances of which the table has the gradient


def bodies_table(section: Section) -> Table:
    """Matrices and FLOPs of the body of each arm, beside those of the transformer."""
    lengths = sorted({task.length for task in section_tasks(section).values()})
    places = dict.fromkeys((run.arm, run.spec.backbone) for run in section.runs)
    bodies = [(arm, backbone(name)) for arm, name in places]
    transformer = backbone(section.profile.bodies["transformer"])
    matrices, flops = {}, {}
    for spec in {transformer, *(spec for _, spec in bodies)}:
        matrices[spec] = matrix_parameters(spec)
        flops[spec] = {length: forward_flops(spec, length) for length in lengths}
    shown: list[list[str]] = []
    numbers: list[dict[str, object]] = []
    for arm, spec in bodies:
        row = [
            spec.name,
            str(spec.layers),
            str(spec.width),
            "before" if spec.causal else "all",
            f"{matrices[spec]:,}",
            f"{matrices[spec] / matrices[transformer]:.2f}",
            *(f"{si(n)} ({n / flops[transformer][t]:.2f})" for t, n in flops[spec].items()),
        ]
        shown.append(row)
        numbers += [
            {"arm": arm, "body": spec.name, "matrices": matrices[spec], "length": t, "flops": n}
            for t, n in flops[spec].items()
        ]
    columns = ["body", "layers", "width", "hears", "matrices", "share"]
    columns += [f"FLOPs at {length}" for length in lengths]
    frame = pd.DataFrame(shown, index=[label(arm) for arm, _ in bodies], columns=columns)
    notes = (
        "Matrices: frozen parameters that every token is multiplied by. FLOPs: of the forward pass "
        "per token, in a sequence of so many tokens; two per multiply-add, attention to all tokens "
        f"counted. In brackets, and as share: relative to {transformer.name}.",
        "The LSTM of the same FLOPs has for every task the layers that take as many.",
        "Hears: whether a token hears only of those before it, or of all.",
    )
    return Table("bodies", "Bodies", frame, pd.DataFrame(numbers), notes)


@dataclass(frozen=True)
class Memory:
    """One arm's body as it starts: `gradient` as of `memory`, and, of an LSTM, `gates`."""

    body: str
    start: str
    gradient: pd.DataFrame
    gates: pd.DataFrame | None


def memories(section: Section) -> dict[str, Memory | None]:
    """The memory of the MEASURED arms that the section has; None where weights are not here."""
    return {arm: _measured(section, arm) for arm in MEASURED if arm in section_arms(section)}


def _measured(section: Section, name: str) -> Memory | None:
    arm = ARMS[name]
    given = INITS[arm.init].reads_weights
    profile = config.load("smoke") if given else section.profile
    body, weights = profile.bodies[arm.body], profile.weights[arm.weights] if given else None
    asked = (body, arm.init, weights, SEED, LENGTH, SAMPLES)
    try:
        gradient = memory(*asked)
    except FptError:
        return None
    kept = gates(*asked) if backbone(body).family.startswith("lstm") else None
    return Memory(body, weights or arm.init, gradient, kept)


def gradients(found: Mapping[str, Memory | None]) -> pd.DataFrame:
    """What `memory_figure` draws: the gradients of all arms that were measured."""
    return pd.concat([it.gradient.assign(arm=arm) for arm, it in found.items() if it])


def memory_table(section: Section, found: Mapping[str, Memory | None]) -> Table:
    """How far back a body hears, and what the cells of an LSTM keep from step to step."""
    columns = ["body", "start", "memory, tokens", *(f"{back} back" for back in BACK)]
    columns += ["forget gate", "carry", "slowest"]
    shown: dict[str, list[str]] = {}
    numbers: list[dict[str, object]] = []
    for arm, it in found.items():
        if it is None:
            shown[label(arm)] = ["weights not here", *[NONE] * (len(columns) - 1)]
            continue
        relative = it.gradient.set_index("distance")["relative"]
        reach = memory_length(it.gradient)
        shown[label(arm)] = [
            it.body,
            it.start,
            str(reach) if reach < LENGTH else f"at least {LENGTH}",
            *(f"{relative[back]:.3g}" for back in BACK),
            *_kept(it.gates),
        ]
        numbers += [
            {"arm": arm, "what": "gradient", "at": distance, "value": value}
            for distance, value in relative.items()
        ]
        for _, row in (pd.DataFrame() if it.gates is None else it.gates).iterrows():
            numbers += [
                {"arm": arm, "what": str(what), "at": int(row["layer"]), "value": value}
                for what, value in row.drop("layer").items()
            ]
    tasks = section_tasks(section)
    lengths = {name: tasks[task].length for task, name in titles(tasks).items()}
    notes = (
        "Memory: the distance from which on the gradient of the last hidden state by a token stays "
        f"below {LEVEL:g} of that by the token one back. Columns `back`: this ratio at some "
        f"distances. {LENGTH} tokens of standard normal vectors, {SAMPLES} samples, one body each.",
        "In an LSTM, a ratio that grows with distance is recurrence that amplifies what it hears: "
        "chaos, not memory. What a cell keeps for itself is therefore beside it.",
        "Forget gate: mean, and 5th to 95th percentile over units and steps. Carry: by what a "
        "memory in the median unit is multiplied at each step, lowest to highest layer; slowest: "
        "the same of the unit that keeps longest.",
        f"Tokens of the tasks: {', '.join(f'{name} {n}' for name, n in lengths.items())}.",
    )
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=columns)
    return Table("memory", "How far back a body hears", frame, pd.DataFrame(numbers), notes)


def _kept(found: pd.DataFrame | None) -> list[str]:
    if found is None:
        return [NONE] * 3
    low, high, carry = found["low"].min(), found["high"].max(), found["carry"]
    return [
        f"{found['forget'].mean():.2f} ({low:.2f} to {high:.2f})",
        f"{carry.min():.2f} to {carry.max():.2f}",
        f"{found['slowest'].max():.2f}",
    ]
