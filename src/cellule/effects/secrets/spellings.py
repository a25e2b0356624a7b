"""How a secret may be spelled by those who repeat it, and where it stands in given bytes.

Character by character it may stand for itself, be percent-encoded, or be escaped as JSON, HTML or Python do;
mixes of these are found too, since every encoder leaves other characters alone. As a whole it may be base64,
at any offset within what was encoded, or hex.

Rejected: one regular expression of all secrets. It reads a megabyte in more than a second; plain searches
for what cannot be spelled otherwise are a hundred times faster, and most texts hold no secret.
"""

from __future__ import annotations

import html
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from typing import NamedTuple

LINE_CHARS_MIN = 16
"""Shorter lines of a long secret are words like "-----END-----" and say nothing."""


class Spelling(NamedTuple):
    """The spellings of one text: `literals` as they stand; `pattern` only where `anchor` stands too."""

    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    anchor: bytes
    longest: int

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where it stands in `data`, each with its end; overlapping ones too."""
        for literal in self.literals:
            at = data.find(literal)
            while at >= 0:
                yield at, at + len(literal)
                at = data.find(literal, at + 1)
        if self.anchor not in data:
            return
        found = self.pattern.search(data)
        while found:
            yield found.span()
            found = self.pattern.search(data, found.start() + 1)


def spellings_of(value: str) -> list[Spelling]:
    """The spellings of a value, and of its long lines if it has several."""
    lines = [line.strip() for line in value.splitlines()]
    parts = [value, *(line for line in lines if len(line) >= LINE_CHARS_MIN and line != value)]
    return [_spelling(part) for part in dict.fromkeys(parts)]


def _spelling(text: str) -> Spelling:
    literals = tuple(dict.fromkeys(_as_a_whole(text.encode())))
    pattern, longest = [], 0
    for char in text:
        forms = sorted(_forms(char), key=len, reverse=True)
        longest += len(forms[0].encode())
        pattern.append(f"(?:{'|'.join(map(re.escape, forms))})")
    plain = re.findall("[0-9A-Za-z]+", text)
    anchor = max(plain, key=len, default="").encode()
    return Spelling(
        literals, re.compile("".join(pattern).encode()), anchor, max(longest, *map(len, literals))
    )


def _forms(char: str) -> set[str]:
    """How one character may be written; letters and digits stand for themselves only."""
    if char.isascii() and char.isalnum():
        return {char}
    forms = {char, repr(char)[1:-1], html.escape(char), f"&#{ord(char)};", f"&#x{ord(char):x};"}
    units = char.encode("utf-16-be").hex()
    for pairs in (char.encode().hex(" ").split(), char.encode().hex(" ").upper().split()):
        forms |= {"".join(f"{mark}{pair}" for pair in pairs) for mark in ("%", "\\x")}
    for hexes in (units, units.upper()):
        forms.add("".join(f"\\u{hexes[at : at + 4]}" for at in range(0, len(hexes), 4)))
    if char == " ":
        forms.add("+")
    if char in "/\\\"'":
        forms.add(f"\\{char}")
    return forms


def _as_a_whole(raw: bytes) -> Iterator[bytes]:
    """Hex, and the characters of base64 that depend on `raw` alone, wherever it begins."""
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for offset in range(3):
        first, last = (offset * 8 + 5) // 6, (offset + len(raw)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(offset) + raw)[first:last]
