"""Generated colour images: one of ten shapes, anywhere, in any colours. Integer arithmetic only."""

import numpy as np

SIDE = 32
SHAPES = (
    "disc",
    "ring",
    "square",
    "frame",
    "triangle",
    "diamond",
    "plus",
    "cross",
    "bars",
    "stripes",
)


def _inside(kind: np.ndarray, x: np.ndarray, y: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Whether pixel offsets x, y (N, 32, 32) from the centre lie in the shape of radius r."""
    ax, ay, distance = abs(x), abs(y), x * x + y * y
    box = np.maximum(ax, ay) <= r
    thin = r // 3
    masks = [
        distance <= r * r,
        (distance <= r * r) & (2 * distance >= r * r),
        box,
        box & (np.maximum(ax, ay) > r - thin),
        (ay <= r) & (2 * ax <= r + y),
        ax + ay <= r,
        box & (np.minimum(ax, ay) <= thin // 2),
        box & (abs(ax - ay) <= thin // 2),
        box & ((ax <= thin // 2) | (ax >= r - thin // 2)),
        box & ((ay <= thin // 2) | (ay >= r - thin // 2)),
    ]
    return np.choose(kind, masks)


def draw_shapes(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` images (N, 32, 32, 3) uint8 and labels (N,) uint8.

    Position, size, colours of shape and ground, a shading of the ground and pixel noise vary, and
    shape and ground swap brightness at random, so that no fixed pixel tells the class.
    """
    rng = np.random.Generator(np.random.PCG64(seed))

    def draw(low: int, high: int, *shape: int) -> np.ndarray:
        return rng.integers(low, high, (count, *shape), dtype=np.int64)

    labels = draw(0, len(SHAPES))
    radius = draw(6, 11, 1, 1)
    centre_x, centre_y = draw(10, 22, 1, 1), draw(10, 22, 1, 1)
    column, row = np.arange(SIDE) - centre_x, np.arange(SIDE)[:, None] - centre_y
    column, row = np.broadcast_arrays(column, row)
    mask = _inside(labels[:, None, None], column, row, radius)[..., None]

    ground, contrast = draw(70, 186, 1, 1, 3), draw(30, 70, 1, 1, 3)
    sign = 2 * draw(0, 2, 1, 1, 3) - 1
    slope_x, slope_y = draw(-2, 3, 1, 1, 1), draw(-2, 3, 1, 1, 1)
    steps = np.arange(SIDE) - SIDE // 2
    shading = slope_x * steps[:, None] + slope_y * steps[:, None, None]
    image = ground + shading + mask * sign * contrast + draw(-15, 16, SIDE, SIDE, 3)
    return image.clip(0, 255).astype(np.uint8), labels.astype(np.uint8)
