"""What the annotations of an adapter's function say: the record classes of params and receipt.

Everything wrong with the function is refused here, where it stands in the author's file, and not when the
first intent arrives.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from cellule.effects.attempt import Attempt
from cellule.errors import Rejected
from cellule.values.schema.fields import is_record_class


def read_signature(function: Callable[..., Any]) -> tuple[type, type, bool]:
    """Return the class of the params, that of the receipt, and whether the attempt is taken."""
    if not inspect.isroutine(function) or inspect.isgeneratorfunction(function):
        _refuse(
            function, "it is no function that returns once", "Write async def, or def for one that blocks."
        )
    if inspect.isasyncgenfunction(function):
        _refuse(function, "it yields", "Return the receipt once.")
    hints = _hints(function)
    parameters = list(inspect.signature(function).parameters.values())
    plain = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    if len(parameters) not in (1, 2) or any(each.kind not in plain for each in parameters):
        _refuse(
            function,
            "it takes other parameters",
            "Write (params: Charge) or (params: Charge, attempt: Attempt).",
        )
    if len(parameters) == 2 and hints.get(parameters[1].name, Attempt) is not Attempt:
        _refuse(function, f"its parameter {parameters[1].name!r} is no Attempt", "Annotate it as Attempt.")
    params = _record(function, hints, parameters[0].name, f"the parameter {parameters[0].name!r}")
    return params, _record(function, hints, "return", "the result"), len(parameters) == 2


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        _refuse(
            function, f"the name {error.name!r} of its annotations is not known in its module",
            "Import it at run time, not under TYPE_CHECKING, and define classes at the top level.",
        )  # fmt: skip


def _record(function: Callable[..., Any], hints: Mapping[str, Any], name: str, what: str) -> type:
    if name not in hints:
        _refuse(function, f"{what} has no annotation", "Annotate it with a record class.")
    found = hints[name]
    if not is_record_class(found) or typing.is_typeddict(found):
        shown = getattr(found, "__qualname__", str(found))
        _refuse(
            function, f"{what} is {shown}, which has no fields of its own",
            "Use a msgspec.Struct, a dataclass or a NamedTuple.",
        )  # fmt: skip
    return found


def _refuse(function: object, problem: str, hint: str) -> NoReturn:
    raise Rejected(
        "effects.function", "{name} cannot be an adapter: {problem}",
        name=getattr(function, "__qualname__", repr(function)[:100]), problem=problem, hint=hint,
    )  # fmt: skip
