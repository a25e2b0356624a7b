"""`app.operations()`: cells show their work as operations, by the signals that they emit."""

from __future__ import annotations

import msgspec
import pytest

from cellule import App, Signal, Step
from cellule.kernel.heartbeat import operations as rules
from cellule.testing import World

app = App("jobs")
app.operations()


@app.event(key="name")
class Began(msgspec.Struct, frozen=True):
    name: str


@app.event(key="name")
class Moved(msgspec.Struct, frozen=True):
    name: str
    done: int


@app.reducer
def job(state: int | None, event: Began | Moved) -> Step[int]:
    path = f"/jobs/{event.name}"
    if isinstance(event, Began):
        begin = {"for": path, "verb": "op/job", "ttl": 5, "payload": {"rows": 3}}
        tell = {"for": path, "state": "ist:copy", "note": "at once"}
        return Step(0, emit=[Signal("/op/begin", payload=begin), Signal("/op/tell", payload=tell)])
    if event.done < 3:
        tell = {"for": path, "state": "ist:copy", "code": event.done}
        return Step(event.done, emit=[Signal("/op/tell", payload=tell)])
    return Step(event.done, emit=[Signal("/op/end", payload={"for": path, "summary": "all"})])


@pytest.fixture(params=[False, True], ids=["kept", "evicted"])
def world(request):
    made = World(app, evict=request.param)
    yield made
    made.assert_replays()


def operation_of(world, name):
    key = rules.key_of(world.heartbeat.read(f"/operations/jobs/{name}"))
    entry = world.host.look("sys/Operation", key)
    return rules.decode(entry.state)


def test_a_cell_begins_tells_and_ends_its_operation(world):
    world.send(Began("a"))
    world.settle()
    found = operation_of(world, "a")
    assert (found.envelope.verb, found.envelope.target, found.envelope.ttl) == ("op/job", "/jobs/a", 5)
    assert (found.state, found.note) == ("ist:copy", "at once")
    world.send(Moved("a", 2))
    world.settle()
    assert operation_of(world, "a").code == 2
    world.send(Moved("a", 3))
    world.settle()
    closed = operation_of(world, "a").close
    assert closed is not None
    assert (closed.status, closed.summary) == ("sts:ok", "all")


def test_a_signal_that_says_too_little_fails_and_changes_nothing(world):
    for signal, payload in (("/op/begin", {"for": "/a"}), ("/op/tell", None), ("/op/end", {"odd": 1})):
        world.signal(signal, payload=payload)
    world.settle()
    failed = [line.text for beat in world.heartbeat.beats() for line in beat.agenda if line.code == -2]
    assert len(failed) == 3
    assert not world.heartbeat.exists("/operations")


def test_what_is_told_of_an_operation_that_never_began_ends_with_a_warning(world):
    world.signal("/op/end", payload={"for": "/jobs/none"})
    world.settle()
    assert not world.heartbeat.exists("/operations")
