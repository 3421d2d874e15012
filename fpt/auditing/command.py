"""`fpt audit FILE`."""

import argparse
from pathlib import Path

from . import audit
from .data import read_file


def show(args: argparse.Namespace) -> None:
    """Audit the data in a file, print the verdict, and write the page and the numbers that
    are asked for."""
    X, y, groups = read_file(Path(args.file), args.target)
    if args.numbers:
        X = X * 1.0  # whole numbers would be symbols
    names = ("backbone", "minutes", "steps", "draws", "task", "device")
    result = audit(X, y, groups=groups, **{name: getattr(args, name) for name in names})
    print(result)
    if args.html:
        print(result.to_html(args.html))
    if args.json:
        print(result.to_json(args.json))
