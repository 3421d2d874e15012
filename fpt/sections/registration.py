"""The registration of the lab's claims: what is claimed, how it is tested, on how many backbones.

It lies in registration.yaml beside this file. The seeds of every reported run follow from the
digest of that file, so no reported run can be older than it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..files import read_yaml

FILE = Path(__file__).with_name("registration.yaml")


@cache
def registration() -> Mapping[str, Any]:
    """The content of registration.yaml."""
    found: Mapping[str, Any] = read_yaml(FILE)
    return found


@cache
def deviations() -> Sequence[Mapping[str, Any]]:
    """What was done otherwise than registered: `date`, `because`, and the claims `withdrawn`."""
    found: Sequence[Mapping[str, Any]] = read_yaml(FILE.with_name("deviations.yaml"))
    return found


@cache
def digest() -> str:
    """SHA-256 of registration.yaml, whose line ends may be those of Windows."""
    return hashlib.sha256(FILE.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def registered_seeds(count: int) -> list[int]:
    """The first `count` seeds that follow from the registration, each below 2^31; more of them
    begin with fewer."""
    return [_seed(index) for index in range(count)]


def _seed(index: int) -> int:
    drawn = hashlib.sha256(f"{digest()}/{index}".encode()).digest()
    return int.from_bytes(drawn[:4], "big") >> 1
