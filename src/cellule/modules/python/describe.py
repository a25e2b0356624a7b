"""From a function to its entry in a manifest: `describe(order, namespace="com.acme", key="order_id")`.

A description holds everything a manifest needs of one module: the entry, its schemas, its subscriptions and
the blocks of its code. `manifest_document` joins descriptions into one document. Whole apps, with their
decorators and checks across modules, are the business of the layer above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.manifest.model import Failure, Kind, Upgrade
from cellule.modules.python.bundle import Bundle
from cellule.modules.python.code import LIVE, PYTHON, PythonCode
from cellule.modules.python.collect import bundle, find_home
from cellule.modules.python.effects import (
    TIMER,
    EffectForm,
    effect_documents,
    effect_schemas,
    receipt_events,
)
from cellule.modules.python.guard import check_deterministic
from cellule.modules.python.map_state import map_state
from cellule.modules.python.module_names import Naming
from cellule.modules.python.signature import Signature, read_signature, read_upcaster, shown_function
from cellule.values.cid import Cid
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.derive import Derived
from cellule.values.schema.document import to_document
from cellule.values.schema.keys import check_key_path
from cellule.values.schema.registry import NO_SCHEMAS, Schemas

KeyPaths = str | Mapping[Any, str | None]
"""Where the key stands in events: one path for all, or one by class (None = the sender gives the key)."""


@dataclass(frozen=True, slots=True)
class Description:
    """A function as manifests see it: its code, how its classes are named, the schemas it needs."""

    function: Callable[..., Any]
    naming: Naming
    code: PythonCode
    schemas: Schemas
    bundle: Bundle | None

    @property
    def blocks(self) -> Mapping[Cid, bytes]:
        """What has to be in the CAS for the code to run; empty for live code."""
        return {} if self.bundle is None else self.bundle.blocks


@dataclass(frozen=True, slots=True)
class ModuleDescription(Description):
    """A reducer as a module: its entry in the manifest, and how events come to it."""

    name: str
    entry: Mapping[str, Any]
    subscriptions: tuple[Mapping[str, Any], ...]
    events: Mapping[Any, str]  # schema names by class
    receipts: Mapping[str, Any] = field(default_factory=dict)  # what comes of its effects: types by schema
    effects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # entries of the manifest by kind

    @property
    def handle(self) -> Callable[..., Any]:
        """What callers name the module by."""
        return self.function

    @property
    def state_type(self) -> Any:
        """The type of its states."""
        return read_signature(self.function).state

    @property
    def reply_type(self) -> Any:
        """The type of its replies; None where it declares none."""
        return read_signature(self.function).reply


@dataclass(frozen=True, slots=True)
class UpcasterDescription(Description):
    """An upcaster: its entry in the manifest."""

    entry: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Retention:
    """When cells leave by themselves: so long after their birth, or after their last step."""

    ttl: timedelta | None = None
    idle: timedelta | None = None

    def document(self) -> dict[str, int]:
        """The entry of the manifest."""
        given = {"ttl_ns": self.ttl, "idle_ns": self.idle}
        return {
            name: span // timedelta(microseconds=1) * 1_000
            for name, span in given.items()
            if span is not None
        }


@dataclass(frozen=True, slots=True)
class ModuleOptions:
    """What a module is beside its function."""

    kind: Kind = "workflow"
    failure: Failure = "halt"
    upgrade: Upgrade = "follow"
    retention: Retention = field(default_factory=Retention)
    effects_emitted: tuple[str, ...] = ()
    log: bool = False
    cap_slots: Mapping[str, str] = field(default_factory=dict)
    open_max: int | None = None
    cell_mode: bool = True
    erasable: bool = False

    def document(self) -> dict[str, Any]:
        """Its part of a module's entry in the manifest."""
        return {
            "retention": self.retention.document(), "failure": self.failure, "upgrade": self.upgrade,
            "cap_slots": dict(self.cap_slots), "open_max": self.open_max,
            **({} if self.cell_mode else {"cell_mode": False}),
            **({"erasable": True} if self.erasable else {}),
        }  # fmt: skip


def describe(
    function: Callable[..., Any],
    *,
    namespace: str,
    name: str | None = None,
    version: int = 1,
    schema_version: int = 1,
    names: Mapping[Any, str] | None = None,
    key: KeyPaths | None = None,
    options: ModuleOptions | None = None,
    live: bool = False,
    include: Iterable[str] = (),
    guard: bool = True,
    effects: Iterable[EffectForm] = (),
) -> ModuleDescription:
    """Describe a reducer as the module `namespace/name@version`; without a `name`, that of the function.

    Classes are named `namespace/ClassName@schema_version`, or as `names` says. `live` describes a function
    that runs as it stands, without a bundle. `guard=False` leaves out the check for code that could not be
    repeated. `effects` are those the reducer may ask for, beside the kinds that `options` lists.
    """
    signature = read_signature(function)
    naming = Naming(namespace, schema_version, dict(names or {}))
    full_name = str(Name.parse(f"{namespace}/{name or function.__name__}@{version}"))
    code, stored = code_of(function, naming, live=live, include=include, guard=guard)
    state = _state(signature, naming, full_name)
    events = {event: naming.derived(event) for event in signature.events}
    options, forms = options or ModuleOptions(), _forms(effects, options)
    receipts = receipt_events(signature, forms, naming)
    schemas = _merged([state, *events.values(), *(naming.derived(event) for event in signature.emits)])
    schemas = schemas.merged(effect_schemas(forms, naming))
    event_names = {event: derived.name or "" for event, derived in events.items()}
    subscriptions = module_subscriptions(full_name, event_names, _paths(function, event_names, key))
    key_schema = key_schema_of(subscriptions, schemas)
    if not options.cell_mode and key_schema is not None:
        state = map_state(state, key_schema, full_name)
        schemas = schemas.merged(state.schemas)
    entry = _entry(signature, options, state.name or "", [*event_names.values(), *receipts])
    emitted = sorted({*options.effects_emitted, *(form.kind for form in forms)})
    entry |= {"effects_emitted": emitted, "code": code.document()}
    entry |= {} if key_schema is None else {"key": to_document(key_schema)}
    return ModuleDescription(
        function, naming, code, schemas, stored, full_name, entry, subscriptions, event_names, receipts,
        effect_documents(forms, naming),
    )  # fmt: skip


def describe_upcaster(
    function: Callable[[Any], Any],
    *,
    namespace: str,
    old: str | None = None,
    new: str | None = None,
    schema_version: int = 1,
    names: Mapping[Any, str] | None = None,
    live: bool = False,
    guard: bool = True,
) -> UpcasterDescription:
    """Describe an upcaster; `old` and `new` name the schemas of its argument and its answer."""
    signature = read_upcaster(function)
    naming = Naming(namespace, schema_version, dict(names or {}))
    before, after = naming.derived(signature.old, old), naming.derived(signature.new, new)
    if before.name is None or after.name is None or before.name == after.name:
        raise Rejected(
            "modules.upcaster_type", "{function} leads from {old} to {new}: two different names are needed.",
            function=shown_function(function), old=before.name, new=after.name,
            hint="Name them: describe_upcaster(up, old='com.acme/Order@1', new='com.acme/Order@2', ...).",
        )  # fmt: skip
    code, stored = code_of(function, naming, live=live, include=(), guard=guard)
    entry = {"from": before.name, "to": after.name, "code": code.document()}
    return UpcasterDescription(function, naming, code, _merged([before, after]), stored, entry)


def manifest_document(
    modules: Iterable[Any], upcasters: Iterable[UpcasterDescription] = ()
) -> dict[str, Any]:
    """One document of several descriptions, in the form `load_manifest` takes."""
    modules, upcasters = list(modules), list(upcasters)
    schemas = NO_SCHEMAS
    for each in (*modules, *upcasters):
        schemas = schemas.merged(each.schemas)
    own = {
        name: document for name, document in schemas.documents().items() if not Name.parse(name).is_reserved
    }
    effects = {kind: dict(body) for module in modules for kind, body in module.effects.items()}
    return {
        "schemas": own,
        **({"effects": effects} if effects else {}),
        "modules": {module.name: dict(module.entry) for module in modules},
        "routing": {"subscriptions": [dict(each) for module in modules for each in module.subscriptions]},
        "upcasters": [dict(upcaster.entry) for upcaster in upcasters],
    }


def _forms(effects: Iterable[EffectForm], options: ModuleOptions | None) -> list[EffectForm]:
    """The effects of a module; a timer may be listed by its kind alone."""
    forms = list(effects)
    listed = () if options is None else options.effects_emitted
    if TIMER.kind in listed and TIMER not in forms:
        forms.append(TIMER)
    return forms


def _state(signature: Signature, naming: Naming, module: str) -> Derived[Any]:
    found = naming.derived(signature.state)
    if found.name is not None:
        return found
    local = Name.parse(module).local
    return naming.derived(signature.state, f"{naming.namespace}/{local}State@{naming.version}")


def _entry(signature: Signature, options: ModuleOptions, state: str, events: list[str]) -> dict[str, Any]:
    return {
        "kind": options.kind, "style": "reducer", "state": state, "event": events,
        "context": signature.takes_context, "log": options.log, **options.document(),
    }  # fmt: skip


def _paths(
    function: Callable[..., Any], events: Iterable[Any], key: KeyPaths | None
) -> Mapping[Any, str | None] | None:
    if key is None:
        return None
    if isinstance(key, str):
        return dict.fromkeys(events, key)
    for event in events:
        if event not in key:
            raise Rejected(
                "modules.key_missing", "{function}: no key is named for the event {event}.",
                function=shown_function(function), event=shown_type(event),
                hint="A keyed module needs one for each event: a path, or None if the sender gives it.",
            )  # fmt: skip
    return key


def module_subscriptions(
    module: str, names: Mapping[Any, str], paths: Mapping[Any, str | None] | None
) -> tuple[dict[str, Any], ...]:
    """The entries in `routing.subscriptions` of a module that takes these events; unkeyed without `paths`."""
    return tuple(
        {"event": name, "module": module, **({} if paths is None else key_part(paths[event]))}
        for event, name in names.items()
    )


def key_part(path: str | None) -> dict[str, Any]:
    """How a subscription says where the key stands; None: the sender gives it."""
    return {"key_only": True} if path is None else {"key_field": path}


def key_schema_of(subscriptions: Iterable[Mapping[str, Any]], schemas: Schemas) -> t.Schema | None:
    """The type of a module's key, by the first event that holds it; None for a module without keys."""
    for subscription in subscriptions:
        if "key_field" in subscription:
            event = subscription["event"]
            return check_key_path(schemas[event], schemas, subscription["key_field"])
    return None


def _merged(derived: Iterable[Derived[Any]]) -> Schemas:
    schemas = NO_SCHEMAS
    for each in derived:
        schemas = schemas.merged(each.schemas)
    return schemas


def code_of(
    function: Callable[..., Any], naming: Naming, *, live: bool, include: Iterable[str] = (),
    guard: bool = True,
) -> tuple[PythonCode, Bundle | None]:  # fmt: skip
    """A function as code of a manifest, and its bundle unless it runs live."""
    if live:
        entry = f"{function.__module__}:{function.__qualname__}"
        return PythonCode(LIVE, entry, naming.namespace, naming.version), None
    stored = bundle(function, include=include)
    if guard:
        check_deterministic(stored)
    home = find_home(function).module
    names = {}
    for python, name in naming.names.items():
        module = home if python.__module__ == function.__module__ else python.__module__
        names[f"{module}:{python.__qualname__}"] = name
    return PythonCode(PYTHON, stored.plan.entry, naming.namespace, naming.version, names, stored.root), stored
