"""Reading the fields of a Python class: msgspec.Struct, dataclass, NamedTuple or TypedDict.

Returns annotations and defaults as the class states them; what an annotation means is the business of
`derive`. Type arguments of generic classes are filled in here.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from keyword import iskeyword
from typing import Any, NoReturn, TypeGuard

import msgspec

from cellule.errors import Rejected
from cellule.values.schema.shape import ABSENT


@dataclasses.dataclass(frozen=True, slots=True)
class RawField:
    """A field as its class states it: attribute, wire name, annotation, default."""

    attribute: str
    wire: str
    annotation: Any
    default: Any = ABSENT
    default_is_factory: bool = False
    may_be_missing: bool = False


def is_record_class(python: object) -> TypeGuard[type]:
    """Whether the class has named fields that we can read."""
    return isinstance(python, type) and (
        issubclass(python, msgspec.Struct)
        or dataclasses.is_dataclass(python)
        or is_named_tuple(python)
        or typing.is_typeddict(python)
    )


def is_named_tuple(python: type) -> bool:
    """Whether the class is a NamedTuple."""
    return issubclass(python, tuple) and hasattr(python, "_fields")


def fields_of(annotation: Any, python: type) -> list[RawField]:
    """Return the fields of `python`; `annotation` is the class or its generic alias."""
    try:
        found = list(_read(annotation, python))
    except NameError as error:
        unsupported(
            python.__qualname__,
            "its annotations",
            f"the name {error.name!r} is not known in its module",
            "Define the class at the top level of its module, and import the names it uses at run time.",
            cause=error,
        )
    if not typing.is_typeddict(python):
        check_attributes(python, found)
        check_constructor(python, {field.attribute for field in found})
    return found


def check_attributes(python: type, fields: list[RawField]) -> None:
    """Check that fields can be reached as attributes; classes made at run time may have any names."""
    for field in fields:
        if not field.attribute.isidentifier() or iskeyword(field.attribute):
            where = f"{python.__qualname__}.{field.attribute}"
            unsupported(where, "its name", "it is not an identifier", "Use rename= for wire names.")


def check_constructor(python: type, attributes: set[str]) -> None:
    """Check that the class can be made from its fields alone."""
    for name, parameter in inspect.signature(python).parameters.items():
        if name not in attributes and parameter.default is inspect.Parameter.empty:
            unsupported(
                python.__qualname__,
                f"the parameter {name!r}",
                "the constructor needs it, but it is not a field",
                "Make it a field, or give it a default.",
            )


def unsupported(where: str, annotation: str, problem: str, hint: str, *, cause: object = None) -> NoReturn:
    """Raise the error of an annotation that has no schema."""
    raise Rejected(
        "schema.annotation_unsupported",
        "{where}: {annotation} cannot be stored: {problem}.",
        where=where,
        annotation=annotation,
        problem=problem,
        hint=hint,
    ) from (cause if isinstance(cause, BaseException) else None)


def _read(annotation: Any, python: type) -> Iterator[RawField]:
    if issubclass(python, msgspec.Struct):
        return _struct_fields(annotation)
    hints = _filled(typing.get_type_hints(python, include_extras=True), annotation, python)
    if typing.is_typeddict(python):
        return _typed_dict_fields(python, hints)
    if is_named_tuple(python):
        return _named_tuple_fields(python, hints)
    return _dataclass_fields(python, hints)


def _struct_fields(annotation: Any) -> Iterator[RawField]:
    for field in msgspec.structs.fields(annotation):
        if field.default_factory is not msgspec.NODEFAULT:
            yield RawField(field.name, field.encode_name, field.type, field.default_factory, True)
        else:
            default = ABSENT if field.default is msgspec.NODEFAULT else field.default
            yield RawField(field.name, field.encode_name, field.type, default)


def _dataclass_fields(python: type, hints: Mapping[str, Any]) -> Iterator[RawField]:
    for field in dataclasses.fields(python):
        if not field.init:
            unsupported(
                f"{python.__qualname__}.{field.name}",
                "a field with init=False",
                "it could not be set when the value is read back",
                "Make it a property, or an ordinary field.",
            )
        factory: Callable[[], Any] | Any = field.default_factory
        if factory is not dataclasses.MISSING:
            yield RawField(field.name, field.name, hints[field.name], factory, True)
        else:
            default = ABSENT if field.default is dataclasses.MISSING else field.default
            yield RawField(field.name, field.name, hints[field.name], default)


def _named_tuple_fields(python: type, hints: Mapping[str, Any]) -> Iterator[RawField]:
    defaults = getattr(python, "_field_defaults", {})
    for name in python._fields:  # type: ignore[attr-defined]
        if name not in hints:
            unsupported(
                f"{python.__qualname__}.{name}",
                "a field without annotation",
                "it says no type",
                "Annotate it.",
            )
        yield RawField(name, name, hints[name], defaults.get(name, ABSENT))


def _typed_dict_fields(python: type, hints: Mapping[str, Any]) -> Iterator[RawField]:
    required = python.__required_keys__  # type: ignore[attr-defined]
    for name, hint in hints.items():
        # Under postponed annotations the class itself has not seen the marker around a hint.
        marker = typing.get_origin(hint)
        if marker in {typing.Required, typing.NotRequired}:
            missing = marker is typing.NotRequired
            yield RawField(name, name, typing.get_args(hint)[0], may_be_missing=missing)
        else:
            yield RawField(name, name, hint, may_be_missing=name not in required)


def _filled(hints: dict[str, Any], annotation: Any, python: type) -> dict[str, Any]:
    """Put the type arguments of `annotation` and of generic bases into `hints`."""
    arguments: dict[Any, Any] = {}
    waiting = [annotation, *getattr(python, "__orig_bases__", ())]
    for alias in waiting:
        origin = typing.get_origin(alias)
        if origin is None or origin in {typing.Generic, typing.Protocol}:
            continue
        for parameter, argument in zip(
            getattr(origin, "__parameters__", ()), typing.get_args(alias), strict=False
        ):
            filled = arguments.get(argument, argument)
            if arguments.setdefault(parameter, filled) != filled:
                unsupported(
                    python.__qualname__,
                    f"the type variable {parameter}",
                    "its bases use it with different arguments",
                    "Use a type variable of its own for each generic base, or a msgspec.Struct.",
                )
        waiting.extend(base for base in getattr(origin, "__orig_bases__", ()) if base not in waiting)
    return {name: substituted(hint, arguments) for name, hint in hints.items()} if arguments else hints


def substituted(hint: Any, arguments: Mapping[Any, Any]) -> Any:
    """Put type arguments in the place of type variables."""
    if isinstance(hint, typing.TypeVar):
        return arguments.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if typing.get_origin(hint) is None or not parameters:
        return hint
    return hint[tuple(arguments.get(parameter, parameter) for parameter in parameters)]
