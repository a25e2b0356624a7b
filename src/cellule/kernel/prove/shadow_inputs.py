"""What came from outside in a recorded frame, as items for another run of it.

Events, receipts and controls of people are repeated; what the kernel itself wrote (events of schedules, fired
timers, denials) comes again by itself, or does not. A receipt belongs to an effect: the n-th request of one
kind by one cell gets the receipt that the n-th one got, however its record is numbered in this run. A receipt
whose request has not come yet waits.

Rejected: intents by their ids. One more record anywhere, and every later id is another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any, Final

from cellule.kernel.items import ControlItem, EventItem, ReceiptItem
from cellule.kernel.journal.codes import Settled
from cellule.kernel.journal.fields import given_arguments
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import ControlRecord, EventRecord, IntentRecord, ReceiptRecord
from cellule.kernel.limits import SHADOW_RECEIPTS_MAX
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.state.intent_book import Book
from cellule.values.cbor import decode_trusted, encode
from cellule.values.envelope import value_of
from cellule.values.link import Link

Asked = tuple[str, bytes, str, int]  # module, key, kind, and which request of that kind it is
_ITSELF: Final = ("fired", "step", "control")  # marks of receipts that the kernel wrote
_BY_KERNEL: Final = (Settled.ABANDONED, Settled.DENIED)  # no adapter gives them
_OF_HOSTS: Final = frozenset(("cell.spill", "deploy", "snapshot", "baseline"))
_LETTERS: Final = frozenset(("letter.redrive", "letter.dismiss"))  # they name records of the other run


class Requests:
    """The requests of one run, by what they are: the heights of their records."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, bytes, str]] = Counter()
        self.heights: dict[Asked, int] = {}
        self.asked: dict[int, Asked] = {}

    def note(self, frame: Frame) -> None:
        """Remember the requests of a frame."""
        for height, record in frame.of(IntentRecord):
            kind = (record.module, record.extras.get("entry") or record.key, record.kind)
            asked = (*kind, self._counts[kind])
            self._counts[kind] += 1
            self.heights[asked] = height
            self.asked[height] = asked

    def forget(self, height: int) -> None:
        """The request at a height is settled."""
        asked = self.asked.pop(height, None)
        if asked is not None:
            self.heights.pop(asked, None)


class Inputs:
    """Turns recorded frames into items; `recorded` are their requests, `run` those of this run."""

    def __init__(self, nodes: Nodes, book: Book, era: int) -> None:
        self._nodes = nodes
        self._book = book
        self._era = era  # the number of the era under trial
        self.recorded = Requests()
        self.run = Requests()
        self.waiting: list[tuple[Asked, ReceiptRecord]] = []
        self.receipts_left = 0  # receipts of requests that this run never made
        self.controls_left = 0  # what people did that means nothing here

    def of(self, frame: Frame, manifest: Manifest) -> Generator[Need, None, list[Any]]:
        """The items of a recorded frame, and receipts that waited."""
        self.recorded.note(frame)
        items: list[Any] = []
        for _, record in frame.numbered():
            match record:
                case EventRecord(cause=0):
                    items.append(_event(record, manifest))
                case ReceiptRecord():
                    yield from self._receipt(items, record)
                case ControlRecord():
                    self._control(items, record)
        return items

    def waited(self) -> Generator[Need, None, list[Any]]:
        """The items of receipts whose requests have come by now."""
        waiting, self.waiting = self.waiting, []
        items: list[Any] = []
        for asked, record in waiting:
            yield from self._give(items, asked, record)
        return items

    def _control(self, items: list[Any], record: ControlRecord) -> None:
        """Repeat what a person did; an effect that they decided on is the one of this run."""
        verb: Any = record.verb
        arguments = given_arguments(record.verb, record.arguments)
        if verb.startswith("effect."):
            asked = self.recorded.asked.get(arguments.get("height", 0))
            height = arguments.get("height") if asked is None else self.run.heights.get(asked)
            if height is None:
                self.controls_left += 1
                return
            arguments["height"] = height
        if arguments.get("to", -1) >= self._era:
            del arguments["to"]  # an era that the record has and this run has not: the newest is meant
        if verb in _LETTERS:
            self.controls_left += 1
        elif verb not in _OF_HOSTS:
            items.append(ControlItem(verb, record.who, record.why, arguments))

    def _receipt(self, items: list[Any], record: ReceiptRecord) -> Generator[Need, None, None]:
        if any(name in record.extras for name in _ITSELF) or record.status in _BY_KERNEL:
            self.recorded.forget(record.cause)
            return
        asked = self.recorded.asked.get(record.cause)
        self.recorded.forget(record.cause)
        if asked is None:  # asked before this run began: its record is the same one
            yield from self._add(items, record.cause, record)
            return
        yield from self._give(items, asked, record)

    def _give(self, items: list[Any], asked: Asked, record: ReceiptRecord) -> Generator[Need, None, None]:
        height = self.run.heights.get(asked)
        if height is not None:
            yield from self._add(items, height, record)
            self.run.forget(height)
        elif len(self.waiting) < SHADOW_RECEIPTS_MAX:
            self.waiting.append((asked, record))
        else:
            self.receipts_left += 1

    def _add(self, items: list[Any], height: int, record: ReceiptRecord) -> Generator[Need, None, None]:
        """Add the receipt as its adapter gave it, unless the kernel has settled the request by itself."""
        intent = yield from self._book.find(height)
        if intent is None:
            return
        stored = value_of(record.value)
        if isinstance(stored, Link):
            stored = (yield from fetch(self._nodes, (stored.cid,)))[stored.cid]
        told: Any = decode_trusted(stored)
        status = Settled(record.status).name.lower()
        value = encode(told.get("value")) if status == "ok" else None
        extras = record.extras
        items.append(ReceiptItem(
            intent.id, height, status, value, extras.get("code", ""), extras.get("text", ""),
            extras.get("by", ""), extras.get("attempts", 0), bool(extras.get("exhausted")), durable=False,
        ))  # fmt: skip


def _event(record: EventRecord, manifest: Manifest) -> EventItem:
    extras, targets = record.extras, record.targets
    is_sent_with_key = any(route.key_only for route in manifest.routes.get(record.schema, ()))
    return EventItem(
        record.schema, value_of(record.value), targets[0][1] if is_sent_with_key and targets else None,
        expected_version=extras.get("expected"), correlation=extras.get("correlation"),
        system=record.schema.startswith("sys/"),
    )  # fmt: skip
