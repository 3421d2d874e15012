"""Where things live, independent of the working directory.

papermill runs a notebook in the caller's directory, nbval in the notebook's own, so no path may be
relative. The root is the checkout that holds the package, or `FPT_ROOT` where the package is
installed apart from a checkout.
"""

import os
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
SHIPPED = PACKAGE / "shipped"  # weights that come with the package
ROOT = Path(os.environ.get("FPT_ROOT", PACKAGE.parent))
with suppress(FileNotFoundError):  # of the working directory: who reads a file says so
    ROOT = Path(os.path.realpath(ROOT))
DATA = ROOT / "data"
PREPARED = DATA / "prepared"
REPORTS = ROOT / "reports"
PARAMS = ROOT / "params.yaml"
CACHE = ROOT / ".cache"
NOTEBOOKS = ROOT / "notebooks"
