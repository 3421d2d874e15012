"""Comparisons: which arms stand in one table, and where the paper printed their numbers.

The paper's tables have other arms and other columns than a section has runs, so what stands beside
what is said here once, for tables, figures and claims alike.
"""

from collections.abc import Mapping
from typing import get_args

from ..backbones.initialisations import Part
from .arms import CORPORA, ENGLISH, WHOLE
from .comparison import Comparison

LSTM_KINDS = ("", "-released", "-deep", "-residual", "-positions", "-matched", "-flops")
RANDOM_LSTMS = tuple(f"random-lstm{kind}" for kind in LSTM_KINDS)
ARCHITECTURES = ("bidirectional", "bert", "t5", "longformer")
SCALES = {"": "small", "-larger": "medium", "-largest": "large"}  # as the paper calls them
SCALED = ("-smaller", *SCALES)
FROZEN_INPUTS = tuple(f"frozen-input-{start}" for start in ("orthogonal", "default", "normal"))
FULL = "output+layernorm+input+positions"  # the whole recipe, in the tables of its parts
STATISTICS = ("statistics-tensor", "statistics-layer", "statistics-global")
PARTED = tuple(f"{of}-{part}" for of in ("pretrained", "random") for part in get_args(Part))
STARTS = (*STATISTICS, "shuffled", "permuted-rows", *PARTED)
UNFROZEN = ("feedforward", "attention", "feedforward+attention", "feedforward+last-attention")
CONTROLS = ("no-transformer-last", "no-transformer-mean", "random-attention", "random-output+input")
ATTENTION = ("full-frozen-qk", "full-fixed")  # what of the attention is not trained
LAYERNORM = {"fpt": "trained-layernorm", "output+input+positions": "frozen-layernorm"}
LAYERNORM |= {"random": "trained-layernorm", "random-output+input+positions": "frozen-layernorm"}


def _minus(first: str, *others: str) -> tuple[tuple[str, str], ...]:
    return tuple((first, other) for other in others)


def _steps(arms: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Each arm minus the one before."""
    return tuple(zip(arms[1:], arms[:-1], strict=True))


def _beside(arms: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Each arm minus the first."""
    return tuple((arm, arms[0]) for arm in arms[1:])


def _successive(start: str) -> tuple[str, ...]:
    parts = ("output", "output+layernorm", "output+layernorm+input")
    return tuple(start + part for part in parts)


def _individual(start: str) -> tuple[str, ...]:
    parts = ("output", "output+input", "output+positions", "output+layernorm")
    return tuple(start + part for part in parts)


def _depths(parts: str, *depths: int) -> tuple[str, ...]:
    """Rows of tables 11 and 12: some layers of the body and the whole, pretrained and random."""
    arms = (*(f"{parts}@{depth}" for depth in depths), parts)
    return (*arms, *(f"random-{arm}" for arm in arms))


def _starts(arms: tuple[str, ...]) -> dict[str, str]:
    """The rows of tables 11 and 12."""
    return {arm: "random" if arm.startswith("random-") else "fpt" for arm in arms}


def _depth_columns(parts: str, *depths: int) -> dict[str, str]:
    columns = {f"{parts}@{depth}": f"layers-{depth}" for depth in depths} | {parts: "layers-12"}
    return columns | {f"random-{arm}": column for arm, column in columns.items()}


def _without(start: str, arms: tuple[str, ...]) -> dict[str, str]:
    return {arm: arm.removeprefix(start) for arm in arms}


COMPARISONS: Mapping[str, Comparison] = {
    comparison.name: comparison
    for comparison in (
        Comparison(
            "transfer",
            "FPT against other bodies",
            ("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released"),
            ("T1", "T2"),
            _minus("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released"),
            rows={"lstm-released": "lstm"},  # the paper's LSTM is the released code's
        ),
        Comparison(
            "cifar10_cells",
            "What two cells of the paper's table are",
            ("fpt", "fpt-largest", "full", "full@3"),
            ("T1",),
            (("fpt-largest", "fpt"), ("full@3", "full"), ("fpt-largest", "full@3")),
            rows={"fpt-largest": "fpt", "full@3": "full"},
            task="cifar10",
            columns=dict.fromkeys(("fpt-largest", "full@3"), "cifar10"),
            notes=(
                "The paper's FPT on CIFAR-10 has the 36 layers of its largest body (conflict A), "
                "its full transformer has 3 (conflict B).",
            ),
            section="transfer",
        ),
        Comparison(
            "modality",
            "What the frozen body was pretrained on",
            ("fpt", "random", "fpt-bits", "fpt-vit", "random-vit"),
            ("T2",),
            (
                *_minus("fpt", "random", "fpt-bits", "fpt-vit"),
                ("fpt-bits", "random"),
                ("fpt-vit", "random-vit"),
            ),
            rows={"fpt-bits": "bit", "fpt-vit": "vit"},
        ),
        Comparison(
            "lstm",
            "Frozen random transformer against frozen LSTMs",
            ("random", *RANDOM_LSTMS, "fpt", "fpt-lstm"),
            ("T3",),
            (*_minus("random", *RANDOM_LSTMS), ("fpt-lstm", "random-lstm"), ("fpt", "fpt-lstm")),
            rows={"random-lstm-released": "random-lstm"},
            notes=(
                "The paper's LSTM is the released code's; its number stands beside the standard "
                "one too.",
            ),
            section="architecture",
        ),
        Comparison(
            "architectures",
            "Other frozen architectures",
            tuple(
                f"{start}{name}"
                for start in ("fpt", "random")
                for name in ("", *(f"-{kind}" for kind in ARCHITECTURES))
            ),
            ("T17",),
            (
                *_minus("fpt", *(f"fpt-{kind}" for kind in ARCHITECTURES)),
                *_minus("random", *(f"random-{kind}" for kind in ARCHITECTURES)),
                *((f"fpt-{kind}", f"random-{kind}") for kind in ARCHITECTURES),
            ),
            rows={f"fpt-{kind}": kind for kind in ARCHITECTURES[1:]},
            section="architecture",
        ),
        Comparison(
            "output_only",
            "The output net alone, on a budget and to convergence",
            ("output", "probe", "fpt", "full", "random-output", "random-probe", "random"),
            ("T10", "T15"),
            (
                ("probe", "output"),
                *_minus("fpt", "probe", "output"),
                ("random-probe", "random-output"),
                ("probe", "random-probe"),
            ),
            rows={"probe": "output"},
            section="efficiency",
        ),
        Comparison(
            "overfitting",
            "Frozen and fully trained transformers",
            ("fpt", "random", "full", "vanilla", "linformer"),
            ("T7",),
            _minus("fpt", "random", "full", "vanilla", "linformer"),
            rows={"vanilla": "vanilla-transformer"},
            task="cifar10-lra",
            columns=dict.fromkeys(("fpt", "vanilla", "linformer"), "test"),
        ),
        Comparison(
            "scaling",
            "Size of the frozen body",
            tuple(f"{start}{size}" for size in SCALED for start in ("fpt", "random")),
            ("T8",),
            (
                *((f"fpt{size}", f"random{size}") for size in SCALED),
                *_steps(tuple(f"fpt{size}" for size in SCALED)),
                *_steps(tuple(f"random{size}" for size in SCALED)),
            ),
            rows={f"{arm}{size}": row for size, row in SCALES.items() for arm in ("fpt", "random")},
            task="cifar10",
            columns={f"{start}{size}": start for size in SCALES for start in ("fpt", "random")},
        ),
        Comparison(
            "initialization",
            "How the frozen body starts",
            ("fpt", *STARTS, "random", "random-scaled"),
            ("T9",),
            (
                *_minus("fpt", *STARTS, "random", "random-scaled"),
                *((start, "random") for start in (*STARTS, "random-scaled")),
            ),
            rows=dict.fromkeys(STATISTICS, "statistics"),
            notes=(
                "The paper does not say over what its statistics are taken: its one row stands "
                "beside each of ours.",
                "Language matrices only: norms and positions start as in the random body; random "
                "matrices only: they start as in the language body.",
            ),
        ),
        Comparison(
            "successive",
            "Trained parts of the language body, one after another",
            (*_successive(""), "fpt"),
            ("T15",),
            _steps((*_successive(""), "fpt")),
            rows={"fpt": FULL},
            section="finetuning",
        ),
        Comparison(
            "individual",
            "Trained parts of the language body, one at a time",
            _individual(""),
            ("T18",),
            _beside(_individual("")),
            section="finetuning",
        ),
        Comparison(
            "random_successive",
            "Trained parts of a random body, one after another",
            (*_successive("random-"), "random"),
            ("T20",),
            _steps((*_successive("random-"), "random")),
            rows={**_without("random-", _successive("random-")), "random": FULL},
            section="finetuning",
        ),
        Comparison(
            "random_individual",
            "Trained parts of a random body, one at a time",
            _individual("random-"),
            ("T21",),
            _beside(_individual("random-")),
            rows=_without("random-", _individual("random-")),
            section="finetuning",
        ),
        Comparison(
            "layernorm",
            "Layer norms trained or frozen",
            tuple(LAYERNORM),
            ("T16",),
            (("fpt", "output+input+positions"), ("random", "random-output+input+positions")),
            rows={"output+input+positions": "fpt", "random-output+input+positions": "random"},
            task="cifar10",
            columns=LAYERNORM,
            notes=(
                "The paper's caption says that input and output alone are trained beside frozen "
                "norms; its numbers fit only with the positions trained too, as here.",
            ),
            section="finetuning",
        ),
        Comparison(
            "depth_layernorm",
            "Layers of the body, output net and layer norms trained",
            _depths("output+layernorm", 1, 2, 3, 6),
            ("T11",),
            tuple((arm, f"random-{arm}") for arm in _depths("output+layernorm", 1, 2, 3, 6)[:5]),
            rows=_starts(_depths("output+layernorm", 1, 2, 3, 6)),
            task="listops",
            columns=_depth_columns("output+layernorm", 1, 2, 6),
            section="finetuning",
        ),
        Comparison(
            "depth_output",
            "Layers of the body, output net alone trained",
            (*_depths("output", 1, 2, 3, 6), "random-output@24"),
            ("T12",),
            tuple((arm, f"random-{arm}") for arm in _depths("output", 1, 2, 3, 6)[:5]),
            rows=_starts((*_depths("output", 1, 2, 3, 6), "random-output@24")),
            task="listops",
            columns=_depth_columns("output", 1, 3, 6, 24),
            section="finetuning",
        ),
        Comparison(
            "input",
            "How the input net starts, trained and frozen",
            ("fpt", "input-default", "input-normal", *FROZEN_INPUTS),
            (),
            (
                *_minus("fpt", "input-default", "input-normal", FROZEN_INPUTS[0]),
                *_beside(FROZEN_INPUTS),
            ),
            notes=(
                "The paper calls the start of the input net very important where it stays frozen.",
            ),
            section="finetuning",
        ),
        Comparison(
            "unfreezing",
            "Training parts of the body too",
            ("fpt", *(f"fpt+{parts}" for parts in UNFROZEN)),
            ("T13", "T14"),
            (
                *((f"fpt+{parts}", "fpt") for parts in UNFROZEN),
                ("fpt+feedforward+last-attention", "fpt+feedforward"),
            ),
            notes=(
                "T13 uses one learning rate, 0.001, with runs that diverged; ours are in the "
                "protocol.",
            ),
            section="finetuning",
        ),
        Comparison(
            "learning_rate",
            "Frozen and whole, from language and from random",
            ("fpt", "random", "full-pretrained", "full"),
            ("Rothermel1",),
            (
                ("fpt", "random"),
                ("full-pretrained", "fpt"),
                ("full", "random"),
                ("full-pretrained", "full"),
                ("full", "fpt"),
            ),
        ),
        Comparison(
            "controls",
            "Without a transformer, with less of one, with its attention fixed",
            ("fpt", "random", *CONTROLS, "fpt-shuffled", "full", *ATTENTION),
            (),
            (
                *_minus("fpt", *CONTROLS[:3], "fpt-shuffled"),
                *_minus("random", *CONTROLS),
                *_minus("full", *ATTENTION),
            ),
            notes=(
                "Without a transformer, the mean is over the tokens up to the one that is read.",
                "One random attention layer has no feedforward layer; its norms, positions, input "
                "and output are trained, as in FPT.",
                "Queries and keys frozen: at random, all else trained. Fixed attention: drawn at "
                "random for each position and head, whatever the tokens; all else trained.",
                "Tokens shuffled: those before the ones that are read, by one order per run.",
            ),
            section="learning_rate",
        ),
        Comparison(
            "corpora",
            "What the frozen body was pretrained on",
            ("random", *(f"fpt-{corpus}" for corpus in CORPORA)),
            (),
            (
                *((f"fpt-{corpus}", "random") for corpus in CORPORA),
                *((f"fpt-{corpus}", "fpt-english") for corpus in CORPORA if corpus != "english"),
            ),
            section="synthetic_pretraining",
        ),
        Comparison(
            "whole_corpora",
            "The whole model trained, from what its body was pretrained on",
            ("full", *(f"full-{corpus}" for corpus in WHOLE)),
            (),
            (
                *((f"full-{corpus}", "full") for corpus in WHOLE),
                *((f"full-{corpus}", "full-english") for corpus in WHOLE if corpus != "english"),
            ),
            section="synthetic_pretraining",
        ),
        Comparison(
            "corpora_statistics",
            "Pretrained bodies and their statistics alone",
            tuple(f"{start}-{corpus}" for corpus in CORPORA for start in ("fpt", "statistics")),
            (),
            tuple((f"fpt-{corpus}", f"statistics-{corpus}") for corpus in CORPORA),
            notes=("Statistics: mean and standard deviation of each tensor of that body.",),
            section="synthetic_pretraining",
        ),
        Comparison(
            "english_variants",
            "English with more and fewer tokens, other words, a sparser loss",
            ("fpt-english", *(f"fpt-{corpus}" for corpus in ENGLISH)),
            (),
            tuple((f"fpt-{corpus}", "fpt-english") for corpus in ENGLISH),
            notes=(
                "In bytes and in 512 words, 5M tokens are less text than in 4,096.",
                "Last token: one loss per sequence of 256.",
            ),
            section="synthetic_pretraining",
        ),
    )
}  # fmt: skip
