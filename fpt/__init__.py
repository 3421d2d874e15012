"""Pretrained transformers as universal computation engines, reproduced.

`fpt.section("transfer")` gives the runs that a section's tables need; its `train()` trains what is
missing, where the profile allows it, and its `frame()` is one tidy row per run.
"""

from .errors import FptError
from .section import Section, section

__all__ = ["FptError", "Section", "section"]
