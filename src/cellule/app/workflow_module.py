"""`app.workflow(...)`: an `async def` as a module of an app.

Its first annotation behind the context says which events start it; `events` are those it awaits. All of them
go to the cell with their key. The function stays what it is: the copy in the bundle has the same decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypedDict, TypeVar, cast

from cellule.app.declarations import KeyChoice, check_flag, check_function, check_named
from cellule.app.effects import timer
from cellule.app.effects_config import Grants, Listed, check_listed
from cellule.app.modules import (
    authored_code,
    checked_options,
    event_paths,
    with_events,
    with_names_of_bundle,
)
from cellule.app.styles import BuildScope, DeclaredFunction, ModuleHandle
from cellule.kernel.manifest.model import TIMER_SET, Failure, Upgrade
from cellule.kernel.manifest.system import CALL_FAILED, LOG, TIMER_FIRED, receipt_event
from cellule.modules.python import ModuleDescription, Retention
from cellule.modules.python.describe import key_schema_of, module_subscriptions
from cellule.modules.python.effects import effect_documents, effect_schemas
from cellule.modules.workflow.program import WORKFLOW
from cellule.modules.workflow.signature import (
    ORDER_FORM,
    WorkflowMark,
    WorkflowSignature,
    mark_workflow,
    order_event,
    read_workflow,
)
from cellule.modules.workflow.view import WorkflowRun, run_of
from cellule.values.names import Name
from cellule.values.schema.codec import codec_for
from cellule.values.schema.document import to_document
from cellule.values.schema.registry import NO_SCHEMAS

_DECLARING: Final = "@app.workflow"
F = TypeVar("F", bound=Callable[..., Any])


class WorkflowOptions(TypedDict, total=False):
    """The options of `@app.workflow`: as those of reducers, and two of its own.

    `events` are those it awaits; with `operation` each run shows its life as an operation.
    """

    events: Iterable[type]
    effects: Iterable[Listed]
    key: KeyChoice
    keyed: bool
    name: str
    version: int
    grants: Grants
    failure: Failure
    upgrade: Upgrade
    retention: Retention | None
    open_max: int | None
    erasable: bool
    operation: bool


class Declares(Protocol):
    """What `@app.workflow(...)` gives: it makes a handle of a function."""

    def __call__(self, function: Callable[..., Any], /) -> ModuleHandle[WorkflowRun]:
        """Declare this function."""


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredWorkflow(DeclaredFunction):
    """See `DeclaredModule`."""

    key: KeyChoice
    keyed: bool

    def described(self, scope: BuildScope) -> WorkflowDescription:
        """See `DeclaredModule`."""
        signature, naming, name = read_workflow(self.function), scope.naming, str(self.full)
        paths = event_paths(scope.app, naming, self, signature.events)
        names = {event: naming.derived(event).name or "" for event in signature.events}
        order = order_event(name)
        subscriptions = module_subscriptions(
            name, {**names, None: order}, None if paths is None else {**paths, None: None}
        )
        schemas = with_events(
            effect_schemas(scope.effects, naming).merged(NO_SCHEMAS), signature.events, naming
        )
        for kind in (signature.result, *(kind for _, kind in signature.arguments)):
            if kind is not None:
                naming.derived(kind)  # refused here, and not when the first run ends
        schemas = schemas.merged({order: ORDER_FORM})
        code, stored = authored_code(scope, self.function, WORKFLOW)
        key = key_schema_of(subscriptions, schemas)
        receipts = [*(receipt_event(form.kind) for form in scope.effects), TIMER_FIRED]
        entry = {
            "kind": "workflow", "style": "workflow", "state": LOG, "log": True, "context": True,
            **self.options.document(), "event": [*names.values(), order, *receipts, CALL_FAILED],
            "effects_emitted": sorted({TIMER_SET, *(form.kind for form in scope.effects)}),
            "code": code.document(),
            **({} if key is None else {"key": to_document(key)}),
        }  # fmt: skip
        return with_names_of_bundle(WorkflowDescription(
            self.function, naming, code, schemas, stored, name, entry, subscriptions, names,
            effects=effect_documents(scope.effects, naming), signature=signature,
        ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkflowDescription(ModuleDescription):
    """A workflow as a module; its states are read as `WorkflowRun`."""

    signature: WorkflowSignature | None = None

    @property
    def state_type(self) -> Any:
        """See `DescribedModule`: a history is no type of the author's."""
        return None

    @property
    def reply_type(self) -> Any:
        """See `DescribedModule`: a workflow replies to nobody."""
        return None

    def read_state(self, entries: Any) -> WorkflowRun:
        """What readers see of a state."""
        assert self.signature is not None
        result = self.signature.result
        return run_of(entries, None if result is None else codec_for(self.naming.derived(result)).from_wire)


def declare_workflow(
    namespace: str, version: int, function: Callable[..., Any], given: WorkflowOptions
) -> DeclaredWorkflow:
    """Check what can be refused at once; raises `app.option` naming the option."""
    check_function(function, _DECLARING)
    check_named(_DECLARING, given, WorkflowOptions)
    options = checked_options(_DECLARING, {"upgrade": "pin", **given})
    listed = check_listed(_DECLARING, given.get("effects", ()))
    full = Name(namespace, given.get("name") or function.__name__, given.get("version", version))
    shown = check_flag(_DECLARING, "operation", given.get("operation", False))
    mark_workflow(function, WorkflowMark(tuple(given.get("events", ())), listed, shown))
    return DeclaredWorkflow(
        function, full, options, (*listed, timer), given.get("key"), given.get("keyed", True)
    )


def handle_of(function: Callable[..., Any]) -> ModuleHandle[WorkflowRun]:
    """The function itself, as a type checker should see it."""
    return cast("ModuleHandle[WorkflowRun]", function)
