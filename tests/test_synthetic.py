"""Synthetic languages: their lines, the statistics that were published, and their entropies."""

import itertools
import math
from collections import Counter
from hashlib import sha256

import numpy as np
import pytest

from fpt.pretraining.languages import (
    ALONE,
    FROM_ENGLISH,
    LANGUAGES,
    doubled_entropy,
    nesting,
)
from fpt.pretraining.lines import (
    VOCABULARY,
    Language,
    bigram,
    entropy,
    frequencies,
    relabelled,
    uniform,
)

TOKENS = 400_000
RANKS = np.arange(1, VOCABULARY)
ZIPF = np.r_[0.0, 1 / RANKS] / (1 / RANKS).sum()


def text(tokens=200_000):
    """Ids with the frequencies of Zipf's law, some of them `END`, none of the last hundred."""
    draws = np.random.default_rng(0).choice(VOCABULARY, tokens, p=ZIPF)
    draws[::500] = 0
    return np.where(draws > VOCABULARY - 100, 1, draws).astype(np.uint16)


Samples = dict[str, tuple[Language, np.ndarray]]


@pytest.fixture(scope="module")
def samples():
    """Every language by name, its English replaced by `text`, and a stream of each."""
    made = {name: make() for name, make in ALONE.items()}
    made |= {name: make(text()) for name, make in FROM_ENGLISH.items()}
    return {name: (each, each.sample(TOKENS, name, "train")) for name, each in made.items()}


def lines_of(stream):
    """The whole lines of a stream, with their `END`."""
    return np.split(stream, np.flatnonzero(stream == 0) + 1)[:-1]


def inside(line):
    """A line without its `END`."""
    assert line[-1] == 0
    return line[:-1].tolist()


# ------------------------------------------------------------------------------------ what they are


# Shortest and longest line; SHA-256 of the first `TOKENS` ids, here in part. A backbone that was
# pretrained on a language names it, so its bytes must stay.
STREAMS = {
    "uniform": (100, 119, "6785d5ea9f0d7b07"),
    "dyck-64": (100, 122, "198794de2dc76081"),
    "rule-110": (104, 120, "69d6f8c323f6e40e"),
    "unigram": (100, 119, "cb0bbdba3933056c"),
    "bigram": (99, 118, "2967ab0b68139326"),
    "bigram-16": (99, 118, "2c77284a09b072e6"),
    "copies": (100, 119, "e6ecc23c5827fc98"),
    "flat-2": (110, 118, "0ce9f7a5aeb359a5"),
    "flat-128": (100, 122, "3c1d4908df1340c0"),
    "nesting": (80, 124, "1b145dcbcc57c2cf"),
    "shuffle-64": (124, 124, "bb4e1280af568479"),
}


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_stream_is_the_same_everywhere(name, samples):
    language, stream = samples[name]
    lengths = [len(line) - 1 for line in lines_of(stream)]
    digest = sha256(stream.tobytes()).hexdigest()[:16]
    assert (min(lengths), max(lengths), digest) == STREAMS[name]
    assert (stream.dtype, len(stream)) == (np.uint16, TOKENS)
    assert np.array_equal(language.sample(1000, name, "train"), stream[:1000])
    assert (language.sample(1000, name, "valid") != stream[:1000]).any()


def test_frequencies_are_those_of_the_text(samples):
    chances = frequencies(text())
    assert chances[0] == 0
    assert chances.sum() == pytest.approx(1)
    for name in ("unigram", "nesting", "flat-2", "flat-128"):
        counts = np.bincount(samples[name][1], minlength=VOCABULARY)[1:51]
        share = counts / (samples[name][1] > 0).sum()
        # Pairs are two of one draw, and the stack may hold some back.
        assert share == pytest.approx(chances[1:51], rel=0.15)
    slope = np.polyfit(np.log(RANKS[:50]), np.log(chances[1:51]), 1)[0]
    assert slope == pytest.approx(-1, abs=0.05)  # Zipf's law


@pytest.mark.parametrize("lag", [1, 3])
def test_pairs_of_tokens_are_those_of_the_text(lag):
    """In a small text: what follows what, as often, and a start by frequency."""
    ids = np.array([1, 2, 1, 3, 0, 3, 1, 2, 4] * 3, dtype=np.uint16)  # before 1 again: nothing
    ids = np.r_[ids[:-1], 4].astype(np.uint16)
    assert 4 in ids
    lines = lines_of(bigram(ids, lag).sample(300_000, "bigram"))
    seen = Counter(
        pair for line in lines for pair in zip(inside(line)[:-lag], inside(line)[lag:], strict=True)
    )
    text_pairs = Counter(zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True))
    for before in (1, 2, 3):
        after = {b: n for (a, b), n in text_pairs.items() if a == before and b}
        total = sum(seen[before, b] for b in after)
        assert {b for (a, b) in seen if a == before and b} == set(after)
        for b, n in after.items():
            assert seen[before, b] / total == pytest.approx(n / sum(after.values()), abs=0.01)


def test_identities_are_exchanged_and_frequencies_kept():
    ids = text()
    other = relabelled(ids)
    assert ((ids == 0) == (other == 0)).all()
    assert (ids != other).mean() > 0.9
    counts = [np.sort(np.bincount(part, minlength=VOCABULARY)) for part in (ids, other)]
    assert np.array_equal(*counts)


@pytest.mark.parametrize("name", ["flat-2", "flat-128"])
def test_flat_tokens_come_in_pairs_within_their_group(name, samples):
    apart = []  # of the first token from its second
    for line in map(inside, lines_of(samples[name][1])[:500]):
        size = 2 if name == "flat-2" else len(line)
        for start in range(0, len(line), size):
            counts = Counter(line[start : start + size])
            assert all(count % 2 == 0 for count in counts.values())
        apart.append(line.index(line[0], 1))
    assert set(apart) == {1} if name == "flat-2" else max(apart) > 60


def test_nesting_has_the_published_distances():
    stream = nesting(uniform()).sample(1_000_000, "distances")
    stack = []
    distances, empty = [], 0
    tokens = stream[stream > 0].tolist()
    for place, token in enumerate(tokens):
        empty += not stack
        if stack and stack[-1][0] == token:
            distances.append(place - stack.pop()[1])
        else:
            stack.append((token, place))
    assert len(stack) < 200  # every other token has found its partner
    assert np.median(distances) == 1
    assert np.mean(distances) == pytest.approx(5.1, abs=0.2)
    assert np.quantile(distances, 0.9) == 11
    assert empty / len(tokens) == pytest.approx(0.17, abs=0.005)


def test_shuffled_blocks_hold_neighbours(samples):
    for line in map(inside, lines_of(samples["shuffle-64"][1])[:300]):
        for block in (line[:64], line[64:]):
            assert len(set(block)) == len(block)
            assert max(block) - min(block) < 64
            assert block != sorted(block)


def catalan(n):
    return math.comb(2 * n, n) // (n + 1)


def test_dyck_lines_are_balanced_and_uniform(samples):
    lines = [inside(line) for line in lines_of(samples["dyck-64"][1])]
    at_once, expected, distances = 0, 0.0, []
    for line in lines:
        stack = []
        for place, token in enumerate(line):
            if token <= 64:
                stack.append((token, place))
            else:
                kind, opened = stack.pop()
                assert token == kind + 64
                distances.append(place - opened)
        assert not stack
        pairs = len(line) // 2
        at_once += line[1] > 64
        expected += catalan(pairs - 1) / catalan(pairs)
    assert at_once == pytest.approx(expected, abs=4 * math.sqrt(len(lines) / 4))
    assert set(np.unique(lines[0] + lines[1])) <= set(range(1, 129))
    assert np.quantile(distances, 0.99) > 80  # as long as a line lets them be


def test_rows_follow_the_rule(samples):
    alive = {(1, 1, 0), (1, 0, 1), (0, 1, 1), (0, 1, 0), (0, 0, 1)}  # rule 110, written out
    for line in lines_of(samples["rule-110"][1])[:100]:
        cells = [int(bit) for token in inside(line) for bit in f"{token - 1:04b}"]
        rows = [cells[start : start + 32] for start in range(0, len(cells), 32)]
        for row, following in itertools.pairwise(rows):
            assert following == [
                int((row[i - 1], row[i], row[(i + 1) % 32]) in alive) for i in range(32)
            ]


# --------------------------------------------------------------------------------------- entropies


def standard_error(surprises):
    return float(np.std(surprises) / math.sqrt(len(surprises)))


def per_line(name, line, chances):
    """Surprise of a line under a model of its generator written down here, in nats."""
    if name in ("uniform", "unigram"):
        return math.log(20) - float(np.log(chances[line]).sum())
    if name == "flat-2":
        return math.log(5) - float(np.log(chances[line[::2]]).sum())
    if name == "dyck-64":
        return math.log(12 * catalan(len(line) // 2)) + len(line) / 2 * math.log(64)
    assert name == "rule-110"
    return math.log(3) + 32 * math.log(2)


@pytest.mark.parametrize("name", ["uniform", "unigram", "flat-2", "dyck-64", "rule-110"])
def test_entropy_is_the_mean_surprise_of_what_is_generated(name, samples):
    made, stream = samples[name]
    chances = uniform() if name == "uniform" else frequencies(text())
    lines = lines_of(stream)
    rates = [per_line(name, inside(line), chances) for line in lines]
    excess = [rate - made.entropy * len(line) for rate, line in zip(rates, lines, strict=True)]
    assert made.exact
    assert abs(np.mean(excess)) <= 4 * standard_error(excess) + 1e-9
    assert standard_error(excess) < 0.02 * np.mean(rates)


@pytest.mark.parametrize("lag", [1, 3])
def test_entropy_of_a_chain_is_its_mean_surprise(lag):
    ids = np.random.default_rng(1).choice(5, 3000, p=[0.02, 0.5, 0.3, 0.1, 0.08]).astype(np.uint16)
    ids = np.r_[ids[ids > 0][:-1], 0, 5, 0, 1, 2].astype(np.uint16)  # nothing follows 5
    made = bigram(ids, lag)
    chances = frequencies(ids)
    pairs = Counter((a, b) for a, b in itertools.pairwise(ids.tolist()) if a and b)
    total = Counter[int]()
    for (a, _), n in pairs.items():
        total[a] += n
    excess = []
    for line in lines_of(made.sample(TOKENS, "chain")):
        tokens = inside(line)
        surprise = math.log(20) - sum(math.log(chances[token]) for token in tokens[:lag])
        for a, b in zip(tokens[:-lag], tokens[lag:], strict=True):
            surprise -= math.log(pairs[a, b] / total[a] if a != 5 else chances[b])
        excess.append(surprise - made.entropy * len(line))
    assert abs(np.mean(excess)) < 4 * standard_error(excess)


def test_copies_repeat_a_segment_of_tokens_by_frequency(samples):
    made, stream = samples["copies"]
    sizes = set()
    for line in map(inside, lines_of(stream)):
        size = next(n for n in range(1, len(line)) if line[n:] == line[:-n])
        assert size in range(1, 32)  # a segment may itself repeat one
        sizes.add(size)
    assert set(range(16, 32)) <= sizes
    chances = frequencies(text())
    assert made.entropy == pytest.approx((math.log(20) + 23.5 * entropy(chances)) / 110.5)
    assert not made.exact


def enumerated(chances, size):
    """Entropy of `size` tokens doubled and shuffled, by going through all of them."""
    found = Counter[tuple[int, ...]]()
    for drawn in itertools.product(chances, repeat=size):
        chance = math.prod(chances[token] for token in drawn)
        orders = list(itertools.permutations(drawn * 2))
        for order in orders:
            found[order] += chance / len(orders)
    return -sum(p * math.log(p) for p in found.values())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_entropy_of_shuffled_pairs_by_counting_all(size):
    chances = {0: 0.5, 1: 0.3, 2: 0.2}
    exact = doubled_entropy(np.array(list(chances.values())), size)
    assert exact == pytest.approx(enumerated(chances, size))


def next_given(stream, before):
    """Entropy of a token given the `before` tokens before it, counted; not less than the rate."""
    tokens = stream.tolist()

    def blocks(size):
        counts = Counter(zip(*(tokens[start:] for start in range(size)), strict=False))
        numbers = np.array(list(counts.values()))
        return entropy(numbers / numbers.sum()) + (len(numbers) - 1) / (2 * numbers.sum())

    return blocks(before + 1) - blocks(before)


def test_entropy_of_nesting_is_below_what_is_counted_and_close():
    few = np.array([0.0, 0.5, 0.3, 0.2])
    made = nesting(few)
    stream = made.sample(2_000_000, "few")
    counted = next_given(stream[stream > 0], 7)
    mean = 102.0
    bound = (made.entropy * (mean + 1) - math.log(45)) / mean  # of a token, without line ends
    assert not made.exact
    assert bound < counted < 1.25 * bound
    # With many tokens what is on top is hardly ever pushed again: what is seen tells the stack.
    many = nesting(uniform())
    share = (0.5 * math.log(4095) + (5 / 6) * entropy(np.array([0.4, 0.6]))) * mean + math.log(45)
    assert many.entropy == pytest.approx(share / (mean + 1), rel=0.002)


def test_every_language_has_less_entropy_than_its_tokens_alone(samples):
    for name, (language, stream) in samples.items():
        assert 0 < language.entropy < entropy(np.bincount(stream) / len(stream)), name
    bounds = {name for name, (language, _) in samples.items() if not language.exact}
    assert bounds == {"nesting", "copies", "shuffle-64"}
