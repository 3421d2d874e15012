"""Files of the hub at one commit and with one content: a cache made here, and no network."""

import re
from hashlib import sha256

import httpx
import pytest
from huggingface_hub.errors import RemoteEntryNotFoundError
from refusals import check_said, refuses
from samples import write_parquet

from fpt import config
from fpt.__main__ import main
from fpt.backbones.weights import files, find
from fpt.files import lock
from fpt.pretraining.streams import PG19
from fpt.project import PROFILES
from fpt.tasks import TASKS, get_task
from fpt.tasks import sources as hub
from fpt.tasks.datasets import hub_dataset

FIRST = "1" * 40
SECOND = "2" * 40
FILE = "data/train.parquet"
COMMIT = re.compile("[0-9a-f]{40}")


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Writes a file of a repository at a commit into the cache and lets `main` be that commit."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("FPT_ROOT", str(tmp_path))

    def write(content, commit, repo="datasets--o--r", file=FILE):
        folder = tmp_path / "hub" / repo
        blob = folder / "blobs" / sha256(content).hexdigest()
        link = folder / "snapshots" / commit / file
        for path in (blob, link, folder / "refs/main"):
            path.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link.unlink(missing_ok=True)
        link.symlink_to(blob)
        (folder / "refs/main").write_text(commit)
        return link

    return write


def fetch(file=FILE):
    return hub.fetch("o/r", file, hub.LOCKED, "dataset")


def test_the_first_use_is_locked_and_the_next_ones_are_compared(put):
    path = put(b"first", FIRST)
    late = put(b"late", FIRST, file="b")
    assert fetch() == path
    digest = sha256(b"first").hexdigest()
    assert hub.read_lock() == {"datasets/o/r@locked": {"commit": FIRST, "sha256": {FILE: digest}}}

    put(b"second", SECOND)  # `main` moves on
    put(b"newer", SECOND, file="b")
    written = hub.lock_path().stat().st_mtime_ns
    assert fetch() == path
    assert hub.lock_path().stat().st_mtime_ns == written
    assert fetch("b") == late
    assert set(hub.read_lock()["datasets/o/r@locked"]["sha256"]) == {FILE, "b"}

    put(b"other", FIRST)  # the same commit with another content
    digests = [digest[:12], sha256(b"other").hexdigest()[:12]]
    refuses(fetch, f"{FILE} of o/r at {FIRST[:12]}", *digests, "fetch it again", str(path))
    path.unlink()
    refuses(fetch, f"{FILE} of o/r (revision {FIRST})", "HF_HUB_OFFLINE", "HF_HUB_CACHE")


def test_what_another_process_locked_meanwhile_counts(put, monkeypatch):
    path = put(b"ours", FIRST)
    entry = {"commit": FIRST, "sha256": {FILE: sha256(b"theirs").hexdigest()}}
    downloaded = hub._downloaded

    def slow(*arguments):
        hub.write_json(hub.lock_path(), {"datasets/o/r@locked": entry})
        return downloaded(*arguments)

    monkeypatch.setattr(hub, "_downloaded", slow)
    refuses(fetch, str(path))
    assert hub.read_lock() == {"datasets/o/r@locked": entry}


def test_the_lock_file_is_written_by_one_process_at_a_time(put, tmp_path, monkeypatch):
    put(b"first", FIRST)
    free = []
    write = hub.write_json

    def watched(path, content):
        with lock(tmp_path / "data/hub.lock", wait=False) as is_mine:
            free.append(is_mine)
        write(path, content)

    monkeypatch.setattr(hub, "write_json", watched)
    fetch()
    assert free == [False]


def test_a_commit_is_asked_for_as_it_is_and_compared_too(put):
    path = put(b"first", FIRST, "models--o--r", "model.safetensors")
    put(b"second", SECOND, "models--o--r", "model.safetensors")
    identity = f"hub:o/r@{FIRST}"
    assert find(identity) == path
    assert not hub.lock_path().exists()  # the pipeline alone writes one
    assert files(identity, remember=True) == [path]
    assert set(hub.read_lock()) == {f"o/r@{FIRST}"}
    put(b"other", FIRST, "models--o--r", "model.safetensors")
    refuses(lambda: find(identity), "model.safetensors of o/r")


def put_table(put, folder, commit, repo, file, columns):
    write_parquet(folder / "table", columns)
    put((folder / "table").read_bytes(), commit, repo, file)


def test_a_data_set_is_locked(put, tmp_path):
    source = hub.Repository("o/r", hub.LOCKED, {"train": FILE})
    columns = {"text": ["a", "b"], "label": [0, 1]}
    put_table(put, tmp_path, FIRST, "datasets--o--r", FILE, columns)
    assert source.columns("train", "label", "text") == [[0, 1], ["a", "b"]]
    dataset = hub_dataset("mine", 1, source, dict)
    assert dataset.source["revision"] == "locked"  # the key of a run holds no commit
    put(b"other", FIRST)
    refuses(lambda: source.columns("train", "text"), "hub.lock.json")


def test_english_is_built_from_a_mirror(put, tmp_path, monkeypatch, capsys):
    """Of two books in each file; a second build changes nothing, and other content is refused."""
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path / "corpora"))
    repo = "datasets--emozilla--pg19"
    for name, file in PG19.files.items():
        columns = {"text": [f"{name}\n\nA book.\n", "Ünother"]}
        put_table(put, tmp_path, PG19.revision, repo, file, columns)
    assert main(["corpus", "english"]) == 0
    printed = capsys.readouterr().out
    for name in PG19.files:
        content = (tmp_path / "corpora" / name).read_bytes()
        assert content.decode() == f"{name}\n\nA book.\n{hub.END}\nÜnother\n{hub.END}\n"
        assert f"{tmp_path}/corpora/{name} {sha256(content).hexdigest()}" in printed
    assert main(["corpus", "english"]) == 0
    assert capsys.readouterr().out == printed
    (tmp_path / "corpora" / name).unlink()
    put(b"other", PG19.revision, repo, file)
    assert main(["corpus", "english"]) == 2
    check_said(capsys.readouterr().err, ["hub.lock.json", file])


def test_a_repository_without_the_file(put, monkeypatch):
    """Weights that are published as a pickle alone."""

    def download(*arguments, **options):
        response = httpx.Response(404, request=httpx.Request("GET", "https://hub"))
        raise RemoteEntryNotFoundError("404", response=response)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    refuses(lambda: find("hub:o/r@locked"), "o/r has no file model.safetensors at revision main.")
    assert not hub.lock_path().exists()


def test_every_revision_of_the_project_is_a_commit_or_locked():
    identities = {name for profile in PROFILES for name in config.load(profile).weights.values()}
    revisions = {name.partition("@")[2] for name in identities if name.startswith("hub:")}
    of_tasks = [get_task(name).source().get("revision") for name in TASKS]
    revisions |= set(filter(None, of_tasks))
    assert {name for name in revisions if not COMMIT.fullmatch(name)} == {hub.LOCKED}
    for name, entry in hub.read_lock().items():
        revision = name.partition("@")[2]
        assert entry["commit"] == revision or not COMMIT.fullmatch(revision)
        assert all(len(digest) == 64 for digest in entry["sha256"].values())
