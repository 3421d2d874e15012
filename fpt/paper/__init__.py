"""The printed numbers of the paper and its companions, as data. `fpt.paper("T9")` is a
table."""

import sys
from types import ModuleType

import pandas as pd

from .reader import wide


class CallableModule(ModuleType):
    """This module, which a reader calls for a table (`fpt.paper.reader.wide`)."""

    def __call__(self, name: str) -> pd.DataFrame:
        return wide(name)


sys.modules[__name__].__class__ = CallableModule
