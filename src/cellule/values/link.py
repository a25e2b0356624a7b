"""Links: the only way to write a CID into a value, and the `Value` type that holds them.

A link is its own type because bytes that merely look like a CID are common (`(1).to_bytes(4, "little")` is
one) and must stay bytes: what is a link decides what the CAS keeps.

Rejected: a subclass of bytes, a dataclass or a `msgspec.Struct`. Codecs that know those would write a link
as something else without asking.
"""

from __future__ import annotations

from typing import TypeAlias

from cellule.errors import Rejected
from cellule.values.cid import Cid


class Link:
    """A reference to the node or blob named by `cid`; immutable, hashable, ordered by its bytes."""

    __slots__ = ("_cid",)

    def __init__(self, cid: Cid) -> None:
        if not isinstance(cid, Cid):
            raise Rejected(
                "values.link_target", "a link takes a Cid, not {kind}", kind=type(cid).__name__,
                hint="Use Cid.parse(text) or Cid.of_bytes(raw).",
            )  # fmt: skip
        self._cid = cid

    @property
    def cid(self) -> Cid:
        """What the link points to."""
        return self._cid

    def __eq__(self, other: object) -> bool:
        return self._cid == other._cid if isinstance(other, Link) else NotImplemented

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Link):
            return NotImplemented
        return self._cid < other._cid

    def __le__(self, other: object) -> bool:
        if not isinstance(other, Link):
            return NotImplemented
        return self._cid <= other._cid

    def __gt__(self, other: object) -> bool:
        if not isinstance(other, Link):
            return NotImplemented
        return self._cid > other._cid

    def __ge__(self, other: object) -> bool:
        if not isinstance(other, Link):
            return NotImplemented
        return self._cid >= other._cid

    def __hash__(self) -> int:
        return hash((Link, self._cid))

    def __repr__(self) -> str:
        return f"Link({self._cid!r})"

    def __reduce__(self) -> tuple[type[Link], tuple[Cid]]:
        return Link, (self._cid,)


Value: TypeAlias = bool | int | float | str | bytes | list["Value"] | dict[str, "Value"] | Link | None
"""What can be encoded. Tuples are accepted too, written as lists, and come back as lists."""
