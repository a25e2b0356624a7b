"""`app.workflow(...)`: an `async def` as a module of an app.

Its first annotation behind the context says which events start it; `events` are those it awaits. All of them
go to the cell with their key. The function stays what it is: the copy in the bundle has the same decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypedDict, TypeVar, cast

from cellule.app.declarations import KeyChoice, check_choice, check_function, check_open_max, check_retention
from cellule.app.effects import timer
from cellule.app.effects_config import Grants, Listed, check_grants, check_listed
from cellule.app.keys import check_paths, key_paths
from cellule.app.modules import check_events, for_authors, with_names_of_bundle
from cellule.app.styles import BuildScope, ModuleHandle
from cellule.errors import Rejected
from cellule.kernel.manifest.model import TIMER_SET, Failure, Upgrade
from cellule.kernel.manifest.system import LOG, TIMER_FIRED, receipt_event
from cellule.modules.python import ModuleDescription, ModuleOptions, Retention
from cellule.modules.python.describe import code_of
from cellule.modules.python.effects import effect_documents, effect_schemas
from cellule.modules.python.signature import shown_function
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
from cellule.values.schema.keys import check_key_path
from cellule.values.schema.registry import NO_SCHEMAS, Schemas

_DECLARING: Final = "@app.workflow"
F = TypeVar("F", bound=Callable[..., Any])


class WorkflowOptions(TypedDict, total=False):
    """The options of `@app.workflow`: as those of reducers, and `events`, which are those it awaits."""

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


class Declares(Protocol):
    """What `@app.workflow(...)` gives: it makes a handle of a function."""

    def __call__(self, function: Callable[..., Any], /) -> ModuleHandle[WorkflowRun]:
        """Declare this function."""


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredWorkflow:
    """See `DeclaredModule`."""

    function: Callable[..., Any]
    full: Name
    key: KeyChoice
    keyed: bool
    options: ModuleOptions
    effects: tuple[Listed, ...]

    @property
    def local(self) -> str:
        """See `DeclaredModule`."""
        return self.full.local

    @property
    def where(self) -> str:
        """See `DeclaredModule`."""
        return shown_function(self.function)

    @property
    def cap_slots(self) -> Mapping[str, str]:
        """See `DeclaredModule`."""
        return self.options.cap_slots

    def described(self, scope: BuildScope) -> WorkflowDescription:
        """See `DeclaredModule`."""
        signature, naming, name = read_workflow(self.function), scope.naming, str(self.full)
        check_events(scope.app, self.where, signature.events, "takes")
        paths = key_paths(self, signature.events, scope.app.events)
        if paths is not None:
            check_paths(self, paths, naming)
        names = {event: naming.derived(event).name or "" for event in signature.events}
        subscriptions = tuple(
            {"event": names[event], "module": name, **({} if paths is None else _key(paths[event]))}
            for event in names
        )
        schemas = effect_schemas(scope.effects, naming).merged(NO_SCHEMAS)
        for event in signature.events:
            schemas = schemas.merged(naming.derived(event).schemas)
        for kind in (signature.result, *(kind for _, kind in signature.arguments)):
            if kind is not None:
                naming.derived(kind)  # refused here, and not when the first run ends
        order = order_event(name)
        schemas = schemas.merged({order: ORDER_FORM})
        subscriptions += ({"event": order, "module": name, **({} if paths is None else _key(None))},)
        try:
            code, stored = code_of(self.function, naming, live=scope.live)
        except Rejected as error:
            raise for_authors(scope.app, self.function, error) from error
        code = replace(code, form=WORKFLOW)
        entry = {
            **self._entry(scope), "event": [*names.values(), order, *_receipts(scope)],
            "code": code.document(),
            **_key_schema(subscriptions, schemas),
        }  # fmt: skip
        return with_names_of_bundle(WorkflowDescription(
            self.function, naming, code, schemas, stored, name, entry, subscriptions, names,
            effects=effect_documents(scope.effects, naming), signature=signature,
        ))  # fmt: skip

    def _entry(self, scope: BuildScope) -> dict[str, Any]:
        options = self.options
        return {
            "kind": "workflow", "style": "workflow", "state": LOG, "log": True, "context": True,
            "retention": options.retention.document(), "failure": options.failure,
            "upgrade": options.upgrade, "cap_slots": dict(options.cap_slots), "open_max": options.open_max,
            "effects_emitted": sorted({TIMER_SET, *(form.kind for form in scope.effects)}),
        }  # fmt: skip


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
    failure, upgrade = given.get("failure", "halt"), given.get("upgrade", "pin")
    check_choice("failure", failure, ("halt", "skip"), _DECLARING)
    check_choice("upgrade", upgrade, ("follow", "pin"), _DECLARING)
    check_retention(given.get("retention"), _DECLARING)
    check_open_max(given.get("open_max"), _DECLARING)
    options = ModuleOptions(
        failure=failure, upgrade=upgrade, retention=given.get("retention") or Retention(),
        cap_slots=check_grants(given.get("grants", ())), open_max=given.get("open_max"),
    )  # fmt: skip
    listed = check_listed(_DECLARING, given.get("effects", ()))
    full = Name(namespace, given.get("name") or function.__name__, given.get("version", version))
    mark_workflow(function, WorkflowMark(tuple(given.get("events", ())), listed))
    return DeclaredWorkflow(
        function, full, given.get("key"), given.get("keyed", True), options, (*listed, timer)
    )


def handle_of(function: Callable[..., Any]) -> ModuleHandle[WorkflowRun]:
    """The function itself, as a type checker should see it."""
    return cast("ModuleHandle[WorkflowRun]", function)


def _key(path: str | None) -> dict[str, Any]:
    return {"key_only": True} if path is None else {"key_field": path}


def _key_schema(subscriptions: Iterable[Mapping[str, Any]], schemas: Schemas) -> dict[str, Any]:
    for each in subscriptions:
        if "key_field" in each:
            found = check_key_path(schemas[each["event"]], schemas, each["key_field"])
            return {"key": to_document(found)}
    return {}


def _receipts(scope: BuildScope) -> list[str]:
    return [*(receipt_event(form.kind) for form in scope.effects), TIMER_FIRED]
