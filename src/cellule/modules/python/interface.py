"""`Interface`: what a manifest says about the code of one module, and the codecs that follow from it.

A program is made from a signature (the author's types) and an interface (the manifest's schemas); both must
agree. Nothing of a manifest beyond this is known to programs, so one can be made in another process from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.manifest.system import EFFECTS, LOG
from cellule.modules.python.context import key_reader
from cellule.modules.python.map_state import entry_schema
from cellule.modules.python.module_names import Naming
from cellule.modules.python.signature import Signature, shown_function
from cellule.modules.python.system import is_receipt, received
from cellule.values.cbor import decode_trusted
from cellule.values.schema import types as t
from cellule.values.schema.checks import TAG, VALUE
from cellule.values.schema.codec import Codec, codec_for
from cellule.values.schema.derive import Derived
from cellule.values.schema.direct import plain_class
from cellule.values.schema.registry import Schemas
from cellule.values.schema.shape import RecordShape, Shape, UnionShape

Decode = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Interface:
    """The part of a manifest that one module's code has to fit."""

    module: str
    state: str
    events: tuple[str, ...]  # what the module takes as it is
    event: str | None  # the variant as which it takes wrapped events
    key: t.Schema | None
    context: bool
    schemas: Schemas
    effects: Mapping[str, str] = field(default_factory=dict)  # params schemas of the kinds it may ask for
    keys: Mapping[str, str] = field(default_factory=dict)  # by event, the path of its key

    @classmethod
    def of(cls, manifest: Manifest, module: Module) -> Interface:
        """The interface of a module in its manifest."""
        direct = tuple(
            schema for schema, tag in module.events.items() if tag is None and schema != module.event
        )
        effects = {kind: manifest.effects[kind].params for kind in module.effects_emitted}
        keys = {
            event: ".".join(route.key_path)
            for event, routes in manifest.routes.items()
            for route in routes
            if route.base == module.base and route.key_path
        }
        state = module.state if module.cell_mode else entry_schema(manifest, module)
        return cls(
            module.name, state, direct, module.event, module.key, module.context, manifest.schemas,
            effects, keys,
        )  # fmt: skip


def state_codec(signature: Signature, interface: Interface, naming: Naming) -> Codec[Any]:
    """The codec of the module's state."""
    if interface.state == LOG:
        return codec_for(naming.derived(signature.state))
    return naming.codec(signature.state, interface.schemas, interface.state)


def event_decoders(signature: Signature, interface: Interface, naming: Naming) -> dict[str, Decode]:
    """By schema: how each event the module takes is read."""
    codecs: dict[str, Codec[Any]] = {}
    for event in signature.events:
        derived = naming.derived(event)
        if derived.name in interface.schemas:
            codec = naming.codec(event, interface.schemas)
            codecs[codec.name] = codec
    codecs.update(_receipt_codecs(signature, interface, naming))
    decoders: dict[str, Decode] = {}
    for schema in interface.events:
        if schema not in codecs:
            raise _not_taken(signature, interface, schema)
        decoders[schema] = codecs[schema].decode_trusted
    if interface.event is not None:
        decoders[interface.event] = _variant_decoder(signature, interface, codecs)
    return decoders


def _receipt_codecs(
    signature: Signature, interface: Interface, naming: Naming
) -> Iterator[tuple[str, Codec[Any]]]:
    """By schema: how what comes of effects is read; a receipt belongs to every kind that brings its type."""
    for python in signature.receipts:
        if not is_receipt(python):
            codec = naming.codec(python, interface.schemas)
            yield codec.name, codec
            continue
        brings = t.Option(t.Ref(naming.derived(received(python)).name or ""))
        for schema, form in interface.schemas.items():
            if (
                schema.startswith(EFFECTS)
                and isinstance(form, t.Record)
                and dict(form.fields)["value"] == brings
            ):
                yield schema, naming.codec(python, interface.schemas, schema)


def _variant_decoder(signature: Signature, interface: Interface, codecs: Mapping[str, Codec[Any]]) -> Decode:
    assert interface.event is not None
    variant = interface.schemas.resolve(t.Ref(interface.event))
    assert isinstance(variant, t.Variant)
    cases: dict[str, Callable[[object], Any]] = {}
    for tag, case in variant.cases:
        name = case.name if isinstance(case, t.Ref) else tag
        if name not in codecs:
            raise _not_taken(signature, interface, name)
        cases[tag] = codecs[name].from_wire

    def decode(data: bytes) -> Any:
        wrapped: Any = decode_trusted(data)
        return cases[wrapped[TAG]](wrapped[VALUE])

    return decode


def _not_taken(signature: Signature, interface: Interface, schema: str) -> Rejected:
    return Rejected(
        "modules.event_not_taken", "{module} takes {schema}, but {function} has no such event.",
        module=interface.module, schema=schema, function=shown_function(signature.function),
        hint="Add its class to the annotation of the event, or take it out of the module's `event`.",
    )  # fmt: skip


def key_codec(derived: Derived[Any], path: str) -> Codec[Any]:
    """The codec of what stands at a checked path in an event."""
    shape: Shape = derived.shape
    for step in path.split("."):
        if isinstance(shape, UnionShape):
            assert step == VALUE
            shape = shape.cases[0]
            continue
        assert isinstance(shape, RecordShape)
        shape = next(field.shape for field in shape.fields if field.wire == step)
    return codec_for(Derived(object, "the key", shape.schema, derived.schemas, shape))


def key_decoder(signature: Signature, interface: Interface, naming: Naming) -> Decode:
    """How the module's keys are read: as the type that the field has in its events."""
    plain = key_reader(interface.key, interface.schemas)
    if interface.key is None:
        return plain
    kind = type(interface.schemas.resolve(interface.key))
    for event in signature.events:
        derived = naming.derived(event)
        path = interface.keys.get(derived.name or "")
        if not path or derived.name not in interface.schemas:
            continue
        return _key_reader(key_codec(derived, path).from_wire, kind)
    return plain


def _key_reader(read: Callable[[object], Any], kind: type) -> Decode:
    if kind is t.Bytes:
        return read
    if kind is t.Text:
        return lambda data: read(data.decode())
    return lambda data: read(decode_trusted(data))


def plain_events(signature: Signature, interface: Interface, naming: Naming) -> dict[str, type]:
    """By schema: the classes of events that two native calls read."""
    found: dict[str, type] = {}
    for event in signature.events:
        derived = naming.derived(event)
        plain = plain_class(derived.shape)
        if plain is not None and derived.name is not None and derived.name in interface.events:
            found[derived.name] = plain
    return found
