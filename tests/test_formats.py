"""Only safetensors, parquet, JSON, YAML and text are ever read: nothing in the package can run what
a file says, or unpack a file over others."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from fpt.files import PACKAGE

MODULES = {
    "pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "dbm", "marshal",
    "copyreg", "tarfile", "zipfile", "h5py", "pickletools", "jsonpickle", "codeop",
}  # fmt: skip
CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
# By the last names of what is called: torch.load, np.load, pd.read_pickle, yaml.unsafe_load, ...
METHODS = {
    "torch.load", "joblib.load", "np.load", "numpy.load", "np.fromfile", "yaml.full_load",
    "yaml.unsafe_load", "torch.jit.load", "torch.package", "torch.hub.load", "os.system",
    "shutil.unpack_archive",
}  # fmt: skip
ATTRIBUTES = {"read_pickle", "to_pickle", "extractall", "from_pretrained"}
KEYWORDS = {"allow_pickle", "weights_only", "trust_remote_code"}


def dotted(node: ast.AST) -> str:
    """`a.b.c` of a name or attribute, "" of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (above := dotted(node.value)):
        return f"{above}.{node.attr}"
    return ""


def forbidden(source: str) -> Iterator[str]:
    """What in the text of a module could deserialise anything but plain values."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.split(".")[0] in MODULES and not node.level:
                yield module
            names = [f"{module}.{alias.name}" for alias in node.names]
            yield from (name for name in names if name in METHODS)
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            last = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            keywords = {keyword.arg: dotted(keyword.value) for keyword in node.keywords}
            if name in CALLS | METHODS or last in ATTRIBUTES or KEYWORDS & set(keywords):
                yield name or last
            if name == "yaml.load" and keywords.get("Loader") != "UniqueKeyLoader":
                yield name


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_module_reads_another_format(path: Path) -> None:
    assert list(forbidden(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from pickle import loads", "import cloudpickle as json",
        "from zipfile import ZipFile", "torch.load(path)", "from torch import load",
        "yaml.load(text, Loader=yaml.Loader)", "yaml.load(text)", "pd.read_pickle(path)", "eval(x)",
        "np.lib.format.read_array(file, allow_pickle=True)", "archive.open(x).extractall(folder)",
        "shutil.unpack_archive(path)", "GPT2Model.from_pretrained(folder)", "__import__(name)",
    ],
)  # fmt: skip
def test_what_would_be_found(text: str) -> None:
    assert list(forbidden(f"def f():\n    {text}\n"))


def test_no_pickle_lies_in_the_package() -> None:
    kinds = {path.suffix for path in PACKAGE.rglob("*") if path.is_file()} - {".pyc"}
    assert kinds <= {".py", ".yaml", ".json", ".safetensors", ".md", ".typed"}
