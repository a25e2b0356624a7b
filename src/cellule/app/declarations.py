"""What the decorators of an app collect, and what can be refused the moment a class or function is decorated.

Declarations are plain data. Whether they fit each other is seen when the app is built, since annotations may
name classes that stand further down in the file.

Rejected: wrapping classes or functions. What the author wrote stays what it is, here and inside a bundle.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from cellule.errors import Rejected
from cellule.modules.python import ModuleOptions
from cellule.modules.python.signature import shown_function
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.fields import is_named_tuple, is_record_class
from cellule.values.schema.scalars import EPOCH, MICROSECOND
from cellule.values.words import printed


def duration_ns(where: str, option: str, given: object, *, least: int = 1) -> int:
    """A timedelta in nanoseconds, of at least so many."""
    if not isinstance(given, timedelta):
        raise bad_option(where, option, given, "a timedelta, such as timedelta(hours=1)")
    found = given // MICROSECOND * 1_000
    if found < least:
        raise bad_option(
            where, option, given, "a timedelta that is not negative" if least == 0 else "a longer one"
        )
    return found


def time_ns(where: str, option: str, given: object) -> int:
    """An aware datetime in nanoseconds since 1970."""
    if not isinstance(given, datetime):
        raise bad_option(where, option, given, "a datetime with its time zone")
    if given.tzinfo is None:
        raise bad_option(where, option, given, "a datetime with its time zone: datetime(..., tzinfo=UTC)")
    return (given - EPOCH) // MICROSECOND * 1_000


KeyChoice = str | Mapping[Any, str | None] | None
"""A reducer's own choice of keys: one path, or paths by event (None = the sender gives the key)."""

_APPS: Final = "__cellule_apps__"


@dataclass(frozen=True, slots=True)
class DeclaredClass:
    """An event or state: its class and the full name of its schema."""

    python: type
    name: str


@dataclass(frozen=True, slots=True)
class DeclaredEvent(DeclaredClass):
    """An event; `key` is the path of its key, None where it has none."""

    key: str | None = None


@dataclass(frozen=True, slots=True)
class DeclaredReducer:
    """A reducer with all that stands in its decorator."""

    function: Callable[..., Any]
    local: str
    version: int
    key: KeyChoice
    keyed: bool
    options: ModuleOptions
    effects: tuple[Any, ...] = ()  # what it may ask for: declarations, adapters, or their kinds

    @property
    def cell_mode(self) -> bool:
        """Whether each key has a cell; if not, one cell has the map of all."""
        return self.options.cell_mode

    @property
    def where(self) -> str:
        """The function and its place, for messages."""
        return shown_function(self.function)

    @property
    def cap_slots(self) -> Mapping[str, str]:
        """The grants that it has, by slot."""
        return self.options.cap_slots


def check_record(python: object, decorator: str) -> type:
    """Return the class if it can be stored and told apart at run time."""
    if typing.is_typeddict(python):
        hint = "Use a msgspec.Struct or a dataclass: a TypedDict is only a dict at run time."
        _refuse_class(python, decorator, "it is a TypedDict", hint)
    if not isinstance(python, type):
        hint = f"Put {decorator} above a class; options go by name, as in {decorator}(version=2)."
        _refuse_class(python, decorator, f"it is {shown_value(python)} and no class", hint)
    if hasattr(python, "model_fields") and hasattr(python, "__pydantic_fields__"):
        hint = "Use a msgspec.Struct or a dataclass, and make it of the model: Placed(**model.model_dump())."
        _refuse_class(python, decorator, "it is a Pydantic model, which Cellule does not store", hint)
    if not is_record_class(python):
        hint = f"Derive it from msgspec.Struct, or put {decorator} above @dataclass, not below."
        _refuse_class(python, decorator, "it has no fields", hint)
    return python


def check_frozen(python: type, decorator: str) -> None:
    """Refuse an event class whose objects can change: an event is a fact that several cells look at."""
    if issubclass(python, msgspec.Struct):
        frozen, form = (
            python.__struct_config__.frozen,
            f"class {python.__name__}(msgspec.Struct, frozen=True)",
        )
    elif is_named_tuple(python):
        return
    else:
        params = getattr(python, "__dataclass_params__", None)
        frozen, form = bool(params and params.frozen), "@dataclass(frozen=True)"
    if not frozen:
        raise Rejected(
            "app.not_frozen", "{decorator}: {python} can be changed after it was made; an event cannot.",
            decorator=decorator, python=shown_type(python), hint=f"Write `{form}`.",
        )  # fmt: skip


def mark(python: type, app: str) -> None:
    """Note on a class which app it belongs to, for the sake of error messages alone."""
    known = python.__dict__.get(_APPS, ())
    setattr(python, _APPS, (*known, app))


def apps_of(python: object) -> tuple[str, ...]:
    """The apps a class was registered on."""
    found: tuple[str, ...] = getattr(python, "__dict__", {}).get(_APPS, ())
    return found


def is_redefined(old: Any, new: Any) -> bool:
    """Whether `new` is `old` typed once more into a prompt or notebook, and takes its place."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    typed_in = new.__module__ == "__main__" and (file is None or not Path(file).is_file())
    return bool(typed_in and old.__module__ == "__main__" and old.__qualname__ == new.__qualname__)


def is_path(given: object) -> bool:
    """Whether this can be the dotted path of a key."""
    return isinstance(given, str) and bool(given)


def shown_value(value: object) -> str:
    """A value in an error message: what it is, without going on and on."""
    text = printed(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def bad_option(where: str, option: str, given: object, wanted: str) -> Rejected:
    """The refusal of an option's value, with what to give instead."""
    return Rejected(
        "app.option", "{where}: {option}={given} is not possible.",
        where=where, option=option, given=shown_value(given), hint=f"Give {wanted}.",
    )  # fmt: skip


def check_flag(where: str, option: str, given: object) -> bool:
    """Return an option that is on or off; refuse one that is neither."""
    if not isinstance(given, bool):
        raise bad_option(where, option, given, "True or False")
    return given


def check_named(where: str, given: Mapping[str, object], form: type) -> None:
    """Refuse an option that `form`, a TypedDict, does not have: misspelt, it would mean nothing."""
    for name, value in given.items():
        if name not in form.__annotations__:
            raise bad_option(where, name, value, f"one of {', '.join(form.__annotations__)}")


def taken(name: str, old: str, new: str) -> Rejected:
    """The refusal of a name that something else has."""
    return Rejected(
        "app.name_taken", "{name} is {old} already, and cannot be {new} too.", name=name, old=old, new=new,
        hint='Rename one of them, or give it another name or version: name="Other", version=2.',
    )  # fmt: skip


def check_function(function: object, decorator: str) -> None:
    """Refuse what is no function."""
    if not inspect.isroutine(function):
        raise Rejected(
            "app.function", "{decorator} cannot take {value}: it is no function.",
            decorator=decorator, value=shown_value(function),
            hint=f"Put {decorator} right above a `def`; options go by name.",
        )  # fmt: skip


def field_names(python: type) -> list[str]:
    """The names of a record's fields, for hints."""
    if issubclass(python, msgspec.Struct):
        return list(python.__struct_fields__)
    if dataclasses.is_dataclass(python):
        return [field.name for field in dataclasses.fields(python)]
    return list(getattr(python, "_fields", ()))


def _refuse_class(python: object, decorator: str, problem: str, hint: str) -> NoReturn:
    name = shown_type(python) if isinstance(python, type) else shown_value(python)
    raise Rejected(
        "app.class", "{decorator} cannot take {python}: {problem}.",
        decorator=decorator, python=name, problem=problem, hint=hint,
    )  # fmt: skip
