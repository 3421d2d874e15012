"""What attention dropout, which the released code has and this project leaves out, does to
training on Bit XOR: the mean training loss of paired runs, for docs/departures.md."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from scipy import stats
from torch.nn import functional

from fpt.config import load, make_spec
from fpt.records import Record, Store
from fpt.training.train import Job, train

SEEDS = range(10)
RELEASED = 0.1
SETTINGS = {"steps": 600, "eval_every": 50, "threshold": 0.0, "patience": 0, "dropout": 0.1}


def trained(seed: int) -> Record:
    """One run of the frozen pretrained arm on Bit XOR."""
    spec = make_spec(load("smoke"), "fpt", "bit-xor", seed, **SETTINGS)
    torch.manual_seed(seed)  # of the attention dropout; all else is keyed by the run
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "smoke" / "records")
        (record,) = train([spec], Job(store, device="cpu", cache=Path(folder) / "cache"))
    return record


def main() -> None:
    without = [trained(seed) for seed in SEEDS]
    attention = functional.scaled_dot_product_attention

    def dropping(*args, **options):
        """Attention that drops a share of its weights in training steps."""
        share = RELEASED if torch.is_grad_enabled() else 0.0
        return attention(*args, **options, dropout_p=share)

    functional.scaled_dot_product_attention = dropping
    with_dropout = [trained(seed) for seed in SEEDS]

    losses = [
        [np.mean([point["train_loss"] for point in record.curve]) for record in records]
        for records in (without, with_dropout)
    ]
    differences = np.subtract(losses[1], losses[0])
    low, high = stats.t.interval(0.95, len(SEEDS) - 1, differences.mean(), stats.sem(differences))
    least = min(record.metrics["test_accuracy"] for record in without + with_dropout)
    print(f"{differences.mean():+.3f} nats [{low:+.3f}, {high:+.3f}]; accuracies from {least:.1%}")


if __name__ == "__main__":
    main()
