"""The events that a step emits: checked, and encoded by the codecs of their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from cellule.errors import CelluleError, Rejected
from cellule.kernel.program import Emit, StepFault
from cellule.modules.python.failure import Places
from cellule.modules.python.interface import Interface
from cellule.modules.python.module_names import Naming
from cellule.modules.python.step import Keyed
from cellule.modules.python.system import Signal
from cellule.values.cbor import encode
from cellule.values.names import Name
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.codec import codec_for
from cellule.values.schema.fields import is_record_class

_UNORDERED: Final = (set, frozenset, dict, str, bytes)


class Emissions:
    """What one module may emit."""

    __slots__ = ("_emits", "_naming", "_places", "_schemas")

    def __init__(self, emits: Iterable[Any], interface: Interface, naming: Naming, places: Places) -> None:
        self._naming = naming
        self._places = places
        self._schemas = interface.schemas
        self._emits: dict[type, tuple[str, Callable[[Any], bytes]]] = {
            event: self._emitter(event) for event in emits
        }

    def encoded(self, events: Sequence[object]) -> list[Emit]:
        """Events as the kernel takes them; raises `StepFault` naming the first that is wrong."""
        if isinstance(events, _UNORDERED) or not hasattr(events, "__iter__") or hasattr(events, "_fields"):
            raise StepFault("modules.emit_not_a_list", f"emit takes a list of events, not {_kind(events)}")
        found: list[Emit] = []
        for at, event in enumerate(events):
            key = None
            if event.__class__ is Keyed:
                event, given = event  # noqa: PLW2901 - what is wrapped takes its place
                key = self._key(given, at)
            schema, write = self._emits.get(event.__class__) or self._new_emitter(event, at)
            try:
                found.append(Emit(schema, write(event), key))
            except Rejected as error:
                raise StepFault("modules.event_invalid", self._cleaned(f"emit[{at}]: {error}")) from error
        return found

    def plain(self, value: object, what: str) -> bytes:
        """Encode what has no declared type: a record by its class, anything else as it is."""
        try:
            if is_record_class(type(value)):
                return codec_for(self._naming.derived(type(value))).encode(value)
            return encode(value)  # type: ignore[arg-type]
        except CelluleError as error:
            raise StepFault("modules.value_invalid", self._cleaned(f"{what}: {error}")) from error

    def _key(self, key: object, at: int) -> bytes:
        match key:
            case str():
                return str.encode(key)
            case bytes():
                return b"".join((key,))  # bytes, whatever class the author made of them
            case UUID():
                return encode(key.bytes)
            case _:
                return self.plain(key, f"the key of emit[{at}]")

    def _emitter(self, event: Any) -> tuple[str, Callable[[Any], bytes]]:
        codec = self._naming.codec(event, self._schemas)
        if Name.parse(codec.name).is_reserved and event is not Signal:
            raise Rejected(
                "modules.emit_reserved", "{event} is an event of Cellule's own; no module emits it.",
                event=codec.name, hint="Emit an event of your own.",
            )  # fmt: skip
        return codec.name, codec.encode

    def _new_emitter(self, event: object, at: int) -> tuple[str, Callable[[Any], bytes]]:
        """Look at a class that is emitted for the first time."""
        python = type(event)
        if not is_record_class(python):
            raise StepFault("modules.event_invalid", f"emit[{at}] is {_kind(event)}, which is no event")
        try:
            found = self._emits[python] = self._emitter(python)
        except CelluleError as error:
            raise StepFault("modules.emit_unknown", self._cleaned(f"emit[{at}]: {error}")) from error
        return found

    def _cleaned(self, text: str) -> str:
        return self._places.cleaned(text)


def _kind(value: object) -> str:
    return f"a {shown_type(type(value))}"
