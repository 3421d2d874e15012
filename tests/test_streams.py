"""Corpora by name: texts, synthetic languages, images, mixtures, and one loss per sequence."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from refusals import check_said, refusal

from fpt.pretraining.corpora import open_stream, parse
from fpt.pretraining.ensure import make_plan, plan_of
from fpt.pretraining.languages import FROM_ENGLISH


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """A corpora folder without files, and an empty folder for prepared streams."""
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path))
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path / "prepared")
    return tmp_path


def words(seed, documents):
    draws = np.random.default_rng(seed).zipf(1.3, (documents, 60)) % 300
    return [" ".join(f"wörd{word}" for word in row) for row in draws]


@pytest.fixture
def english(corpora):
    for part in range(4):
        text = "\n<|endoftext|>\n".join(words(part, 20))
        (corpora / f"english-train-{part}.txt").write_text(text)
    (corpora / "english-valid.txt").write_text("\n<|endoftext|>\n".join(words(9, 5)))
    return corpora


# -------------------------------------------------------------------------------------------- texts


def test_a_text_of_the_readers_own(corpora):
    refusal(lambda: parse("diary"))
    lines = words(0, 120)
    (corpora / "diary.txt").write_text("\n \n\n".join(lines))  # blank lines are no documents
    assert parse("diary").most is None
    stream = open_stream("diary", 2000)
    assert len(stream.train) == 2000
    assert stream.tokenizer is not None
    decoded = stream.tokenizer.decode(stream.train.tolist(), skip_special_tokens=False)
    assert decoded.startswith(f"{lines[0]}<|endoftext|>{lines[1]}<|endoftext|>")
    held = stream.tokenizer.decode(stream.valid.tolist(), skip_special_tokens=False)
    assert held == f"{lines[49]}<|endoftext|>{lines[99]}<|endoftext|>"
    assert stream.valid_bytes == len((lines[49] + lines[99]).encode())
    assert stream.digest == open_stream("diary", 2000).digest

    (corpora / "diary.txt").write_text("\n<|endoftext|>\n".join(lines[::-1]))
    changed = open_stream("diary", 2000)  # what was prepared is of another text
    assert changed.digest != stream.digest
    assert changed.tokenizer is not None
    assert changed.tokenizer.decode(changed.train.tolist()).startswith(lines[-1])


def test_english_in_shorter_words(english):
    usual, middle, small = (
        open_stream(name, 20_000) for name in ("english", "english-512", "english-bytes")
    )
    first = words(0, 1)[0]
    assert len(small.train) > len(middle.train) > len(usual.train) or len(small.train) == 20_000
    for stream, most in ((middle, 512), (small, 257)):
        assert stream.train.max() < most
        assert stream.tokenizer is not None
        assert stream.tokenizer.decode(stream.train.tolist()).startswith(first)
        assert stream.valid_bytes == usual.valid_bytes
    end = int(np.flatnonzero(small.train == 0)[0])
    assert end == len((first + "\n").encode())  # a token is a byte
    assert np.array_equal(open_stream("english-bytes", 3000).train, small.train[:3000])


# ----------------------------------------------------------------------------- synthetic languages


@pytest.mark.parametrize("name", FROM_ENGLISH)
def test_languages_that_need_english_say_so(name, corpora):
    check_said(refusal(lambda: open_stream(name, 1000)), [repr(name), "'english-train-0.txt'"])


def test_frequencies_are_those_of_english(english):
    text = open_stream("english", 4_000_000).train
    stream = open_stream("unigram", 100_000, 5000)
    common = np.argsort(-np.bincount(text[text > 0]))[:10]
    share = np.bincount(text, minlength=4096)[common] / (text > 0).sum()
    seen = np.bincount(stream.train, minlength=4096)[common] / (stream.train > 0).sum()
    assert seen == pytest.approx(share, rel=0.1)
    assert stream.entropy is not None
    assert stream.exact
    assert (stream.tokenizer, stream.valid_bytes, len(stream.valid)) == (None, None, 5000)


def test_held_out_is_another_stream(corpora):
    stream = open_stream("uniform", 5000, 5000)
    assert (stream.train == stream.valid).mean() < 0.05
    assert np.array_equal(open_stream("uniform", 200, 5000).train, stream.train[:200])


# ------------------------------------------------------------------------------------------- images


def stored(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": ""}


def test_images_pixel_by_pixel(corpora):
    images = np.random.default_rng(0).integers(0, 256, (120, 4, 5, 3), dtype=np.uint8)
    table = pa.table({"image": [stored(image) for image in images], "label": [0] * 120})
    pq.write_table(table, corpora / "images-32x32.parquet")
    stream = open_stream("images", 10_000, 10_000)
    held = [49, 99]
    assert len(stream.train) == 118 * 21
    assert len(stream.valid) == 2 * 21
    for tokens, rows in (
        (stream.train, [0, 1, *range(2, 49), 50]),
        (stream.valid, held),
    ):
        for place, row in enumerate(rows):
            one = tokens[place * 21 : place * 21 + 21].tolist()
            red, green, blue = (images[row, 1, 2].astype(int) // 32).tolist()
            assert one[7] == 1 + 64 * red + 8 * green + blue
            assert one[20] == 0
    assert stream.train.max() <= 512
    assert np.array_equal(open_stream("images", 50, 30).train, stream.train[:50])


# ------------------------------------------------------------------ mixtures, one loss per sequence


def test_a_mixture_takes_turns(corpora):
    mixed = open_stream("dyck-64+rule-110+uniform", 10_000, 5000)
    parts = [open_stream(name, 4096) for name in ("dyck-64", "rule-110", "uniform")]
    assert (len(mixed.train), len(mixed.valid)) == (10_000, 5000)
    for place in range(9):
        part = parts[place % 3].train[place // 3 * 1024 :][:1024]
        assert np.array_equal(mixed.train[place * 1024 :][:1024], part)
    entropies = [part.entropy for part in parts if part.entropy is not None]
    assert mixed.entropy == pytest.approx(np.mean(entropies))
    assert not mixed.exact
    assert np.array_equal(open_stream("dyck-64+rule-110+uniform", 3000).train, mixed.train[:3000])


def test_a_mixture_with_a_text(corpora):
    (corpora / "diary.txt").write_text("\n".join(words(0, 3000)))
    mixed = open_stream("diary+dyck-64", 8192, 2048)
    assert np.array_equal(mixed.train[:1024], open_stream("diary", 4096).train[:1024])
    assert np.array_equal(mixed.train[1024:2048], open_stream("dyck-64", 4096).train[:1024])
    assert (mixed.entropy, mixed.tokenizer) == (None, None)


def test_a_text_is_found_by_its_whole_name(corpora):
    (corpora / "my-last.txt").write_text("\n".join(words(0, 120)))
    assert not open_stream("my-last", 2000).sparse
    assert open_stream("my-last-last", 2000).sparse
    assert len(open_stream("my-last@1k", 2000).train) == 1000


def test_one_loss_per_sequence(corpora):
    usual, last = open_stream("dyck-64", 3000, 2000), open_stream("dyck-64-last", 3000, 2000)
    assert last.sparse
    assert not usual.sparse
    assert last.digest == usual.digest
    assert open_stream("dyck-64+uniform-last", 3000, 2000).sparse


def test_a_cut_corpus(corpora):
    usual, cut = open_stream("dyck-64", 5000, 2000), open_stream("dyck-64@2k", 5000, 2000)
    assert np.array_equal(cut.train, usual.train[:2000])
    assert np.array_equal(cut.valid, usual.valid)
    assert cut.entropy == usual.entropy
    assert len(open_stream("dyck-64@2k", 1000, 2000).train) == 1000
    mixed = open_stream("dyck-64+uniform@3k-last", 5000, 2000)
    assert (len(mixed.train), mixed.sparse) == (3000, True)


@pytest.mark.parametrize(
    "name",
    [
        "klingon",
        "uniform+klingon",
        "uniform+",
        "uniform+uniform",
        "uniform-last+dyck-64",
        "uniform-last-last",
        "uniform@5T",
        "uniform@0M",
        "uniform@\u0663",
        "uniform@5M@5M",
        "uniform-last@5M",
        "uniform@5M+dyck-64",
        "@5M",
        "-last",
        "",
        "../diary",
        ".diary",
        "di ary",
        "diary.txt",
        "bit-memory+uniform",
        "bit-memory@5M",
    ],
)
def test_names_without_a_corpus(name, corpora):
    (corpora / "diary.txt").write_text("\n".join(words(0, 120)))
    said = [repr(name), "choose from english, ", "corpora folder"]
    check_said(refusal(lambda: open_stream(name, 1000)), said)
    check_said(refusal(lambda: make_plan(name, "nano")), said)
    check_said(refusal(lambda: plan_of(f"nano-{name}-0")), ["BACKBONE-OBJECTIVE-SEED"])
