"""Events through a whole world, in memory, beside a bare loop doing the same typed work. CPU time.

Every round brings one event to each of 1,000 orders that exist; events come encoded.

World      `World.beat`: routing, queues, fair rounds, the Python module as a program, records, one frame a
           beat with its CID; frames are kept in a list.
Bare loop  per event: decode event and state (`libipld`) and convert both (`msgspec`), call the same function,
           `to_builtins`, validate the result by converting it back, encode, store in a dict of bytes by key.
           No journal, no routing, no versions.
Codecs     the same loop with our own typed codecs in place of those calls.

At the end all of them hold the same bytes for every order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import libipld
import msgspec

from bench.kernel_order import (
    BASE,
    PAID_CODEC,
    Order,
    Paid,
    event_bytes,
    event_items,
    key_of,
    new_world,
    order,
)
from bench.report import Row, measured, ratio
from bench.timing import Side, best_of
from cellule.kernel.items import EventItem
from cellule.values.schema import codec_for, derive

KEYS = 1_000
WORLD_MIN = 0.25

States = dict[bytes, bytes]


def run(*, quick: bool) -> Iterator[Row]:
    """Beats of 1,000 events, then smaller ones."""
    keys, rounds = (20, 1) if quick else (KEYS, 15)
    for size in (20, 1) if quick else (1_000, 100, 10, 1):
        yield from _beats(size, keys, rounds)


def _beats(size: int, keys: int, rounds: int) -> Iterator[Row]:
    bare, by_codecs = dict[bytes, bytes](), dict[bytes, bytes]()
    with new_world() as world:
        turns = [count() for _ in range(3)]

        def beats(items: list[EventItem]) -> None:
            for start in range(0, len(items), size):
                world.beat(items[start : start + size])

        world_side = Side(beats, lambda: event_items(range(keys), next(turns[0])))
        loop = Side(lambda events: _bare_loop(events, bare), lambda: _events(keys, next(turns[1])))
        codecs = Side(lambda events: _codec_loop(events, by_codecs), lambda: _events(keys, next(turns[2])))
        best_of(world_side, loop, codecs, rounds=1)  # the orders are made
        world_s, loop_s, codecs_s = best_of(world_side, loop, codecs, rounds=rounds)
        for number in range(keys):
            key = key_of(number).encode()
            entry = world.entry(BASE, key)
            assert entry is not None
            assert entry.state == bare[key] == by_codecs[key]
    case = f"{size:,} events a beat" if size > 1 else "1 event a beat"
    target = WORLD_MIN if size == keys else None
    yield ratio("kernel", case, "events vs bare loop", loop_s / world_s, target)
    yield ratio("kernel", case, "events vs bare loop of codecs", codecs_s / world_s)
    yield measured("kernel", case, "events", keys / world_s, "/s")
    yield measured("kernel", case, "an event", world_s / keys * 1e6, "us")


def _events(keys: int, turn: int) -> list[tuple[bytes, bytes]]:
    return [(key_of(number).encode(), event_bytes(number, turn)) for number in range(keys)]


def _bare_loop(events: list[tuple[bytes, bytes]], states: States) -> None:
    read, write = libipld.decode_dag_cbor, libipld.encode_dag_cbor
    convert, to_builtins = msgspec.convert, msgspec.to_builtins
    for key, value in events:
        event = convert(read(value), Paid)
        stored = states.get(key)
        state = None if stored is None else convert(read(stored), Order)
        plain = to_builtins(order(state, event))
        convert(plain, Order)
        states[key] = write(plain)


def _codec_loop(events: list[tuple[bytes, bytes]], states: States) -> None:
    read_event, read, write = PAID_CODEC.decode_trusted, _ORDER_CODEC.decode_trusted, _ORDER_CODEC.encode
    for key, value in events:
        stored = states.get(key)
        states[key] = write(order(None if stored is None else read(stored), read_event(value)))


_ORDER_CODEC = codec_for(derive(Order, namespace="bench", version=1))
