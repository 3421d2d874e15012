"""Transformers from arrays to sequences, for scikit-learn's pipelines."""

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ..tasks.own.arrays import InputError, array
from ..training.settings import check_value


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
        try:
            images = array("X", X)
        except InputError as error:
            raise InputError(f"{error} Images need one size: resize them first.") from error
        size = check_value("Patches.size", self.size, (int, 1, 10**6))
        if images.ndim not in (3, 4) or any(side % size for side in images.shape[1:3]):
            raise InputError(
                f"Images (N, H, W) or (N, H, W, C) whose sides are multiples of {size} can "
                f"be cut; X has shape {images.shape}."
            )
        count, height, width = images.shape[:3]
        numbers = math.prod(images.shape[3:])  # of a pixel
        cut = images.reshape(count, height // size, size, width // size, size * numbers)
        patches = cut.swapaxes(2, 3)
        return patches.reshape(count, height * width // size**2, size * size * numbers)

    def __sklearn_is_fitted__(self) -> bool:
        return True
