"""What events, states and params look like to a type checker: objects with named fields.

A `msgspec.Struct`, a dataclass and a NamedTuple have no base class in common, so each is known by what
its objects have. `world.send("nonsense")` is then an error before it is run. Which classes can be stored is
decided in `values.schema`, when an app is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field
from typing import Any, ClassVar, Concatenate, Protocol, TypeVar

import msgspec

S = TypeVar("S")


class DataclassLike(Protocol):
    """An object of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class NamedTupleLike(Protocol):
    """An object of a NamedTuple."""

    def _asdict(self) -> dict[str, Any]: ...


RecordLike = msgspec.Struct | DataclassLike | NamedTupleLike
"""An object with named fields."""

EventLike = RecordLike | tuple[str, Any]
"""An event: an object of its class, or its name with its fields as JSON data."""

StepOf = Callable[Concatenate[S | None, ...], object]
"""A reducer whose cells have a state of type `S`: its first parameter says so."""
