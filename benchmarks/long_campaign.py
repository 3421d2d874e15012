"""How long `fpt status` and `fpt merge` take on a store of 50,000 records.

    python benchmarks/long_campaign.py      # some minutes, most of them to make the records up

The records are made up, in a temporary project: those of all runs of the profile `paper`, and of
other seeds of the same runs up to the number. Writes results/long_campaign.json: seconds on the
clock and of the processor, of each command with the start of its process.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from io import StringIO
from itertools import count, islice
from pathlib import Path
from typing import Any

from fpt import config
from fpt import files as paths
from fpt.records import Record, Store, digest, to_content
from fpt.sections.status import show
from fpt.spec import RunSpec
from fpt.training import device as devices

RESULTS = Path(__file__).parent / "results"
PROFILE = "paper"
LOOKS = 40  # at the validation set, in a record's curve


@dataclass(frozen=True)
class Timed:
    what: str
    seconds: float
    processor_seconds: float


def contents(specs: list[RunSpec]) -> Iterator[dict[str, Any]]:
    """Made-up records: of `specs`, then of the same with other seeds, without end."""
    point = {"train_loss": 2 / 3, "valid_loss": 2 / 3, "gradient_norm": 1 / 3}
    curve = [{"step": look, "valid_accuracy": look / LOOKS, **point} for look in range(LOOKS)]
    cost = {"seconds": 60.0, "flops": 1e12, "tokens": 1e6, "peak_bytes": 1e9}
    place = {"device": "made up", "kind": "made up"}
    record = Record(
        specs[0],
        "done",
        {"test_accuracy": 0.5, "valid_accuracy": 0.5, "best_step": LOOKS, "steps": LOOKS},
        curve,
        cost,
        place,
        [],
    )
    same = to_content(record)
    for more in count(0, 1000):
        for spec in specs:
            run = replace(spec, seed=spec.seed + more)
            content = same | {"spec": run.to_dict(), "key": run.key, "pack": [run.key]}
            yield content | {"digest": digest(content)}


def make(made: Iterable[dict[str, Any]], store: Store) -> None:
    """Write them without waiting for the disk."""
    store.folder.mkdir(parents=True)
    for content in made:
        store.path(content["key"]).write_text(json.dumps(content) + "\n")
    os.sync()


def timed(what: str, work: Callable[[], object], who: int = resource.RUSAGE_SELF) -> Timed:
    used, began = resource.getrusage(who), time.monotonic()
    work()
    seconds, now = time.monotonic() - began, resource.getrusage(who)
    spent = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    found = Timed(what, seconds, spent)
    print(f"{what:60} {seconds:7.2f} s, {spent:7.2f} s of the processor", flush=True)
    return found


def command(root: Path, what: str, *words: str) -> Timed:
    call = [sys.executable, "-m", "fpt", *words, "--profile", PROFILE]
    environment = os.environ | {"FPT_ROOT": str(root)}

    def run() -> None:
        subprocess.run(call, env=environment, check=True, stdout=subprocess.DEVNULL)

    return timed(what, run, resource.RUSAGE_CHILDREN)


def in_this_process(root: Path, store: Store, what: str) -> Timed:
    """The status alone, without the start of a process."""
    from fpt import records as module

    paths.CACHE, module.REPORTS = root / ".cache", store.folder.parent.parent

    def quietly() -> None:
        with redirect_stdout(StringIO()):
            show(PROFILE, False)

    quietly()
    return timed(what, quietly)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--incoming", type=int, default=10_000)
    given = parser.parse_args()
    profile = config.load(PROFILE)
    runs = [run for name in profile.sections for run in config.expand(profile, name)]
    specs = list({run.spec.key: run.spec for run in runs}.values())
    made = contents(specs)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copy(paths.PARAMS, root)
        store = Store(root / "reports" / PROFILE / "records")
        make(islice(made, given.records), store)
        make(islice(made, given.incoming), Store(root / "incoming"))
        found = [
            command(root, "status, the first after a change of the package", "status"),
            command(root, "status", "status"),
            in_this_process(root, store, "status, without the start of a process"),
        ]
        shutil.rmtree(root / ".cache" / "summaries")
        found += [
            command(root, "status, where it reads every record of the profile", "status"),
            command(root, f"merge of {given.incoming:,} records", "merge", str(root / "incoming")),
            command(root, "the same merge again", "merge", str(root / "incoming")),
            command(root, "status after the merge", "status"),
        ]
        size = sum(file.stat().st_size for file in islice(store.folder.iterdir(), 1000)) / 1000
        content = {
            "environment": devices.environment(devices.choose("cpu")),
            "records": given.records,
            "of_the_profile": len(specs),
            "incoming": given.incoming,
            "bytes_of_a_record": round(size),
            "busy": os.getloadavg()[0],  # processes that wanted a core meanwhile
            "found": [asdict(it) for it in found],
        }
    (RESULTS / "long_campaign.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
