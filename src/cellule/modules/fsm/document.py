"""A contract's YAML with the line of everything in it, and its problems, each with file, line and field.

Contracts are read as YAML nodes, not as plain values: a node knows its line, so that every complaint names
one. All problems are collected and raised as one `Rejected`, because an author mends a file in one go.
Keys and names are compared without regard to case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml

from cellule.errors import Rejected
from cellule.kernel.manifest.problems import near
from cellule.modules.fsm.limits import CONTRACT_BYTES_MAX, DEPTH_MAX, PARTS_MAX, PROBLEMS_MAX

_NULL: Final = "tag:yaml.org,2002:null"


class Problem(NamedTuple):
    """One problem of a contract."""

    line: int
    code: str
    field: str
    reason: str
    hint: str = ""


class Problems:
    """The problems of one file, in the order they are found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Problem] = []

    def add(self, code: str, part: Part, reason: str, hint: str = "") -> None:
        """Note what is wrong with a part."""
        self.note(code, part.line, part.field, reason, hint)

    def note(self, code: str, line: int, field: str, reason: str, hint: str = "") -> None:
        """Note what is wrong at a line."""
        if len(self.found) < PROBLEMS_MAX:
            self.found.append(Problem(line, f"fsm.{code}", field, reason, hint))

    def check_none(self) -> None:
        """Raise `Rejected` with all problems, if there is any."""
        if not self.found:
            return
        first, *rest = self.found
        more = "".join(f"; line {each.line}: {each.field}: {each.reason}" for each in rest)
        raise Rejected(
            first.code, "{file}, line {line}: {field}: {reason}{more}",
            file=self.file, line=first.line, field=first.field, reason=first.reason, more=more,
            problems=[tuple(each) for each in self.found], hint=first.hint,
        )  # fmt: skip


class Part(NamedTuple):
    """One value of a contract and where it stands."""

    node: yaml.Node
    field: str
    problems: Problems

    @property
    def line(self) -> int:
        """The line it begins in, counted from 1."""
        return int(self.node.start_mark.line) + 1

    def below(self, node: yaml.Node, step: str | int) -> Part:
        """A part of this one."""
        name = f"{self.field}[{step}]" if isinstance(step, int) else f"{self.field}.{step}".lstrip(".")
        return Part(node, name, self.problems)

    def map(self, known: Mapping[str, str] | None = None) -> dict[str, Part]:
        """The entries of a map, by the names in `known` (aliases lead to them), or by any names."""
        if not isinstance(self.node, yaml.MappingNode):
            self.wrong("a map")
            return {}
        found: dict[str, Part] = {}
        for key, value in self.node.value:
            written = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            name = written if known is None else known.get(written.lower(), "")
            part = self.below(value, written)._replace(node=value)
            at = int(key.start_mark.line) + 1
            if not name:
                hint = (
                    near(written, known or ())
                    or f"There are: {', '.join(dict.fromkeys((known or {}).values()))}."
                )
                self.problems.note("field", at, part.field, f"there is no field {written!r} here", hint)
            elif name in found:
                self.problems.note("field", at, part.field, "it stands here twice", "Take one of them out.")
            elif not (isinstance(value, yaml.ScalarNode) and value.tag == _NULL and known is not None):
                found[name] = part
        return found

    def items(self, count_max: int, what: str) -> Iterator[Part]:
        """The entries of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.wrong("a list")
            return
        if len(self.node.value) > count_max:
            self.problems.add("field", self, f"it has {len(self.node.value)} {what}; at most {count_max}")
            return
        for at, node in enumerate(self.node.value):
            yield self.below(node, at)

    def text(self) -> str:
        """A text; numbers and words without quotes are taken as they are written."""
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value.strip():
            self.wrong("text")
            return ""
        return str(self.node.value).strip()

    def flag(self) -> bool:
        """True or false."""
        found = self.plain()
        if type(found) is not bool:
            self.wrong("true or false")
        return found is True

    @property
    def is_map(self) -> bool:
        """Whether it is a map."""
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.node, yaml.SequenceNode)

    def plain(self) -> Any:
        """The plain value."""
        left = [PARTS_MAX]
        return self._plain(self.node, DEPTH_MAX, left)

    def _plain(self, node: yaml.Node, depth: int, left: list[int]) -> Any:
        left[0] -= 1
        if depth < 0 or left[0] < 0:
            if left[0] == -1 or depth < 0:
                self.problems.add(
                    "field", self, f"it holds more than {PARTS_MAX} values, or nests too deeply"
                )
            return None
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(each, depth - 1, left) for each in node.value]
        if isinstance(node, yaml.MappingNode):
            return {str(key.value): self._plain(each, depth - 1, left) for key, each in node.value}
        try:
            return _Scalars("").construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError) as error:
            self.wrong(f"a plain value ({' '.join(str(error).split())})")
            return None

    def wrong(self, wanted: str) -> None:
        """Note that something else is needed here."""
        found = {"MappingNode": "a map", "SequenceNode": "a list"}.get(type(self.node).__name__)
        shown = found or repr(str(self.node.value)[:60])
        self.problems.add("field", self, f"{wanted} is needed here, not {shown}")


class _Scalars(yaml.SafeLoader):
    """Safe YAML without times: they would be values that JSON does not have."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the library's own form
        first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(data: bytes, file: str) -> Part:
    """The root of a YAML file; raises `Rejected` naming the line of what is no YAML."""
    problems = Problems(file)
    if len(data) > CONTRACT_BYTES_MAX:
        problems.note("syntax", 1, "file", f"it has {len(data)} bytes; at most {CONTRACT_BYTES_MAX}")
        problems.check_none()
    node: yaml.Node | None = None
    try:
        node = yaml.compose(data.decode("utf-8"), _Scalars)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        problems.note("syntax", line, "file", "it is not UTF-8", "Save the file as UTF-8.")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        problems.note("syntax", line, "file", f"it is no YAML: {error.problem or error.context}")
    except (yaml.YAMLError, RecursionError) as error:
        problems.note("syntax", 1, "file", f"it is no YAML: {' '.join(str(error).split())[:200]}")
    if node is None and not problems.found:
        problems.note("syntax", 1, "file", "it is empty")
    problems.check_none()
    assert node is not None
    return Part(node, "", problems)
