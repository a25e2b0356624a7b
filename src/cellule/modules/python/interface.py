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
from cellule.modules.python.module_names import Naming
from cellule.modules.python.signature import Signature, shown_function
from cellule.modules.python.system import is_receipt, received
from cellule.values.cbor import decode_trusted
from cellule.values.schema import types as t
from cellule.values.schema.checks import TAG, VALUE
from cellule.values.schema.codec import Codec, codec_for
from cellule.values.schema.direct import plain_class
from cellule.values.schema.registry import Schemas

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

    @classmethod
    def of(cls, manifest: Manifest, module: Module) -> Interface:
        """The interface of a module in its manifest."""
        direct = tuple(
            schema for schema, tag in module.events.items() if tag is None and schema != module.event
        )
        effects = {kind: manifest.effects[kind].params for kind in module.effects_emitted}
        return cls(
            module.name, module.state, direct, module.event, module.key, module.context, manifest.schemas,
            effects,
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


def plain_events(signature: Signature, interface: Interface, naming: Naming) -> dict[str, type]:
    """By schema: the classes of events that two native calls read."""
    found: dict[str, type] = {}
    for event in signature.events:
        derived = naming.derived(event)
        plain = plain_class(derived.shape)
        if plain is not None and derived.name is not None and derived.name in interface.events:
            found[derived.name] = plain
    return found
