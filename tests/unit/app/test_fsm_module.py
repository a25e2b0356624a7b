"""`app.fsm`: a contract beside the app's own events, effects and reducers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cellule import App
from cellule.errors import Refused, Rejected
from cellule.testing import World

CONTRACT = """key: parcel_id
data: {weight: int, tries: {type: int, default: 0}}
triggers:
  announce: {fields: {weight: int}}
  sent: {receipt: carrier.post}
start: {trigger: announce, set: {weight: event.weight}}
states:
  - announced
  - {name: posted, entry: [{effect: carrier.post, params: {parcel_id: key, weight: data.weight}}]}
  - {name: waiting, timeout: {after: 7d, trigger: overdue}}
  - delivered
  - returned
transitions:
  - {from: announced, to: posted, trigger: handed_in, guard: event.by == 'ada'}
  - {from: posted, to: waiting, trigger: sent}
  - {from: waiting, to: delivered, trigger: picked_up}
  - {from: waiting, to: returned, trigger: overdue}
terminal_states: [delivered, returned]
"""


class Post(msgspec.Struct, frozen=True):
    parcel_id: str
    weight: int


class Posted(msgspec.Struct, frozen=True):
    code: str


class HandedIn(msgspec.Struct, frozen=True):
    parcel_id: str
    by: str


def made(folder: Path, text: str = CONTRACT) -> tuple[App, Any]:
    """An app with the contract; `HandedIn` is the app's own event, the others are the contract's."""
    app = App("post")
    app.event(key="parcel_id")(HandedIn)
    app.effect("carrier.post", params=Post, receipt=Posted)
    (folder / "parcel.fsm.yaml").write_text(text)
    return app, app.fsm(folder / "parcel.fsm.yaml")


def waiting(folder: Path) -> tuple[World, Any]:
    """A parcel that waits to be picked up."""
    app, parcel = made(folder)
    world = World(app)
    world.send(("announce", {"parcel_id": "p", "weight": 3}))
    world.send(HandedIn("p", "ada"))
    (intent,) = [each for each in world.intents if each.kind == "carrier.post"]
    assert intent.params == Post("p", 3)
    world.complete(intent, Posted("x"))
    return world, parcel


def test_events_of_the_app_and_of_the_contract_drive_one_machine(tmp_path):
    world, parcel = waiting(tmp_path)
    world.send(("picked_up", {"parcel_id": "p"}))
    assert world.state(parcel, "p") == {"state": "delivered", "weight": 3, "tries": 0, "visit": 3}
    with pytest.raises(Refused, match="parcel is in delivered, where picked_up is not possible"):
        world.send(("post/picked_up@1", {"parcel_id": "p"}))
    world.assert_replays()


def test_a_timeout_of_days_and_a_history_with_time(tmp_path):
    world, parcel = waiting(tmp_path)
    world.advance(days=8)
    assert world.state(parcel, "p")["state"] == "returned"
    assert [each.state["state"] for each in world.cell(parcel, "p").history()] == [
        "announced", "posted", "waiting", "returned",
    ]  # fmt: skip
    world.assert_replays()


def test_a_guard_of_the_apps_event_refuses_and_nothing_changes(tmp_path):
    app, parcel = made(tmp_path)
    world = World(app)
    world.send(("announce", {"parcel_id": "p", "weight": 3}))
    with pytest.raises(Refused, match="no guard of handed_in holds"):
        world.send(HandedIn("p", "bob"))
    assert world.state(parcel, "p")["state"] == "announced"
    world.assert_replays()


@pytest.mark.parametrize(("old", "new", "code", "line"), [
    ("event.by ==", "event.bye ==", "fsm.expression", 14),
    ("to: waiting", "to: wating", "fsm.state_unknown", 15),
    ("carrier.post, params", "carrier.put, params", "fsm.effect_unknown", 9),
    ("weight: data.weight", "weight: 'data.wait'", "fsm.expression", 9),
    ("weight: event.weight", "weigt: event.weight", "fsm.field", 6),
])  # fmt: skip
def test_a_wrong_contract_is_refused_when_the_app_is_built(tmp_path, old, new, code, line):
    app, _ = made(tmp_path, CONTRACT.replace(old, new))
    with pytest.raises(Rejected) as caught:
        app.build()
    assert caught.value.code == code
    assert f"parcel.fsm.yaml, line {line}: " in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    app = App("post")
    app.fsm(tmp_path / "nothing.fsm.yaml")
    with pytest.raises(Rejected, match=r"nothing\.fsm\.yaml cannot be read"):
        app.build()


def test_a_value_of_a_contracts_event_that_does_not_fit_is_refused_at_the_edge(tmp_path):
    app, _ = made(tmp_path)
    world = World(app)
    with pytest.raises(Rejected, match="weight"):
        world.send(("announce", {"parcel_id": "p", "weight": "heavy"}))
    with pytest.raises(Rejected, match="there is no event picked_app"):
        world.send(("picked_app", {"parcel_id": "p"}))
