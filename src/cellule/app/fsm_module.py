"""`app.fsm(...)`: a contract of states and transitions as a module of an app.

A trigger is the app's event of the same name (`payment_received` is `PaymentReceived`); for any other trigger
the contract brings the event. The file is read when the app is built, not when it is declared: a node that
loads the app from its bundle has no such file, and needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cellule.app import standard_effects
from cellule.app.effects import EffectLike
from cellule.app.effects_config import Listed
from cellule.app.modules import with_events
from cellule.app.styles import BuildScope, DeclaredStyle, StyleDescription
from cellule.errors import Rejected
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.problems import near
from cellule.modules.fsm.contract import Contract
from cellule.modules.fsm.document import Problems
from cellule.modules.fsm.interface import KnownEvent, folded, interface_of
from cellule.modules.fsm.programs import read_file
from cellule.modules.fsm.read import read_contract
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas

_SUFFIXES: Final = (".yaml", ".yml", ".fsm")


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredFsm(DeclaredStyle):
    """See `DeclaredModule`; `options` are fields of the module's entry, `known` are the app's effects."""

    path: Path
    cap_slots: Mapping[str, str]
    options: Mapping[str, Any]
    known: Mapping[str, EffectLike]
    _read: list[Contract] = field(default_factory=list)

    @property
    def where(self) -> str:
        """See `DeclaredModule`."""
        return f'app.fsm("{self.path.name}")'

    @property
    def effects(self) -> tuple[Listed, ...]:
        """See `DeclaredModule`: those that the contract asks for, each declared or one of Cellule's own."""
        contract = self._contract()
        problems, kinds = Problems(contract.file), (*self.known, *standard_effects.KINDS)
        for each in contract.requests():
            if each.kind not in kinds:
                hint = (
                    near(each.kind, kinds)
                    or f'Declare it: app.effect("{each.kind}", params=..., receipt=...).'
                )
                problems.note(
                    "effect_unknown", each.line, each.field, f"nobody declares the effect {each.kind}", hint
                )
        problems.check_none()
        return tuple(kind for kind in contract.effect_kinds() if kind != TIMER_SET)

    def described(self, scope: BuildScope) -> StyleDescription:
        """See `DeclaredModule`."""
        contract = self._contract()
        known = {
            folded(Name.parse(each.name).local): KnownEvent(each.name, each.key)
            for each in scope.app.events.values()
        }
        schemas = with_events(Schemas({}), scope.app.events, scope.naming)
        key = _key_schema(contract, known, schemas)
        made = interface_of(
            contract, str(self.full), known, uses_now=b"now_ns" in contract.source, key_schema=key
        )
        entry = {**made.entry, **self.options, **({"cap_slots": self.cap_slots} if self.cap_slots else {})}
        brought = {name: form for name, form in made.schemas.items() if name not in schemas}
        return StyleDescription(
            self.handle, made.name, entry, made.subscriptions, schemas.merged(Schemas(brought)),
            blocks=made.blocks,
        )  # fmt: skip

    def _contract(self) -> Contract:
        if not self._read:
            self._read.append(read_contract(read_file(self.path), self.path.name))
        return self._read[0]


def module_name(path: Path) -> str:
    """The name of a module by its file: `order.fsm.yaml` is `order`."""
    name = path.name
    while Path(name).suffix in _SUFFIXES:
        name = Path(name).stem
    return name.replace("-", "_")


def _key_schema(contract: Contract, known: Mapping[str, KnownEvent], schemas: Schemas) -> t.Schema | None:
    """The type of the key, as the app's events have it; all have to agree."""
    found: dict[t.Schema, str] = {}
    for trigger in contract.triggers.values():
        event = known.get(folded(trigger.schema or trigger.name))
        path = None if event is None else trigger.key or event.key
        if event is None or path is None or "." in path:
            continue
        form = schemas.resolve(t.Ref(event.schema))
        if isinstance(form, t.Record) and path in dict(form.fields):
            found.setdefault(dict(form.fields)[path], event.schema)
    if len(found) > 1:
        names = " and ".join(found.values())
        raise Rejected(
            "fsm.trigger_unknown", "{file}: {events} have keys of other types", file=contract.file,
            events=names,
            hint="Give all events of one machine a key of one type.",
        )  # fmt: skip
    return next(iter(found), None)
