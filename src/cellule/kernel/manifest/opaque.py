"""Parts of a manifest that the kernel keeps but does not read: code, effects, policy and the like.

They must be canonical values, since they are part of the manifest's identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from cellule.errors import Rejected
from cellule.kernel.manifest.problems import Problems
from cellule.values.cbor import decode_trusted, encode
from cellule.values.link import Value
from cellule.values.schema.fault import shown


def opaque(problems: Problems, path: str, value: object) -> Any:
    """A copy of `value` as it will be read back from bytes, or a problem."""
    try:
        return decode_trusted(encode(cast("Value", value)))
    except Rejected as error:
        problems.add(path, "value", str(error))
        return None


def opaque_map(problems: Problems, path: str, value: object) -> Mapping[str, Any]:
    """The same for what must be a map; empty where there is none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.add(path, "type", f"a map is needed here, not {shown(value)}")
        return {}
    copy: Mapping[str, Any] | None = opaque(problems, path, dict(value))
    return {} if copy is None else copy
