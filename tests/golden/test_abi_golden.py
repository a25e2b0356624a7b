"""Frozen bytes of the ABI; a change here breaks every program outside Python (docs/formats/abi.md)."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from cellule.kernel import abi
from cellule.kernel.program import Context, Emit, Output, Request, StepRefusal
from cellule.kernel.whole_map import EntryChange
from cellule.values import encode

CASES = json.loads((Path(__file__).parent / "abi.json").read_text())
VALUE = encode({"order": "o1", "total": 30})
STATE = encode({"total": 30})
CONTEXT = Context(
    UUID("018bcfe5-6800-7000-8915-dcdfb21f6bc4").bytes, "com.acme/Order@1", b"o1", 2, 9,
    1_700_000_000_000_000_000, bytes(range(16)), 0, 1,
)  # fmt: skip
ENVELOPES = {
    "input: the first event of a cell": abi.encode_input(abi.Input(None, "com.acme/Placed@1", VALUE, b"o1")),
    "input: a module without keys": abi.encode_input(abi.Input(STATE, "com.acme/Placed@1", VALUE)),
    "input: with context": abi.encode_input(
        abi.Input(STATE, "com.acme/Placed@1", VALUE, b"o1", abi.encode_context(CONTEXT))
    ),
    "context": abi.encode_context(CONTEXT),
    "output: a state": abi.encode_output(Output(STATE)),
    "output: delete the cell": abi.encode_output(Output(None)),
    "output: everything": abi.encode_output(
        Output(
            STATE, [Emit("com.acme/Paid@1", VALUE), Emit("com.acme/Note@1", VALUE, b"o2")],
            [
                Request("timer.set", encode({"after_ns": 5})),
                Request("http.request", VALUE, "net", "o1-1"),
            ],
            encode("done"), encode({"why": "paid"}),
        )
    ),
    "output: changes of a whole map": abi.encode_output(
        Output(None, reply=encode("done")), [EntryChange(b"o1", STATE), EntryChange(b"o2", None)]
    ),
    "context: of a whole map": abi.encode_context(
        Context(CONTEXT.world, CONTEXT.module, b"o1", 2, 9, CONTEXT.now_ns, bytes(16), 0, 1, cell_mode=False)
    ),
    "output: refuse the event": abi.encode_refusal("sold out", "shop.none"),
}  # fmt: skip


def test_every_case_is_frozen():
    assert list(CASES) == list(ENVELOPES)


@pytest.mark.parametrize("name", ENVELOPES)
def test_an_envelope_has_these_bytes(name):
    assert ENVELOPES[name].hex() == CASES[name]


def test_a_frozen_refusal_is_read():
    with pytest.raises(StepRefusal) as caught:
        abi.decode_output(bytes.fromhex(CASES["output: refuse the event"]))
    assert (caught.value.text, caught.value.code) == ("sold out", "shop.none")


UNREAD = ("context", "context: of a whole map", "output: changes of a whole map", "output: refuse the event")


def test_frozen_changes_are_read_and_written_back():
    data = bytes.fromhex(CASES["output: changes of a whole map"])
    assert abi.encode_output(*abi.decode_answer(data)) == data


@pytest.mark.parametrize("name", [name for name in ENVELOPES if name not in UNREAD])
def test_frozen_bytes_are_read_and_written_back(name):
    data = bytes.fromhex(CASES[name])
    if name.startswith("input"):
        assert abi.encode_input(abi.decode_input(data)) == data
    else:
        assert abi.encode_output(abi.decode_output(data)) == data
