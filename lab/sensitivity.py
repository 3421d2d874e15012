"""The exploratory runs beside the registered ones (fpt/sections/sensitivity.yaml).

`python -m lab.sensitivity` pretrains and trains what is missing on the CPU, one run at a time, and
goes on where it stopped. A backbone that is pretrained on another kind of processor than the
recorded one has other weights; its digest is in its records.
"""

from fpt.backbones.weights import find, local_folder
from fpt.claims import sensitivity
from fpt.files import FptError
from fpt.pretraining import metadata
from fpt.pretraining.ensure import pretrain
from fpt.pretraining.plans import plan_of
from fpt.training import sweep


def main() -> None:
    study = sensitivity.study()
    for run in study.missing():
        weights = run.spec.weights
        if weights is not None:
            try:
                find(weights)
            except FptError:
                pretrain(plan_of(weights), local_folder() / weights, compiled=True)
            metadata.keep(study.store.folder, {weights})
        sweep.run([run.spec], study.store, device="cpu", workers=1)
        print(f"{run.arm} on {run.task}, seed {run.spec.seed}: done", flush=True)


if __name__ == "__main__":
    main()
