"""Values of other people in words, whatever their classes do: a message about them must never fail itself.

Their own `__repr__` is asked, and where it raises, or goes too deep, the type is named. How long a text may
be is left to whoever shows it.
"""

from __future__ import annotations

from typing import Any

_NAME: Any = type.__dict__["__name__"]  # not what a metaclass puts in its place
_QUALNAME: Any = type.__dict__["__qualname__"]


def printed(value: object) -> str:
    """What a value says of itself, or else its type."""
    try:
        return str.__str__(repr(value))
    except (Exception, SystemExit, GeneratorExit):  # noqa: BLE001 - whatever user code raises
        return f"an object of type {type_name(value)}"


def type_name(value: object) -> str:
    """The name of a value's class."""
    return str(_NAME.__get__(type(value)))


def class_name(python: type) -> str:
    """The name of a class as its author would write it."""
    return str(_QUALNAME.__get__(python))
