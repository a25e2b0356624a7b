"""The order of sets and of maps with other keys than text: by the encoded bytes of the items.

For single values the order of the encoded bytes is known without encoding: numbers count up from 0, then
down from -1; texts and byte strings go by length, then content. Everything else is encoded once per item.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from cellule.values.cbor import encode
from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

Order: TypeAlias = Callable[[Iterable[Any]], list[Any]]


def order_of(item: Schema, schemas: Schemas) -> Order:
    """Return the function that sorts wire values of `item` by their encoded bytes."""
    match schemas.resolve(item):
        case t.Int() | t.Float() | t.Time() | t.Duration():
            return by_number
        case t.Bool() | t.Uuid():
            return sorted
        case t.Text() | t.Dec():
            return by_text
        case t.Bytes():
            return by_length
        case t.Enum() as enum:
            return by_text if enum.is_text else by_number
        case _:
            return by_encoding


def is_single(item: Schema, schemas: Schemas) -> bool:
    """Whether wire values of `item` are hashable and equal exactly if their bytes are."""
    return order_of(item, schemas) is not by_encoding


def by_number(values: Iterable[Any]) -> list[Any]:
    """Sort numbers: 0, 1, 2, ..., then -1, -2, ..."""
    ranked = sorted(values)
    if not ranked or ranked[0] >= 0:
        return ranked
    negative = bisect_left(ranked, 0)
    return ranked[negative:] + ranked[:negative][::-1]


def by_text(values: Iterable[Any]) -> list[Any]:
    """Sort texts by the length of their UTF-8 form, then by it."""
    ranked = sorted(values)
    if "".join(ranked).isascii():
        ranked.sort(key=len)
    else:
        ranked.sort(key=_utf8_length)
    return ranked


def by_length(values: Iterable[Any]) -> list[Any]:
    """Sort byte strings by length, then content."""
    ranked = sorted(values)
    ranked.sort(key=len)
    return ranked


def by_encoding(values: Iterable[Any]) -> list[Any]:
    """Sort any wire values by their encoded bytes."""
    return sorted(values, key=encode)


def pairs_by_encoding(pairs: Iterable[list[Any]]) -> list[list[Any]]:
    """Sort `[key, value]` pairs by the encoded bytes of their keys."""
    return sorted(pairs, key=_encoded_key)


def _utf8_length(value: str) -> int:
    return len(value.encode(errors="surrogatepass"))  # the encoder refuses surrogates, with a place


def _encoded_key(pair: list[Any]) -> bytes:
    return encode(pair[0])
