"""The corpus `english` from a public source: PG-19, books of Project Gutenberg.

The files below are at one commit; their digests are in data/hub.lock.json from the first build on.
"""

from collections.abc import Iterator

from ..files import write_atomic
from ..tasks import sources
from ..tasks.sources import END, Repository

PG19 = Repository(
    "emozilla/pg19",
    "c021754c8e01c5b1cc83a1f549c1f97fbbb756b8",
    {
        "english-train-0.txt": "data/train-00000-of-00023-5263dc4323e881d2.parquet",
        "english-train-1.txt": "data/train-00001-of-00023-2b13c68dbeba63b5.parquet",
        "english-train-2.txt": "data/train-00002-of-00023-8e4dd6b70d51dfcf.parquet",
        "english-train-3.txt": "data/train-00003-of-00023-e7f0ba0d3c2eb6c0.parquet",
        "english-valid.txt": "data/train-00004-of-00023-3f9e7e096fa07f4b.parquet",
    },
)


def build() -> Iterator[str]:
    """Write what is missing of the corpus into the corpora folder; yield each file with its
    SHA-256. FptError if the hub cannot be reached or has other content than at the first build."""
    for name in PG19.files:
        if sources.find_corpus_file(name) is None:
            (books,) = PG19.columns(name, "text")
            text = "".join(f"{book.rstrip()}\n{END}\n" for book in books)
            write_atomic(sources.corpora_folder() / name, text.encode())
        path = sources.corpus_file(name)
        yield f"{path} {sources.file_digest(path)}"
