"""YAML as the project reads it: a key that stands twice is an error."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from .errors import FptError

# The same language, read ten times as fast where PyYAML has its C part.
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class StrictLoader(Loader):
    """PyYAML keeps the last of two equal keys in silence; in a file of numbers that hides one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise FptError(f"The key {key!r} stands twice, again in line {line}; remove one.")
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The content of `path`; FptError for what is not YAML."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=StrictLoader)
    except yaml.YAMLError as error:
        raise FptError(f"{path} is not valid YAML: {str(error).splitlines()[0]}.") from error
