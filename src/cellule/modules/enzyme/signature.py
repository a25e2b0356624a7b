"""What an enzyme looks like: `def resize(ctx, signal, target)`; the parameters may have other names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from cellule.errors import Rejected
from cellule.modules.python.signature import shown_function

_PARAMETERS: Final = 3
_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check_enzyme(function: Callable[..., Any]) -> None:
    """Refuse what cannot be run as an enzyme."""
    parameters = list(inspect.signature(function).parameters.values())
    by_position = [each for each in parameters if each.kind in _BY_POSITION]
    needed = [each for each in parameters if each.default is inspect.Parameter.empty]
    if len(by_position) < _PARAMETERS or len(needed) > _PARAMETERS:
        given = ", ".join(each.name for each in parameters)
        raise _wrong(function, f"it takes ({given})")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise _wrong(function, "it is asynchronous, or a generator")


def _wrong(function: Callable[..., Any], problem: str) -> Rejected:
    return Rejected(
        "modules.enzyme_signature", "{function} is no enzyme: {problem}.",
        function=shown_function(function), problem=problem,
        hint="Write `def name(ctx, signal, target)`, which returns None, RETRY, FATAL or another number.",
    )  # fmt: skip
