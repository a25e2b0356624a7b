"""Writing Python source for codecs: names, shared objects, the statements of single values, compilation.

The generated functions contain exactly the checks their shape needs, in line: measured, they are twice as
fast as nested closures, and as msgspec in two passes (convert from attributes, then to_builtins). A field
costs about 40 ns. Each function takes one value and returns its other form; a `Fault` collects the path on
its way out, in handlers that cost nothing until something is wrong.

Rejected: msgspec for encoding. It does not look into objects of the right class, so a text in an int field
would be stored; through a second class it is checked, but drops the fields of subclasses without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cellule.values.link import Link
from cellule.values.schema import checks, order, scalars
from cellule.values.schema import fault as faults
from cellule.values.schema import types as t
from cellule.values.schema.fault import Fault, expected, key_segment, locate, mismatch
from cellule.values.schema.registry import Schemas
from cellule.values.schema.shape import ScalarShape, Shape

TESTS: dict[str, str] = {
    "unit": "{0} is not None",
    "bool": "{0}.__class__ is not bool",
    "int": "{0}.__class__ is not int",
    "text": "{0}.__class__ is not str",
    "bytes": "{0}.__class__ is not bytes",
    "float": "{0}.__class__ is not float or not {0}",
    "link": "{0}.__class__ is not Link",
    "any": "{0} is None",
}
"""Kinds that stay as they are, unless this test finds something to look at more closely."""

_LOOKERS: dict[str, str] = {
    "unit": "unit",
    "bool": "boolean",
    "int": "integer",
    "text": "text",
    "bytes": "octets",
    "float": "floating",
    "link": "link_from",
    "any": "not_null",
}


class Source:
    """Collects functions and the objects they use, then compiles all at once."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.lines: list[str] = []
        self.shared: dict[str, Any] = {
            "Fault": Fault,
            "Link": Link,
            "ValidationError": msgspec.ValidationError,
            "convert": msgspec.convert,
            "duplicate": faults.duplicate,
            "field_fault": field_fault,
            "inexact": inexact,
            "key_segment": key_segment,
            "locate": locate,
            "mismatch": mismatch,
            "not_made": not_made,
            "out_of_bounds": out_of_bounds,
            "pairs_by_encoding": order.pairs_by_encoding,
            "unknown": unknown,
            "variant_tag": checks.variant_tag,
            "wrong_class": wrong_class,
            "wrong_length": faults.wrong_length,
            **{name: getattr(scalars, name) for name in _SCALAR_FUNCTIONS},
        }
        self.functions: dict[tuple[str, int], str] = {}
        self.kept: list[Shape] = []

    def share(self, prefix: str, value: object) -> str:
        """Make `value` known to generated code and return its name there."""
        name = f"{prefix}_{len(self.shared)}"
        self.shared[name] = value
        return name

    def function(self, prefix: str, shape: Shape, write: Callable[[Shape, str], list[str]]) -> str:
        """Return the name of the function for `shape`, writing it first if it is new."""
        key = (prefix, id(shape))
        if key not in self.functions:
            self.kept.append(shape)
            name = self.functions[key] = f"{prefix}_{len(self.functions)}"
            body = write(shape, name)
            self.lines += [f"def {name}(v):", *indented(body), ""]
        return self.functions[key]

    def compile(self, what: str) -> dict[str, Any]:
        """Compile everything written so far; returns the functions by name."""
        code = compile("\n".join(self.lines), f"<cellule codec of {what}>", "exec")
        exec(code, self.shared)  # noqa: S102 - source is written here from checked names and repr()s only
        return self.shared

    def bounds(self, shape: Shape, variable: str) -> list[str]:
        """Write the checks of a schema's bounds, after its type is known to be right."""
        schema = shape.schema
        if isinstance(schema, t.Int | t.Float):
            limits, subject, refuse = (schema.min, schema.max), variable, "out_of_bounds({0}, {1})"
        elif isinstance(schema, t.Text | t.Bytes | t.List | t.Set | t.Map):
            limits, subject = (schema.min_length, schema.max_length), f"len({variable})"
            refuse = "wrong_length({0}, len({1}))"
        else:
            return []
        tests = [
            f"{subject} {sign} {limit!r}"
            for sign, limit in zip("<>", limits, strict=True)
            if limit is not None
        ]
        if not tests:
            return []
        words = self.share("words", expected(schema))
        return [f"if {' or '.join(tests)}: raise {refuse.format(words, variable)}"]


def indented(lines: list[str], levels: int = 1) -> list[str]:
    """Indent a block of lines."""
    return ["    " * levels + line for line in lines]


def guarded(lines: list[str], handler: str) -> list[str]:
    """Run `lines`; on a fault raise `handler`, an expression that adds the path segment."""
    return ["try:", *indented(lines), "except Fault as fault:", f"    raise {handler}"]


def at_field(name: str) -> str:
    """Return the handler that adds a field's segment."""
    return f"fault.at({name!r})"


def is_kept(shape: Shape) -> bool:
    """Whether good values of this shape are the same on both sides and need only a test each."""
    return isinstance(shape, ScalarShape) and shape.kind in TESTS and shape.schema in _UNBOUNDED


def kept(shape: Shape, variable: str) -> str:
    """Return the test that finds a value to look at more closely."""
    assert isinstance(shape, ScalarShape)
    return TESTS[shape.kind].format(variable)


def look(kind: str, variable: str) -> str:
    """Write the statement that looks at a value more closely if its test says so."""
    return f"if {TESTS[kind].format(variable)}: {variable} = {_LOOKERS[kind]}({variable})"


def field_fault(fault: Fault, values: dict[str, Any], name: str) -> Fault:
    """Tell a field that is null, hence absent, from one that is wrong."""
    return faults.missing_field(name) if values.get(name) is None else fault.at(name)


def unknown(values: dict[str, Any], fields: frozenset[str]) -> None:
    """Raise if a record holds other fields than these; null fields are fine."""
    for name in values:
        if name not in fields:
            raise faults.unknown_field(name, fields)


def wrong_class(value: object, *classes: type) -> Fault:
    """Make the fault of an object of another class."""
    names = " or ".join(each.__qualname__ for each in classes)
    hint = ""
    if isinstance(value, classes):
        hint = "A subclass could hold more than its base stores: use exactly this class."
    return mismatch(f"{names}", value, hint=hint)


def out_of_bounds(allowed: str, value: object) -> Fault:
    """Make the fault of a number outside its bounds."""
    return mismatch(allowed, value)


def inexact() -> Fault:
    """Make the fault of a value that would be read back as another: a text that is an enum's, say."""
    return Fault("schema.mismatch", "a value of exactly this type is expected")


def not_made(error: Exception, python: type) -> Fault:
    """Make the fault of a class whose own constructor refused the values."""
    return Fault("schema.mismatch", f"{python.__qualname__} refused it: {error}")


_UNBOUNDED = frozenset(
    {t.Unit(), t.Bool(), t.Int(), t.Float(), t.Text(), t.Bytes(), t.Time(), t.Duration(), t.Hash(), t.Any()}
)
_SCALAR_FUNCTIONS = (
    "boolean",
    "cid_from",
    "decimal_from",
    "decimal_text",
    "duration_from",
    "duration_ns",
    "floating",
    "integer",
    "link_from",
    "not_null",
    "octets",
    "text",
    "time_from",
    "time_ns",
    "unit",
    "uuid_bytes",
    "uuid_from",
)
