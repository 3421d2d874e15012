"""Synthetic languages: their lines, the statistics that were published, and their entropies."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fpt.pretraining.languages import (
    ALONE,
    FROM_ENGLISH,
    LANGUAGES,
    automaton,
    doubled_entropy,
    dyck,
    flat,
    nesting,
    shuffle,
)
from fpt.pretraining.lines import (
    VOCABULARY,
    Language,
    bigram,
    commonest,
    entropy,
    frequencies,
    relabelled,
    uniform,
    unigram,
)

TOKENS = 400_000
RANKS = np.arange(1, VOCABULARY)
ZIPF = np.r_[0.0, 1 / RANKS] / (1 / RANKS).sum()


def text(tokens: int = 200_000) -> np.ndarray:
    """Ids with the frequencies of Zipf's law, some of them `END`, none of the last hundred."""
    draws = np.random.default_rng(0).choice(VOCABULARY, tokens, p=ZIPF)
    draws[::500] = 0
    return np.where(draws > VOCABULARY - 100, 1, draws).astype(np.uint16)


@pytest.fixture(scope="module")
def samples() -> dict[str, tuple[Language, np.ndarray]]:
    """Every language by name, its English replaced by `text`, and a stream of each."""
    made = {name: make() for name, make in ALONE.items()}
    made |= {name: make(text()) for name, make in FROM_ENGLISH.items()}
    return {name: (each, each.sample(TOKENS, name, "train")) for name, each in made.items()}


def lines_of(stream: np.ndarray) -> list[np.ndarray]:
    """The whole lines of a stream, without their `END`."""
    return np.split(stream, np.flatnonzero(stream == 0) + 1)[:-1]


def body(line: np.ndarray) -> list[int]:
    assert line[-1] == 0
    return line[:-1].tolist()


# ------------------------------------------------------------------------------------ what they are


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("uniform", 100, 119),
        ("unigram", 100, 119),
        ("bigram", 99, 118),
        ("bigram-16", 99, 118),
        ("copies", 100, 119),
        ("flat-2", 110, 118),
        ("flat-4", 108, 120),
        ("flat-6", 106, 122),
        ("flat-128", 100, 122),
        ("nesting", 80, 124),
        ("shuffle-4", 88, 116),
        ("shuffle-6", 108, 114),
        ("shuffle-8", 112, 112),
        ("shuffle-16", 112, 112),
        ("shuffle-32", 96, 124),
        ("shuffle-64", 124, 124),
        ("dyck-64", 100, 122),
        ("rule-110", 104, 120),
    ],
)
def test_lines_are_as_long_as_published(
    name: str, least: int, most: int, samples: dict[str, tuple[Language, np.ndarray]]
) -> None:
    stream = samples[name][1]
    assert (stream.dtype, len(stream)) == (np.uint16, TOKENS)
    assert stream.max() < VOCABULARY
    lengths = [len(line) - 1 for line in lines_of(stream)]
    assert (min(lengths), max(lengths)) == (least, most)


def test_the_stream_depends_on_its_key_alone_and_grows_at_its_end() -> None:
    for made in (unigram(ZIPF), nesting(ZIPF)):  # a stack lives on from chunk to chunk
        long = made.sample(600_000, "name", "train")
        assert np.array_equal(long, made.sample(600_000, "name", "train"))
        assert np.array_equal(long[:1000], made.sample(1000, "name", "train"))
        assert (long[:1000] != made.sample(1000, "name", "valid")).any()
        assert (long[:1000] != made.sample(1000, "another", "train")).any()


def test_streams_are_the_same_bytes_everywhere(
    samples: dict[str, tuple[Language, np.ndarray]],
) -> None:
    """The first tokens of some, as they were when this was written: committed weights say what
    corpus they come from by name."""
    first = {name: samples[name][1][:6].tolist() for name in FIRST}
    assert first == FIRST


FIRST: dict[str, list[int]] = {
    "uniform": [2292, 1194, 197, 237, 3390, 1299],
    "dyck-64": [1, 48, 64, 128, 1, 65],
    "rule-110": [13, 9, 13, 12, 6, 11],
    "nesting-uniform": [261, 261, 212, 212, 241, 1212],
}


def test_frequencies_are_those_of_the_text(
    samples: dict[str, tuple[Language, np.ndarray]],
) -> None:
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
def test_pairs_of_tokens_are_those_of_the_text(lag: int) -> None:
    """In a small text: what follows what, as often, and a start by frequency."""
    ids = np.array([1, 2, 1, 3, 0, 3, 1, 2, 4] * 3, dtype=np.uint16)  # before 1 again: nothing
    ids = np.r_[ids[:-1], 4].astype(np.uint16)
    assert 4 in ids
    lines = lines_of(bigram(ids, lag).sample(300_000, "bigram"))
    seen = Counter(
        pair for line in lines for pair in zip(body(line)[:-lag], body(line)[lag:], strict=True)
    )
    text_pairs = Counter(zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True))
    for before in (1, 2, 3):
        after = {b: n for (a, b), n in text_pairs.items() if a == before and b}
        total = sum(seen[before, b] for b in after)
        assert {b for (a, b) in seen if a == before and b} == set(after)
        for b, n in after.items():
            assert seen[before, b] / total == pytest.approx(n / sum(after.values()), abs=0.01)


def test_identities_are_exchanged_and_frequencies_kept() -> None:
    ids = text()
    other = relabelled(ids)
    assert ((ids == 0) == (other == 0)).all()
    assert (ids != other).mean() > 0.9
    counts = [np.sort(np.bincount(part, minlength=VOCABULARY)) for part in (ids, other)]
    assert np.array_equal(*counts)


def groups(name: str, line: list[int]) -> list[list[int]]:
    size = {"flat-2": 2, "flat-4": 4, "flat-128": len(line)}[name]
    return [line[start : start + size] for start in range(0, len(line), size)]


@pytest.mark.parametrize("name", ["flat-2", "flat-4", "flat-128"])
def test_flat_tokens_come_in_pairs_within_their_group(
    name: str, samples: dict[str, tuple[Language, np.ndarray]]
) -> None:
    lines = [body(line) for line in lines_of(samples[name][1])[:500]]
    for line in lines:
        for group in groups(name, line):
            assert all(count % 2 == 0 for count in Counter(group).values())
    apart = [line.index(line[0], 1) for line in lines]  # of the first token from its second
    if name == "flat-2":
        assert set(apart) == {1}
    elif name == "flat-128":
        assert max(apart) > 60
    else:
        assert set(apart) == {1, 2, 3}


def test_flat_6_has_groups_of_two_and_three(
    samples: dict[str, tuple[Language, np.ndarray]],
) -> None:
    def cut(line: list[int]) -> bool:
        """Whether the line can be cut into shuffled pairs of 4 or 6 tokens."""
        open_at = {0}
        for end in range(1, len(line) + 1):
            for size in (4, 6):
                part = line[end - size : end] if end >= size else [1]
                if end - size in open_at and all(n % 2 == 0 for n in Counter(part).values()):
                    open_at.add(end)
        return len(line) in open_at

    lines = [body(line) for line in lines_of(samples["flat-6"][1])[:300]]
    assert all(map(cut, lines))
    assert not all(cut(line[1:] + line[:1]) for line in lines)
    assert any(line.index(line[0], 1) > 3 for line in lines)


def test_nesting_has_the_published_distances() -> None:
    stream = nesting(uniform()).sample(1_000_000, "distances")
    stack: list[tuple[int, int]] = []
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


def test_small_vocabularies_are_the_commonest_tokens(
    samples: dict[str, tuple[Language, np.ndarray]],
) -> None:
    order = np.argsort(-frequencies(text()), kind="stable")
    for count in (50, 500):
        seen = set(samples[f"nesting-{count}"][1].tolist()) - {0}
        assert seen == set(order[:count].tolist())
        chances = commonest(frequencies(text()), count)
        assert (chances.sum(), (chances > 0).sum()) == (pytest.approx(1), count)


@pytest.mark.parametrize("size", [4, 6, 8, 16, 32, 64])
def test_shuffled_blocks_hold_neighbours(
    size: int, samples: dict[str, tuple[Language, np.ndarray]]
) -> None:
    lines = [body(line) for line in lines_of(samples[f"shuffle-{size}"][1])[:300]]
    sorted_blocks = 0
    for line in lines:
        for start in range(0, len(line), size):
            block = line[start : start + size]
            assert len(set(block)) == len(block)
            assert max(block) - min(block) < size
            sorted_blocks += block == sorted(block)
    assert sorted_blocks < 0.1 * sum(-(-len(line) // size) for line in lines)


def catalan(n: int) -> int:
    return math.comb(2 * n, n) // (n + 1)


def test_dyck_lines_are_balanced_and_uniform(
    samples: dict[str, tuple[Language, np.ndarray]],
) -> None:
    lines = [body(line) for line in lines_of(samples["dyck-64"][1])]
    at_once, expected, distances = 0, 0.0, []
    for line in lines:
        stack: list[tuple[int, int]] = []
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


@pytest.mark.parametrize(("name", "steps"), [("rule-110", 1), ("rule-110-3", 3)])
def test_rows_follow_the_rule(
    name: str, steps: int, samples: dict[str, tuple[Language, np.ndarray]]
) -> None:
    alive = {(1, 1, 0), (1, 0, 1), (0, 1, 1), (0, 1, 0), (0, 0, 1)}  # rule 110, written out
    for line in lines_of(samples[name][1])[:100]:
        cells = [int(bit) for token in body(line) for bit in f"{token - 1:04b}"]
        rows = [cells[start : start + 32] for start in range(0, len(cells), 32)]
        for row, following in itertools.pairwise(rows):
            for _ in range(steps):
                row = [int((row[i - 1], row[i], row[(i + 1) % 32]) in alive) for i in range(32)]
            assert row == following


# --------------------------------------------------------------------------------------- entropies


def standard_error(surprises: list[float]) -> float:
    return float(np.std(surprises) / math.sqrt(len(surprises)))


def per_line(name: str, line: list[int], chances: np.ndarray) -> float:
    """Surprise of a line under a model of its generator written down here, in nats."""
    if name in ("uniform", "unigram"):
        return math.log(20) - float(np.log(chances[line]).sum())
    if name == "flat-2":
        return math.log(5) - float(np.log(chances[line[::2]]).sum())
    if name == "dyck-64":
        return math.log(12 * catalan(len(line) // 2)) + len(line) / 2 * math.log(64)
    if name == "rule-110":
        return math.log(3) + 32 * math.log(2)
    size = int(name.removeprefix("shuffle-"))
    least = chances[: len(chances) - size + 1]
    firsts = [min(line[start : start + size]) for start in range(0, len(line), size)]
    blocks = len(firsts) * math.log(math.factorial(size))
    low, high = {4: (22, 30), 6: (18, 20), 16: (7, 8)}[size]
    surprise = float(np.log(least[firsts] / least.sum()).sum())
    return math.log(high - low) + blocks - surprise


@pytest.mark.parametrize(
    "name",
    ["uniform", "unigram", "flat-2", "dyck-64", "rule-110", "shuffle-4", "shuffle-6", "shuffle-16"],
)
def test_entropy_is_the_mean_surprise_of_what_is_generated(
    name: str, samples: dict[str, tuple[Language, np.ndarray]]
) -> None:
    made, stream = samples[name]
    chances = uniform() if name == "uniform" else frequencies(text())
    lines = lines_of(stream)
    rates = [per_line(name, body(line), chances) for line in lines]
    excess = [rate - made.entropy * len(line) for rate, line in zip(rates, lines, strict=True)]
    assert made.exact
    assert abs(np.mean(excess)) <= 4 * standard_error(excess) + 1e-9
    assert standard_error(excess) < 0.02 * np.mean(rates)


@pytest.mark.parametrize("lag", [1, 3])
def test_entropy_of_a_chain_is_its_mean_surprise(lag: int) -> None:
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
        tokens = body(line)
        surprise = math.log(20) - sum(math.log(chances[token]) for token in tokens[:lag])
        for a, b in zip(tokens[:-lag], tokens[lag:], strict=True):
            surprise -= math.log(pairs[a, b] / total[a] if a != 5 else chances[b])
        excess.append(surprise - made.entropy * len(line))
    assert abs(np.mean(excess)) < 4 * standard_error(excess)


def test_copies_repeat_a_segment_of_tokens_by_frequency(
    samples: dict[str, tuple[Language, np.ndarray]],
) -> None:
    made, stream = samples["copies"]
    sizes = set()
    for line in map(body, lines_of(stream)):
        size = next(n for n in range(1, len(line)) if line[n:] == line[:-n])
        assert size in range(1, 32)  # a segment may itself repeat one
        sizes.add(size)
    assert set(range(16, 32)) <= sizes
    chances = frequencies(text())
    assert made.entropy == pytest.approx((math.log(20) + 23.5 * entropy(chances)) / 110.5)
    assert not made.exact


def enumerated(chances: dict[int, float], size: int) -> float:
    """Entropy of `size` tokens doubled and shuffled, by going through all of them."""
    found = Counter[tuple[int, ...]]()
    for drawn in itertools.product(chances, repeat=size):
        chance = math.prod(chances[token] for token in drawn)
        orders = list(itertools.permutations(drawn * 2))
        for order in orders:
            found[order] += chance / len(orders)
    return -sum(p * math.log(p) for p in found.values())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_entropy_of_shuffled_pairs_by_counting_all(size: int) -> None:
    chances = {0: 0.5, 1: 0.3, 2: 0.2}
    exact = doubled_entropy(np.array(list(chances.values())), size)
    assert exact == pytest.approx(enumerated(chances, size))


@pytest.mark.parametrize(
    ("kind", "exact"),
    [
        (((2, 5), (1, 2), 0), True),
        (((3, 6), (2, 3), 2), True),
        (((2, 4), (4, 5), 0), True),  # one group
        (((6, 8), (2, 4), 2), False),
    ],
)
def test_entropy_of_short_flat_lines_by_counting(kind: Any, exact: bool) -> None:
    made = flat(np.array([0.0, 0.6, 0.4]), *kind)
    lines = [tuple(body(line)) for line in lines_of(made.sample(1_200_000, "short"))]
    counts = np.array(list(Counter(lines).values()))
    counted = entropy(counts / counts.sum()) + (len(counts) - 1) / (2 * len(lines))
    rate = counted * len(lines) / sum(len(line) + 1 for line in lines)
    assert made.exact is exact
    if exact:
        assert made.entropy == pytest.approx(rate, rel=0.005)
    else:
        assert 0.8 * rate < made.entropy < 0.99 * rate


def next_given(stream: np.ndarray, before: int) -> float:
    """Entropy of a token given the `before` tokens before it, counted; not less than the rate."""
    tokens = stream.tolist()

    def blocks(size: int) -> float:
        counts = Counter(zip(*(tokens[start:] for start in range(size)), strict=False))
        numbers = np.array(list(counts.values()))
        return entropy(numbers / numbers.sum()) + (len(numbers) - 1) / (2 * numbers.sum())

    return blocks(before + 1) - blocks(before)


def test_entropy_of_nesting_is_below_what_is_counted_and_close() -> None:
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


def test_the_bounds_for_cut_blocks_are_close(
    samples: dict[str, tuple[Language, np.ndarray]],
) -> None:
    """No more than the logarithm of five per cut block is given away."""
    for size in (32, 64):
        made = samples[f"shuffle-{size}"][0]
        whole_blocks = {32: 3.5, 64: 2}[size]
        least = frequencies(text())[: VOCABULARY - size + 1]
        block = entropy(least / least.sum()) + math.log(math.factorial(size))
        cut = {32: 0.5, 64: 1}[size]
        above = whole_blocks * block - cut * math.log(24) + {32: math.log(2), 64: 0.0}[size]
        tokens = {32: 110, 64: 124}[size] + 1
        assert not made.exact
        assert made.entropy < above / tokens
        assert made.entropy > (above - cut * math.log(5)) / tokens - 1e-9


def test_every_language_has_less_entropy_than_its_tokens_alone(
    samples: dict[str, tuple[Language, np.ndarray]],
) -> None:
    for name, (made, stream) in samples.items():
        alone = entropy(np.bincount(stream) / len(stream))
        assert 0 < made.entropy < alone, name
    assert set(samples) == set(LANGUAGES)
    assert set(ALONE) < set(LANGUAGES)
    assert {name for name, (made, _) in samples.items() if not made.exact} == {
        "flat-6",
        "nesting",
        "nesting-50",
        "copies",
        "nesting-500",
        "nesting-uniform",
        "shuffle-32",
        "shuffle-64",
    }


def test_draws_are_fair() -> None:
    stream = unigram(np.array([0.0, 0.7, 0.3])).sample(TOKENS, "fair")
    ones, all_ = int((stream == 1).sum()), int((stream > 0).sum())
    assert binom.cdf(ones, all_, 0.7) == pytest.approx(0.5, abs=0.4999)
    rows = automaton(110, 1).sample(TOKENS, "fair")
    firsts = np.array([line[:8] for line in lines_of(rows)])
    assert np.bincount(firsts.ravel())[1:] / firsts.size == pytest.approx(1 / 16, abs=0.01)
    kinds = np.bincount(dyck(3).sample(TOKENS, "fair"))[1:]
    assert kinds[:3] == pytest.approx(kinds[:3].mean(), rel=0.02)
    blocks = shuffle(np.r_[0.0, np.full(9, 1 / 9)], 4, (2, 3)).sample(TOKENS, "fair")
    order = Counter(tuple(np.argsort(line[:4])) for line in lines_of(blocks))
    assert len(order) == 24
    assert max(order.values()) < 1.2 * min(order.values())
