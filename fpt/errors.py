"""The one exception that users see, and the sentences about a name that is not known."""

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

SHOWN = 30  # names that a sentence lists at most; else it gives those most like the mistake


class FptError(Exception):
    """A mistake the user can correct, told in one sentence.

    The sentence names what was given, what is allowed, and what to do. The command line
    prints it and exits with status 2; nothing has been written when it is raised.
    """


def check_names(place: str, names: Iterable[Any], allowed: Iterable[Any]) -> None:
    """FptError for the first of the `names`, written at `place`, that is not `allowed`,
    with the nearest that are."""
    allowed = list(allowed)
    for name in names:
        if name not in allowed:
            raise FptError(f"{place}: {name!r} is not known{instead(name, allowed)}.")


def instead(mistyped: Any, names: Iterable[Any]) -> str:
    """What to write in place of a `mistyped` name, as the end of a sentence."""
    name = str(mistyped)
    allowed = [str(allowed_name) for allowed_name in names]
    if len(allowed) > SHOWN:
        near = get_close_matches(name, allowed, n=5, cutoff=0)
        return f"; the nearest of {len(allowed)} names are {', '.join(near)}"
    near = get_close_matches(name, allowed, n=2)
    guess = f" (did you mean {' or '.join(near)}?)" if near else ""
    return f"{guess}; allowed are {', '.join(allowed) or 'none'}"


def check_free(kind: str, name: str, taken: Container[str]) -> None:
    """FptError if `name` is among those `taken` by others of its `kind`."""
    if name in taken:
        raise FptError(
            f"The {kind} {name!r} exists already; register yours by another name."
        )


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Put the place `where` in front of an FptError that the block raises."""
    try:
        yield
    except FptError as error:
        raise FptError(f"{where}: {error}") from error
