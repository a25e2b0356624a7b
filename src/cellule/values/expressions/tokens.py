"""The text of an expression cut into tokens, with literals read.

Covers CEL's whole lexical grammar except unsigned integers, which have no place among plain values.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from cellule.values.expressions.fault import Refusal
from cellule.values.expressions.limits import INT_MAX, SHOWN_CHARS_MAX

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\n\f\r]+|//[^\n]*)
  | (?P<bytes>[bB][rR]?(?=['"]))
  | (?P<text>[rR]?(?=['"]))
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<sign>\|\||&&|==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_QUOTE: Final = re.compile(r"'''|\"\"\"|'|\"")
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\\?\"'`])|[xX](?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})"
    r"|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2}))"
)
_PLAIN: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_CODE: Final = "values.expression_syntax"


class Token(NamedTuple):
    """One token: `kind` is int, float, text, bytes, name, sign or end; `value` is what a literal means."""

    kind: str
    source: str
    at: int
    value: int | float | str | bytes | None = None


def tokenize(text: str) -> list[Token]:
    """Cut `text` into tokens, ending with one of kind `end`; raises `Refusal`."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Refusal(_CODE, at, f"{text[at]!r} means nothing here", _hint_for(text[at]))
        kind = str(match.lastgroup)
        if kind in ("text", "bytes"):
            token = _quoted(text, at, kind, match.group())
        elif kind in ("int", "float"):
            token = _number(text, at, kind, match.group())
        else:
            token = Token(kind, match.group(), at)
        if kind != "space":
            tokens.append(token)
        at += len(token.source)
    tokens.append(Token("end", "", len(text)))
    return tokens


def _hint_for(character: str) -> str:
    match character:
        case "=":
            return "Compare with ==."
        case "&" | "|":
            return "Join conditions with && and ||."
        case "$" | "`" | "@" | "#":
            return "Reach a field with such a name by x['name']."
        case _:
            return ""


def _number(text: str, at: int, kind: str, source: str) -> Token:
    following = text[at + len(source) : at + len(source) + 1]
    if kind == "int" and following in ("u", "U"):
        raise Refusal(
            "values.expression_unsupported", at, "unsigned integers do not occur among values",
            "Leave out the u: integers are signed, of 64 bits.",
        )  # fmt: skip
    if following.isalnum() or following == "_":
        raise Refusal(_CODE, at, f"the number {source!r} runs into {following!r}")
    if kind == "float":
        value = float(source)
        if math.isinf(value):
            raise Refusal(_CODE, at, f"the float {source} is too large")
        return Token(kind, source, at, value)
    integer = int(source, 16 if source[:2] == "0x" else 10)
    if integer > INT_MAX + 1:  # one more, because a minus may stand before it
        raise Refusal(_CODE, at, f"the integer {source[:SHOWN_CHARS_MAX]} does not fit into 64 bits")
    return Token(kind, source, at, integer)


def _quoted(text: str, at: int, kind: str, prefix: str) -> Token:
    begin = at + len(prefix)
    match = _QUOTE.match(text, begin)
    assert match is not None  # the token's pattern looked ahead for it
    quote = match.group()
    raw = "r" in prefix.lower()
    end = begin + len(quote)
    parts: list[str | bytes] = []
    while not text.startswith(quote, end):
        character = text[end : end + 1]
        if not character or (character in "\r\n" and len(quote) == 1):
            raise Refusal(_CODE, at, "the text has no closing quote", "Write line breaks as \\n.")
        if character == "\\" and not raw:
            escape = _ESCAPE.match(text, end)
            if escape is None:
                raise Refusal(
                    _CODE, end, f"unknown escape {text[end : end + 2]!r}", "Write \\\\ for a backslash."
                )
            parts.append(_unescaped(escape, end, kind))
            end = escape.end()
        else:
            parts.append(character)
            end += 1
    source = text[at : end + len(quote)]
    if kind == "text":
        return Token(kind, source, at, "".join(str(part) for part in parts))
    return Token(kind, source, at, b"".join(p.encode() if isinstance(p, str) else p for p in parts))


def _unescaped(escape: re.Match[str], at: int, kind: str) -> str | bytes:
    """What an escape means: a character; in a byte string a byte."""
    if escape["plain"]:
        return _PLAIN[escape["plain"]]
    if escape["octal"]:
        point = int(escape["octal"], 8)
    else:
        point = int(escape["x"] or escape["u"] or escape["long"], 16)
    if kind == "bytes":
        if escape["u"] or escape["long"]:
            hint = "Write the character itself, or its bytes as \\x41."
            raise Refusal(_CODE, at, "byte strings take no \\u", hint)
        return bytes([point])
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise Refusal(_CODE, at, f"{escape.group()} is no character")
    return chr(point)
