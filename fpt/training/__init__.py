"""Training: packs of runs on one frozen backbone, the loop, checkpoints, sweeps and
devices."""
