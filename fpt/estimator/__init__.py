"""Frozen transformers for your own arrays, by scikit-learn's conventions."""

from .frozen import FrozenTransformer
from .patches import Patches

__all__ = ["FrozenTransformer", "Patches"]
