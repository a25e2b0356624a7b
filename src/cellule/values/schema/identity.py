"""The identity of a schema: the CID of its document together with all documents it refers to.

Field order, Python modules and the process play no part; names, fields, types and bounds do.

```
{"schema": document, "refs": {name: document, ...}}   -> DAG-CBOR -> sha2-256 -> CIDv1
```
"""

from __future__ import annotations

from typing import cast

from cellule.values.cbor import encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Value
from cellule.values.schema.document import to_document
from cellule.values.schema.registry import NO_SCHEMAS, Schemas
from cellule.values.schema.types import Schema


def identity(schema: Schema, schemas: Schemas = NO_SCHEMAS) -> Cid:
    """Return the CID of `schema` and everything it reaches in `schemas`."""
    return cid_of(identity_bytes(schema, schemas))


def identity_bytes(schema: Schema, schemas: Schemas = NO_SCHEMAS) -> bytes:
    """Return the canonical bytes that `identity` hashes."""
    refs = {name: to_document(schemas[name]) for name in schemas.closure(schema)}
    return encode(cast("Value", {"schema": to_document(schema), "refs": refs}))
