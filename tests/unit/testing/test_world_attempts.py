"""`World.perform`: an adapter makes single attempts at a request, as a node would let it."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import msgspec
import pytest

from cellule import App, Attempt, Failed, Later, Receipt, Retry, Step
from cellule.effects.adapter import adapter
from cellule.errors import Rejected

app = App("copies")


class Copy(msgspec.Struct, frozen=True):
    name: str
    how: str = "well"


class Copied(msgspec.Struct, frozen=True):
    text: str


@app.event(key="name")
class Wanted(msgspec.Struct, frozen=True):
    name: str
    how: str = "well"


@app.adapter("files.copy", attempts=3)
async def copy(params: Copy, attempt: Attempt) -> Copied:
    page = attempt.last_progress or 0
    attempt.progress(page + 10)
    match params.how:
        case "slowly" if page < 20:
            raise Retry("not yet")
        case "never":
            raise Failed("files.gone", "there is no such file")
        case "elsewhere":
            raise Later(timedelta(days=3))  # type: ignore[arg-type]
        case "wrong":
            raise ZeroDivisionError
    await asyncio.sleep(0)
    return Copied(f"{attempt.key} {attempt.number} {page} {attempt.grant and attempt.grant['name']}")


@app.adapter("files.scan")
def scan(params: Copy, attempt: Attempt) -> Copied:
    attempt.progress("begun")
    cid = attempt.wait(attempt.blobs.put(b"a page"))
    return Copied(f"{threading.current_thread().name[:12]} {attempt.wait(attempt.blobs.get(cid)).decode()}")


drive = app.grant("drive", effects=[copy])


@app.reducer(effects=[copy, scan], grants=[drive])
def file(state: str | None, event: Wanted | Receipt[Copied]) -> Step[str]:
    if isinstance(event, Wanted):
        effect = scan if event.how == "scan" else copy
        return Step("asked", effects=[effect(Copy(event.name, event.how), key=event.name)])
    return Step(event.value.text if event.value else f"{event.status} {event.code}")


@pytest.fixture
def world(make_world):
    return make_world(app, live=True)


def asked(world, how):
    world.send(Wanted("f1", how))
    return world.intents[0]


def test_what_the_adapter_returns_settles_the_request(world):
    world.perform(asked(world, "well"))
    assert world.state(file, "f1") == "f1 1 0 drive"


def test_the_next_attempt_has_the_next_number_and_the_last_progress(world):
    intent = asked(world, "slowly")
    for _ in range(2):
        with pytest.raises(Retry, match="not yet"):
            world.perform(intent)
    assert world.intents[0].status == "open"
    world.perform(intent)
    assert world.state(file, "f1") == "f1 3 20 drive"


def test_a_failure_is_a_receipt_and_any_other_error_is_the_tests(world):
    world.perform(asked(world, "never"))
    assert world.state(file, "f1") == "failed files.gone"
    world.send(Wanted("f2", "wrong"))
    [intent] = world.intents
    with pytest.raises(ZeroDivisionError):
        world.perform(intent)
    assert [each.status for each in world.intents] == ["open"]


async def test_a_blocking_adapter_runs_on_a_thread_also_in_a_test_with_a_loop(world):
    world.perform(asked(world, "scan"))
    assert world.state(file, "f1") == "cellule-file a page"


def test_what_the_adapter_leaves_to_others_waits_as_long_as_it_says(world):
    """A length of time that a node takes was a TypeError here."""
    intent = asked(world, "elsewhere")
    world.perform(intent)
    world.advance(days=2)
    world.complete(intent.token, Copied("by the other side"))
    assert world.state(file, "f1") == "by the other side"


def test_another_adapter_may_be_given_and_one_is_needed(make_world):
    bare = App("bare")
    bare.event(key="name")(Wanted)
    effect = bare.effect("files.copy", params=Copy, receipt=Copied)

    def keep(state: str | None, event: Wanted | Receipt[Copied]) -> Step[str]:
        return Step("kept", effects=[effect(Copy(event.name))] if isinstance(event, Wanted) else [])

    bare.reducer(effects=[effect])(keep)
    world = make_world(bare, live=True)
    world.send(Wanted("f1"))
    with pytest.raises(Rejected, match=r"no adapter for files\.copy") as caught:
        world.perform(world.intents[0])
    assert caught.value.code == "testing.no_adapter"

    @adapter("files.copy")
    async def mine(params: Copy) -> Copied:
        return Copied("mine")

    [intent] = world.intents
    world.perform(intent, mine)
    with pytest.raises(Rejected, match="is not with an adapter") as caught:
        world.perform(intent, mine)
    assert caught.value.code == "testing.not_open"
