"""The claims about what a body is pretrained on: Chiang and Lee's, and our questions."""

from ..arms import CORPORA
from ..claim import MATCH, OURS, Claim, leads, versus
from ..table import label, short

SLIDES = "S0: is some synthetic dataset better than language"
CL = "CL22, Table 1 (GLUE, finetuned whole)"
STRUCTURED = ("flat-128", "nesting", "shuffle-64", "dyck", "rule-110")


def _alike(id: str, text: str, source: str, a: str, b: str) -> Claim:
    effect = f"{short(a)} minus {short(b)}"
    return Claim(id, text, source, effect, versus(a, b), "equal", MATCH, arms=(a, b))


CLAIMS: tuple[Claim, ...] = (
    *(
        leads(
            f"{corpus}-helps",
            f"Pretraining helps against a random body: {label(f'fpt-{corpus}').lower()}",
            OURS,
            f"fpt-{corpus}",
            "random",
        )
        for corpus in CORPORA
    ),
    *(
        leads(
            f"{corpus}-over-statistics",
            "It is the weights, not their statistics: " + label(f"fpt-{corpus}").lower(),
            OURS,
            f"fpt-{corpus}",
            f"statistics-{corpus}",
        )
        for corpus in CORPORA
    ),
    *(
        leads(
            f"{corpus}-over-english",
            f"A synthetic language is better than language: {label(f'fpt-{corpus}').lower()}",
            SLIDES,
            f"fpt-{corpus}",
            "fpt-english",
        )
        for corpus in STRUCTURED
    ),
    *(
        leads(
            f"english-over-{corpus}",
            f"Language is special: better than {text}",
            OURS,
            "fpt-english",
            f"fpt-{corpus}",
        )
        for corpus, text in CORPORA.items()
        if "english" not in corpus
    ),
    *(
        leads(
            f"{corpus}-over-unigram",
            f"Structure matters, not frequencies: {label(f'fpt-{corpus}').lower()}",
            CL,
            f"fpt-{corpus}",
            "fpt-unigram",
        )
        for corpus in ("flat-128", "nesting", "shuffle-64")
    ),
    *(
        _alike(
            f"{corpus}-like-random",
            f"The distribution of tokens alone brings nothing: {corpus}",
            CL,
            f"fpt-{corpus}",
            "random",
        )
        for corpus in ("uniform", "unigram", "bigram")
    ),
    leads(
        "longer-dependencies",
        "Longer dependencies transfer better: Flat-128 over Flat-2",
        CL,
        "fpt-flat-128",
        "fpt-flat-2",
    ),
    _alike(
        "nested-like-flat",
        "Nesting is no better than flat pairs",
        CL,
        "fpt-nesting",
        "fpt-flat-128",
    ),
    *(
        leads(
            f"mixture-over-{part}",
            f"A mixture is better than {CORPORA[part]} alone at equal tokens",
            OURS,
            "fpt-english+nesting",
            f"fpt-{part}",
        )
        for part in ("english", "nesting")
    ),
    leads(
        "more-tokens",
        "Transfer grows with tokens of pretraining: 5M over 1M",
        OURS,
        "fpt-english",
        "fpt-english-1M",
    ),
    leads(
        "more-classes",
        "More classes transfer better: 4,096 words over bytes",
        OURS,
        "fpt-english",
        "fpt-english-bytes",
    ),
    leads(
        "denser-loss",
        "A denser loss transfers better: at every token over one per sequence",
        OURS,
        "fpt-english",
        "fpt-english-last",
    ),
)
