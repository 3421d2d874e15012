"""Transformers from arrays to sequences, for scikit-learn's pipelines."""

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ..tasks.own.arrays import InputError, array


class Patches(TransformerMixin, BaseEstimator):
    """Images (N, H, W) or (N, H, W, C) as sequences of square patches, from left to right
    and from top to bottom: (N, H * W / size², size² * C). InputError if `size` does not
    divide H and W."""

    def __init__(self, size: int = 4) -> None:
        self.size = size

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is learned."""
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The patches of each image."""
        images = array("images", X)
        size = self.size
        if images.ndim not in (3, 4) or any(side % size for side in images.shape[1:3]):
            raise InputError(
                f"Images (N, H, W) or (N, H, W, C) whose sides are multiples of {size} can "
                f"be cut; X has shape {images.shape}."
            )
        count, height, width, *channels = images.shape
        numbers = size * math.prod(channels)  # of a row of pixels
        cut = images.reshape(count, height // size, size, width // size, numbers)
        return cut.swapaxes(2, 3).reshape(count, -1, size * numbers)

    def __sklearn_is_fitted__(self) -> bool:
        return True
