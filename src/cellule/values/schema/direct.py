"""Which records msgspec may read directly, and how its silence about unknown fields is made up for.

msgspec converts a record in C up to twice as fast as generated code, but drops fields it does not know.
Since all required fields are there after a conversion, a record holds an unknown field exactly if it has
more entries than required fields and known optional ones.

Rejected: a strict twin of the user's class (forbid_unknown_fields). Its objects would be of another class.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cellule.values.schema.shape import (
    ABSENT,
    MapShape,
    OptionShape,
    RecordShape,
    ScalarShape,
    SequenceShape,
    SetShape,
    Shape,
    TupleShape,
    UnionShape,
)
from cellule.values.schema.source import Source, indented

_DIRECT_KINDS = frozenset({"bool", "int", "float", "text", "bytes", "literal"})
_CONSTANT_KINDS = frozenset({"bool", "int", "text", "literal"})
_ANEW_KINDS = frozenset({"bool", "int", "text", "literal", "datetime", "timedelta"})


class Counts:
    """Writes the checks that msgspec leaves out: counts of fields, and bytes that must not be base64 text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.needing: dict[int, bool] = {}

    def lines(self, shape: Shape, variable: str, otherwise: str, level: int) -> list[str]:
        """Write the checks of a whole converted tree; `otherwise` is done where one fails."""
        inner = f"x{level}"
        match shape:
            case SequenceShape(item=item) | MapShape(value=item):
                values = f"{variable}.values()" if isinstance(shape, MapShape) else variable
                lines = self._parts(item, inner, otherwise, level)
                return [f"for {inner} in {values}:", *indented(lines)] if lines else []
            case OptionShape(item=item):
                lines = self._parts(item, variable, otherwise, level)
                return [f"if {variable} is not None:", *indented(lines)] if lines else []
            case TupleShape(items=items):
                lines = []
                for index, item in enumerate(items):
                    part = self._parts(item, inner, otherwise, level)
                    lines += [f"{inner} = {variable}[{index}]", *part] if part else []
                return lines
            case RecordShape():
                return self._record(shape, variable, otherwise, level)
            case ScalarShape(kind="bytes"):
                return [f"if {variable}.__class__ is not bytes: {otherwise}"]
            case _:
                return []

    def _parts(self, shape: Shape, variable: str, otherwise: str, level: int) -> list[str]:
        """Write checks one level down: in line for leaves, by a call for records that hold more to check."""
        if isinstance(shape, RecordShape) and any(self._needs_checks(field.shape) for field in shape.fields):
            counted = self.source.function("counted", shape, self._counted)
            return [f"if not {counted}({variable}): {otherwise}"]
        return self.lines(shape, variable, otherwise, level + 1)

    def _needs_checks(self, shape: Shape) -> bool:
        match shape:
            case SequenceShape(item=item) | OptionShape(item=item) | MapShape(value=item):
                return self._needs_checks(item)
            case TupleShape(items=items):
                return any(self._needs_checks(item) for item in items)
            case RecordShape():
                if id(shape) not in self.needing:
                    self.needing[id(shape)] = not _forbids_unknown(shape.python) or any(
                        self._needs_checks(field.shape) for field in shape.fields
                    )
                return self.needing[id(shape)]
            case _:
                return isinstance(shape, ScalarShape) and shape.kind == "bytes"

    def _counted(self, shape: Shape, _name: str) -> list[str]:
        return [*self.lines(shape, "v", "return False", 0), "return True"]

    def _record(self, shape: RecordShape, variable: str, otherwise: str, level: int) -> list[str]:
        inner = f"x{level}"
        required = sum(not field.is_optional for field in shape.fields)
        present = [f"({field.wire!r} in {variable})" for field in shape.fields if field.is_optional]
        lines = []
        if not _forbids_unknown(shape.python):
            lines.append(f"if len({variable}) != {' + '.join([str(required), *present])}: {otherwise}")
        for field in shape.fields:
            part = self._parts(field.shape, inner, otherwise, level)
            if not part:
                continue
            if not field.is_optional:
                lines += [f"{inner} = {variable}[{field.wire!r}]", *part]
                continue
            lines += [
                f"{inner} = {variable}.get({field.wire!r})",
                f"if {inner} is not None:",
                *indented(part),
            ]
        return lines


def is_direct(shape: Shape, known: dict[int, bool]) -> bool:
    """Whether msgspec reads this shape exactly as the generated code does, apart from `Counts`.

    Recursive records do not: their checks are written out level by level. `known` remembers records.
    """
    match shape:
        case ScalarShape(kind="enum", python=python):
            return "_missing_" not in vars(python)
        case ScalarShape(kind=kind):
            return kind in _DIRECT_KINDS
        case SequenceShape(item=item) | OptionShape(item=item):
            return is_direct(item, known)
        case TupleShape(items=items):
            return all(is_direct(item, known) for item in items)
        case MapShape(key=key, value=value):
            return isinstance(key, ScalarShape) and key.kind == "text" and is_direct(value, known)
        case RecordShape():
            if id(shape) not in known:
                known[id(shape)] = False  # what is met again while it is looked at, is recursive
                known[id(shape)] = _is_direct_record(shape, known)
            return known[id(shape)]
        case SetShape() | UnionShape():
            return False


def plain_class(shape: Shape) -> type | None:
    """The class whose verified bytes libipld and msgspec read exactly, with nothing to check; else None."""
    if not isinstance(shape, RecordShape) or not is_direct(shape, {}) or holds_bytes(shape):
        return None
    return shape.python


def holds_bytes(shape: Shape) -> bool:
    """Whether a direct shape has byte strings in it, which take a check of their own."""
    match shape:
        case SequenceShape(item=item) | OptionShape(item=item) | MapShape(value=item):
            return holds_bytes(item)
        case TupleShape(items=items):
            return any(holds_bytes(item) for item in items)
        case RecordShape():
            return any(holds_bytes(field.shape) for field in shape.fields)
        case _:
            return isinstance(shape, ScalarShape) and shape.kind == "bytes"


def is_made_anew(shape: Shape) -> bool:
    """Whether the wire value of an object shares nothing with it that can change, and is what is read back.

    Lists and maps may be the object's own; -0.0 is read back as 0.0, and byte strings are told from links
    only by reading.
    """
    return _is_made_anew(shape, set())


def _is_made_anew(shape: Shape, above: set[int]) -> bool:
    match shape:
        case ScalarShape(kind=kind):
            return kind in _ANEW_KINDS
        case OptionShape(item=item):
            return _is_made_anew(item, above)
        case TupleShape(items=items):
            return all(_is_made_anew(item, above) for item in items)
        case RecordShape():
            if shape.is_mapping or id(shape) in above:  # a recursive record may nest too deep
                return False
            return all(_is_made_anew(field.shape, above | {id(shape)}) for field in shape.fields)
        case _:
            return False


def is_constant(shape: Shape) -> bool:
    """Whether nothing in a value can change, and one that was encoded is all the same as the one read back.

    Frozen records of exact scalars and tuples are; a float is not, as -0.0 is read back as 0.0.
    """
    match shape:
        case ScalarShape(kind=kind):
            return kind in _CONSTANT_KINDS
        case OptionShape(item=item):
            return is_constant(item)
        case TupleShape(items=items):
            return all(is_constant(item) for item in items)
        case RecordShape():
            return (
                is_direct(shape, {}) and issubclass(shape.python, msgspec.Struct)
                and shape.python.__struct_config__.frozen and "__dict__" not in dir(shape.python)
                and all(is_constant(field.shape) for field in shape.fields)
            )  # fmt: skip
        case _:
            return False


def _is_direct_record(shape: RecordShape, known: dict[int, bool]) -> bool:
    if shape.is_mapping or not _is_plain_class(shape.python):
        return False
    if any(field.nullable and field.default is ABSENT for field in shape.fields):
        return False
    return all(is_direct(field.shape, known) for field in shape.fields) and _is_accepted(shape.annotation)


def _is_plain_class(python: type) -> bool:
    """Whether this is a struct read from an untagged map, without code of its own that could raise anything.

    Dataclasses are faster made by their own class.
    """
    if not issubclass(python, msgspec.Struct) or hasattr(python, "__post_init__"):
        return False
    return not python.__struct_config__.array_like and python.__struct_config__.tag is None


def _forbids_unknown(python: type) -> bool:
    return issubclass(python, msgspec.Struct) and bool(python.__struct_config__.forbid_unknown_fields)


def _is_accepted(annotation: Any) -> bool:
    """Ask msgspec whether it can read this class at all; null is refused by validation if it can."""
    try:
        msgspec.convert(None, annotation)
    except msgspec.ValidationError:
        return True
    except Exception:  # noqa: BLE001 - msgspec raises many kinds for types it does not take; all mean the same here
        return False
    return False
