"""Steps with a note take the short ways where they answer nothing else; both ways write the same bytes."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import pytest

from cellule.kernel.items import EventItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord, StepRecord
from cellule.kernel.limits import OUTPUT_BYTES_MAX, STATE_INLINE_RECORD_MAX
from cellule.kernel.program import Emit, Output
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.kernel_world import FunctionPrograms, KernelWorld

TEXT: dict[str, Any] = {"text": {}}
MANIFEST = {
    "schemas": {
        "a/Asked@1": {"record": {"id": TEXT, "parts": {"list": TEXT}}}, "a/State@1": {"any": {}},
        "a/Told@1": {"record": {"id": TEXT}},
    },
    "modules": {"a/cell@1": {
        "state": "a/State@1", "event": "a/Asked@1", "key": TEXT, "code": {}, "failure": "skip",
    }},
    "routing": {"subscriptions": [{"event": "a/Asked@1", "module": "a/cell@1", "key_field": "id"}]},
}  # fmt: skip
FAR = cid_of(b"far", "raw")
LONG = "x" * (STATE_INLINE_RECORD_MAX + 1)
PARTS = {
    "note": {"ann": encode(["noted"])},
    "long note": {"ann": encode(LONG)},
    "huge note": {"ann": encode("x" * OUTPUT_BYTES_MAX)},
    "linked note": {"ann": encode([Link(FAR)])},
    "long state": {"state": encode(LONG)},
    "linked state": {"state": encode([Link(FAR)])},
    "reply": {"reply": encode("yes")},
    "event": {"events": [Emit("a/Told@1", encode({"id": "o"}), None)]},
    "gone": {"state": None},
}  # fmt: skip


class Answering:
    """A program that answers what its event names."""

    is_canonical = True

    def step(self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Any) -> Output:
        made = Output(encode(len(state or b"")))
        wanted: Any = decode(value)
        for part in wanted["parts"]:
            made = made._replace(**PARTS[part])
        return made

    def way(self, schema: str) -> Any:
        return lambda state, value, fields, key, context: self.step(state, schema, value, key, context)


class Programs(FunctionPrograms):
    """That program for every module."""

    def program(self, manifest: Any, module: Any, nodes: Any) -> Any:
        yield from ()
        return Answering()


def lived(parts: list[tuple[str, ...]], *, fast: bool) -> KernelWorld:
    """All answers in one beat, each to a cell that exists, and all to one cell, which takes them in turn."""
    world = KernelWorld(MANIFEST, Programs({}), fast=fast)
    world.cas[FAR] = b"far"
    events = [{"id": f"o{at}", "parts": list(each)} for at, each in enumerate(parts)]
    world.beat([EventItem("a/Asked@1", encode({**each, "parts": []})) for each in events])
    world.beat([EventItem("a/Asked@1", encode(each)) for each in events])
    world.settle()
    world.beat([EventItem("a/Asked@1", encode({**each, "id": "p"})) for each in events])
    world.settle()
    return world


EVERY = list(chain.from_iterable(combinations(PARTS, size) for size in range(4)))


def test_every_answer_with_a_note_is_written_alike_by_both_ways() -> None:
    short, general = lived(EVERY, fast=True), lived(EVERY, fast=False)
    assert short.frames == general.frames
    short.assert_replays()


@pytest.mark.parametrize("fast", [True, False])
def test_nothing_of_an_answer_is_lost_beside_its_note(fast: bool) -> None:
    world = lived([("note", "event", "reply")], fast=fast)
    records = [record for frame in world.frames for record in decode_frame(frame).records]
    noted = [each for each in records if isinstance(each, StepRecord) and "ann" in each.extras]
    assert [sorted(each.extras) for each in noted] == [["ann", "reply"]] * 2
    assert sum(isinstance(each, EmittedRecord) for each in records) == 2
