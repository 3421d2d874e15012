"""The limits of sequences (`Sequences.limits`): in words, of two sets, and what lies beyond
them."""

from collections.abc import Mapping
from typing import Any

from .arrays import InputError


def described(limits: Mapping[str, Any]) -> str:
    """`Sequences.limits` in words, such as "sequences of 4 to 26 vectors of 12 numbers"."""
    count = f"{limits['length']}"
    if limits["shortest"] < limits["length"]:
        count = f"{limits['shortest']} to {count}"
    if limits["kind"] == "token":
        return f"sequences of {count} symbols, whole numbers from 0 to {limits['dim'] - 1}"
    numbers = "1 number" if limits["dim"] == 1 else f"{limits['dim']} numbers"
    return f"sequences of {count} vectors of {numbers}"


def check_same(limits: Mapping[str, Any], fitted: Mapping[str, Any]) -> None:
    """InputError for `Sequences.limits` of another kind or width than those of the fit.
    Sequences may be longer, and have other symbols."""
    is_same = limits["kind"] == fitted["kind"]
    if limits["kind"] == "vector":
        is_same &= limits["dim"] == fitted["dim"]
    if not is_same:
        raise InputError(f"X has {described(limits)}; the fit had {described(fitted)}.")


def both(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The `Sequences.limits` of two sets of sequences of one kind."""
    largest = {name: max(first[name], second[name]) for name in ("dim", "length")}
    shortest = min(first["shortest"], second["shortest"])
    return {"kind": first["kind"], **largest, "shortest": shortest}


def check_length(length: int, backbone: str, most: int) -> None:
    """InputError for sequences of `length` tokens if a backbone takes `most` (0: any
    number)."""
    if most and length > most:
        raise InputError(
            f"X has sequences of {length} tokens, and backbone {backbone!r} takes at most "
            f"{most}; shorten them, or take a backbone with more positions."
        )
