"""Which cell an event goes to: where its key stands, and keys as authors, people and the kernel know them.

An event declares its key once; a reducer may name another field. A key is a typed value in Python, bytes in
the kernel, text for people: `TypedKey` converts between the three.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from cellule.app.declarations import DeclaredEvent, KeyChoice, field_names, is_path, shown_value
from cellule.errors import CelluleError, Rejected
from cellule.kernel.manifest.fit import is_same_kind
from cellule.kernel.manifest.keys import KeyForm
from cellule.kernel.manifest.model import Manifest, Module
from cellule.modules.python.module_names import Naming
from cellule.modules.python.system import SYSTEM_NAMES
from cellule.values.cbor import decode
from cellule.values.json_view import from_json, to_json
from cellule.values.schema import types as t
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.codec import Codec
from cellule.values.schema.keys import check_key_path

Paths = Mapping[Any, str | None]


class KeyOwner(Protocol):
    """A declared module that chooses keys: a reducer, or one of another style."""

    @property
    def where(self) -> str:
        """The place of the declaration, for messages."""

    @property
    def key(self) -> KeyChoice:
        """Its own choice of keys."""

    @property
    def keyed(self) -> bool:
        """Whether it has a cell for each key."""


def key_paths(
    reducer: KeyOwner, events: Iterable[Any], declared: Mapping[type, DeclaredEvent]
) -> Paths | None:
    """By event, where its key stands (None = the sender gives it); nothing for a reducer without keys."""
    events = tuple(events)
    own = _own_choice(reducer, events)
    if not reducer.keyed:
        return None
    paths: dict[Any, str | None] = {}
    missing: list[Any] = []
    for event in events:
        known = declared.get(event)
        if event in own:
            paths[event] = own[event]
        elif known is not None and known.key is not None:
            paths[event] = known.key
        else:
            missing.append(event)
    if not paths:
        _say_one_cell(reducer, missing)
        return None
    if missing:
        raise _key_missing(reducer, missing)
    if not any(paths.values()):
        raise Rejected(
            "app.key_by_sender", "{function}: all keys come from the sender, so nothing says their type.",
            function=reducer.where, hint="Name the key's field for at least one event.",
        )  # fmt: skip
    return paths


def _say_one_cell(reducer: KeyOwner, events: list[Any]) -> None:
    """Say aloud that a reducer has one cell for everything, unless it says so itself: a forgotten key."""
    names = [shown_type(event) for event in events if event not in SYSTEM_NAMES and field_names(event)]
    if not names:
        return  # there is nothing that could be a key
    warnings.warn(
        f"{reducer.where} has one cell for all events: {' and '.join(names)} "
        f"{'names' if len(names) == 1 else 'name'} no key. If that is meant, write "
        '@app.reducer(keyed=False); else name the field: @app.event(key="...").',
        stacklevel=2,
    )


def check_paths(reducer: KeyOwner, paths: Paths, naming: Naming) -> None:
    """Refuse paths that lead nowhere, and keys of different types: a reducer has one key."""
    first: tuple[Any, t.Schema, str] | None = None
    for event, path in paths.items():
        if path is None:
            continue
        derived = naming.derived(event)
        try:
            found = check_key_path(derived.schema, derived.schemas, path)
        except Rejected as error:
            raise Rejected(
                "app.key_path", "{function}: the key {path!r} of {event} {problem}.",
                function=reducer.where, path=path, event=shown_type(event),
                problem=error.fields.get("problem", error),
                hint=f"Name a field that is always there: {', '.join(field_names(event)) or 'it has none'}.",
            ) from error  # fmt: skip
        if first is not None and not is_same_kind(first[1], found, derived.schemas):
            raise Rejected(
                "app.key_types", "{function}: {one}.{one_path} and {other}.{other_path} differ in type.",
                function=reducer.where, one=shown_type(first[0]), one_path=first[2],
                other=shown_type(event), other_path=path,
                hint="A reducer has one key: give both fields one type, or write two reducers.",
            )  # fmt: skip
        first = first or (event, found, path)


def check_entry_keys(where: str, paths: Paths | None) -> None:
    """Refuse one cell for all keys where an event does not say to which entry of the map it belongs."""
    missing = [shown_type(event) for event, path in (paths or {}).items() if path is None]
    if paths is not None and not missing:
        return
    problem = f"the sender gives the key of {' and '.join(missing)}" if missing else "its events name no key"
    raise Rejected(
        "app.cell_mode", "{function} has cell_mode=False, but {problem}.", function=where, problem=problem,
        hint='Name the field that says to which entry of the map an event belongs: @app.event(key="...").',
    )  # fmt: skip


class TypedKey:
    """The key of one module: a Python value, bytes, or text. Without a codec it has no Python value."""

    def __init__(self, manifest: Manifest, module: Module, codec: Codec[Any] | None) -> None:
        self._module = module.base
        self._schema = module.cell_key
        self._schemas = manifest.schemas
        self._codec = codec
        self._form = None if module.cell_key is None else KeyForm(module.cell_key, manifest.schemas)

    def to_bytes(self, key: Any) -> bytes:
        """The bytes of a key as an author writes it; None for a module without keys."""
        if self._form is None:
            if key is None:
                return b""
            raise self._refused(key, "the module has no key", "Leave the key out: it has one cell.")
        if key is None or (isinstance(key, bytes) and not bytes.__len__(key)):  # empty bytes stand for no key
            raise Rejected(
                "app.key_value", "{module} has a cell for each key, and no key is given.",
                module=self._module, hint='Name it: world.cell(order, "o1").',
            )  # fmt: skip
        try:
            wire = key if self._codec is None else self._codec.to_wire(key)
            return self._form.of(wire, self._module, "the key")
        except CelluleError as error:
            raise self._refused(key, str(error), "Give it as it stands in events.") from error

    def value(self, data: bytes) -> Any:
        """The key as an author knows it; None for a module without keys."""
        if self._form is None:
            return None
        wire = self._wire(data)
        return wire if self._codec is None else self._codec.from_wire(wire)

    def wire(self, data: bytes) -> Any:
        """The key as a plain value; None for a module without keys."""
        return None if self._form is None else self._wire(data)

    def prefix_bytes(self, prefix: str | bytes) -> bytes:
        """What the bytes of all keys with this prefix begin with."""
        kind = None if self._form is None else self._form.kind
        if kind is t.Text and isinstance(prefix, str):
            return prefix.encode()
        if kind is t.Bytes and isinstance(prefix, bytes):
            return prefix
        raise Rejected(
            "app.key_prefix", "{prefix} is no prefix of keys of {module}, whose keys are {kind}.",
            prefix=shown_value(prefix), module=self._module, kind="none" if kind is None else kind.__name__,
            hint="Keys of text have prefixes of text, keys of bytes those of bytes; others have ranges only.",
        )  # fmt: skip

    def text(self, data: bytes) -> str:
        """The key for people, as `from_text` reads it back."""
        if self._form is None:
            return ""
        shown = to_json(self._wire(data), self._schema, self._schemas)
        return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)

    def from_text(self, text: str) -> bytes:
        """The bytes of a key that a person typed."""
        if self._form is None or not text:
            return self.to_bytes(text or None)
        try:
            view = text if self._is_written_bare() else json.loads(text)
            wire = from_json(view, self._schema, self._schemas)
            return self._form.of(wire, self._module, "the key")
        except (ValueError, CelluleError) as error:
            raise self._refused(text, str(error), "Write it as it stands in the JSON of events.") from error

    def _wire(self, data: bytes) -> Any:
        assert self._form is not None
        if self._form.kind is t.Bytes:
            return data
        return data.decode() if self._form.kind is t.Text else decode(data)

    def _is_written_bare(self) -> bool:
        """Whether the JSON form is a string, which people write without quotes."""
        assert self._schema is not None
        found = self._schemas.resolve(self._schema)
        if isinstance(found, t.Enum):
            return found.is_text
        return isinstance(found, t.Text | t.Bytes | t.Time | t.Duration | t.Dec | t.Uuid | t.Hash)

    def _refused(self, key: object, problem: str, hint: str) -> Rejected:
        return Rejected(
            "app.key_value", "{key} is no key of {module}: {problem}.",
            key=shown_value(key), module=self._module, problem=problem.rstrip("."), hint=hint,
        )  # fmt: skip


def _own_choice(reducer: KeyOwner, events: tuple[Any, ...]) -> Mapping[Any, str | None]:
    """What the reducer's decorator says about keys, by event."""
    key = reducer.key
    if key is not None and not reducer.keyed:
        raise _unexpected(reducer, "it has a `key` and says `keyed=False`", "Leave one of the two out.")
    if key is None:
        return {}
    if isinstance(key, str):
        return dict.fromkeys(events, key)
    if not isinstance(key, Mapping):
        raise _unexpected(
            reducer, f"its key is {shown_value(key)}", 'Give a path, or {Placed: "customer_id"}.'
        )
    for event, path in key.items():
        if event not in events:
            known = ", ".join(shown_type(each) for each in events)
            raise _unexpected(
                reducer,
                f"it names a key for {shown_value(event)}, which it does not take",
                f"It takes {known}.",
            )
        if path is not None and not is_path(path):
            raise _unexpected(
                reducer, f"the key of {shown_type(event)} is {shown_value(path)}", "Give a path."
            )
    return key


def _unexpected(reducer: KeyOwner, problem: str, hint: str) -> Rejected:
    return Rejected(
        "app.key_choice", "{function}: {problem}.",
        function=reducer.where, problem=problem, hint=hint,
    )  # fmt: skip


def _key_missing(reducer: KeyOwner, missing: list[Any]) -> Rejected:
    shown = [shown_type(event) for event in missing]
    return Rejected(
        "app.key_missing", "{function} has a cell for each key, but {events} {names} no key.",
        function=reducer.where, events=" and ".join(shown),
        names="name" if len(shown) > 1 else "names",
        hint=f'Say where it stands: @app.event(key="...") on {shown[0]}, or key={{{shown[0]}: "..."}} at the'
        " reducer; `keyed=False` makes it one cell for all events.",
    )  # fmt: skip
