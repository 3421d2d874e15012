"""Corpora by name: texts, synthetic languages, images, mixtures, and one loss per sequence."""

import numpy as np
import pytest
from refusals import refuses
from samples import png, words, write_parquet

from fpt.pretraining.corpora import open_stream
from fpt.pretraining.plans import make_plan, plan_of

END = "<|endoftext|>"


def decoded(stream, ids, **options):
    return stream.tokenizer.decode(ids.tolist(), skip_special_tokens=False, **options)


@pytest.fixture
def english(corpora):
    for part in range(4):
        text = f"\n{END}\n".join(words(part, 20))
        (corpora / f"english-train-{part}.txt").write_text(text)
    (corpora / "english-valid.txt").write_text(f"\n{END}\n".join(words(9, 5)))


# -------------------------------------------------------------------------------------------- texts


def test_a_text_of_the_readers_own(corpora):
    lines = words(0, 120)
    (corpora / "diary.txt").write_text("\n \n\n".join(lines))  # blank lines are no documents
    stream = open_stream("diary", 2000)
    assert len(stream.train) == 2000
    assert decoded(stream, stream.train).startswith(f"{lines[0]}{END}{lines[1]}{END}")
    assert decoded(stream, stream.valid) == f"{lines[49]}{END}{lines[99]}{END}"
    assert stream.valid_bytes == len((lines[49] + lines[99]).encode())
    assert stream.digest == open_stream("diary", 2000).digest

    (corpora / "diary.txt").write_text(f"\n{END}\n".join(lines[::-1]))
    changed = open_stream("diary", 2000)  # what was prepared is of another text
    assert changed.digest != stream.digest
    assert decoded(changed, changed.train).startswith(lines[-1])


def test_english_in_shorter_words(english):
    names = ("english", "english-512", "english-bytes")
    usual, middle, small = (open_stream(name, 20_000) for name in names)
    assert len(small.train) == 20_000 > len(middle.train) > len(usual.train)
    text = words(0, 1)[0]
    for stream, vocabulary in ((middle, 512), (small, 257)):
        assert stream.train.max() < vocabulary
        assert decoded(stream, stream.train).startswith(text)
        assert stream.valid_bytes == usual.valid_bytes
    assert np.flatnonzero(small.train == 0)[0] == len(f"{text}\n".encode())  # a token is a byte
    assert np.array_equal(open_stream("english-bytes", 3000).train, small.train[:3000])


# ----------------------------------------------------------------------------- synthetic languages


# ------------------------------------------------------------------------------------------- images


def test_images_pixel_by_pixel(corpora):
    images = np.random.default_rng(0).integers(0, 256, (120, 4, 5, 3), dtype=np.uint8)
    columns = {"image": [png(image) for image in images], "label": [0] * 120}
    write_parquet(corpora / "images-32x32.parquet", columns)
    stream = open_stream("images", 10_000, 10_000)
    colours = 1 + (images // 32).astype(int) @ [64, 8, 1]
    expected = np.pad(colours.reshape(120, 20), ((0, 0), (0, 1)))
    assert np.array_equal(stream.valid, expected[[49, 99]].ravel())
    assert np.array_equal(stream.train, np.delete(expected, [49, 99], axis=0).ravel())
    assert np.array_equal(open_stream("images", 50, 30).train, stream.train[:50])
    encoded = [image["bytes"] for image in columns["image"]]
    write_parquet(corpora / "images-32x32.parquet", {"image": encoded})
    assert np.array_equal(open_stream("images", 50, 30).train, stream.train[:50])
    write_parquet(corpora / "images-32x32.parquet", {"image": [b"no image"] * 120})
    refuses(lambda: open_stream("images", 50, 30), "damaged, or Pillow cannot read it")


# ------------------------------------------------------------------ mixtures, one loss per sequence


def test_a_mixture_takes_turns(corpora):
    names = ("dyck-64", "rule-110", "uniform")
    mixed = open_stream("+".join(names), 10_000, 5000)
    parts = [open_stream(name, 4096) for name in names]
    assert (len(mixed.train), len(mixed.valid)) == (10_000, 5000)
    for turn in range(9):
        part = parts[turn % 3].train[turn // 3 * 1024 :][:1024]
        assert np.array_equal(mixed.train[turn * 1024 :][:1024], part)
    assert mixed.entropy == pytest.approx(np.mean([part.entropy for part in parts]))
    assert not mixed.exact
    (corpora / "diary.txt").write_text("\n".join(words(0, 3000)))
    mixed = open_stream("diary+dyck-64", 8192, 2048)
    assert np.array_equal(mixed.train[:1024], open_stream("diary", 4096).train[:1024])
    assert (mixed.entropy, mixed.tokenizer) == (None, None)


def test_a_text_is_found_by_its_complete_name(corpora):
    (corpora / "my-last.txt").write_text("\n".join(words(0, 120)))
    assert not open_stream("my-last", 2000).sparse
    assert open_stream("my-last-last", 2000).sparse
    assert len(open_stream("my-last@1k", 2000).train) == 1000


def test_cut_and_density_of_a_corpus(corpora):
    usual = open_stream("dyck-64", 5000, 2000)
    cut = open_stream("dyck-64@2k-last", 5000, 2000)
    assert np.array_equal(cut.train, usual.train[:2000])
    assert np.array_equal(cut.valid, usual.valid)
    assert (usual.sparse, cut.sparse, cut.entropy) == (False, True, usual.entropy)
    assert len(open_stream("dyck-64@2k", 1000, 2000).train) == 1000
    mixed = open_stream("dyck-64+uniform@3k-last", 5000, 2000)
    assert (len(mixed.train), mixed.sparse) == (3000, True)


@pytest.mark.parametrize(
    "name",
    [
        "klingon",   "uniform+uniform", "uniform-last+dyck-64",
          "uniform@\u0663",  "uniform@5M+dyck-64",
            "diary.txt", "bit-memory@5M",
    ],
)  # fmt: skip
def test_names_without_a_corpus(name, corpora):
    (corpora / "diary.txt").touch()
    parts = [repr(name), "choose from english, ", "corpora folder"]
    refuses(lambda: open_stream(name, 1000), *parts)
    refuses(lambda: make_plan(name, "nano"), *parts)
    refuses(lambda: plan_of(f"nano-{name}-0"), "BACKBONE-OBJECTIVE-SEED")
