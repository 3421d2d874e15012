"""YAML as the project reads it: plain values, and a key that stands twice is an error."""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from .files import FptError, content_of, reason

# The same language, read ten times as fast where PyYAML has its C part.
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What is taken for a number or a truth value, with its first letters. YAML 1.1, which PyYAML reads,
# also takes 010 for 8, 1:30 for 90 and yes for true; here these are text, which no number may be.
PLAIN = {
    int: (r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    float: (
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    bool: ("true|True|TRUE|false|False|FALSE", "tTfF"),
}
TAGS = {kind: f"tag:yaml.org,2002:{kind.__name__}" for kind in PLAIN}
DEEPEST = 20  # levels of nesting; no file of the project has half as many


class StrictLoader(Loader):
    """PyYAML keeps the last of two equal keys in silence; in a file of numbers that hides one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # PyYAML says so
            if key in seen:
                line = key_node.start_mark.line + 1
                raise FptError(f"The key {key!r} stands twice, again in line {line}; remove one.")
            seen.add(key)
        return super().construct_mapping(node, deep)


StrictLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in found if tag not in TAGS.values()]
    for letter, found in Loader.yaml_implicit_resolvers.items()
}
for _kind, (_pattern, _letters) in PLAIN.items():
    StrictLoader.add_implicit_resolver(TAGS[_kind], re.compile(f"^({_pattern})$"), list(_letters))


def is_quoted(text: str, kind: type) -> bool:
    """Whether `text`, read from a file, would be a number or truth value of `kind` but for its
    quotes."""
    kinds = (int, float) if kind is float else (kind,)
    return any(re.fullmatch(PLAIN[it][0], text) for it in kinds)


def check_events(path: Path, text: str) -> None:
    """FptError for an alias of what has aliases itself, by which a few lines can stand for
    billions, and for nesting so deep that it would exhaust the stack of PyYAML's C part, which
    ends the process."""
    anchored: list[bool] = []  # of each collection around the event
    for event in yaml.parse(text, Loader=Loader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.CollectionStartEvent):
            anchored.append(event.anchor is not None)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchored.pop()
        elif isinstance(event, yaml.AliasEvent) and any(anchored):
            raise FptError(
                f"{path}: line {line} has the alias *{event.anchor} inside what has an anchor "
                "itself; write out what it stands for."
            )
        if len(anchored) > DEEPEST:
            raise FptError(f"{path}: line {line} is nested more than {DEEPEST} levels deep.")


def read_yaml(path: Path) -> Any:
    """The content of `path`; FileNotFoundError or NotADirectoryError where it is missing, FptError
    for what cannot be read, or is not UTF-8 or not YAML."""
    try:
        content = content_of(path)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (ValueError, OSError) as error:
        raise FptError(
            f"Cannot read {path}: {reason(error)}; a file of YAML is expected there."
        ) from error
    try:
        text = content.decode()
        check_events(path, text)
        return yaml.load(text, Loader=StrictLoader)
    # Beside its own errors, PyYAML lets those of a scalar through that does not fit its tag.
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise FptError(f"{path} is not valid YAML: {_said(error)}.") from error


def _said(error: Exception) -> str:
    """What is wrong, with the line where PyYAML knows it."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem and error.problem_mark:
        return f"{error.problem} (line {error.problem_mark.line + 1})"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
