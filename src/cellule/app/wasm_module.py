"""`app.wasm(...)`: a WebAssembly module whose events and state are classes of the app.

The file is read when the app is built, and goes into the manifest's blocks; a node never looks for it. What a
module exports and may use is checked by `modules/wasm`. It gets the receipts of every effect that it lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict

from cellule.app.declarations import KeyChoice, bad_option, check_named
from cellule.app.effects_config import Grants, Listed, check_listed
from cellule.app.modules import checked_options, event_paths, with_events
from cellule.app.styles import BuildScope, DeclaredStyle, ModuleHandle, StyleDescription
from cellule.kernel.manifest.model import TIMER_SET, Failure, Upgrade
from cellule.kernel.manifest.system import TIMER_FIRED, receipt_event
from cellule.modules.python import ModuleOptions, Retention
from cellule.modules.python.describe import key_schema_of, module_subscriptions
from cellule.modules.python.effects import effect_documents, effect_schemas
from cellule.modules.python.map_state import map_state
from cellule.modules.wasm.code import read_module_file
from cellule.modules.wasm.programs import pack_module
from cellule.values.names import Name
from cellule.values.schema.document import to_document

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
    erasable: bool
    fuel: int
    memory_bytes: int
    version: int


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredWasm(DeclaredStyle):
    """See `DeclaredModule`."""

    path: Path
    events: tuple[type, ...]
    state: Any
    options: ModuleOptions
    given: WasmOptions
    effects: tuple[Listed, ...]

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
        is_cells = self.options.cell_mode
        paths = event_paths(scope.app, naming, self, self.events, self._emits, cell_mode=is_cells)
        names = {event: naming.derived(event).name or "" for event in self.events}
        subscriptions = module_subscriptions(name, names, paths)
        state = naming.derived(self.state)
        if state.name is None:
            state = naming.derived(self.state, f"{naming.namespace}/{self.local}State@{naming.version}")
        schemas = state.schemas.merged(effect_schemas(scope.effects, naming))
        schemas = with_events(schemas, (*self.events, *self._emits), naming)
        code, blocks = self._code(name)
        key = key_schema_of(subscriptions, schemas)
        keys = {} if key is None else {"key": to_document(key)}
        if not is_cells and key is not None:
            state = map_state(state, key, name)
            schemas = schemas.merged(state.schemas)
        receipts = [
            TIMER_FIRED if form.kind == TIMER_SET else receipt_event(form.kind) for form in scope.effects
        ]
        entry = {
            "style": "reducer", "context": self.given.get("context", not is_cells),
            **self.options.document(), "state": state.name, "code": code,
            "event": [*names.values(), *receipts], **keys,
            "effects_emitted": sorted(form.kind for form in scope.effects),
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


def declare_wasm(
    full: Name, path: Path, events: tuple[type, ...], state: Any, given: WasmOptions
) -> DeclaredWasm:
    """Check what can be refused at once; raises `app.option` naming the option."""
    check_named(_DECLARING, given, WasmOptions)
    if not events:
        raise bad_option(_DECLARING, "events", (), "the classes of the events that it takes, behind its file")
    options = checked_options(_DECLARING, given)
    listed = check_listed(_DECLARING, given.get("effects", ()))
    return DeclaredWasm(
        ModuleHandle(str(full.base)), full, path, events, state, options, given, tuple(listed)
    )
