"""How handles turn objects into bytes and back: by an app's classes, or by the stored manifest alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Protocol

from cellule.app.built_app import Built
from cellule.app.keys import TypedKey
from cellule.errors import Rejected
from cellule.host.limits import SHOWN_MAX
from cellule.kernel.items import BareEvent
from cellule.kernel.manifest.model import Manifest, Upcaster
from cellule.kernel.manifest.upcasts import older_events
from cellule.modules.workflow.view import is_workflow, run_json
from cellule.values.cbor import decode_trusted
from cellule.values.cid import Cid
from cellule.values.json_view import from_json, to_json
from cellule.values.schema import key_bytes, wire_codec
from cellule.values.schema import types as t
from cellule.values.schema.compatibility import compare
from cellule.values.sealed_value import ERASED
from cellule.values.words import printed, type_name


class WorldCodecs(Protocol):
    """What a world handle needs to know of its events and cells."""

    @property
    def manifest(self) -> Manifest:
        """The manifest events are checked against before they are sent."""

    @property
    def encoders(self) -> Mapping[type, Callable[[Any], BareEvent]]:
        """What makes the items of events of classes that `item` has met."""

    def event(self, event: Any) -> tuple[str, bytes]:
        """The schema and canonical bytes of an event; `Rejected` for what is none."""

    def item(self, event: Any) -> BareEvent:
        """An event as the kernel takes it."""

    def module(self, module: Any) -> str:
        """The base name of the module meant by a function or a name."""

    def key(self, base: str, key: Any) -> bytes:
        """A cell's key as bytes."""

    def typed_key(self, base: str) -> TypedKey:
        """The keys of a module: from and to values, bytes and text."""

    @property
    def blocks(self) -> Mapping[Cid, bytes]:
        """The code that these codecs bring along, which may not be in the store yet."""

    def state_targets(self, newest: Manifest) -> tuple[Manifest, ...]:
        """The manifests that a state may be read by, the best first; `newest` is the world's."""

    def state(self, base: str, manifest: Manifest, data: bytes) -> Any:
        """A cell's state for the caller: `data` fits the state's schema of the manifest."""

    def reply(self, base: str, data: bytes) -> Any:
        """A reply for the caller."""

    @property
    def erased(self) -> Any:
        """What stands for a value that nobody can read any more."""


class AppCodecs:
    """WorldCodecs of a world opened with its app: events and states are objects of the app's classes."""

    def __init__(self, built: Built) -> None:
        self.built = built
        self.manifest = built.manifest
        self.encoders = built.encoders
        self._known: dict[tuple[str, Cid], bool] = {}
        self.erased: Any = ERASED

    def event(self, event: Any) -> tuple[str, bytes]:
        """See `WorldCodecs.event`; a pair of name and JSON value will do too."""
        return self.built.encode_event(event)

    def item(self, event: Any) -> BareEvent:
        """See `WorldCodecs.item`."""
        return (*self.event(event), None) if event.__class__ is tuple else self.built.item(event)

    def module(self, module: Any) -> str:
        """See `WorldCodecs.module`."""
        return self.built.base(module)

    def key(self, base: str, key: Any) -> bytes:
        """See `WorldCodecs.key`."""
        if self.built.manifest.modules[base].cell_key is None:
            return b""
        return self.built.key_bytes(base, key)

    def typed_key(self, base: str) -> TypedKey:
        """See `WorldCodecs.typed_key`."""
        return self.built.key(base)

    @property
    def blocks(self) -> Mapping[Cid, bytes]:
        """See `WorldCodecs.blocks`."""
        return self.built.blocks

    def state_targets(self, newest: Manifest) -> tuple[Manifest, ...]:
        """See `WorldCodecs.state_targets`: the app's classes before the world's schemas."""
        return self.manifest, newest

    def state(self, base: str, manifest: Manifest, data: bytes) -> Any:
        """See `WorldCodecs.state`; one of a schema that the app does not have comes as plain values."""
        if self._knows(base, manifest):
            return self.built.decode_state(base, data)
        return decode_trusted(data)

    def _knows(self, base: str, manifest: Manifest) -> bool:
        """Whether the app's class of a state reads what the manifest's schema writes."""
        known = self._known.get((base, manifest.cid))
        if known is None:
            mine = self.manifest.modules.get(base)
            name = manifest.modules[base].state
            known = mine is not None and mine.state == name
            if known and self.manifest.schema_ids[name] != manifest.schema_ids[name]:
                known = _is_readable(name, manifest, self.manifest)
            self._known[base, manifest.cid] = known
        return known

    def reply(self, base: str, data: bytes) -> Any:
        """See `WorldCodecs.reply`."""
        return self.built.decode_reply(base, data)


class StoredCodecs:
    """Codecs of a world without its app: events are `(schema, JSON value)`, states are their JSON view."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.encoders: Mapping[type, Callable[[Any], BareEvent]] = {}
        self.erased: Any = to_json(ERASED)

    def event(self, event: Any) -> tuple[str, bytes]:
        """See `WorldCodecs.event`."""
        if not isinstance(event, tuple) or len(event) != 2 or not isinstance(event[0], str):
            raise Rejected(
                "host.event_form", "an event is a pair of schema name and value, not {found}",
                found=type_name(event),
                hint="Open the world with its app to send objects.",
            )  # fmt: skip
        name, value = event
        known = self.manifest.schemas
        schema = self._schema(name)
        codec = wire_codec(t.Ref(schema), known)
        return schema, codec.encode(from_json(value, t.Ref(schema), known))

    def item(self, event: Any) -> BareEvent:
        """See `WorldCodecs.item`."""
        return (*self.event(event), None)

    def module(self, module: Any) -> str:
        """See `WorldCodecs.module`."""
        named = str.__str__(module) if isinstance(module, str) else printed(module)[:SHOWN_MAX]
        base = named.partition("@")[0]
        if base in self.manifest.modules:
            return base
        short = [name for name in self.manifest.modules if name.rpartition("/")[2] == base]
        if len(short) == 1:
            return short[0]
        raise Rejected(
            "host.no_module", "there is no module {module}", module=base,
            hint=_meant(base, list(self.manifest.modules)),
        )  # fmt: skip

    def key(self, base: str, key: Any) -> bytes:
        """See `WorldCodecs.key`."""
        module = self.manifest.modules[base]
        if module.cell_key is None:
            return b""
        if isinstance(key, bytes):
            return b"".join((key,))  # whatever their class makes of them
        schemas = self.manifest.schemas
        return key_bytes(from_json(key, module.cell_key, schemas), module.cell_key, schemas)

    def typed_key(self, base: str) -> TypedKey:
        """See `WorldCodecs.typed_key`."""
        return TypedKey(self.manifest, self.manifest.modules[base], None)

    @property
    def blocks(self) -> Mapping[Cid, bytes]:
        """See `WorldCodecs.blocks`: all code is in the store."""
        return {}

    def state_targets(self, newest: Manifest) -> tuple[Manifest, ...]:
        """See `WorldCodecs.state_targets`."""
        return (newest,)

    def state(self, base: str, manifest: Manifest, data: bytes) -> Any:
        """See `WorldCodecs.state`."""
        module, state = manifest.modules[base], decode_trusted(data)
        if is_workflow(module):
            return run_json(state)  # type: ignore[arg-type]
        return to_json(state, t.Ref(module.state), manifest.schemas)

    def reply(self, base: str, data: bytes) -> Any:  # noqa: ARG002 - replies have no schema in a manifest
        """See `WorldCodecs.reply`."""
        return to_json(decode_trusted(data))

    def routed(self, schema: str) -> str:
        """The schema that an event reaches its cells in: its own, or what an older version is upcast to."""
        return schema if schema in self.manifest.routes else self._older[schema][-1].new

    @cached_property
    def _older(self) -> dict[str, list[Upcaster]]:
        return older_events(self.manifest)

    def _schema(self, name: str) -> str:
        """The event that a name means: with or without namespace and version, the newest without one."""
        routes = self.manifest.routes
        known = [*self._older, *routes]
        if name in known:
            return name
        found = [schema for schema in known if name in _spellings(schema)]
        if len({schema.partition("@")[0] for schema in found}) == 1:
            return max(found, key=lambda schema: (schema in routes, int(schema.partition("@")[2])))
        raise Rejected(
            "host.no_event", "nothing subscribes to an event {name}", name=name, hint=_meant(name, known)
        )


def _spellings(schema: str) -> tuple[str, str, str]:
    """What else may be written for a schema: without its version, its namespace, or both."""
    local = schema.rpartition("/")[2]
    return schema.partition("@")[0], local, local.partition("@")[0]


def _is_readable(name: str, written: Manifest, mine: Manifest) -> bool:
    """Whether a schema of this name in one manifest differs from the other's by optional fields only."""
    ref = t.Ref(name)
    return (
        compare(ref, ref, written.schemas, mine.schemas).compatible
        or compare(ref, ref, mine.schemas, written.schemas).compatible
    )


def _meant(name: str, known: list[str]) -> str:
    short = {each.rpartition("/")[2].partition("@")[0]: each for each in known}
    close = get_close_matches(name, [*known, *short], n=3, cutoff=0.5)
    if close:
        return f"Did you mean {', '.join(close)}?"
    return f"There are: {', '.join(sorted(known)[:8])}." if known else ""
