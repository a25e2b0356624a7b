"""Files of plans, JSON or YAML, and the lines on which their problems stand.

A problem names its place by steps and fields; the line is found by walking the file's own tree the same way,
as far as it goes, so an error points to the deepest thing that is there. JSON is read as the YAML it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from cellule.errors import Rejected
from cellule.modules.plan.limits import DOCUMENT_NODES_MAX, FILE_BYTES_MAX
from cellule.values.limits import DEPTH_MAX

_PARTS: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_NAMES: Final = ("id", "name")


class PlanFile:
    """The text of a file that holds a plan, at the place `within` of it."""

    def __init__(self, path: Path, within: Sequence[str] = ()) -> None:
        self.path = path
        self._within = tuple(within)
        try:
            data = path.read_bytes()
            if len(data) > FILE_BYTES_MAX:
                raise ValueError(f"it has {len(data)} bytes; at most {FILE_BYTES_MAX}")
            self._text = data.decode()
            self._tree = yaml.compose(self._text, yaml.SafeLoader)
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            raise _unreadable(path, " ".join(str(error).split())) from error

    def document(self) -> Mapping[str, Any]:
        """What stands in the file."""
        try:
            found = bounded(yaml.safe_load(self._text))
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            raise _unreadable(self.path, " ".join(str(error).split())) from error
        if not isinstance(found, dict):
            raise _unreadable(self.path, "a map with `steps` is needed")
        return found

    def line(self, place: str) -> int:
        """The line of a place such as `steps[2].params.record.cents`."""
        return line_of(self._tree, (*self._within, *_parts(place)))

    def place(self, path: str) -> str:
        """A place as messages name it."""
        return f"{self.path.name}, line {self.line(path)}, {path}"

    def located(self, error: Rejected) -> Rejected:
        """The same problems, each with the file and its line."""
        found: Any = error.fields["problems"]
        problems = [(str(path), str(text)) for path, text in found]
        told = [f"{self.place(path)}: {text}" for path, text in problems]
        return Rejected(
            "plan.invalid", "plan {plan}: {told}", plan=error.fields["plan"], told="; ".join(told),
            file=str(self.path), line=self.line(problems[0][0]), path=problems[0][0], problems=problems,
            hint=str(error.fields.get("hint", "")),
        )  # fmt: skip


def bounded(document: Any) -> Any:
    """The same document; `ValueError` where its aliases say more than a file may, or it nests too deep.

    An alias costs a word, and what it stands for as much as it likes: aliases of aliases, or of what they are
    in, never end.
    """
    waiting, count = [(document, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if depth > DEPTH_MAX or count > DOCUMENT_NODES_MAX:
            raise ValueError(
                f"it nests more than {DEPTH_MAX} levels, or has over {DOCUMENT_NODES_MAX} values"
            )
        if isinstance(value, dict):
            waiting += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list | tuple | set):
            waiting += [(each, depth + 1) for each in value]
    return document


def line_of(node: Any, parts: Iterable[str | int]) -> int:
    """The line of what stands at a path in a composed tree, as far as the path goes."""
    line = 1
    for part in parts:
        found = _entry(node, part)
        if found is None:
            break
        line, node = found
    return line


def _parts(place: str) -> list[str | int]:
    return [int(at) if at else name for at, name in _PARTS.findall(place)]


def _entry(node: Any, part: str | int) -> tuple[int, Any] | None:
    """The line and the node of an entry; an item of a list is found by its id or name, too."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode):
        if isinstance(part, int):
            items = node.value[part : part + 1]
        else:
            items = [item for item in node.value if _name(item) == part]
        for item in items[:1]:
            return item.start_mark.line + 1, item
    return None


def _name(item: Any) -> str | None:
    if not isinstance(item, yaml.MappingNode):
        return None
    return next((str(value.value) for key, value in item.value if key.value in _NAMES), None)


def _unreadable(path: Path, why: object) -> Rejected:
    return Rejected(
        "plan.file", "the plan {file} cannot be read: {why}", file=str(path), why=why,
        hint="A plan is JSON or YAML with `steps`; docs/formats/plans.md shows one.",
    )  # fmt: skip
