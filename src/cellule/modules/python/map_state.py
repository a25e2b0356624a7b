"""The state of a module that is one cell for all keys: a map from keys to what its code knows as the state.

An author never writes the map; it is named after the module, with the version of the substates' schema:
`shop/orderMap@1` holds the `shop/Order@1` of all orders.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.manifest.model import Manifest, Module
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.codec import Codec, codec_for
from cellule.values.schema.derive import Derived
from cellule.values.schema.shape import MapShape, Shape


def map_state(
    entry: Derived[Any], key: t.Schema, module: str, key_shape: Shape | None = None
) -> Derived[Any]:
    """The map of a module's substates; only with the shape of its keys is it good for a codec."""
    assert entry.name is not None
    full, version = Name.parse(module), Name.parse(entry.name).version
    name = f"{full.namespace}/{full.local}Map@{version}"
    schema = t.Map(key, t.Ref(entry.name))
    shape = entry.shape if key_shape is None else MapShape(schema, key_shape, entry.shape)
    python: Any = GenericAlias(dict, (str, entry.python))  # read as it stands only where keys are texts
    return Derived(python, name, t.Ref(name), entry.schemas.merged({name: schema}), shape)


def map_codec(entry: Derived[Any], key: Codec[Any], module: str) -> Codec[Any]:
    """What reads a module's map: a dict of objects."""
    return codec_for(map_state(entry, key.derived.schema, module, key.derived.shape))


def entry_schema(manifest: Manifest, module: Module) -> str:
    """The schema of the substates in a module's map."""
    found = manifest.schemas.resolve(t.Ref(module.state))
    if isinstance(found, t.Map) and isinstance(found.value, t.Ref):
        return found.value.name
    raise Rejected(
        "modules.entry_schema", "{module}: the values of its map {state} have no name.",
        module=module.name, state=module.state,
        hint='Name them: {"map": {"key": "text", "value": {"ref": "com.acme/Order@1"}}}.',
    )  # fmt: skip
