"""`Built`: an app as its hosts use it. Objects to bytes and back, names to modules, keys in all their forms.

    built.encode_event(Placed("o1", 30))     -> ("shop/Placed@1", bytes)
    built.decode_state(order, data)          -> Order(...)
    built.key_bytes(order, "o1")             -> b"o1"

Wherever a reducer is named, the function will do, or its name with or without namespace and version; an
unknown name is refused with the nearest known ones. Immutable but for codecs, which are made when first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from cellule.app.declarations import shown_value
from cellule.app.forms import Forms
from cellule.app.keys import TypedKey
from cellule.app.styles import DescribedModule, ReadsStates
from cellule.effects.adapter import Adapter
from cellule.errors import Rejected
from cellule.kernel.items import BareEvent
from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.manifest.problems import near
from cellule.modules.python import EffectForm, Receipt
from cellule.modules.python.describe import Description, UpcasterDescription
from cellule.modules.python.interface import key_codec
from cellule.modules.python.map_state import entry_schema, map_codec
from cellule.modules.python.signature import shown_function
from cellule.values.cbor import decode_trusted
from cellule.values.cid import Cid
from cellule.values.json_view import from_json, to_json
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema import wire_codec
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.codec import Codec

Reducer = Callable[..., Any] | str
"""A reducer as callers name it: its function, or its name."""


@dataclass(frozen=True, slots=True)
class EffectsConfig:
    """The effects of an app: sections of its manifest, and its own adapters by kind."""

    sections: Mapping[str, Any]
    adapters: Mapping[str, Adapter]


class Built:
    """One built app; `blocks` are all that has to be in the CAS: the manifest and the code it names."""

    def __init__(
        self, manifest: Manifest, blocks: Mapping[Cid, bytes], modules: tuple[DescribedModule, ...],
        upcasters: tuple[UpcasterDescription, ...], forms: Forms, effects_config: EffectsConfig, *,
        live: bool,
    ) -> None:  # fmt: skip
        self.manifest = manifest
        self.blocks = blocks
        self.modules = modules
        self.upcasters = upcasters
        self.forms = forms
        self.effects_config = effects_config
        self.live = live
        self._by_base = {str(Name.parse(each.name).base): each for each in modules}
        self._by_handle: dict[Any, str] = {each.handle: base for base, each in self._by_base.items()}
        self._encoders: dict[type, tuple[str, Callable[[Any], bytes]]] = {}
        self.encoders: dict[type, Callable[[Any], BareEvent]] = {}  # of the items of events sent before
        self._keys: dict[str, TypedKey] = {}
        self._state_codecs: dict[str, Codec[Any] | None] = {}
        self._state_readers: dict[str, Callable[[bytes], Any]] = {}

    @property
    def namespace(self) -> str:
        """The app's namespace."""
        return self.forms.naming.namespace

    @property
    def descriptions(self) -> tuple[Description, ...]:
        """All Python functions of the app, which may run live."""
        modules = [each for each in self.modules if isinstance(each, Description)]
        return (*modules, *self.upcasters)

    @property
    def adapters(self) -> Mapping[str, Adapter]:
        """The app's own adapters, by kind."""
        return self.effects_config.adapters

    # Events

    def encode_event(self, event: object) -> tuple[str, bytes]:
        """The schema and canonical bytes of an event; raises `Rejected` naming a field that does not fit.

        An event is an object of its class, or a pair of its name and its value as JSON data.
        """
        if event.__class__ is tuple and len(event) == 2 and isinstance(event[0], str):
            name = self.event_name(event[0])
            if name not in self.forms.names and name not in self.forms.receipts:
                schemas = self.manifest.schemas
                return name, wire_codec(t.Ref(name), schemas).encode(self.event_from_json(*event))
            event = self.event_from_json(*event)
        name, write = self._encoders.get(event.__class__) or self._encoder(event)
        return name, write(event)

    def item(self, event: object) -> BareEvent:
        """An event as the kernel takes it; raises `Rejected` as `encode_event` does."""
        make = self.encoders.get(event.__class__)
        if make is None:
            self._encoder(event)
            make = self.encoders[event.__class__] = self.forms.codec(event.__class__).encode_with_fields
        return make(event)

    def decode_event(self, name: str, data: bytes) -> Any:
        """The object of an event's bytes; of an event that the app does not know, its plain value."""
        if name in self.forms.receipts:
            return self.forms.codec(self.forms.receipts[name], name).decode_trusted(data)
        python = self.forms.names.get(name)
        return decode_trusted(data) if python is None else self.forms.codec(python).decode_trusted(data)

    def event_name(self, name: str) -> str:
        """The full name of an event: `Placed` and `shop/Placed` mean the newest version."""
        known = {*self.forms.names, *self.forms.receipts, *self.manifest.routes}
        return _resolve(name, self.namespace, known, "event")

    def event_class(self, name: str) -> type:
        """The class of an event; `dict` of one that a contract brings."""
        full = self.event_name(name)
        return self.forms.names.get(full, Receipt if full in self.forms.receipts else dict)

    def event_from_json(self, name: str, view: Any) -> Any:
        """The object of an event given as JSON data; raises `Rejected` naming the field that does not fit.

        An event that a contract brings has no class: it is its plain value.
        """
        full = self.event_name(name)
        wire = from_json(view, t.Ref(full), self.manifest.schemas)
        if full in self.forms.receipts:
            return self.forms.codec(self.forms.receipts[full], full).from_wire(wire)
        python = self.forms.names.get(full)
        return wire if python is None else self.forms.codec(python).from_wire(wire)

    def event_to_json(self, name: str, data: bytes) -> Any:
        """An event's bytes as JSON data."""
        return to_json(decode_trusted(data), t.Ref(self.event_name(name)), self.manifest.schemas)

    def _encoder(self, event: object) -> tuple[str, Callable[[Any], bytes]]:
        """Look at a class that is sent for the first time."""
        python = event.__class__
        if python not in self.forms.events:
            raise self._no_event(event)
        codec = self.forms.codec(python)
        found = self._encoders[python] = (codec.name, codec.encode)
        return found

    def _no_event(self, event: object) -> Rejected:
        if isinstance(event, type):
            what, hint = f"the class {shown_type(event)}", f"Give an object: {shown_type(event)}(...)."
        elif isinstance(event, dict | str):
            what, hint = shown_value(event), "Send an object, or a pair: (name, data)."
        else:
            kind = shown_type(type(event))
            what = f"an object of {kind}"
            close = near(kind, [shown_type(each) for each in self.forms.events])
            hint = close or f"Put @app.event above {kind}, on the app of {self.namespace}."
        return Rejected(
            "app.event_expected", "{what} is no event of {app}.", what=what, app=self.namespace, hint=hint
        )

    # Reducers

    def base(self, reducer: Reducer) -> str:
        """The name of a reducer's module without version: what its cells belong to."""
        if isinstance(reducer, str):
            reducer = str.__str__(reducer)
            if reducer in self._by_base:
                return reducer  # as the host names it: for every cell of a list
            names = {each.name: base for base, each in self._by_base.items()}
            return names[_resolve(reducer, self.namespace, names, "reducer")]
        try:
            base = self._by_handle.get(reducer)
        except Exception:  # noqa: BLE001 - it has no hash, or a class that raises when it is asked for one
            base = None
        if base is None:
            known = ", ".join(sorted(Name.parse(each.name).local for each in self.modules))
            what = shown_function(reducer) if isinstance(reducer, FunctionType) else shown_value(reducer)
            raise Rejected(
                "app.name_unknown", "{reducer} is no module of {app}.",
                reducer=what, app=self.namespace, hint=f"There are: {known}.",
            )  # fmt: skip
        return base

    def module(self, reducer: Reducer) -> Module:
        """The module of a reducer."""
        return self.manifest.modules[self.base(reducer)]

    def encode_state(self, reducer: Reducer, state: object) -> bytes:
        """The canonical bytes of a reducer's state."""
        codec = self._state_codec(reducer)
        if codec is not None:
            return codec.encode(state)
        return wire_codec(t.Ref(self.module(reducer).state), self.manifest.schemas).encode(state)

    def decode_state(self, reducer: Reducer, data: bytes) -> Any:
        """The object of a reducer's state."""
        base = self.base(reducer)
        read = self._state_readers.get(base)
        if read is None:
            read = self._state_readers[base] = self._make_state_reader(base)
        return read(data)

    def state_to_json(self, reducer: Reducer, data: bytes) -> Any:
        """A state's bytes as JSON data."""
        return to_json(decode_trusted(data), t.Ref(self.module(reducer).state), self.manifest.schemas)

    def decode_reply(self, reducer: Reducer, data: bytes) -> Any:
        """The object of a reply: of the type the reducer declares, else plain values.

        A step before a deploy may have given one of another type; it is told whoever sends its id again.
        """
        reply = self._by_base[self.base(reducer)].reply_type
        if reply is not None:
            with suppress(Rejected):
                return self.forms.codec(reply).decode_trusted(data)
        return decode_trusted(data)

    def _state_codec(self, reducer: Reducer) -> Codec[Any] | None:
        """What reads states as objects; None where they are plain values. Made once a module."""
        base = self.base(reducer)
        if base not in self._state_codecs:
            self._state_codecs[base] = self._make_state_codec(self.manifest.modules[base])
        return self._state_codecs[base]

    def _make_state_reader(self, base: str) -> Callable[[bytes], Any]:
        codec, described = self._state_codec(base), self._by_base[base]
        decode: Callable[[bytes], Any] = decode_trusted if codec is None else codec.decode_trusted
        if not isinstance(described, ReadsStates):
            return decode
        read = described.read_state
        return lambda data: read(decode(data))

    def _make_state_codec(self, module: Module) -> Codec[Any] | None:
        state = self._by_base[module.base].state_type
        if state is None or module.cell_mode:
            return None if state is None else self.forms.codec(state)
        name, key = entry_schema(self.manifest, module), self._key_codec(module.base)
        assert key is not None, "an app names the key of a whole map in its events"
        return map_codec(self.forms.naming.derived(state, name), key, module.name)

    # Effects

    def effect(self, kind: str) -> EffectForm:
        """The classes of an effect by its kind."""
        found = self.forms.effects.get(kind)
        if found is None:
            known = ", ".join(self.forms.effects) or "none"
            raise Rejected(
                "app.name_unknown", "there is no {kind} {name}.", kind="effect", name=kind,
                hint=near(kind, self.forms.effects) or f"There are: {known}.",
            )  # fmt: skip
        return found

    def decode_params(self, kind: str, data: bytes) -> Any:
        """The object of an intent's params."""
        return self.forms.codec(self.effect(kind).params).decode_trusted(data)

    def encode_receipt(self, kind: str, value: object) -> bytes:
        """The canonical bytes of what an effect gave; raises `Rejected` naming a field that does not fit."""
        return self.forms.codec(self.effect(kind).receipt).encode(value)

    def decode_receipt(self, kind: str, data: bytes) -> Any:
        """The object of what an effect gave."""
        return self.forms.codec(self.effect(kind).receipt).decode_trusted(data)

    # Keys

    def key_bytes(self, reducer: Reducer, key: Any = None) -> bytes:
        """The bytes of a typed key; of a reducer without keys, those of its one cell."""
        return self.key(reducer).to_bytes(key)

    def key_value(self, reducer: Reducer, data: bytes) -> Any:
        """The typed key of key bytes."""
        return self.key(reducer).value(data)

    def key(self, reducer: Reducer) -> TypedKey:
        """The key of a reducer: from and to Python values, bytes and text."""
        base = self.base(reducer)
        found = self._keys.get(base)
        if found is None:
            found = self._keys[base] = self._typed_key(base)
        return found

    def _typed_key(self, base: str) -> TypedKey:
        return TypedKey(self.manifest, self.manifest.modules[base], self._key_codec(base))

    def _key_codec(self, base: str) -> Codec[Any] | None:
        """The codec of what stands at the key's path in the first event that is a class of the app."""
        for subscription in self._by_base[base].subscriptions:
            path, python = subscription.get("key_field"), self.forms.names.get(subscription["event"])
            if path is not None and python is not None:
                return key_codec(self.forms.naming.derived(python), path)
        return None


def _resolve(given: str, namespace: str, known: Iterable[str], kind: str) -> str:
    """The full name that a short one means; of several versions the newest."""
    names = sorted((Name.parse(name) for name in known), key=lambda name: name.version)
    wanted = given if "/" in given else f"{namespace}/{given}"
    for name in reversed(names):
        if wanted in (str(name), str(name.base)):
            return str(name)
    full = [str(name) for name in names]
    hint = near(wanted, full) or near(wanted, [str(name.base) for name in names])
    hint = hint or f"There are: {', '.join(str(name) for name in names if not name.is_reserved)}."
    raise Rejected("app.name_unknown", "there is no {kind} {name}.", kind=kind, name=given, hint=hint)
