"""What every test and every notebook under test runs under: one thread, no network, no window
system, and a copy of tests/project instead of the checkout, whose parameters, records and data are
the user's."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OWN = ("FPT_BACKBONES", "FPT_CORPORA", "FPT_STAGED")  # of the user
NOT_COMPARED = ("text/html", "text/markdown")  # of outputs: the same is there as plain text


def pytest_configure(config: pytest.Config) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["MPLBACKEND"] = "Agg"
    os.environ["TQDM_DISABLE"] = "1"  # or a notebook's bars are outputs
    os.environ["FPT_EXAMPLES"] = "small"  # the size of the audits in examples/
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if "PYTEST_XDIST_WORKER" in os.environ:  # has the environment of the process that began it
        return
    for name in OWN:
        os.environ.pop(name, None)
    folder = tempfile.TemporaryDirectory(prefix="fpt-")
    config.add_cleanup(folder.cleanup)
    os.environ["HF_HUB_CACHE"] = folder.name
    root = shutil.copytree(HERE / "tests/project", f"{folder.name}/project")
    # Notebooks show the committed records; a reader's own would change what they show.
    own = shutil.ignore_patterns("own", "none")
    sealed = HERE / "reports/experiments"
    shutil.copytree(sealed, f"{root}/reports/experiments", ignore=own)
    os.environ["FPT_ROOT"] = root


def pytest_collectstart(collector: pytest.Collector) -> None:
    if collector.path.suffix == ".ipynb":
        collector.skip_compare += NOT_COMPARED  # type: ignore[attr-defined]
