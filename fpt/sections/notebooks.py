"""What each notebook compares, and what the paper printed beside it; in reading order."""

from . import finetuning, initialization, synthetic_pretraining
from .comparison import Comparison, Section, in_turn, minus
from .registration import registration

LSTMS = ("", "-released", "-deep", "-residual", "-positions", "-matched", "-flops")
RANDOM_LSTMS = tuple(f"random-lstm{kind}" for kind in LSTMS)
MODERN = ("pythia", "smollm2", "qwen3")  # language models of later years
ARCHITECTURES = ("bidirectional", "bert", "t5", "longformer", *MODERN)
FPT_KINDS = tuple(f"fpt-{kind}" for kind in ARCHITECTURES)
RANDOM_KINDS = tuple(f"random-{kind}" for kind in ARCHITECTURES)
SIZES = {"-smaller": "", "": "small", "-larger": "medium", "-largest": "large"}
ALL_LAYERS = ("fpt", "random", "random-own", "random-at-scale", "statistics-tensor")
SIX_LAYERS = tuple(f"{arm}@6" for arm in ALL_LAYERS)
SIZES_OF_FPT = tuple(f"fpt{size}" for size in SIZES)
SIZES_OF_RANDOM = tuple(f"random{size}" for size in SIZES)
MINILM = ("fpt-minilm", "random-minilm")
CONTROLS = (
    "no-transformer-last",
    "no-transformer-mean",
    "random-attention",
    "random-output+input",
)

SECTIONS: dict[str, Section] = {
    # What is learned: the tasks of the paper and those of this project.
    "tasks": Section(),
    # Section 3.1, tables 1 and 2: does a frozen language model do as well as a fully
    # trained one, and better than a frozen random one?
    "transfer": Section(
        comparisons=(
            Comparison(
                "results",
                "Frozen language model, frozen random model, fully trained models",
                ("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released"),
                minus("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released"),
                paper=("T1", "T2"),
                rows={"lstm-released": "lstm", "lstm": ""},
                note="The paper's LSTM is the one of its released code.",
            ),
            Comparison(
                "six_layers",
                "The first six layers, frozen and fully trained, and no transformer",
                ("fpt@6", "full@6", "no-transformer-last", "no-transformer-mean"),
                minus("fpt@6", "full@6", "no-transformer-last", "no-transformer-mean"),
            ),
            Comparison(
                "cifar10_cells",
                "What two cells of the paper's Table 1 are",
                ("fpt", "fpt-largest", "full", "full@3"),
                (("fpt-largest", "fpt"), ("full@3", "full"), ("fpt-largest", "full@3")),
                paper=("T1",),
                rows={"fpt-largest": "fpt", "full@3": "full"},
                task="cifar10",
                columns={"fpt-largest": "cifar10", "full@3": "cifar10"},
                note="The paper's FPT on CIFAR-10 has 36 layers (conflict A), its fully "
                "trained transformer 3 (conflict B).",
            ),
        ),
        claims=(
            "english-sooner",
            "english-sooner-on-bit-xor",
            "english-sooner-on-images",
            "random-sooner-on-memory",
            "full-sooner",
            "frozen-sooner-on-images",
            "frozen-more-accurate-on-images",
            "fpt-over-trained-lstm",
        ),
    ),
    # Section 3.2, table 2: is language a better pretraining than bits or images?
    "modality": Section(
        comparisons=(
            Comparison(
                "results",
                "What the frozen backbone was pretrained on",
                ("fpt", "random", "fpt-bits", "fpt-vit", "random-vit"),
                (
                    *minus("fpt", "random", "fpt-bits", "fpt-vit"),
                    ("fpt-bits", "random"),
                    ("fpt-vit", "random-vit"),
                ),
                paper=("T2",),
                rows={"fpt-bits": "bit", "fpt-vit": "vit"},
            ),
        ),
        claims=("language-over-bits", "language-over-images"),
    ),
    # Sections 3.3 and 3.14, tables 3 and 17: does the transformer matter, or would a frozen
    # LSTM or another pretrained architecture do?
    "architecture": Section(
        comparisons=(
            Comparison(
                "results",
                "Frozen random transformer against frozen LSTMs",
                ("random", *RANDOM_LSTMS, "fpt", "fpt-lstm"),
                (
                    *minus("random", *RANDOM_LSTMS),
                    ("fpt-lstm", "random-lstm"),
                    ("fpt", "fpt-lstm"),
                ),
                paper=("T3",),
                rows={"random-lstm-released": "random-lstm", "random-lstm": ""},
                note="The paper's LSTM is the one of its released code; the other kinds "
                "become more like a transformer step by step.",
            ),
            Comparison(
                "architectures",
                "Other frozen architectures",
                ("fpt", *FPT_KINDS, "random", *RANDOM_KINDS),
                (
                    *minus("fpt", *FPT_KINDS),
                    *minus("random", *RANDOM_KINDS),
                    *zip(FPT_KINDS, RANDOM_KINDS, strict=True),
                ),
                paper=("T17",),
                rows={f"fpt-{kind}": kind for kind in ARCHITECTURES[1:]},
            ),
        ),
        claims=("transformer-over-lstm", "transformer-over-standard-lstm"),
    ),
    # Sections 3.4 and 3.9, tables 6 and 10: how much sooner does a frozen language model
    # learn, and how far does its output net come alone?
    "efficiency": Section(
        comparisons=(
            Comparison(
                "results",
                "Frozen and fully trained",
                ("fpt", "random", "full"),
                minus("fpt", "random", "full"),
                paper=("T1", "T2"),
            ),
            Comparison(
                "output_only",
                "The output net alone, for a number of steps and to convergence",
                (
                    "output",
                    "probe",
                    "fpt",
                    "full",
                    "random-output",
                    "random-probe",
                    "random",
                ),
                (
                    ("probe", "output"),
                    *minus("fpt", "probe", "output"),
                    ("random-probe", "random-output"),
                    ("probe", "random-probe"),
                ),
                paper=("T10", "T15"),
                rows={"probe": "output"},
            ),
            Comparison(
                "language_models",
                "Frozen language models, frozen random ones, and full training",
                ("fpt", "random", "fpt@6", "random@6", "full@6", *MINILM),
                (
                    ("fpt", "random"),
                    *minus("fpt@6", "random@6", "full@6"),
                    MINILM,
                ),
            ),
        ),
        claims=("english-sooner", "english-sooner-at-one-rate", "fpt-over-probe"),
        lenders=("initialization", "transfer"),
    ),
    # Section 3.6, table 7: does a frozen transformer overfit less than a fully trained one?
    "overfitting": Section(
        comparisons=(
            Comparison(
                "results",
                "Frozen and fully trained, with few and with all training examples",
                ("fpt", "random", "full", "vanilla", "linformer"),
                minus("fpt", "random", "full", "vanilla", "linformer"),
                paper=("T7",),
                rows={"vanilla": "vanilla-transformer"},
                task="cifar10-lra",
                columns=dict.fromkeys(("fpt", "vanilla", "linformer"), "test"),
            ),
        ),
        claims=("smaller-gap", "frozen-with-few-examples"),
    ),
    # Section 3.7, table 8: does a larger frozen backbone do better?
    "scaling": Section(
        comparisons=(
            Comparison(
                "results",
                "Size of the frozen backbone",
                tuple(f"{start}{size}" for size in SIZES for start in ("fpt", "random")),
                (
                    *zip(SIZES_OF_FPT, SIZES_OF_RANDOM, strict=True),
                    *in_turn(*SIZES_OF_FPT),
                    *in_turn(*SIZES_OF_RANDOM),
                ),
                paper=("T8",),
                rows={
                    f"{start}{size}": row
                    for size, row in SIZES.items()
                    for start in ("fpt", "random")
                },
                task="cifar10",
                columns={
                    f"{start}{size}": start for size in SIZES for start in ("fpt", "random")
                },
            ),
            Comparison(
                "depth",
                "All thirty layers and the first six, from language and drawn",
                tuple(f"{arm}{depth}" for arm in ALL_LAYERS for depth in ("", "@6")),
                (
                    *zip(ALL_LAYERS, SIX_LAYERS, strict=True),
                    *minus(*ALL_LAYERS),
                    *minus(*SIX_LAYERS),
                ),
                note="The first six layers of a deeper model are a truncated network, "
                "not a model.",
            ),
        ),
        claims=("larger-english-is-sooner",),
        lenders=("initialization",),
    ),
    "initialization": initialization.SECTION,
    "finetuning": finetuning.SECTION,
    # Section 3.5: does the frozen backbone attend to the tokens that an answer needs?
    "attention": Section(
        comparisons=(
            Comparison(
                "results",
                "The arms whose attention is measured",
                ("fpt", "random"),
                (("fpt", "random"),),
                paper=("T2",),
            ),
        ),
    ),
    # Rothermel et al. 2021 and other critics: does one learning rate decide the paper's
    # comparison, and would less than a transformer do?
    "learning_rate": Section(
        comparisons=(
            Comparison(
                "results",
                "Frozen and fully trained, from language and from random, at the best "
                "rate of each",
                ("fpt", "random", "full-pretrained", "full"),
                (
                    *minus("fpt", "random", "full-pretrained", "full"),
                    ("full-pretrained", "full"),
                    ("full", "random"),
                ),
                paper=("Rothermel1",),
            ),
            Comparison(
                "controls",
                "Without a transformer, with less of one, with its attention fixed",
                (
                    "fpt",
                    "random",
                    *CONTROLS,
                    "fpt-shuffled",
                    "full",
                    "full-frozen-qk",
                    "full-fixed",
                ),
                (
                    *minus("fpt", *CONTROLS[:3], "fpt-shuffled"),
                    *minus("random", *CONTROLS),
                    *minus("full", "full-frozen-qk", "full-fixed"),
                ),
                note="A random attention layer has no feedforward layer; fixed attention "
                "is drawn at random for each position and head.",
            ),
            Comparison(
                "six_layers",
                "Six layers and less than a transformer, at the best rate of each",
                ("fpt@6", "random@6", "full@6", *CONTROLS[:2]),
                (
                    *minus("fpt@6", "random@6", "full@6", *CONTROLS[:2]),
                    *minus("random@6", "full@6", *CONTROLS[:2]),
                ),
            ),
        ),
        claims=(
            "english-sooner-at-one-rate",
            "language-over-random-when-trained-whole",
            "whole-english-over-frozen",
            "more-than-a-mean",
            "order-matters",
            "queries-and-keys-matter",
        ),
        lenders=("initialization", "transfer"),
    ),
    "synthetic_pretraining": synthetic_pretraining.SECTION,
    # The registered claims of the profile `lab`, all together.
    "verdict": Section(claims=tuple(registration()["primary"])),
}
