"""Synthetic languages by name: what each is made of, and its stream of tokens.

Those of Chiang & Lee (2022, arXiv:2109.03537; the small vocabularies: 2020, arXiv:2012.11995) with
this project's vocabulary: 4,095 tokens and the `END` of a line, where they had 29,995, so the
largest set of tokens that `nesting` can have is 4,095, and their 5,000 has no counterpart. "By
frequency" means as often as the ids occur in the first 4M tokens of the English corpus.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..files import FptError
from ..tasks.rng import fold
from ..tasks.texts import VOCABULARY
from .blocks import SHUFFLE, shuffle
from .chains import bigram, frequencies, unigram
from .corpus import Stream, token_stream
from .harder import automaton, dyck
from .lines import Language
from .paired import FLAT, copies, flat, nesting

ENGLISH_TOKENS = 4_000_000  # whose frequencies are taken


def alike() -> np.ndarray:
    """The same chance for each token but `END`."""
    return np.r_[0.0, np.full(VOCABULARY - 1, 1 / (VOCABULARY - 1))]


def commonest(chances: np.ndarray, count: int) -> np.ndarray:
    """`chances` of the `count` most frequent tokens alone."""
    kept = np.argsort(-chances, kind="stable")[:count]
    some = np.zeros_like(chances)
    some[kept] = chances[kept]
    return some / some.sum()


def relabelled(ids: np.ndarray) -> np.ndarray:
    """The text `ids` with its tokens' identities exchanged at random, `END` kept."""
    bits = np.random.PCG64(fold("synthetic", "bigram", "identities"))
    order = 1 + np.argsort(bits.random_raw(VOCABULARY - 1), kind="stable")
    return np.r_[0, order].astype(ids.dtype)[ids]


def _by_frequency(make: Callable[..., Language], **settings: Any) -> Callable[..., Language]:
    return lambda ids: make(frequencies(ids, VOCABULARY), **settings)


def _commonest(count: int) -> Callable[[np.ndarray], Language]:
    return lambda ids: nesting(commonest(frequencies(ids, VOCABULARY), count))


# Languages that need no text, and those made from the ids of English.
ALONE: Mapping[str, Callable[[], Language]] = {
    "uniform": lambda: unigram(alike()),
    "nesting-uniform": lambda: nesting(alike()),
    "dyck-64": lambda: dyck(64),
    "rule-110": lambda: automaton(110, 1),
    "rule-110-3": lambda: automaton(110, 3),
}
FROM_ENGLISH: Mapping[str, Callable[[np.ndarray], Language]] = {
    "unigram": _by_frequency(unigram),
    "bigram": lambda ids: bigram(relabelled(ids), VOCABULARY),
    "bigram-16": lambda ids: bigram(relabelled(ids), VOCABULARY, lag=16),
    "copies": _by_frequency(copies),
    **{name: _by_frequency(flat, kind=kind) for name, kind in FLAT.items()},
    "nesting": _by_frequency(nesting),
    "nesting-50": _commonest(50),
    "nesting-500": _commonest(500),
    **{
        f"shuffle-{size}": _by_frequency(shuffle, size=size, blocks=blocks)
        for size, blocks in SHUFFLE.items()
    },
}
SYNTHETIC = (*ALONE, *FROM_ENGLISH)


def language(name: str) -> Language:
    """The generator `name`; FptError where it needs English and that is not here."""
    if name in ALONE:
        return ALONE[name]()
    try:
        english = token_stream("english", ENGLISH_TOKENS).train
    except FptError as error:
        raise FptError(
            f"The synthetic corpus {name!r} has the frequencies of English tokens, and English is "
            f"not here ({str(error).rstrip('.')}); {', '.join(ALONE)} need no text."
        ) from error
    return FROM_ENGLISH[name](english)


def synthetic_stream(name: str, tokens: int, valid_tokens: int) -> Stream:
    """The first tokens of the training stream and of the held-out stream of `name`."""
    made = language(name)
    return Stream(
        train=made.sample(tokens, name, "train"),
        valid=made.sample(valid_tokens, name, "valid"),
        entropy=float(made.entropy),
        exact=made.exact,
    )
