"""Arguments of public calls, held against what their signatures say, before anything is asked or changed.

The classes that users hold are wrapped here, so a new method is checked like all others. Texts, numbers,
flags, times, ids, classes and unions of them are proven; what can be more (an event, a module, a key) is
proven where it is read. What passes is exactly of its type: a subclass of text or of a number, whose methods
are somebody else's code, arrives as what it is underneath.

Rejected: a check in every method. The next method forgets it, and its argument fails inside a world.
"""

from __future__ import annotations

from collections import abc
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property, wraps
from inspect import Parameter, isasyncgenfunction, iscoroutinefunction, signature
from math import isfinite
from os import PathLike
from types import FunctionType, NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from cellule.host.ingress.arguments import plain_bytes, refuse_argument
from cellule.host.limits import ARGUMENT_CHARS_MAX

C = TypeVar("C", bound=type)
REFUSED: Final = object()
NOTHING: Final = "nothing"
# Parameters with errors of their own.
ELSEWHERE: Final = frozenset({"condition", "history", "script", "timeout", "where"})
NAMES: Final = frozenset({"name", "universe", "source", "world"})
NUMBER_MAX: Final = (1 << 63) - 1


class Rule(NamedTuple):
    """What an argument may be: `accept` gives it as it may be used, or REFUSED; `wanted` says it in words."""

    wanted: str
    accept: Callable[[Any], Any]


def checked_calls(*but: str) -> Callable[[C], C]:
    """Check the public methods of a class; `but` names methods and parameters that are checked elsewhere."""

    def wrapped(owner: C) -> C:
        for name, function in list(vars(owner).items()):
            if isinstance(function, FunctionType) and not name.startswith("_") and name not in but:
                setattr(owner, name, _checked(function, ELSEWHERE | set(but)))
        return owner

    return wrapped


def _checked(function: Callable[..., Any], but: frozenset[str]) -> Callable[..., Any]:
    given = _Rules(function, but)
    if isasyncgenfunction(function):

        @wraps(function)
        async def items(*positional: Any, **named: Any) -> AsyncIterator[Any]:
            placed, more = given.checked(positional, named)
            async with aclosing(function(*placed, **more)) as found:
                async for item in found:
                    yield item

        return items
    if iscoroutinefunction(function):

        @wraps(function)
        async def call(*positional: Any, **named: Any) -> Any:
            placed, more = given.checked(positional, named)
            return await function(*placed, **more)

        return call

    @wraps(function)
    def plain(*positional: Any, **named: Any) -> Any:
        placed, more = given.checked(positional, named)
        return function(*placed, **more)

    return plain


class _Rules:
    """The rules of one function; they are read at its first call, when all classes are there."""

    def __init__(self, function: Callable[..., Any], but: frozenset[str]) -> None:
        self._function = function
        self._but = but

    @cached_property
    def _parameters(self) -> tuple[list[str], dict[str, Rule]]:
        """The names of arguments that are given by position, and the rules by name."""
        hints = get_type_hints(self._function)
        found = signature(self._function).parameters
        rules = {name: None if name in self._but else _rule(name, hints.get(name, Any)) for name in found}
        places = [name for name, each in found.items() if each.kind is not Parameter.KEYWORD_ONLY]
        return places, {name: rule for name, rule in rules.items() if rule is not None}

    def checked(
        self, positional: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
        """The arguments as they may be used; `Rejected` names the one that may not."""
        places, rules = self._parameters
        names = [*places, *places[-1:] * len(positional)]  # `*keys` takes the rest
        placed = [_accepted(name, value, rules) for name, value in zip(names, positional, strict=False)]
        return placed, {name: _accepted(name, value, rules) for name, value in named.items()}


def _rule(name: str, annotation: Any) -> Rule | None:
    """The rule for a parameter; one that names a world or the like is not empty."""
    return _NAME if name in NAMES and annotation is str else rule_of(annotation)


def check_fields(options: object) -> None:
    """Hold the fields of an options object against their types; their numbers are not negative."""
    for name, annotation in get_type_hints(type(options)).items():
        rule, value = rule_of(annotation), getattr(options, name)
        if rule is None:
            continue
        found = _accepted(name, value, {name: rule})
        if isinstance(found, int | float) and found < 0:
            refuse_argument(name, value, f"{rule.wanted}, from 0 on")


def _accepted(name: str, value: Any, rules: Mapping[str, Rule]) -> Any:
    rule = rules.get(name)
    if rule is None or (value is None and rule.wanted.endswith(NOTHING)):
        return value
    found = rule.accept(value)
    if found is REFUSED and isinstance(value, str) and str.__len__(value) > ARGUMENT_CHARS_MAX:
        size = str.__len__(value)
        refuse_argument(
            name, value, f"at most {ARGUMENT_CHARS_MAX} characters long", f"{size} characters long"
        )
    if found is REFUSED:
        refuse_argument(name, value, rule.wanted)
    return found


def rule_of(annotation: Any) -> Rule | None:
    """The rule for a parameter of a type; None where it may be what only its reader can check."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _any_of(inside)
    if origin is Literal:
        return Rule(f"one of {', '.join(inside)}", lambda value: _one_of(value, inside))
    if origin in (Iterable, Sequence):
        return _list_rule(inside[0])
    if origin is abc.Callable:
        return Rule("a function", lambda value: value if callable(value) else REFUSED)
    kind = origin or annotation
    if not isinstance(kind, type) or kind in (Any, object) or getattr(kind, "_is_protocol", False):
        return None
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return Rule(f"{article} {kind.__name__}", lambda value: value if isinstance(value, kind) else REFUSED)


def _any_of(inside: tuple[Any, ...]) -> Rule | None:
    """A rule of several; the first that takes a value decides."""
    is_path = any(get_origin(each) is PathLike for each in inside)
    known_as = {str: _PATH} if is_path else {}
    rules = [known_as.get(each) or rule_of(each) for each in inside if each is not NoneType]
    if None in rules:
        return None
    known = [rule for rule in rules if rule is not None]

    def accept(value: Any) -> Any:
        taken = (rule.accept(value) for rule in known)
        return next((found for found in taken if found is not REFUSED), REFUSED)

    words = [rule.wanted for rule in known]
    return Rule(" or ".join([*words, NOTHING] if NoneType in inside else words), accept)


def _list_rule(item: Any) -> Rule | None:
    """A list of what has a rule; a text is none, though it is a list of its letters."""
    rule = rule_of(item)
    if rule is None:
        return None

    def accept(value: Any) -> Any:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return REFUSED
        found = [rule.accept(each) for each in value]
        return REFUSED if any(each is REFUSED for each in found) else found

    return Rule(f"a list, each {rule.wanted}", accept)


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        return REFUSED
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        return REFUSED
    return plain if len(plain) <= ARGUMENT_CHARS_MAX else REFUSED


def _path(value: Any) -> Any:
    plain = _text(value)
    return REFUSED if plain is REFUSED or not plain or "\0" in plain else plain


def _whole(value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        return REFUSED
    plain = int.__index__(value)
    return plain if -NUMBER_MAX <= plain <= NUMBER_MAX else REFUSED


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return float.__float__(value) if isfinite(value) else REFUSED
    return _whole(value)


def _one_of(value: Any, known: tuple[Any, ...]) -> Any:
    plain = _text(value)
    return plain if plain is not REFUSED and plain in known else REFUSED


_NAME: Final = Rule("a text that is not empty", lambda value: _text(value) or REFUSED)
_PATH: Final = Rule("a path", _path)
_PLAIN: Final[dict[Any, Rule]] = {
    str: Rule("a text", _text),
    int: Rule("a whole number", _whole),
    float: Rule("a number", _number),
    bool: Rule("true or false", lambda value: value if isinstance(value, bool) else REFUSED),
    bytes: Rule("bytes", lambda value: plain_bytes(value) if isinstance(value, bytes) else REFUSED),
}
