"""Text for a body without a tokenizer: a token per UTF-8 byte, of one text or of two."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from .base import Example
from .datasets import load
from .sequences import SequenceTask, composition

SYMBOLS = 256  # no text has byte 0: it pads, and stands between two texts


@dataclass(frozen=True, kw_only=True, eq=False)
class TextTask(SequenceTask):
    """Arrays per split as in SequenceTask; `names` are the classes in words."""

    names: tuple[str, ...]

    def features(self, split: str) -> Tensor:
        """The bag of bytes."""
        return composition(load(self.dataset), split, self.dim)

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        texts = [text.decode("utf-8", "replace") for text in bytes(tokens).split(b"\0")]
        return Example(answer=self.names[label], text=" | ".join(texts))


def encode(text: str, other: str | None, length: int) -> np.ndarray:
    """The bytes of `text`, or of it, byte 0 and `other`: uint8, 1 to `length` of them. Of two that
    are too long together, each is cut to its half or to what the other leaves."""
    first = _bytes(text)
    if other is None:
        return np.frombuffer(first[:length], np.uint8)
    second, room = _bytes(other), length - 1
    first = first[: max(room // 2, room - len(second))]
    return np.frombuffer(first + b"\0" + second[: room - len(first)], np.uint8)


def _bytes(text: str) -> bytes:
    return text.replace("\0", " ").encode() or b" "
