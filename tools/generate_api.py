"""Writes `docs/reference/api.md`: every public name with its signature, what it is, and one example.

Names, signatures and words come from the code; the examples from `tools/api_examples.md`, which has a section
for each name. It refuses a public name without an example and an example without a name.

    python tools/generate_api.py            write the page
    python tools/generate_api.py --check    exit with 1 if the page is not current
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "reference" / "api.md"
EXAMPLES = ROOT / "tools" / "api_examples.md"
LINE_MAX = 100

PARTS = {
    "cellule": ("Public names of `cellule`", "Import them from `cellule`."),
    "cellule.host": (
        "Handles",
        "What an open node gives. They are not made by hand; `open_sync` gives the same without `await`.",
    ),
    "cellule.testing": ("Public names of `cellule.testing`", "Import them from `cellule.testing`."),
}
HANDLES = {
    "Cellule": "cellule.host.service",
    "WorldHandle": "cellule.host.ingress.handles",
    "CellHandle": "cellule.host.ingress.cell_handle",
    "Operator": "cellule.host.ingress.operator",
    "WorldStorage": "cellule.host.ingress.world_storage",
    "Heartbeat": "cellule.host.ingress.heartbeat",
    "Operations": "cellule.host.ingress.operations",
    "Sent": "cellule.host.inbox.sends",
    "Applied": "cellule.host.ingress.outcomes",
    "CellView": "cellule.host.ingress.outcomes",
    "CellPage": "cellule.host.read.cell_list",
    "ListedCell": "cellule.host.read.cell_list",
    "History": "cellule.host.read.history",
    "Version": "cellule.host.read.history",
}
INSIDE = {  # public for other parts of Cellule only
    "Sent": {"wake", "fail", "stopped_slot"},
    "DeterministicLoop": None,
    "FaultyEngine": {"read", "scan", "commit", "watch"},
}


class Undocumented(Exception):
    """A name lacks its example or its docstring, or an example its name."""


def subjects() -> Iterator[tuple[str, str, Any]]:
    """Each name with the part of the page it belongs to."""
    for module in ("cellule", "cellule.testing"):
        found = import_module(module)
        for name in found.__all__:
            if module == "cellule" and name in HANDLES:
                continue  # what an open node gives has a part of its own
            yield module, name, getattr(found, name)
        if module == "cellule":
            for name, home in HANDLES.items():
                yield "cellule.host", name, getattr(import_module(home), name)


def generate() -> str:
    """The whole page."""
    examples = _examples()
    lines = [HEADER, _setup(examples.pop("shop"))]
    part = ""
    for module, name, value in subjects():
        if module != part:
            part = module
            title, words = PARTS[module]
            lines += [f"## {title}", "", words, ""]
        example = examples.pop(f"{module}.{name}", None)
        if example is None:
            raise Undocumented(f"tools/api_examples.md has no section {module}.{name}")
        lines += [*entry(name, value), example, ""]
    if examples:
        raise Undocumented(f"tools/api_examples.md has examples of no public name: {sorted(examples)}")
    return "\n".join(lines).rstrip() + "\n"


def entry(name: str, value: Any) -> list[str]:
    """One name: its signature, its words, its members."""
    lines = [f"### {name}", "", "```py", signature(name, value), *members(name, value), "```", ""]
    words = inspect.getdoc(value)
    if not words:
        raise Undocumented(f"{name} has no docstring")
    return [*lines, words, ""]


def signature(name: str, value: Any) -> str:
    """How a name is called; of a constant, its type."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return f"class {name}: {', '.join(member.name for member in value)}"
    if isinstance(value, type):
        return f"class {_call(name, _fields(value))}"
    if callable(value):
        # A declared effect is an object that is called.
        function = value if inspect.isfunction(value) else type(value).__call__
        return _function(name, function, bound=function is not value)
    return f"{name}: {type(value).__name__}"


def _own_members(value: type) -> dict[str, Any]:
    """What a class has, and what it has from a base that no page names."""
    public = set(import_module("cellule").__all__)
    bases = [
        each
        for each in value.__mro__[1:]
        if each.__module__.startswith("cellule.modules.") and each.__name__ not in public
    ]
    return {name: member for base in (*bases, value) for name, member in vars(base).items()}


def members(name: str, value: Any) -> list[str]:
    """The methods and properties of a class that say what they do."""
    left_out = INSIDE.get(name, set())
    if not isinstance(value, type) or issubclass(value, enum.Enum) or left_out is None:
        return []
    lines = []
    for each, member in _own_members(value).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if each.startswith("_") or each in left_out or not inspect.getdoc(function):
            continue
        if isinstance(member, property) and member.fget is not None:
            lines.append(f"    {each}: {_annotation(inspect.signature(member.fget).return_annotation)}")
        elif inspect.isfunction(function):
            start = "async " if inspect.iscoroutinefunction(function) else ""
            text = _function(each, function, bound=not isinstance(member, staticmethod))
            lines.append("    " + (start + text).replace("\n", "\n    "))
    return lines


def _function(name: str, function: Callable[..., Any], *, bound: bool) -> str:
    found = inspect.signature(function)
    parameters = list(found.parameters.values())[1 if bound else 0 :]
    returned = _annotation(found.return_annotation)
    return f"{_call(name, _parameters(parameters))} -> {returned}"


def _fields(python: type) -> list[str]:
    """The parameters of a class, from its fields where it has some."""
    if issubclass(python, msgspec.Struct):
        return _struct_fields(python)
    if dataclasses.is_dataclass(python):
        return [
            _parameter(field.name, field.type, _dataclass_default(field))
            for field in dataclasses.fields(python)
            if field.init
        ]
    if issubclass(python, tuple) and hasattr(python, "_fields"):
        defaults = python._field_defaults
        hints = python.__annotations__
        return [_parameter(each, hints[each], defaults.get(each, _NONE)) for each in python._fields]
    if issubclass(python, list):
        return ["..."]
    return _parameters(list(inspect.signature(python.__init__).parameters.values())[1:])


def _struct_fields(python: type[msgspec.Struct]) -> list[str]:
    hints: dict[str, Any] = {}
    for base in reversed(python.__mro__):
        hints.update(vars(base).get("__annotations__", {}))
    fields = msgspec.structs.fields(python)
    positional = [field for field in fields if field.name in _positional(python)]
    named = [field for field in fields if field not in positional]
    rows = [_parameter(field.name, hints[field.name], _struct_default(field)) for field in positional]
    if named:
        rows += ["*"]
    return rows + [_parameter(field.name, hints[field.name], _struct_default(field)) for field in named]


def _positional(python: type[msgspec.Struct]) -> set[str]:
    kinds = inspect.signature(python).parameters.values()
    return {each.name for each in kinds if each.kind is not inspect.Parameter.KEYWORD_ONLY}


_NONE = object()


def _struct_default(field: Any) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return _NONE if field.default_factory is msgspec.NODEFAULT else ...


def _dataclass_default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return _NONE if field.default_factory is dataclasses.MISSING else ...


def _parameters(parameters: list[inspect.Parameter]) -> list[str]:
    """As they are written, with `/` and `*` where they stand."""
    rows: list[str] = []
    starred = False
    for position, each in enumerate(parameters):
        if each.kind is each.KEYWORD_ONLY and not starred:
            rows.append("*")
            starred = True
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        starred = starred or stars == "*"
        default = _NONE if each.default is each.empty else each.default
        rows.append(_parameter(stars + each.name, each.annotation, default))
        last = position + 1 == len(parameters) or parameters[position + 1].kind is not each.POSITIONAL_ONLY
        if each.kind is each.POSITIONAL_ONLY and last:
            rows.append("/")
    return rows


def _parameter(name: str, annotation: Any, default: Any) -> str:
    typed = name if annotation is inspect.Parameter.empty else f"{name}: {_annotation(annotation)}"
    if default is _NONE:
        return typed
    shown = default.name if isinstance(default, enum.Enum) else repr(default)
    plain = default is not ... and len(shown) <= 24 and not shown.startswith("<")
    return f"{typed} = {shown if plain else '...'}"


def _annotation(annotation: Any) -> str:
    """An annotation as it was written; names of modules are left out."""
    text = getattr(annotation, "__forward_arg__", annotation)
    if not isinstance(text, str):
        text = "None" if text is None else getattr(text, "__name__", str(text))
    return re.sub(r"\b(?:[a-z_]+\.)+([A-Za-z])", r"\1", text)


def _call(name: str, parameters: list[str]) -> str:
    line = f"{name}({', '.join(parameters)})"
    if len(line) <= LINE_MAX:
        return line
    rows = [""]
    for each in parameters:
        if len(rows[-1]) + len(each) > LINE_MAX - 6:
            rows.append("")
        rows[-1] += f"{each}, "
    inner = "\n".join(f"    {row.rstrip()}" for row in rows)
    return f"{name}(\n{inner}\n)"


HEADER = """# The Python API

Every public name, its signature, and one example. Written by `tools/generate_api.py` from the code and
`tools/api_examples.md`; do not edit. The guides tell how things are used together.
"""


def _setup(example: str) -> str:
    words = (
        "The examples share this app and these imports; blocks marked `python` run as they stand, in order."
    )
    return f"{words}\n\n{example}\n"


def _examples() -> dict[str, str]:
    parts = re.split(r"^## (\S+)\n", EXAMPLES.read_text(), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is not current")
    page = generate()
    if parser.parse_args().check:
        return int(page != TARGET.read_text())
    TARGET.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
