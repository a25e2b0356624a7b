"""Fields of a foreign file's blocks: each is proven before it is used."""

from __future__ import annotations

from typing import Any

from cellule.errors import Rejected


def count_of(value: dict[str, Any], field: str) -> int:
    """A number from 0."""
    found = value[field]
    if type(found) is not int or not 0 <= found < 1 << 63:
        raise wrong(field, "it is no number from 0")
    return found


def text_of(value: dict[str, Any], field: str) -> str:
    """A text."""
    found = value[field]
    if not isinstance(found, str):
        raise wrong(field, "it is no text")
    return found


def bytes_of(value: dict[str, Any], field: str, size: int | None = None) -> bytes:
    """Bytes, as many as are said."""
    found = value[field]
    if not isinstance(found, bytes) or (size is not None and len(found) != size):
        raise wrong(field, "it is no bytes" if size is None else f"it is not {size} bytes")
    return found


def wrong(field: str, why: str) -> Rejected:
    """The error of a block that does not say what it must."""
    return Rejected(
        "archive.document", "the file is no export of this kind: {field}: {why}", field=field, why=why,
        hint="Nothing was changed. Worlds are exported with `cellule world export`, cells with "
        "`cellule cell archive`.",
    )  # fmt: skip


def redacted_file(fields: tuple[str, ...], proven: str) -> Rejected:
    """The error of a file that leaves something out."""
    return Rejected(
        "archive.redacted", "the file leaves out {fields}: nothing can be made or tested with it; {proven}",
        fields=", ".join(fields), proven=proven, hint="Make an export without --redact.",
    )  # fmt: skip
