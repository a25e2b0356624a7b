"""Reading a reducer's signature: which state, which events, with or without a context.

    def order(state: Order | None, event: Placed | Paid, ctx: Context) -> Step[Order]

Annotations are the whole declaration; what they cannot say (the type of replies, the events that are emitted)
stands in `@reducer(...)`. Everything is refused here that would otherwise fail at the first event, with a way
out. What a type means as a schema is the business of `cellule.values.schema`.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from cellule.errors import Rejected
from cellule.modules.python.context import Context
from cellule.modules.python.step import Refuse, Step
from cellule.modules.python.system import is_delivered, is_receipt, received
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.fields import is_record_class

F = TypeVar("F", bound=Callable[..., Any])

FORM: Final = (
    "Write it like `def order(state: Order | None, event: Placed | Paid, ctx: Context) -> Step[Order]`."
)
_MARK: Final = "__cellule_reducer__"
_NONE: Final = (None, type(None))


@dataclass(frozen=True, slots=True)
class Declared:
    """What `@reducer(...)` adds to the annotations."""

    reply: Any = None
    emits: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """What a reducer takes and answers; `state` is the type without None.

    `events` are routed to the cell; `receipts` come to it because it asked for an effect.
    """

    function: Callable[..., Any]
    state: Any
    events: tuple[Any, ...]
    takes_context: bool
    reply: Any
    emits: tuple[Any, ...]
    receipts: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class UpcasterSignature:
    """What an upcaster takes and answers."""

    function: Callable[[Any], Any]
    old: Any
    new: Any


def reducer(*, reply: Any = None, emits: Iterable[Any] = ()) -> Callable[[F], F]:
    """Declare what annotations cannot say: the type of replies, and the events that are emitted."""

    def declare(function: F) -> F:
        setattr(function, _MARK, Declared(reply, tuple(emits)))
        return function

    return declare


def read_signature(function: Callable[..., Any]) -> Signature:
    """Read a reducer's signature; raises `Rejected` naming the function and what to write instead."""
    _check_plain(function)
    parameters = _parameters(function)
    if not 2 <= len(parameters) <= 3:
        names = ", ".join(parameters) or "none"
        _refuse(function, "parameters", f"it has {len(parameters)} parameters ({names}), not 2 or 3", FORM)
    hints = _hints(function)
    state, event = parameters[0], parameters[1]
    _check_context(function, parameters, hints)
    declared: Declared = getattr(function, _MARK, Declared())
    kind = _state_type(function, state, hints)
    _check_return(function, kind, hints)
    events, receipts = _event_types(function, event, hints)
    return Signature(
        function, kind, events, len(parameters) == 3, declared.reply,
        tuple(_checked_emits(function, declared.emits)), receipts,
    )  # fmt: skip


def read_upcaster(function: Callable[[Any], Any]) -> UpcasterSignature:
    """Read the signature of an upcaster: `def up(old: OrderV1) -> OrderV2`."""
    form = "Write it like `def up(old: OrderV1) -> OrderV2`."
    _check_plain(function)
    parameters = _parameters(function)
    if len(parameters) != 1:
        _refuse(function, "parameters", f"it has {len(parameters)} parameters, not 1", form)
    hints = _hints(function)
    for name, what in ((parameters[0], f"parameter {parameters[0]!r}"), ("return", "return value")):
        if name not in hints:
            _refuse(function, "annotation_missing", f"its {what} has no annotation", form)
        if any(member in _NONE for member in members(hints[name])):
            _refuse(function, "upcaster_type", f"its {what} may be None: there is always a value", form)
    return UpcasterSignature(function, hints[parameters[0]], hints["return"])


def members(annotation: Any) -> list[Any]:
    """The members of a union, also through `type X = ...` aliases; of anything else, itself."""
    if type(annotation).__name__ == "TypeAliasType":
        return members(annotation.__value__)
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        return [part for member in typing.get_args(annotation) for part in members(member)]
    return [annotation]


def shown_function(function: object) -> str:
    """A function as its author would name it."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or repr(type(function))
    return f"{module}.{name}" if module else str(name)


def _check_plain(function: Any) -> None:
    """Refuse everything that is not a plain `def`."""
    if isinstance(function, functools.partial):
        _refuse(function, "not_a_function", "it is a partial", "Write a function of its own.")
    if inspect.ismethod(function):
        hint = "A cell's state is its argument: move the method out of its class."
        _refuse(function, "not_a_function", "it is a method", hint)
    if isinstance(function, type) or not inspect.isfunction(function):
        hint = "Give the function itself, not its result or a class."
        _refuse(function, "not_a_function", f"it is no function but {type(function).__name__}", hint)
    if function.__name__ == "<lambda>":
        _refuse(function, "not_a_function", "a lambda has no annotations", FORM)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        hint = "A step never waits: write `def`, and ask for what takes time by effects."
        _refuse(function, "async_function", "it is an `async def`", hint)
    if inspect.isgeneratorfunction(function):
        _refuse(
            function, "not_a_function", "it contains `yield`", "Return one `Step`; list events in `emit`."
        )


def _parameters(function: Callable[..., Any]) -> list[str]:
    names = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            _refuse(function, "parameters", f"it takes any number of arguments ({parameter})", FORM)
        if parameter.kind is parameter.KEYWORD_ONLY:
            _refuse(function, "parameters", f"its parameter {name!r} is given by name only", FORM)
        if parameter.default is not parameter.empty:
            hint = "Every argument is always given: leave the default out."
            _refuse(function, "parameters", f"its parameter {name!r} has a default", hint)
        names.append(name)
    if names[:1] == ["self"]:
        _refuse(function, "not_a_function", "it is a method", "Move it out of its class.")
    return names


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise Rejected(
            "modules.annotation_unknown", "{function}: the name {name!r} in its annotations is not known.",
            function=shown_function(function), name=error.name,
            hint="Define or import the classes at the top level of the module, not under `if TYPE_CHECKING`.",
        ) from error  # fmt: skip
    except TypeError as error:
        raise Rejected(
            "modules.annotation_unknown", "{function}: its annotations cannot be read: {problem}.",
            function=shown_function(function), problem=str(error), hint=FORM,
        ) from error  # fmt: skip


def _state_type(function: Callable[..., Any], name: str, hints: dict[str, Any]) -> Any:
    if name not in hints:
        _refuse(function, "annotation_missing", f"its state {name!r} has no annotation", FORM)
    annotation = hints[name]
    parts = members(annotation)
    kept = [part for part in parts if part not in _NONE]
    if len(kept) == len(parts):
        shown = shown_type(annotation)
        hint = f"Write `{name}: {shown} | None`: the first event of a cell finds no state."
        _refuse(function, "state_not_optional", f"its state {name!r} is {shown}, without None", hint)
    if not kept:
        _refuse(function, "state_type", f"its state {name!r} is never anything but None", FORM)
    return kept[0] if len(kept) == 1 else typing.Union[tuple(kept)]  # noqa: UP007 - built, not written


def _event_types(
    function: Callable[..., Any], name: str, hints: dict[str, Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What is routed to the reducer, and what comes of the effects it asked for."""
    if name not in hints:
        _refuse(function, "annotation_missing", f"its event {name!r} has no annotation", FORM)
    events = members(hints[name])
    for event in events:
        if event in _NONE:
            _refuse(function, "event_type", f"its event {name!r} may be None", "There is always an event.")
        _check_event(function, event, f"its event {name!r}")
        if is_receipt(event):
            _check_receipt(function, event)
    routed = tuple(event for event in events if not is_delivered(event))
    if not routed:
        hint = "Add the event that makes it ask for an effect in the first place."
        _refuse(function, "event_type", f"its event {name!r} is never anything but a receipt", hint)
    return routed, tuple(event for event in events if is_delivered(event))


def _checked_emits(function: Callable[..., Any], emits: tuple[Any, ...]) -> Iterable[Any]:
    for event in emits:
        for member in members(event):
            _check_event(function, member, "what it emits")
            yield member


def _check_event(function: Callable[..., Any], event: Any, what: str) -> None:
    if is_record_class(typing.get_origin(event) or event):
        return
    hint = "Events are records: a msgspec.Struct, a dataclass or a NamedTuple. Wrap single values in one."
    _refuse(function, "event_type", f"{what} is {shown_type(event)}, which is no record", hint)


def _check_receipt(function: Callable[..., Any], event: Any) -> None:
    inner = received(event) if typing.get_args(event) else None
    if inner is None or not is_record_class(inner):
        hint = "Write `Receipt[Charged]`: the class of the effect's receipt, which is a record."
        _refuse(function, "receipt_type", f"{shown_type(event)} does not say what it brings", hint)


def _check_context(function: Callable[..., Any], parameters: list[str], hints: dict[str, Any]) -> None:
    for name in parameters[2:]:
        if hints.get(name, Context) is not Context:
            shown = shown_type(hints[name])
            _refuse(function, "parameters", f"its third parameter {name!r} is {shown}, not Context", FORM)


def _check_return(function: Callable[..., Any], state: Any, hints: dict[str, Any]) -> None:
    if "return" not in hints:
        _refuse(function, "annotation_missing", "its return value has no annotation", FORM)
    answers: list[Any] = []
    parts = members(hints["return"])
    if parts == [Refuse]:
        hint = "Add what it returns when it takes the event: `Order | Refuse`."
        _refuse(function, "return_type", "it never returns anything but a refusal", hint)
    for part in parts:
        if part in _NONE:
            hint = "Returning nothing is a failed step: return the state as it is, or `Step.delete()`."
            _refuse(function, "return_type", "it may return None", hint)
        if part is not Step and part is not Refuse:
            inner = typing.get_args(part) if typing.get_origin(part) is Step else (part,)
            answers += [each for argument in inner for each in members(argument)]
    for answer in answers:
        if answer not in members(state) and answer is not typing.Any:
            shown = f"it returns {shown_type(answer)}, but its state is {shown_type(state)}"
            _refuse(function, "return_type", shown, FORM)


def _refuse(function: object, code: str, problem: str, hint: str) -> NoReturn:
    raise Rejected(
        f"modules.{code}", "{function} cannot be a step: {problem}.",
        function=shown_function(function), problem=problem, hint=hint,
    )  # fmt: skip
