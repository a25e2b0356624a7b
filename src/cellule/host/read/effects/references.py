"""What people write about effects: which one they mean, and the value of a receipt they give."""

from __future__ import annotations

from typing import Any

from cellule.errors import Rejected
from cellule.host.codecs import AppCodecs, WorldCodecs
from cellule.host.read.effects.model import EffectRef
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.state.intent_id import ID_BYTES, intent_text, parse_intent
from cellule.values.cbor import encode
from cellule.values.json_view import from_json
from cellule.values.schema import types as t
from cellule.values.schema import wire_codec


def parse_reference(intent: EffectRef) -> int | bytes:
    """The height or the id meant; `Rejected` for what is neither.

    >>> parse_reference("12")
    12
    """
    if isinstance(intent, bytes) and len(intent) == ID_BYTES:
        return intent
    if isinstance(intent, int) and not isinstance(intent, bool):
        return intent
    if isinstance(intent, str):
        if intent.isascii() and intent.isdigit() and len(intent) < 20:
            return int(intent)
        try:
            return parse_intent(intent)
        except Rejected:
            pass
    raise Rejected(
        "host.effect_id", "{intent} is neither the id of an effect nor a height",
        intent=shown_reference(intent),
        hint="Copy the whole id from `cellule effect list`, or give its height.",
    )  # fmt: skip


def shown_reference(intent: object) -> str:
    """A reference for messages."""
    if isinstance(intent, bytes):
        return intent_text(intent) if len(intent) == ID_BYTES else f"0x{intent.hex()[:80]}"
    return str(intent)[:100]


def receipt_bytes(types: WorldCodecs, manifest: Manifest, kind: str, value: Any) -> bytes:
    """A receipt's value as bytes: an object of its class where the app is known, else JSON data."""
    if isinstance(types, AppCodecs) and kind in types.built.forms.effects:
        wanted = types.built.effect(kind).receipt
        if isinstance(value, wanted):
            return types.built.encode_receipt(kind, value)
    effect = manifest.effects.get(kind)
    if effect is None:
        return encode(from_json(value))
    schema = t.Ref(effect.receipt)
    return wire_codec(schema, manifest.schemas).encode(from_json(value, schema, manifest.schemas))
