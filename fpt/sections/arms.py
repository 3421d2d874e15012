"""Arms: what is compared, each with one name used everywhere.

An arm says which kind of backbone a run has, its initialisation and what is trained. The kinds of
backbone and the sources of weights are roles; a profile says which backbone and which weights play
them (`fpt.config`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

FROZEN = ("input", "layernorm", "output", "positions")  # what the paper trains around the backbone
SOME = (  # a part of it: in succession, one beside the output net, all but norms or input
    "output",
    "output+layernorm",
    "output+layernorm+input",
    "output+input",
    "output+positions",
    "output+input+positions",
)
MORE = (  # and parts of the backbone itself
    "feedforward",
    "attention",
    "feedforward+attention",
    "feedforward+last-attention",
)
DEPTHS = (1, 2, 3, 6)  # layers of tables 11 and 12, beside the whole backbone
BODY = ("attention", "feedforward")  # of a backbone whose queries and keys are apart, all but those
SIZES = ("smaller", "larger", "largest")  # beside the profile's own
LSTMS = {  # the LSTM made more like a transformer, one step after another; and two of its size
    "deep": "as deep",
    "residual": "and residual",
    "positions": "and positions",
    "matched": "same size",
    "flops": "same FLOPs",
}

CORPORA = {  # what a backbone was pretrained on: role of its weights -> its name in tables
    "english": "English",
    "kannada": "Kannada",
    "javascript": "JavaScript",
    "amino-acids": "amino acids",
    "images": "images by pixel",
    "uniform": "uniform",
    "unigram": "unigram",
    "bigram": "bigram",
    "bigram-16": "bigram at lag 16",
    "copies": "repeated segments",
    "flat-2": "Flat-2",
    "flat-128": "Flat-128",
    "nesting": "Nesting",
    "shuffle-64": "Shuffle-64",
    "dyck": "Dyck",
    "rule-110": "rule 110",
    "english+nesting": "English + Nesting",
}
ENGLISH = {  # the same text in fewer or more tokens, shorter words, with a sparser loss
    "english-1M": "English, 1M tokens",
    "english-21M": "English, 21M tokens",
    "english-bytes": "English in bytes",
    "english-512": "English in 512 words",
    "english-last": "English, last token",
}
WHOLE = (
    "english",
    "nesting",
    "dyck",
    "uniform",
)  # of CORPORA: backbones that are also trained as a whole
AMOUNTS = ("fpt-english-1M", "fpt-english", "fpt-english-21M")  # English, fewer and more tokens


@dataclass(frozen=True)
class Arm:
    """One row of a table. `trainable` None: everything the backbone has; of the groups it names, a
    backbone without a table of positions has no `positions`."""

    name: str
    label: str
    body: str  # role of the backbone
    init: str
    trainable: tuple[str, ...] | None = FROZEN
    weights: str = "language"  # role of the weights, for inits that read any
    input_init: str = "orthogonal"
    procedure: str = "sgd"
    order: str = "given"  # of the tokens


def _parts(text: str) -> tuple[str, ...]:
    return tuple(sorted(text.split("+")))


def _both(name: str, label: str, body: str, weights: str) -> tuple[Arm, Arm]:
    """A frozen backbone with published or local weights, and the same one at random."""
    return (
        Arm(f"fpt-{name}", f"Frozen {label}", body, "pretrained", FROZEN, weights),
        Arm(f"random-{name}", f"Frozen random {label}", body, "random"),
    )


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("fpt", "FPT (frozen, language)", "transformer", "pretrained"),
        Arm("random", "Frozen random", "transformer", "random"),
        Arm("full", "Full, from random", "transformer", "random", None),
        Arm("full-pretrained", "Full, from language", "transformer", "pretrained", None),
        Arm("lstm", "LSTM (layer norm)", "lstm", "random", None),
        Arm("lstm-released", "LSTM (released code)", "lstm-released", "random", None),
        Arm("full@3", "Full, 3 layers", "depth-3", "random", None),  # as on CIFAR-10 in table 1
        # What the frozen backbone was pretrained on (section 3.2).
        Arm("fpt-bits", "Frozen, bit memory", "transformer", "pretrained", weights="bit-memory"),
        *_both("vit", "ViT", "vit", "image"),
        # What the frozen backbone is (sections 3.3 and 3.14).
        *_both("lstm", "LSTM", "lstm", "language-lstm"),
        Arm("random-lstm-released", "Frozen random LSTM (released)", "lstm-released", "random"),
        *(
            Arm(f"random-lstm-{kind}", f"Frozen random LSTM, {text}", f"lstm-{kind}", "random")
            for kind, text in LSTMS.items()
        ),
        *_both("bert", "BERT", "bert", "bert"),
        *_both("t5", "T5 encoder", "t5", "t5"),
        *_both("longformer", "Longformer", "longformer", "longformer"),
        *_both("bidirectional", "GPT-2, bidirectional", "bidirectional", "language"),
        # The output net on cached clean features, to convergence (section 3.9).
        Arm("probe", "Output, converged", "transformer", "pretrained", procedure="probe"),
        Arm(
            "random-probe", "random: output, converged", "transformer", "random", procedure="probe"
        ),
        # Trained from nothing (section 3.6).
        Arm("vanilla", "Vanilla transformer", "vanilla", "random", None),
        Arm("linformer", "Linformer", "linformer", "random", None),
        # How large the backbone is (section 3.7).
        *(
            arm
            for size in SIZES
            for arm in (
                Arm(f"fpt-{size}", f"FPT, {size}", size, "pretrained", weights=f"language-{size}"),
                Arm(f"random-{size}", f"Frozen random, {size}", size, "random"),
            )
        ),
        # How the frozen backbone is initialised (section 3.8).
        *(
            Arm(init, text, "transformer", init)
            for init, text in (
                ("statistics-tensor", "Statistics, per tensor"),
                ("statistics-layer", "Statistics, per layer"),
                ("statistics-global", "Statistics, whole body"),
                ("shuffled", "Shuffled weights"),
                ("permuted-rows", "Permuted inputs"),
                ("random-scaled", "Random, scaled residuals"),
                ("random-body", "Random matrices only"),
                ("random-layernorm", "Random norms only"),
                ("random-positions", "Random positions only"),
                ("pretrained-body", "Language matrices only"),
                ("pretrained-layernorm", "Language norms only"),
                ("pretrained-positions", "Language positions only"),
            )
        ),
        # How many layers there are to mix tokens, with few parts trained (section 3.10).
        *(
            Arm(
                f"{start}{parts}@{depth}",
                f"{text}{parts}, {depth} layers",
                f"depth-{depth}",
                init,
                _parts(parts),
            )
            for start, text, init in (("", "", "pretrained"), ("random-", "random: ", "random"))
            for parts in ("output", "output+layernorm")
            for depth in DEPTHS
        ),
        Arm("random-output@24", "random: output, 24 layers", "depth-24", "random", ("output",)),
        # How the input net is initialised (section 3.1; the released code: orthogonal).
        *(
            Arm(
                f"{name}-{input_init}",
                f"{text}, {input_init}",
                "transformer",
                "pretrained",
                groups,
                input_init=input_init,
            )
            for name, text, groups in (
                ("input", "FPT", FROZEN),
                ("frozen-input", "FPT, input frozen", _parts("output+layernorm+positions")),
            )
            for input_init in ("orthogonal", "default", "normal")
            if (name, input_init) != ("input", "orthogonal")  # which is fpt
        ),
        # What is trained around a frozen backbone, and of it (sections 3.10 to 3.13).
        *(Arm(parts, parts, "transformer", "pretrained", _parts(parts)) for parts in SOME),
        *(
            Arm(f"random-{parts}", f"random: {parts}", "transformer", "random", _parts(parts))
            for parts in SOME
        ),
        *(
            Arm(
                f"fpt+{parts}",
                f"FPT + {parts}",
                "transformer",
                "pretrained",
                (*FROZEN, *_parts(parts)),
            )
            for parts in MORE
        ),
        # What critics set beside it: no transformer, less of one, attention that is not learned,
        # another order of the tokens. One more of them is `random-output+input`.
        *(
            Arm(
                f"no-transformer-{token}",
                f"No transformer, {text}",
                f"{token}-token",
                "random",
                ("input", "output"),
            )
            for token, text in (("last", "last token"), ("mean", "mean of tokens"))
        ),
        Arm("random-attention", "One random attention layer", "attention", "random"),
        Arm("fpt-shuffled", "FPT, tokens shuffled", "transformer", "pretrained", order="shuffled"),
        Arm("full-frozen-qk", "Full, queries, keys frozen", "split", "random", (*FROZEN, *BODY)),
        Arm("full-fixed", "Full, fixed random attention", "fixed", "random", (*FROZEN, *BODY)),
        # What a backbone was pretrained on, and its statistics alone.
        *(
            Arm(f"fpt-{corpus}", f"Frozen, {text}", "transformer", "pretrained", weights=corpus)
            for corpus, text in (CORPORA | ENGLISH).items()
        ),
        *(
            Arm(f"full-{it}", f"Full, from {CORPORA[it]}", "transformer", "pretrained", None, it)
            for it in WHOLE
        ),
        *(
            Arm(
                f"statistics-{corpus}",
                f"Statistics of {text}",
                "transformer",
                "statistics-tensor",
                weights=corpus,
            )
            for corpus, text in CORPORA.items()
        ),
        Arm(
            "random-at-scale",
            "Random, at English's weight scale",
            "transformer",
            "random-at-scale",
            weights="english",
        ),
    )
}
