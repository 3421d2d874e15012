"""What every refusal has in common, for the tests of bad input."""

import re
from collections.abc import Callable, Iterable

import pytest

from fpt.files import FptError


def refusal(action: Callable[[], object]) -> str:
    """The one sentence with which `action` is refused."""
    with pytest.raises(FptError) as caught:
        action()
    return one_sentence(str(caught.value))


def one_sentence(text: str) -> str:
    assert re.fullmatch(r"[^\n]+[^.\n][)]?\.", text), text
    return text


def check_said(text: str, parts: Iterable[str]) -> None:
    assert [part for part in parts if part not in text] == [], text
