"""Frozen bytes of the entries of a workflow's history.

A fixed life of three runs is lived again and must leave the same bytes in the journal. Any difference means
that runs under way could no longer be resumed. `workflow.json` has, for each step, the bytes that it appended
and what they say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cellule import App
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import StepRecord
from cellule.modules.workflow.history import Ask, entry
from cellule.testing import World
from cellule.values.cbor import decode, encode
from cellule.values.envelope import open_envelope
from cellule.values.json_view import to_json
from tests.node_apps import runs

HEX = "846361736b71656666656374207061792e636861726765488c4c1a3b0d5e6f706a73686f702e70793a3331"
FROZEN = Path(__file__).with_name("workflow.json")


def lived() -> list[dict[str, Any]]:
    """The life, step by step."""
    world = World(runs.app, elsewhere=False)
    world.send(runs.Begun("ok", 1))
    world.complete(world.intents.of(runs.charge)[0], runs.Charged("c1"))
    world.send(runs.Word("ok", 5))
    world.advance(hours=2)
    world.send(runs.Word("ok", 7))
    world.send(runs.Word("ok", 8))
    world.send(runs.Begun("failed", 1))
    world.fail(world.intents.of(runs.charge)[0], "bank.no", "no money")
    world.send(runs.Begun("stopped", 1))
    world.send(("run_order", {"verb": "rerun", "why": "once more"}), key="stopped")
    world.complete(world.intents.of(runs.charge)[0], runs.Charged("c2"))
    world.send(("run_order", {"verb": "cancel", "why": "enough"}), key="stopped")
    world.advance(minutes=2)
    world.send(runs.Begged("calls"))
    world.send(runs.Answered("calls"))
    world.assert_replays()
    return list(steps_of(world))


def steps_of(world: World) -> Any:
    for data in world.host.frames:
        for _, record in decode_frame(data).of(StepRecord):
            if record.module == "gold/desk":
                continue
            assert record.state is not None
            held: Any = record.state
            state = open_envelope(held).data if isinstance(held, list) else held
            yield {
                "cell": record.key.decode(), "cut": record.extras.get("cut", False), "bytes": state.hex(),
                "entries": to_json(decode(state)),
                **({"calls": record.extras["calls"]} if "calls" in record.extras else {}),
            }  # fmt: skip


def test_the_entries_are_the_frozen_ones():
    frozen = json.loads(FROZEN.read_text())
    found = json.loads(json.dumps(lived()))
    assert [each["entries"] for each in found] == [each["entries"] for each in frozen]
    assert found == frozen


def test_every_kind_of_entry_is_frozen():
    kinds = {entry[0] for step in json.loads(FROZEN.read_text()) for entry in step["entries"]}
    assert kinds == {"start", "event", "receipt", "timer", "cancel", "call", "ask", "publish", "waits", "end"}


def test_the_page_shows_an_entry_as_it_is():
    ask = Ask("effect pay.charge", bytes.fromhex("8c4c1a3b0d5e6f70"), "shop.py:31")
    assert entry("ask", *ask).hex() == HEX
    assert decode(encode(list(ask))) == list(ask)
    assert isinstance(runs.app, App)
