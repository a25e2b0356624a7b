"""Reading a workflow's signature: `async def billing(ctx: Workflow, new: Subscribed, turn: int = 1) -> Bill`.

The second parameter says which events start it, the return value what it gives. Further parameters need
defaults: only `ctx.again` gives them. What it awaits stands in its decorator, and is kept on the function, so
that the copy in a bundle has it too.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from cellule.errors import Rejected
from cellule.modules.python.signature import members, shown_function
from cellule.modules.python.system import is_delivered
from cellule.modules.workflow.flow import Workflow
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.fields import is_record_class

CANCEL: Final = "cancel"
RERUN: Final = "rerun"
_MARK: Final = "__cellule_workflow__"
FORM: Final = "Write it like `async def billing(ctx: Workflow, new: Subscribed) -> Bill`."
_NONE: Final = (None, type(None))


@dataclass(frozen=True, slots=True)
class WorkflowMark:
    """What the decorator adds: what it awaits, what it may ask for, whether its runs are operations."""

    events: tuple[Any, ...] = ()
    effects: tuple[Any, ...] = ()
    operation: bool = False


@dataclass(frozen=True, slots=True)
class WorkflowSignature:
    """What a workflow takes and gives; `arguments` are those that only `ctx.again` gives."""

    function: Callable[..., Any]
    starts: tuple[Any, ...]
    arguments: tuple[tuple[str, Any], ...]
    result: Any  # None: nothing
    mark: WorkflowMark

    @property
    def events(self) -> tuple[Any, ...]:
        """All events that come to it, each once."""
        return tuple(dict.fromkeys((*self.starts, *self.mark.events)))


def order_event(module: str) -> str:
    """The event by which somebody outside cancels the runs of a module, or lets them begin anew."""
    name = Name.parse(module)
    return f"{name.namespace}/{name.local}_order@1"


ORDER_FORM: Final = t.record({"verb": t.Text(), "why": t.Option(t.Text())})


def mark_workflow(function: Callable[..., Any], mark: WorkflowMark) -> None:
    """Note on a function what its decorator says."""
    setattr(function, _MARK, mark)


def read_workflow(function: Callable[..., Any]) -> WorkflowSignature:
    """Read a workflow's signature; raises `Rejected` naming the function and what to write instead."""
    if not inspect.iscoroutinefunction(function):
        _refuse(function, "not_async", "it is no `async def`", FORM)
    parameters = list(inspect.signature(function).parameters.values())
    hints = _hints(function)
    if len(parameters) < 2:
        problem = f"it has {len(parameters)} parameters, not the context and the event that starts it"
        _refuse(function, "parameters", problem, FORM)
    for at, parameter in enumerate(parameters):
        _check_parameter(function, at, parameter)
    context, start, *others = parameters
    if hints.get(context.name, Workflow) is not Workflow:
        problem = f"its first parameter {context.name!r} is {shown_type(hints[context.name])}, not Workflow"
        _refuse(function, "parameters", problem, FORM)
    for name in (start.name, *(each.name for each in others), "return"):
        if name not in hints:
            what = "its return value" if name == "return" else f"its parameter {name!r}"
            _refuse(function, "annotation_missing", f"{what} has no annotation", FORM)
    starts = tuple(members(hints[start.name]))
    mark: WorkflowMark = getattr(function, _MARK, WorkflowMark())
    for event in (*starts, *mark.events):
        _check_event(function, event)
    result = hints["return"]
    arguments = tuple((each.name, hints[each.name]) for each in others)
    return WorkflowSignature(function, starts, arguments, None if result in _NONE else result, mark)


def _check_parameter(function: object, at: int, parameter: inspect.Parameter) -> None:
    if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
        _refuse(function, "parameters", f"its parameter {parameter} is not given by position", FORM)
    if (parameter.default is parameter.empty) == (at > 1):
        problem = f"its parameter {parameter.name!r} has {'no ' if at > 1 else 'a '}default"
        hint = (
            "An event gives the second parameter only; those behind it, ctx.again gives: they need defaults."
        )
        _refuse(function, "parameters", problem, hint)


def _check_event(function: object, event: Any) -> None:
    if event in _NONE or is_delivered(event) or not is_record_class(typing.get_origin(event) or event):
        problem = f"{shown_type(event)} is no event that somebody sends"
        hint = "Name the classes of events; receipts and timers come as what `await` gives."
        _refuse(function, "event_type", problem, hint)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise Rejected(
            "workflow.annotation_unknown", "{function}: its annotations cannot be read: {problem}.",
            function=shown_function(function), problem=str(error),
            hint="Define or import the classes at the top level of the module, not under `if TYPE_CHECKING`.",
        ) from error  # fmt: skip


def _refuse(function: object, code: str, problem: str, hint: str) -> NoReturn:
    raise Rejected(
        f"workflow.{code}", "{function} cannot be a workflow: {problem}.",
        function=shown_function(function), problem=problem, hint=hint,
    )  # fmt: skip
