"""What every refusal has in common, for the tests of bad input."""

import re

import pytest

from fpt.errors import FptError


def refusal(action):
    """The one sentence with which `action` is refused."""
    with pytest.raises(FptError) as caught:
        action()
    return one_sentence(str(caught.value))


def refuses(action, *parts):
    """Check that `action` is refused in one sentence that has all `parts`."""
    check_said(refusal(action), parts)


def one_sentence(text):
    assert re.fullmatch(r"[^\n]+[^.\n][)]?\.", text), text
    return text


def check_said(text, parts):
    assert [part for part in parts if part not in text] == [], text
