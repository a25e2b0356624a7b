"""An exported cell: the root block of its file, and its steps.

    root = {kind: "cellule/cell", format: 0, world, name, module, key, height, made_ns, redacted: [text],
            steps, pages: [Link], state: Link?, era: number?, eras: {number: Link(manifest)},
            effects, messages, archives: [Link]}
    page = [{height, version, born, era, status, now_ns, cause, schema?, event?, state?, error?, code?}]

`state` is what the cell is now, `era` the one it runs under; both are null where it is gone. `effects` and
`messages` are how many were open and waited: they are not in the file. `archives` are the roots of files that
the cell was imported from: its history before. Values stand as themselves, so any IPLD tool reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cellule.host.archive.fields import bytes_of, count_of, text_of, wrong
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.link import Link, Value

KIND = "cellule/cell"
FORMAT = 0

_FIELDS = {
    "kind", "format", "world", "name", "module", "key", "height", "made_ns", "redacted", "steps", "pages",
    "state", "era", "eras", "effects", "messages", "archives",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CellDocument:
    """An exported cell; `key` is None where it was redacted."""

    world: UUID
    name: str
    module: str
    key: bytes | None
    height: int
    made_ns: int
    redacted: tuple[str, ...]
    steps: int
    pages: tuple[Cid, ...]
    state: Cid | None
    era: int | None
    eras: dict[int, Cid]
    effects: int
    messages: int
    archives: tuple[Cid, ...]

    def encode(self) -> bytes:
        """The root block."""
        eras: dict[str, Value] = {str(number): Link(cid) for number, cid in self.eras.items()}
        return encode({
            "kind": KIND, "format": FORMAT, "world": self.world.bytes, "name": self.name,
            "module": self.module, "key": self.key, "height": self.height, "made_ns": self.made_ns,
            "redacted": list(self.redacted), "steps": self.steps, "pages": list(map(Link, self.pages)),
            "state": None if self.state is None else Link(self.state), "era": self.era, "eras": eras,
            "effects": self.effects, "messages": self.messages, "archives": list(map(Link, self.archives)),
        })  # fmt: skip

    @classmethod
    def of_block(cls, data: bytes) -> CellDocument:
        """Read the root block of a file; `Rejected` with the field that does not fit."""
        value: Any = decode(data)
        if not isinstance(value, dict) or value.get("kind") != KIND:
            raise wrong("kind", f"it is not {KIND}, so it holds no cell")
        if value.get("format") != FORMAT:
            raise wrong("format", f"it is {value.get('format')!r}; this Cellule reads {FORMAT}")
        if set(value) != _FIELDS:
            raise wrong("fields", f"they are {', '.join(sorted(map(str, value)))}")
        return cls(
            UUID(bytes=bytes_of(value, "world", 16)), text_of(value, "name"), text_of(value, "module"),
            None if value["key"] is None else bytes_of(value, "key"), count_of(value, "height"),
            count_of(value, "made_ns"), _texts(value, "redacted"), count_of(value, "steps"),
            _links(value, "pages"), None if value["state"] is None else _link(value["state"], "state"),
            None if value["era"] is None else count_of(value, "era"), _eras(value["eras"]),
            count_of(value, "effects"), count_of(value, "messages"), _links(value, "archives"),
        )  # fmt: skip


def _link(found: Any, field: str) -> Cid:
    if not isinstance(found, Link):
        raise wrong(field, "it is no link")
    return found.cid


def _links(value: dict[str, Any], field: str) -> tuple[Cid, ...]:
    found = value[field]
    if not isinstance(found, list):
        raise wrong(field, "it is no list of links")
    return tuple(_link(each, field) for each in found)


def _texts(value: dict[str, Any], field: str) -> tuple[str, ...]:
    found = value[field]
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise wrong(field, "it is no list of texts")
    return tuple(found)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _eras(found: Any) -> dict[int, Cid]:
    if not isinstance(found, dict) or not all(map(_is_number, found)):
        raise wrong("eras", "they are no manifests by numbers")
    return {int(number): _link(link, "eras") for number, link in found.items()}
