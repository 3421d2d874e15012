"""What a forward pass is handed instead of drawing it: dropout masks, and noise.

Each mask is drawn by (seed, "dropout", step), each noise by its own name, so a run draws
alike alone and in a pack, and a checkpoint needs no generator state.
"""

from torch import Tensor, nn


class Masks:
    """The draws of one pass: `values` (sites, B, T, width), 1 for what is kept, of which
    each place where values are dropped takes the next; and `noise`, which the released LSTM
    starts from (layers, 2, B, width)."""

    def __init__(self, p: float) -> None:
        self.p = p
        self.values: Tensor | None = None  # None: nothing is dropped
        self.noise: Tensor | None = None
        self.next = 0  # and, after a pass, the number of places

    def begin(self, values: Tensor | None, noise: Tensor | None = None) -> None:
        """Start a forward pass."""
        self.values = values
        self.noise = noise
        self.next = 0

    def end(self) -> None:
        """Keep nothing of a pass but the number of its places."""
        self.values = None
        self.noise = None

    def take(self) -> Tensor | None:
        """What the next place multiplies with, (B, T, width); None: nothing is dropped."""
        site = self.next
        self.next += 1
        return None if self.values is None else self.values[site] * (1 / (1 - self.p))

    def drop(self, x: Tensor) -> Tensor:
        """(B, T, width) with values dropped, the others scaled."""
        kept = self.take()
        return x if kept is None else x * kept[:, : x.shape[1]].to(x.dtype)


class Dropout(nn.Module):
    """A place where values are dropped."""

    def __init__(self, masks: Masks) -> None:
        super().__init__()
        self.masks = masks

    def forward(self, x: Tensor) -> Tensor:
        return self.masks.drop(x)


class Body(nn.Module):
    """What is frozen: vectors (B, T, width) to vectors, causal or not. `state_names` has
    the name of each parameter in checkpoints and draws of this project by its name here."""

    noisy_layers = 0  # layers that start from noise

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.masks = Masks(dropout)

    @property
    def state_names(self) -> dict[str, str]:
        return {name: name for name, _ in self.named_parameters()}

    def attend(self, how: str) -> None:
        """Let its attention be `fused` or `plain`, if that makes a difference."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """(B, T, width) -> (B, T, width). `real` (B, T) is False for padding."""
        return x
