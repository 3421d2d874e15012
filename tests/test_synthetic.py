"""Synthetic languages: their lines, the statistics that were published, and their entropies."""

import json
import math
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from fpt.pretraining.languages import ALONE, FROM_ENGLISH, LANGUAGES
from fpt.pretraining.lines import VOCABULARY, entropy, frequencies

TOKENS = 400_000
# Of a stream: shortest and longest line, the first digits of its SHA-256, nats per token, and
# whether they are exact. A backbone that was pretrained on a language names it, so all must stay.
STREAMS = json.loads(Path(__file__).with_name("golden_streams.json").read_text())


def text(tokens=200_000):
    """Ids with the frequencies of Zipf's law, a few of them `END`, none of the last hundred."""
    weights = np.r_[0.0, 1 / np.arange(1, VOCABULARY)]
    draws = np.random.default_rng(0).choice(VOCABULARY, tokens, p=weights / weights.sum())
    draws[::500] = 0
    return np.where(draws > VOCABULARY - 100, 1, draws).astype(np.uint16)


@pytest.fixture(scope="module")
def samples():
    """Every language by name, its English replaced by `text`, and a stream of each."""
    languages = {name: make() for name, make in ALONE.items()}
    languages |= {name: make(text()) for name, make in FROM_ENGLISH.items()}
    return {
        name: (language, language.sample(TOKENS, name, "train"))
        for name, language in languages.items()
    }


def lines_of(stream):
    """The complete lines of a stream, without their `END`."""
    lines = np.split(stream, np.flatnonzero(stream == 0) + 1)[:-1]
    return [line[:-1].tolist() for line in lines]


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_stream_is_the_same_everywhere(name, samples):
    language, stream = samples[name]
    lengths = [len(line) for line in lines_of(stream)]
    digest = sha256(stream.tobytes()).hexdigest()[:16]
    measured = [min(lengths), max(lengths), digest, round(language.entropy, 6), language.exact]
    assert measured == STREAMS[name]
    assert (stream.dtype, len(stream)) == (np.uint16, TOKENS)
    assert np.array_equal(language.sample(1000, name, "train"), stream[:1000])
    assert (language.sample(1000, name, "valid") != stream[:1000]).any()
    # What came before says something of a token.
    assert 0 < language.entropy < entropy(np.bincount(stream) / len(stream))


def catalan(n):
    return math.comb(2 * n, n) // (n + 1)


# --------------------------------------------------------------------------------------- entropies


def check_mean(surprises, language):
    """The mean of surprises, pairs of a length and nats, is the entropy of the language."""
    excess = [nats - language.entropy * (length + 1) for length, nats in surprises]
    error = np.std(excess) / math.sqrt(len(excess))
    assert abs(np.mean(excess)) <= 4 * error + 1e-9
    assert error < 0.02 * np.mean([nats for _, nats in surprises])


# The surprise of a line under a model of its generator written down here, in nats.
MODELS = {
    "uniform": lambda line, chances: math.log(20) + len(line) * math.log(VOCABULARY - 1),
    "unigram": lambda line, chances: math.log(20) - np.log(chances[line]).sum(),
    "flat-2": lambda line, chances: math.log(5) - np.log(chances[line[::2]]).sum(),
    "dyck-64": lambda line, _: math.log(12 * catalan(len(line) // 2) * 64 ** (len(line) // 2)),
    "rule-110": lambda line, _: math.log(3) + 32 * math.log(2),
}


@pytest.mark.parametrize("name", MODELS)
def test_entropy_is_the_mean_surprise_of_what_is_generated(name, samples):
    language, stream = samples[name]
    chances = frequencies(text())
    surprises = [(len(line), MODELS[name](line, chances)) for line in lines_of(stream)]
    check_mean(surprises, language)
