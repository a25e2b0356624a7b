"""`app.wasm(...)`: a WebAssembly module whose events and state are classes of the app.

The file is read when the app is built, and goes into the manifest's blocks; a node never looks for it. What a
module exports and may use is checked by `modules/wasm`. It gets the receipts of every effect that it lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict

from cellule.app.declarations import (
    KeyChoice,
    bad_option,
    check_cell_mode,
    check_choice,
    check_open_max,
    check_retention,
)
from cellule.app.effects_config import Grants, Listed, check_grants, check_listed
from cellule.app.keys import check_entry_keys, check_paths, key_paths
from cellule.app.modules import check_events
from cellule.app.styles import BuildScope, ModuleHandle, StyleDescription
from cellule.kernel.manifest.model import TIMER_SET, Failure, Upgrade
from cellule.kernel.manifest.system import TIMER_FIRED, receipt_event
from cellule.modules.python import ModuleOptions, Retention
from cellule.modules.python.effects import effect_documents, effect_schemas
from cellule.modules.python.map_state import map_state
from cellule.modules.wasm.code import read_module_file
from cellule.modules.wasm.programs import pack_module
from cellule.values.names import Name
from cellule.values.schema.document import to_document
from cellule.values.schema.keys import check_key_path
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

_DECLARING: Final = "app.wasm"
_LIMITS: Final = ("fuel", "memory_bytes")


class WasmOptions(TypedDict, total=False):
    """The options of `app.wasm` beside file, events and state; as those of a reducer mean, and limits."""

    key: KeyChoice
    keyed: bool
    cell_mode: bool
    context: bool
    reply: Any
    emits: Iterable[type]
    effects: Iterable[Listed]
    grants: Grants
    failure: Failure
    upgrade: Upgrade
    retention: Retention | None
    open_max: int | None
    fuel: int
    memory_bytes: int
    version: int


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredWasm:
    """See `DeclaredModule`."""

    handle: ModuleHandle[Any]
    full: Name
    path: Path
    events: tuple[type, ...]
    state: Any
    options: ModuleOptions
    given: WasmOptions
    effects: tuple[Listed, ...]

    @property
    def local(self) -> str:
        """See `DeclaredModule`."""
        return self.full.local

    @property
    def where(self) -> str:
        """See `DeclaredModule`."""
        return f'app.wasm("{self.full.local}")'

    @property
    def key(self) -> KeyChoice:
        """See `KeyOwner`."""
        return self.given.get("key")

    @property
    def keyed(self) -> bool:
        """See `KeyOwner`."""
        return self.given.get("keyed", True)

    @property
    def cap_slots(self) -> Mapping[str, str]:
        """See `DeclaredModule`."""
        return self.options.cap_slots

    def described(self, scope: BuildScope) -> StyleDescription:
        """See `DeclaredModule`."""
        name, naming = str(self.full), scope.naming
        check_events(scope.app, self.where, self.events, "takes")
        check_events(scope.app, self.where, self._emits, "emits")
        paths = key_paths(self, self.events, scope.app.events)
        if not self.options.cell_mode:
            check_entry_keys(self.where, paths)
        if paths is not None:
            check_paths(self, paths, naming)
        names = {event: naming.derived(event).name or "" for event in self.events}
        subscriptions = tuple(
            {"event": names[event], "module": name, **({} if paths is None else _key(paths[event]))}
            for event in names
        )
        state = naming.derived(self.state)
        if state.name is None:
            state = naming.derived(self.state, f"{naming.namespace}/{self.local}State@{naming.version}")
        schemas = state.schemas.merged(effect_schemas(scope.effects, naming))
        for event in (*self.events, *self._emits):
            schemas = schemas.merged(naming.derived(event).schemas)
        code, blocks = self._code(name)
        key = _key_schema(subscriptions, schemas)
        keys = {} if key is None else {"key": to_document(key)}
        if not self.options.cell_mode and key is not None:
            state = map_state(state, key, name)
            schemas = schemas.merged(state.schemas)
        entry = {
            **self._entry(scope), "state": state.name, "code": code,
            "event": [*names.values(), *_receipts(scope)], **keys,
        }  # fmt: skip
        return StyleDescription(
            self.handle, name, entry, subscriptions, schemas, effect_documents(scope.effects, naming),
            blocks, self.state, self.given.get("reply"),
        )  # fmt: skip

    @property
    def _emits(self) -> tuple[type, ...]:
        return tuple(self.given.get("emits", ()))

    def _code(self, name: str) -> tuple[Mapping[str, Any], Mapping[Any, bytes]]:
        limits = {option: given for option, given in self.given.items() if option in _LIMITS}
        return pack_module(read_module_file(self.path, name), limits, name)

    def _entry(self, scope: BuildScope) -> dict[str, Any]:
        options = self.options
        return {
            "style": "reducer", "context": self.given.get("context", not options.cell_mode),
            "retention": options.retention.document(), "failure": options.failure,
            "upgrade": options.upgrade, "cap_slots": dict(options.cap_slots), "open_max": options.open_max,
            "effects_emitted": sorted(form.kind for form in scope.effects),
            **({} if options.cell_mode else {"cell_mode": False}),
        }  # fmt: skip


def declare_wasm(
    full: Name, path: Path, events: tuple[type, ...], state: Any, given: WasmOptions
) -> DeclaredWasm:
    """Check what can be refused at once; raises `app.option` naming the option."""
    for option in given:
        if option not in WasmOptions.__annotations__:
            known = ", ".join(WasmOptions.__annotations__)
            raise bad_option(_DECLARING, option, given[option], f"one of {known}")  # type: ignore[literal-required]
    if not events:
        raise bad_option(_DECLARING, "events", (), "the classes of the events that it takes, behind its file")
    failure, upgrade = given.get("failure", "halt"), given.get("upgrade", "follow")
    check_choice("failure", failure, ("halt", "skip"), _DECLARING)
    check_choice("upgrade", upgrade, ("follow", "pin"), _DECLARING)
    check_retention(given.get("retention"), _DECLARING)
    open_max = given.get("open_max")
    check_open_max(open_max, _DECLARING)
    options = ModuleOptions(
        failure=failure, upgrade=upgrade, retention=given.get("retention") or Retention(),
        cap_slots=check_grants(given.get("grants", ())), open_max=open_max,
        cell_mode=given.get("cell_mode", True),
    )  # fmt: skip
    check_cell_mode(options, keyed=given.get("keyed", True), where=_DECLARING)
    listed = check_listed(_DECLARING, given.get("effects", ()))
    return DeclaredWasm(
        ModuleHandle(str(full.base)), full, path, events, state, options, given, tuple(listed)
    )


def _key(path: str | None) -> dict[str, Any]:
    return {"key_only": True} if path is None else {"key_field": path}


def _key_schema(subscriptions: Iterable[Mapping[str, Any]], schemas: Schemas) -> Schema | None:
    for each in subscriptions:
        if "key_field" in each:
            return check_key_path(schemas[each["event"]], schemas, each["key_field"])
    return None


def _receipts(scope: BuildScope) -> list[str]:
    return [TIMER_FIRED if form.kind == TIMER_SET else receipt_event(form.kind) for form in scope.effects]
