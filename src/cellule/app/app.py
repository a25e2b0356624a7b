"""`App`: a namespace, and the events, states, reducers and upcasters that its decorators collect.

    app = App("shop")

    @app.event(key="order_id")
    class Placed(msgspec.Struct, frozen=True): ...

    @app.reducer
    def order(state: Order | None, event: Placed | Paid) -> Step[Order]: ...

Effects, grants, policy and schedules are collected by `effects_config`.

Everything is kept on the app object: there is no global registry, and importing a file registers nothing but
on the app its decorators name. `build` turns the collection into a manifest and the code it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from cellule.app import builder as building
from cellule.app.aggregate_module import AggregateTimes, DeclaredAggregate
from cellule.app.built_app import Built
from cellule.app.declarations import (
    DeclaredClass,
    DeclaredEvent,
    DeclaredReducer,
    KeyChoice,
    bad_option,
    check_flag,
    check_frozen,
    check_function,
    check_record,
    duration_ns,
    is_path,
    is_redefined,
    mark,
    taken,
)
from cellule.app.effects import DeclaredEffect
from cellule.app.effects_config import (
    Budget,
    DeclaredGrant,
    EffectDeclarations,
    Grants,
    Listed,
    check_grants,
    check_listed,
)
from cellule.app.enzyme_module import (
    EnzymeOptions,
    add_mailboxes,
    add_operations,
    declare_enzyme,
    with_entries,
)
from cellule.app.fsm_module import DeclaredFsm, module_name
from cellule.app.modules import checked_options
from cellule.app.plan_module import DeclaredPlan
from cellule.app.rules import Default, Part
from cellule.app.styles import DeclaredModule, ModuleHandle, beside_caller
from cellule.app.wasm_module import WasmOptions, declare_wasm
from cellule.app.workflow_module import Declares, WorkflowOptions, declare_workflow, handle_of
from cellule.effects import limits as most
from cellule.effects.adapter import AdapterLimits, Decorator
from cellule.effects.adapter import adapter as make_adapter
from cellule.effects.adapter_limits import LimitOptions, RequestOptions, request_limits
from cellule.kernel.manifest.model import CatchUp, Failure, Overlap, Upgrade
from cellule.modules.python import Retention
from cellule.modules.python import reducer as declare_reducer
from cellule.modules.python.signature import shown_function
from cellule.modules.workflow.view import WorkflowRun
from cellule.values.names import ModuleName, Name, check_not_reserved
from cellule.values.records import RecordLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

C = TypeVar("C", bound=type)
P = TypeVar("P")
R = TypeVar("R")
S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])


class App:
    """One app: `namespace` begins the names of all it declares; `version` is that of its reducers."""

    def __init__(self, namespace: str, *, version: int = 1) -> None:
        check_not_reserved(ModuleName(namespace, "app").at(version))
        self.namespace = namespace
        self.version = version
        self._events: dict[type, DeclaredEvent] = {}
        self._states: dict[type, DeclaredClass] = {}
        self._modules: dict[str, DeclaredReducer | DeclaredModule] = {}
        self._upcasters: dict[str, Callable[[Any], Any]] = {}
        self._effect_declarations = EffectDeclarations()
        self._built: dict[bool, Built] = {}

    def __repr__(self) -> str:
        return f"App({self.namespace!r}, version={self.version})"

    @property
    def events(self) -> Mapping[type, DeclaredEvent]:
        """The declared events by class."""
        return self._events

    @property
    def states(self) -> Mapping[type, DeclaredClass]:
        """The classes that `state` gave a name."""
        return self._states

    @property
    def modules(self) -> Mapping[str, DeclaredReducer | DeclaredModule]:
        """The reducers and the modules of other styles, by local name."""
        return self._modules

    @property
    def upcasters(self) -> list[Callable[[Any], Any]]:
        """The upcasters in the order they were declared."""
        return list(self._upcasters.values())

    @property
    def effect_declarations(self) -> EffectDeclarations:
        """The declared effects, adapters, grants, policy and schedules."""
        return self._effect_declarations

    @overload
    def event(self, python: C, /) -> C: ...

    @overload
    def event(
        self, python: None = None, /, *, key: str | None = None, name: str | None = None, version: int = 1
    ) -> Callable[[C], C]: ...

    def event(
        self, python: C | None = None, /, *, key: str | None = None, name: str | None = None, version: int = 1
    ) -> C | Callable[[C], C]:
        """Declare a class as an event; `key` is the dotted path of the field that names the cell.

        The event is called `namespace/ClassName@1`, or as `name` and `version` say.
        """

        def declare(given: C) -> C:
            check_record(given, "@app.event")
            check_frozen(given, "@app.event")
            if key is not None and not is_path(key):
                raise bad_option("@app.event", "key", key, 'a path such as "order_id"')
            declared = DeclaredEvent(given, self._schema_name(given, name, version), key)
            self._check_class(declared)
            self._events[given] = declared
            mark(given, self.namespace)
            return given

        return declare if python is None else declare(python)

    @overload
    def state(self, python: C, /) -> C: ...

    @overload
    def state(
        self, python: None = None, /, *, name: str | None = None, version: int = 1
    ) -> Callable[[C], C]: ...

    def state(
        self, python: C | None = None, /, *, name: str | None = None, version: int = 1
    ) -> C | Callable[[C], C]:
        """Give a state, or a record inside of states and events, another name or version than its own."""

        def declare(given: C) -> C:
            check_record(given, "@app.state")
            declared = DeclaredClass(given, self._schema_name(given, name, version))
            self._check_class(declared)
            self._states[given] = declared
            return given

        return declare if python is None else declare(python)

    @overload
    def reducer(self, function: F, /) -> F: ...

    @overload
    def reducer(
        self, function: None = None, /, *, key: KeyChoice = None, keyed: bool = True, name: str | None = None,
        version: int | None = None, failure: Failure = "halt", upgrade: Upgrade = "follow",
        retention: Retention | None = None, reply: Any = None, emits: Iterable[Any] = (),
        effects: Iterable[Listed] = (), grants: Grants = (), open_max: int | None = None,
        cell_mode: bool = True, erasable: bool = False,
    ) -> Callable[[F], F]: ...  # fmt: skip

    def reducer(
        self, function: F | None = None, /, *, key: KeyChoice = None, keyed: bool = True,
        name: str | None = None, version: int | None = None, failure: Failure = "halt",
        upgrade: Upgrade = "follow", retention: Retention | None = None, reply: Any = None,
        emits: Iterable[Any] = (), effects: Iterable[Listed] = (), grants: Grants = (),
        open_max: int | None = None, cell_mode: bool = True, erasable: bool = False,
    ) -> F | Callable[[F], F]:  # fmt: skip
        """Declare a function as a reducer; its annotations say which events it takes.

        `key` names another key than the events do: one path for all, or `{Placed: "customer_id"}`; in the
        map, None means that the sender gives the key. `keyed=False` sends everything to one cell. `failure`:
        whether a cell whose step failed halts or skips the event. `upgrade`: whether cells follow new code or
        stay pinned to the code they were born under. `reply` is the type of replies, `emits` the events it
        emits, `effects` those it may ask for, `grants` those it has, by slot. Beyond `open_max` open intents
        its events wait. `cell_mode=False` keeps all states as a map in one cell. `erasable=True` seals them.
        """
        listed = check_listed("@app.reducer", effects)
        options = checked_options("@app.reducer", {
            "failure": failure, "upgrade": upgrade, "retention": retention, "grants": grants, "keyed": keyed,
            "open_max": open_max, "cell_mode": cell_mode, "erasable": erasable, "emits": emits,
        })  # fmt: skip

        def declare(given: F) -> F:
            check_function(given, "@app.reducer")
            local = name or given.__name__
            full = Name(self.namespace, local, self.version if version is None else version)
            declared = DeclaredReducer(given, local, full.version, key, keyed, options, listed)
            self._check_free(declared, str(full.base))
            declare_reducer(reply=reply, emits=tuple(emits))(given)
            self._built.clear()
            self._modules[local] = declared
            return given

        return declare if function is None else declare(function)

    def add_module(self, declared: DeclaredModule) -> None:
        """Add a module of a style; the methods named after the styles call this."""
        self._check_free(declared, f"{self.namespace}/{declared.local}")
        self._built.clear()
        self._modules[declared.local] = declared

    def aggregate(
        self, name: str, *events: type, measures: Mapping[str, str], by: str | None = None,
        window: timedelta | None = None, at: str | None = None, grace: timedelta | None = None,
        ahead: timedelta | None = None, closes: Iterable[type] = (), fails: Iterable[type] = (),
        version: int | None = None, erasable: bool = False, **limits: Any,
    ) -> ModuleHandle[Any]:  # fmt: skip
        """Declare an aggregate of these events: `measures` such as `{"revenue": "sum(amount)"}` by name.

        `by` names the field of the namespace, where it is not the key of the events. Windows of the length
        `window` go by the time in the field `at`, or by world time; `grace` and `ahead` are how late and how
        early an item may come. `closes` and `fails` are events that end aggregations, `erasable` lets each be
        erased. `limits`: `batch`, `distinct_max`, `windows_max`, `on_limit`, `items`, the path of a list.
        """
        full = Name(self.namespace, name, self.version if version is None else version)
        times = AggregateTimes(window, at, grace, ahead)
        handle: ModuleHandle[Any] = ModuleHandle(str(full.base))
        declared = DeclaredAggregate(
            handle, full, events, dict(measures), by, times, tuple(closes), tuple(fails), limits, erasable
        )
        self.add_module(declared)
        return handle

    def wasm(
        self, name: str, file: str | Path, *events: type, state: type[S], **options: Unpack[WasmOptions]
    ) -> ModuleHandle[S]:
        """Declare a module in WebAssembly that takes these events and keeps states of the class `state`.

        `file` is a .wasm or .wat file; a relative path counts from the file that this call stands in. `fuel`
        and `memory_bytes` limit a step; `context=True` gives it the context. The other options are those of
        reducers: `key`, `keyed`, `reply`, `emits`, `effects`, `grants`, `failure`, `upgrade`, `retention`,
        `open_max`, `erasable`, `version`.
        """
        full = Name(self.namespace, name, options.get("version", self.version))
        declared = declare_wasm(full, beside_caller(file), events, state, options)
        self.add_module(declared)
        return declared.handle

    def fsm(
        self, file: str | Path, *, name: str | None = None, grants: Grants = (), erasable: bool = False,
        upgrade: Upgrade = "follow", failure: Failure = "halt", version: int | None = None,
    ) -> ModuleHandle[Any]:  # fmt: skip
        """Declare a machine by its contract, a YAML file beside the file that calls this.

        The module is called as the file (`order.fsm.yaml` is `order`) unless `name` says otherwise. Triggers
        are the app's events of the same name, or events that the contract brings. `grants` are those its
        effects need, by slot.
        """
        path = beside_caller(file)
        full = Name(self.namespace, name or module_name(path), self.version if version is None else version)
        given = {"upgrade": upgrade, "failure": failure, **({"erasable": erasable} if erasable else {})}
        slots = checked_options("app.fsm", {**given, "grants": grants}).cap_slots
        handle: ModuleHandle[Any] = ModuleHandle(str(full.base))
        self.add_module(DeclaredFsm(handle, full, path, slots, given, self._effect_declarations.effects))
        return handle

    @overload
    def workflow(self, function: Callable[..., Any], /) -> ModuleHandle[WorkflowRun]: ...

    @overload
    def workflow(self, function: None = None, /, **options: Unpack[WorkflowOptions]) -> Declares: ...

    def workflow(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[WorkflowOptions]
    ) -> ModuleHandle[WorkflowRun] | Declares:
        """Declare `async def billing(ctx: Workflow, new: Subscribed) -> Bill`: a run for each key.

        The second annotation says which events start a run, `events` are those it awaits, `effects` those it
        may ask for. The other options are those of reducers: `key`, `keyed`, `name`, `version`, `grants`,
        `failure`, `retention`, `open_max`, `erasable`, `upgrade` ("pin" if unsaid), `operation`: each is one.
        """
        self._show(options.get("operation"))

        def declare(given: Callable[..., Any], /) -> ModuleHandle[WorkflowRun]:
            self.add_module(declare_workflow(self.namespace, self.version, given, options))
            return handle_of(given)

        return declare if function is None else declare(function)

    def enzyme(self, query: str, /, **options: Unpack[EnzymeOptions]) -> Callable[[F], F]:
        """Declare `def resize(ctx: EnzymeContext, signal, target)`: it runs for signals that match the query.

        `match="prefix"` lets the signal go on; `before` and `after` order it against other enzymes by name;
        `access="ro"` keeps it from writing the tree, `writes` lets it write these subtrees only. See
        `EnzymeOptions` for the others.
        """

        def declare(function: F) -> F:
            declared = declare_enzyme(self.namespace, self.version, function, query, options)
            both = with_entries(self._modules.get(declared.local), declared)
            if both is None:
                self.add_module(declared)
            else:
                self._built.clear()
                self._modules[declared.local] = both
            return function

        return declare

    def mailboxes(self) -> None:
        """Have the enzyme that runs mailboxes, for `Mailbox(ctx, path)` and `world.mailbox(path)`."""
        add_mailboxes(self.enzyme)

    def operations(self) -> None:
        """Let cells show their work as operations, by `Signal("/op/begin")`, `/op/tell` and `/op/end`."""
        add_operations(self.enzyme, self._modules)

    def _show(self, operation: object) -> None:
        if check_flag(self.namespace, "operation", operation or False):
            self.operations()

    def plan(
        self, name: str, plan: str | PathLike[str] | Mapping[str, Any], *, triggers: Mapping[type, str],
        grants: Grants = (), version: int | None = None, operation: bool = False, erasable: bool = False,
    ) -> ModuleHandle[Any]:  # fmt: skip
        """Declare a plan: a file of JSON or YAML beside the file that calls this, or the map in it.

        `triggers` are the events that start a run, each with the field whose value is the run's correlation:
        there is one run for each. A run is a cell with that key; `grants` are those its effects may use. With
        `operation` each run shows its life as an operation, with `erasable` each can be erased.
        """
        self._show(operation)
        full = Name(self.namespace, name, self.version if version is None else version)
        handle: ModuleHandle[Any] = ModuleHandle(str(full.base))
        source = plan if isinstance(plan, Mapping) else beside_caller(plan)
        slots = check_grants(grants)
        self.add_module(DeclaredPlan(handle, full, source, dict(triggers), slots, operation, erasable))
        return handle

    def upcaster(self, function: F, /) -> F:
        """Declare `def up(old: OrderV1) -> Order`: how values of an older schema become newer ones."""
        check_function(function, "@app.upcaster")
        self._built.clear()
        self._upcasters[f"{function.__module__}:{function.__qualname__}"] = function
        return function

    def effect(
        self, kind: str, *, params: type[P], receipt: type[R], needs_grant: bool = False,
        operation: bool = False, **options: Unpack[RequestOptions],
    ) -> DeclaredEffect[P, R]:  # fmt: skip
        """Declare an effect that an adapter elsewhere performs; calling the result makes a request.

        `options` are `timeout_s`, `attempts`, `deadline_s`, `priority`, `backoff_s` and `backoff_max_s`: for
        every request that says nothing else, and before what the adapter says. With `operation` each request
        shows its life as an operation, at `/operations/effects/<intent>`.
        """
        self._show(operation)
        priority = options.get("priority", most.PRIORITY)
        limits = AdapterLimits(priority=priority, needs_grant=needs_grant, operation=operation)
        declared = DeclaredEffect(kind, params, receipt, limits, request_limits(options))
        self._effect_declarations.add_effect(declared)
        self._built.clear()
        return declared

    def adapter(self, kind: str | DeclaredEffect[Any, Any], **limits: Unpack[LimitOptions]) -> Decorator:
        """Declare `async def charge(params: Charge, attempt: Attempt) -> Charged`: an effect and its adapter.

        What is decorated can be listed at reducers, and called by them to make a request. A plain `def` runs
        on a thread. `limits` are the fields of `AdapterLimits`.
        """
        decorate = make_adapter(kind.kind if isinstance(kind, DeclaredEffect) else kind, **limits)

        self._show(limits.get("operation"))

        def declare(function: Callable[..., Any]) -> Any:
            made = decorate(function)
            self._effect_declarations.add_adapter(made)
            self._built.clear()
            return made

        return declare

    def grant(
        self, name: str, *, effects: Iterable[Listed], hosts: Iterable[str] | None = None,
        methods: Iterable[str] | None = None, allow: Mapping[str, Iterable[str]] | None = None,
        bytes_max: int | None = None, budget: Budget | None = None, budget_by: str | None = None,
        expires: datetime | None = None, private: bool = False,
    ) -> DeclaredGrant:  # fmt: skip
        """Declare what reducers that have this grant may do; what is left out is not restricted.

        `allow` names texts or patterns with `*` for fields of the params; `budget` is a count and a period,
        for the world, for each cell (`budget_by="cell"`) or each value of a field of the params
        (`budget_by="tenant"`); `private` lets it reach private addresses. Name it at reducers:
        `grants=["stripe"]`.
        """
        parts = {
            "hosts": _listed(hosts), "methods": _listed(methods), "bytes_max": bytes_max,
            "allow": None if allow is None else {path: _listed(each) for path, each in allow.items()},
            "private": private or None,
        }  # fmt: skip
        found = self._effect_declarations.add_grant(name, effects, budget, budget_by, expires, parts)
        self._built.clear()
        return found

    def policy(self, *parts: Part, default: Default | None = None) -> None:
        """Add rules, or the name of a shipped policy; the first that matches decides, then the default."""
        self._effect_declarations.policies.add(parts, default)
        self._built.clear()

    def schedule(
        self, name: str, *, event: RecordLike, cron: str | None = None, zone: str | None = None,
        every: timedelta | None = None, start: datetime | None = None, key: object = None,
        catch_up: CatchUp = "once", limit: int | None = None, overlap: Overlap = "allow",
        jitter: timedelta | None = None,
    ) -> None:  # fmt: skip
        """Send an event by the calendar (`cron` in a time `zone`) or at an interval (`every`).

        `catch_up` says what happens to times that were missed: skip them, make up for them once, or
        `backfill` up to `limit` of them. `overlap` says what happens while its cell is busy: it is sent
        all the same, skipped, or (`buffer`, one run) kept until the cell is idle. `jitter` puts each time
        off by up to that, drawn anew each time.
        """
        parts = {"cron": cron, "zone": zone, "catch_up": catch_up, "limit": limit, "overlap": overlap}
        if jitter is not None:
            parts["jitter_ns"] = duration_ns("App.schedule", "jitter", jitter)
        self._effect_declarations.add_schedule(name, event, key, parts, every, start)
        self._built.clear()

    def build(self, *, live: bool = False) -> Built:
        """The manifest of this app, its code as blocks, and the codecs of its classes; built once.

        Code is bundled from the files it stands in. `live` leaves it where it is: no other process can run
        it.
        """
        found = self._built.get(live)
        if found is None:
            found = self._built[live] = building.build(self, live=live)
        return found

    def is_built(self, *, live: bool = False) -> bool:
        """Whether `build` has its answer already."""
        return live in self._built

    def _schema_name(self, python: type, name: str | None, version: int) -> str:
        return str(Name(self.namespace, name or python.__name__, version))

    def _check_free(self, declared: DeclaredReducer | DeclaredModule, base: str) -> None:
        """Refuse a name that another module of this app has; one that is defined anew replaces itself."""
        known = self._modules.get(declared.local)
        if known is None:
            return
        if (
            isinstance(known, DeclaredReducer)
            and isinstance(declared, DeclaredReducer)
            and is_redefined(known.function, declared.function)
        ):
            return
        raise taken(f"the module {base}", known.where, declared.where)

    def _check_class(self, declared: DeclaredClass) -> None:
        """Refuse a name that another class of this app has; forget a class that is defined anew."""
        self._built.clear()
        kinds: tuple[dict[type, Any], ...] = (self._events, self._states)
        for kind in kinds:
            for known in list(kind.values()):
                if known.name != declared.name or known.python is declared.python:
                    continue
                if not is_redefined(known.python, declared.python):
                    old, new = (shown_function(each.python) for each in (known, declared))
                    raise taken(declared.name, old, new)
                del kind[known.python]


def _listed(texts: Iterable[str] | None) -> list[str] | str | None:
    """A list of texts; a single text is left as it is, for the manifest to refuse with its place."""
    return texts if texts is None or isinstance(texts, str) else list(texts)
