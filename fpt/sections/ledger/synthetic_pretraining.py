"""The claims about what a body is pretrained on: Chiang and Lee's, and our questions."""

from ...analysis.arrivals import sooner
from ...analysis.claim import MATCH, OURS, Claim, among, leads, versus
from ...report.table import label, short
from ..arms import CORPORA

SLIDES = "S0: is some synthetic dataset better than language"
CL = "CL22, Table 1 (GLUE, finetuned whole)"
READ = ("authors", "cola", "sst2", "mrpc", "rte")  # tasks that are English text
TOKENS = ("uniform", "unigram", "bigram")  # corpora without structure, claimed to bring nothing
STRUCTURED = ("flat-128", "nesting", "shuffle-64", "dyck", "rule-110")
# Every body solves it (Table 2: 100% with a random one), so accuracy tells no two of them apart;
# the steps it takes them may.
SOLVED = "bit-xor"


def _telling(task: str) -> bool:
    return task != SOLVED


def _leads(id: str, text: str, source: str, a: str, b: str) -> Claim:
    return leads(id, text, source, a, b, _telling)


def _alike(id: str, text: str, source: str, a: str, b: str) -> Claim:
    effect = f"{short(a)} minus {short(b)}"
    return Claim(id, text, source, effect, versus(a, b), "equal", MATCH, _telling, (a, b))


CLAIMS: tuple[Claim, ...] = (
    *(
        _leads(
            f"{corpus}-helps",
            f"Pretraining helps against a random body: {label(f'fpt-{corpus}').lower()}",
            OURS,
            f"fpt-{corpus}",
            "random",
        )
        for corpus in CORPORA
        if corpus not in TOKENS
    ),
    *(
        Claim(
            f"{corpus}-sooner",
            f"Pretraining helps to solve {SOLVED} in fewer steps than a random body: "
            + label(f"fpt-{corpus}").lower(),
            OURS,
            f"steps of {short('random')} minus {short(f'fpt-{corpus}')}",
            sooner(f"fpt-{corpus}", "random"),
            "greater",
            covers=among(SOLVED),
            arms=(f"fpt-{corpus}", "random"),
            unit="% of the budget",
        )
        for corpus in CORPORA
    ),
    *(
        _leads(
            f"{corpus}-over-statistics",
            "It is the weights, not their statistics: " + label(f"fpt-{corpus}").lower(),
            OURS,
            f"fpt-{corpus}",
            f"statistics-{corpus}",
        )
        for corpus in CORPORA
    ),
    *(
        _leads(
            f"{corpus}-over-english",
            f"A synthetic language is better than language: {label(f'fpt-{corpus}').lower()}",
            SLIDES,
            f"fpt-{corpus}",
            "fpt-english",
        )
        for corpus in STRUCTURED
    ),
    *(
        _leads(
            f"english-over-{corpus}",
            f"Language is special: better than {text}",
            OURS,
            "fpt-english",
            f"fpt-{corpus}",
        )
        for corpus, text in CORPORA.items()
        if "english" not in corpus and corpus not in (*STRUCTURED, "kannada")
    ),
    _alike(
        "kannada-like-english",
        "Another natural language transfers as well as English: Kannada",
        OURS,
        "fpt-kannada",
        "fpt-english",
    ),
    *(
        _leads(
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
        for corpus in TOKENS
    ),
    _leads(
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
        _leads(
            f"mixture-over-{part}",
            f"A mixture is better than {CORPORA[part]} alone",
            OURS,
            "fpt-english+nesting",
            f"fpt-{part}",
        )
        for part in ("english", "nesting")
    ),
    *(
        leads(
            f"{corpus}-helps-text",
            f"Trained whole on English text, a body pretrained on {CORPORA[corpus]} beats one from "
            "scratch",
            source,
            f"full-{corpus}",
            "full",
            among(*READ),
        )
        for corpus, source in (("english", CL), ("nesting", CL), ("dyck", OURS))
    ),
    _leads(
        "more-tokens",
        "Transfer grows with tokens of pretraining: 5M over 1M",
        OURS,
        "fpt-english",
        "fpt-english-1M",
    ),
    _leads(
        "more-classes",
        "More classes transfer better: 4,096 words over bytes",
        OURS,
        "fpt-english",
        "fpt-english-bytes",
    ),
    _leads(
        "denser-loss",
        "A denser loss transfers better: at every token over one per sequence",
        OURS,
        "fpt-english",
        "fpt-english-last",
    ),
)
