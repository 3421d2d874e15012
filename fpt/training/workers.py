"""Packs side by side: calls in processes of this machine, which end with this one."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from ..errors import FptError

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result as the calls end: in this process for one worker,
    else in `workers` others, which share its threads. FptError if one of them dies."""
    workers = min(workers, len(items))
    if workers <= 1:
        yield from ((item, function(item)) for item in items)
        return
    # Needed only here, so that training on a GPU needs no joblib.
    from joblib.externals.loky import as_completed, get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # Small steps gain nothing from threads, so packs side by side come first.
    threads = max(1, min(torch.get_num_threads(), cores() // workers))
    pool = get_reusable_executor(
        workers, initializer=begin_worker, initargs=(os.getpid(), threads)
    )
    running = {pool.submit(function, item): item for item in items}
    try:
        for ended in as_completed(list(running)):
            yield running.pop(ended), ended.result()
    except TerminatedWorkerError as error:
        raise FptError(
            "A worker died, killed or out of memory (fewer --workers need less); what is "
            "recorded stays, so run again."
        ) from error
    finally:
        if running:
            pool.shutdown(kill_workers=True)


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def begin_worker(parent: int, threads: int) -> None:
    """Prepare a worker: it exits when its parent dies, and leaves Ctrl-C to it."""
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        # The operating system gives an orphan another parent.
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
