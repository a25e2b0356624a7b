"""The kernel's test bench: a small shop of modules, and a fixture that replays every world it made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cellule.kernel.program import StepFault
from tests.support.kernel_world import Did, FunctionPrograms, KernelWorld

SECOND = 1_000_000_000

SCHEMAS: dict[str, Any] = {
    "shop/Placed@1": {"record": {"order": {"text": {}}, "total": {"int": {}}}},
    "shop/Paid@1": {"record": {"order": {"text": {}}}},
    "shop/Failed@1": {"record": {"order": {"text": {}}, "why": {"text": {}}}},
    "shop/Cancelled@1": {"record": {"order": {"text": {}}}},
    "shop/Ping@1": {"record": {"to": {"text": {}}, "left": {"int": {}}}},
    "shop/Order@1": {"record": {"total": {"int": {}}, "paid": {"bool": {}}, "seen": {"int": {}}}},
    "shop/Stats@1": {"record": {"placed": {"int": {}}, "failures": {"int": {}}}},
    "shop/Pings@1": {"record": {"count": {"int": {}}}},
}


def document(**changes: Any) -> dict[str, Any]:
    """The shop's manifest; `changes` override fields of its modules by name."""
    modules: dict[str, dict[str, Any]] = {
        "shop/Order@1": {
            "kind": "pure", "state": "shop/Order@1", "key": {"text": {}}, "context": True,
            "event": ["shop/Placed@1", "shop/Paid@1", "shop/Failed@1", "shop/Cancelled@1"],
        },
        "shop/Stats@1": {
            "kind": "pure", "state": "shop/Stats@1", "event": ["shop/Placed@1", "sys/StepFailed@1"],
        },
        "shop/Pinger@1": {
            "kind": "pure", "state": "shop/Pings@1", "key": {"text": {}}, "event": ["shop/Ping@1"],
        },
    }  # fmt: skip
    for name, fields in changes.items():
        modules[f"shop/{name}@1"].update(fields)
    return {
        "schemas": SCHEMAS,
        "modules": modules,
        "routing": {
            "subscriptions": [
                {"event": "shop/Placed@1", "module": "shop/Order@1", "key_field": "order"},
                {"event": "shop/Placed@1", "module": "shop/Stats@1"},
                {"event": "shop/Paid@1", "module": "shop/Order@1", "key_field": "order"},
                {"event": "shop/Failed@1", "module": "shop/Order@1", "key_field": "order"},
                {"event": "shop/Cancelled@1", "module": "shop/Order@1", "key_field": "order"},
                {"event": "shop/Ping@1", "module": "shop/Pinger@1", "key_field": "to"},
                {"event": "sys/StepFailed@1", "module": "shop/Stats@1"},
            ]
        },
    }


def order(state: Any, schema: str, event: Any, ctx: Any) -> Any:
    state = state or {"total": 0, "paid": False, "seen": 0}
    seen = state["seen"] + 1
    match schema:
        case "shop/Placed@1":
            return Did({**state, "total": event["total"], "seen": seen}, reply={"at": ctx.journal_height})
        case "shop/Paid@1":
            return Did({**state, "paid": True, "seen": seen}, ann={"note": "paid"})
        case "shop/Failed@1":
            raise StepFault("shop.failed", event["why"])
        case _:
            return Did(None, reply={"gone": True})


def stats(state: Any, schema: str, event: Any, ctx: Any) -> Any:
    state = state or {"placed": 0, "failures": 0}
    field = "placed" if schema == "shop/Placed@1" else "failures"
    return {**state, field: state[field] + 1}


def pinger(state: Any, schema: str, event: Any, ctx: Any) -> Any:
    count = (state or {"count": 0})["count"] + 1
    emit = [("shop/Ping@1", {"to": event["to"] + "x", "left": event["left"] - 1})] if event["left"] else []
    return Did({"count": count}, emit=emit)


PROGRAMS = FunctionPrograms({"shop/Order": order, "shop/Stats": stats, "shop/Pinger": pinger})


@pytest.fixture
def make_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., KernelWorld]]:
    """Make worlds; at the end of the test each must restore to identical bytes and verify.

    What a test patches stays patched until then.
    """
    made: list[KernelWorld] = []

    def make(manifest: Any = None, programs: Any = None, **options: Any) -> KernelWorld:
        if programs is None:
            programs = PROGRAMS
        elif isinstance(programs, FunctionPrograms):
            programs = FunctionPrograms({**PROGRAMS.steps, **programs.steps}, programs.upcasters)
        made.append(KernelWorld(manifest or document(), programs, **options))
        return made[-1]

    yield make
    for world in made:
        world.assert_replays()


@pytest.fixture
def world(make_world: Callable[..., KernelWorld]) -> KernelWorld:
    return make_world()


@pytest.fixture
def shop() -> Callable[..., dict[str, Any]]:
    """The shop's manifest document, with changes."""
    return document
