"""Whole maps: the state of a module with `cell_mode: false`, one cell with the substates of all keys.

On the wire the state is `map<key, substate>` as the module's state schema says. Here its entries go by the
bytes that keys have in the ABI, so that a step on one entry is called as it would be in a cell of its own.
An entry that is null is gone, and is never stored.

A program may answer the whole map, or changes by key (`abi.py`); code that knows one substate only, as all
Python reducers do, runs inside `EntryProgram`. Either way the new state is made here, so limits and form are
the same.

Rejected: keeping the entries apart in the store. That is what cells are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from cellule.errors import CelluleError, Rejected
from cellule.kernel.limits import MAP_BYTES_MAX, MAP_ENTRIES_MAX
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.manifest.upcasts import map_of
from cellule.kernel.program import Context, Output, Program, StepFault, forget_kept
from cellule.values.cbor import decode, decode_trusted, encode
from cellule.values.schema import types as t
from cellule.values.schema.keys import key_bytes
from cellule.values.schema.order import pairs_by_encoding
from cellule.values.schema.registry import Schemas

Entries = dict[bytes, Any]
"""The substates of a map, as plain values, by key bytes."""

MOVE: Final = "move the map to cells: `cellule world migrate-cells`"


class EntryChange(NamedTuple):
    """What becomes of one entry; without a state it is gone."""

    key: bytes
    state: bytes | None


class WholeMap:
    """The form of one map: from bytes to entries and back."""

    def __init__(self, schema: t.Map, schemas: Schemas) -> None:
        self._key, self._schemas = schema.key, schemas
        self._kind = type(schemas.resolve(schema.key))
        self._is_map = schemas.is_text_keyed(schema)

    @classmethod
    def of(cls, manifest: Manifest, module: Module) -> WholeMap:
        """The map of a module with `cell_mode: false`, which is its state."""
        schema = map_of(manifest, module.state)
        assert schema is not None, "a loaded manifest has a map there"
        return cls(schema, manifest.schemas)

    def entries(self, data: bytes | None) -> Entries:
        """The entries of a state, without those that are null; `Rejected` where it is no such map."""
        if data is None:
            return {}
        value: Any = decode_trusted(data)
        try:
            pairs = value.items() if self._is_map else [(key, each) for key, each in value]
        except (AttributeError, TypeError, ValueError) as error:
            raise _no_map(f"it is a {type(value).__name__}") from error
        return {self._key_of(key): each for key, each in pairs if each is not None}

    def encode(self, entries: Entries) -> bytes:
        """The state with these entries; `StepFault` where they are too many or too long."""
        if len(entries) > MAP_ENTRIES_MAX:
            text = f"the map has {len(entries)} entries; at most {MAP_ENTRIES_MAX}: {MOVE}"
            raise StepFault("kernel.map_entries", text)
        pairs = [[self._value_of(key), value] for key, value in entries.items()]
        wire: Any = dict(pairs) if self._is_map else pairs_by_encoding(pairs)
        data = encode(wire)
        if len(data) > MAP_BYTES_MAX:
            text = f"the map has {len(data)} bytes; at most {MAP_BYTES_MAX}: {MOVE}"
            raise StepFault("kernel.map_bytes", text)
        return data

    def changed(self, data: bytes | None, changes: Iterable[EntryChange]) -> bytes:
        """The state after changes by key; what is no key of the map is a `StepFault`."""
        entries = self.entries(data)
        for at, (key, state) in enumerate(changes):
            try:
                is_key = self._key_of(self._value_of(key)) == key
            except (CelluleError, UnicodeDecodeError):
                is_key = False
            if not is_key:
                raise StepFault("kernel.output_invalid", f"changes[{at}].key: {key!r} is no key of the map")
            if state is None:
                entries.pop(key, None)
            else:
                entries[key] = decode_trusted(state)
        return self.encode(entries)

    def _key_of(self, value: Any) -> bytes:
        """The bytes of a key as it stands in the map; `Rejected` for what is none."""
        try:
            key = key_bytes(value, self._key, self._schemas)
        except CelluleError as error:
            raise _no_map(f"{value!r} is no key of it") from error
        if not 0 < len(key) <= KEY_BYTES_MAX:
            raise _no_map(f"a key has {len(key)} bytes; 1 to {KEY_BYTES_MAX} are taken")
        return key

    def _value_of(self, key: bytes) -> Any:
        if self._kind is t.Bytes:
            return key
        return key.decode() if self._kind is t.Text else decode(key)


class EntryProgram:
    """Code that knows one substate, as the program of a whole map."""

    def __init__(self, program: Program, whole: WholeMap) -> None:
        self._program = program
        self._whole = whole
        self.is_canonical = getattr(program, "is_canonical", False)

    def forget(self) -> None:
        """See `forget_kept`."""
        forget_kept(self._program)

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output:
        """Take the step of the entry that the event belongs to; see `Program.step`."""
        if not key:
            text = f"{schema} has no key here, so it belongs to no entry of the map"
            raise StepFault("kernel.entry_unknown", text)
        entries = self._whole.entries(state)
        before = encode(entries[key]) if key in entries else None
        output = self._program.step(before, schema, value, key, context)
        if output.state is None and state is None:
            return output  # there is no map, and none is made for nothing
        if output.state is None:
            entries.pop(key, None)
        else:
            entries[key] = decode_trusted(output.state)
        return output._replace(state=self._whole.encode(entries))


def upcast_entries(data: bytes, function: Callable[[bytes], bytes]) -> bytes:
    """A map whose values all went through an upcaster; the keys stay as they are."""
    value: Any = decode_trusted(data)
    if isinstance(value, dict):
        return encode({key: decode_trusted(function(encode(each))) for key, each in value.items()})
    return encode([[key, decode_trusted(function(encode(each)))] for key, each in value])


def _no_map(problem: str) -> Rejected:
    return Rejected(
        "kernel.map_form", "the state is not the map that it should be: {problem}", problem=problem
    )


def removed_keys(whole: WholeMap, before: bytes | None, after: bytes | None) -> set[bytes]:
    """The keys whose entries are gone."""
    return whole.entries(before).keys() - whole.entries(after).keys()
