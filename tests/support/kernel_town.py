"""A small town for proving the kernel: five modules whose steps do what the event says.

An `Edition` is one manifest of the town; it is given to the kernel as a document and to the model as a
`ModelEra`, both made here from the same options. The steps are plain functions over decoded values, so kernel
and model run the same code; everything around a step is what is being compared.

    Account   keyed by text, context, two versions with different states, every option of an edition
    Mirror    a second subscriber of the same event; may be left out of an edition
    Census    unkeyed; counts failures, stopped cascades and starts
    Diary     a log
    Relay     keyed by the sender's bytes; passes an event on
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.kernel_model_steps import KEY_ONLY, ModelEra, ModelModule
from tests.support.kernel_world import Did, FunctionPrograms

SECOND_NS = 1_000_000_000
BLOB = encode({"a": "blob that states link"})
RELAYS = (b"\x01\x00\x00\x00", b"\x12\x20", b"relay")  # the first reads as a CID of its own
BASES = ("town/Account", "town/Census", "town/Diary", "town/Mirror", "town/Relay")

SCHEMAS: dict[str, Any] = {
    "town/Do@1": {"record": {"who": {"text": {}}, "do": {"text": {}}, "n": {"int": {}}}},
    "town/Do@2": {"record": {"who": {"text": {}}, "do": {"text": {}}, "n": {"int": {}}, "by": {"text": {}}}},
    "town/Note@1": {"record": {"who": {"text": {}}, "pad": {"int": {}}}},
    "town/Pass@1": {"record": {"left": {"int": {}}}},
    "town/Lonely@1": {"record": {}},
    "town/Account@1": {
        "record": {
            "sum": {"int": {}}, "pad": {"text": {}}, "mark": {"text": {}}, "link": {"option": {"hash": {}}},
        }
    },
    "town/Account@2": {
        "record": {
            "sum": {"int": {}}, "pad": {"text": {}}, "mark": {"text": {}}, "link": {"option": {"hash": {}}},
            "count": {"int": {}},
        }
    },
    "town/Mirror@1": {"record": {"seen": {"int": {}}, "last": {"text": {}}}},
    "town/Census@1": {"record": {"failures": {"int": {}}, "stops": {"int": {}}, "starts": {"int": {}}}},
    "town/Relay@1": {"record": {"count": {"int": {}}}},
}  # fmt: skip
_SYSTEM = ("sys/WorldStarted@1", "sys/StepFailed@1", "sys/CascadeStopped@1")


@dataclass(frozen=True, slots=True)
class Edition:
    """The options of one manifest of the town."""

    version: Literal[1, 2] = 1  # of Account and its state
    upcasts: bool = True  # whether states of the other version have an upcaster
    takes: Literal["one", "both", "two"] = "one"  # which versions of Do Account takes
    upcasts_events: bool = True  # whether Do@1 becomes Do@2 where only that is taken
    upgrade: Literal["pin", "follow"] = "follow"
    failure: Literal["halt", "skip"] = "halt"
    idle_s: int | None = None
    ttl_s: int | None = None
    mirror: bool = True

    @property
    def account(self) -> str:
        """The name of this edition's Account."""
        return f"town/Account@{self.version}"

    @property
    def events(self) -> tuple[str, ...]:
        """What Account takes by itself."""
        return {"one": ("town/Do@1",), "both": ("town/Do@1", "town/Do@2"), "two": ("town/Do@2",)}[self.takes]

    @property
    def edges(self) -> list[tuple[str, str]]:
        """The upcasters."""
        other = 3 - self.version
        states = [(f"town/Account@{other}", self.account)] if self.upcasts else []
        events = [("town/Do@1", "town/Do@2")] if self.upcasts_events and self.takes == "two" else []
        return states + events

    @property
    def routes(self) -> dict[str, list[tuple[str, str | None]]]:
        """Which modules an event goes to, and where its key is."""
        accounts = {event for event in (*self.events, *(old for old, _ in self.edges)) if "Do" in event}
        routes: dict[str, list[tuple[str, str | None]]] = {
            "town/Note@1": [("town/Diary", "who")],
            "town/Pass@1": [("town/Relay", KEY_ONLY)],
            **{event: [("town/Census", None)] for event in _SYSTEM},
        }
        for event in sorted(accounts):
            routes[event] = [("town/Account", "who")]
        if self.mirror:
            routes.setdefault("town/Do@1", []).append(("town/Mirror", "who"))
        return routes


def document(edition: Edition) -> dict[str, Any]:
    """The manifest of an edition."""
    retention = {"idle_ns": _ns(edition.idle_s), "ttl_ns": _ns(edition.ttl_s)}
    retention = {name: value for name, value in retention.items() if value is not None}
    text: dict[str, Any] = {"text": {}}
    modules: dict[str, dict[str, Any]] = {
        edition.account: {
            "kind": "pure", "state": edition.account, "key": text, "context": True,
            "event": list(edition.events), "upgrade": edition.upgrade, "failure": edition.failure,
            "retention": retention,
        },
        "town/Census@1": {"kind": "pure", "state": "town/Census@1", "event": list(_SYSTEM)},
        "town/Diary@1": {
            "kind": "pure", "state": "log", "key": text, "event": ["town/Note@1"], "retention": retention,
        },
        "town/Mirror@1": {
            "kind": "pure", "state": "town/Mirror@1", "key": text, "event": ["town/Do@1"], "failure": "skip",
        },
        "town/Relay@1": {
            "kind": "pure", "state": "town/Relay@1", "key": {"bytes": {}}, "event": ["town/Pass@1"],
        },
    }  # fmt: skip
    names = {name.partition("@")[0]: name for name in modules}
    if not edition.mirror:
        del modules["town/Mirror@1"]
    subscriptions = [
        {"event": event, "module": names[base], **_wire(path)}
        for event, ways in edition.routes.items()
        for base, path in ways
    ]
    upcasters = [{"from": old, "to": new, "code": {"town": "upcaster"}} for old, new in edition.edges]
    return {
        "schemas": SCHEMAS, "modules": modules, "routing": {"subscriptions": subscriptions},
        "upcasters": upcasters,
    }  # fmt: skip


def era(edition: Edition) -> ModelEra:
    """The same edition for the model."""
    idle_ns, ttl_ns = _ns(edition.idle_s), _ns(edition.ttl_s)
    account = ModelModule(
        edition.account, edition.account, frozenset(edition.events), STEPS[edition.account],
        follow=edition.upgrade == "follow", skip=edition.failure == "skip", context=True, ttl_ns=ttl_ns,
        idle_ns=idle_ns,
    )  # fmt: skip
    modules = {
        "town/Account": account,
        "town/Census": _plain("Census", *_SYSTEM),
        "town/Diary": ModelModule(
            "town/Diary@1", "sys/Log@1", frozenset(["town/Note@1"]), diary, log=True, ttl_ns=ttl_ns,
            idle_ns=idle_ns,
        ),
        "town/Relay": _plain("Relay", "town/Pass@1"),
    }  # fmt: skip
    if edition.mirror:
        modules["town/Mirror"] = _plain("Mirror", "town/Do@1", skip=True)
    upcasters = {edge: UPCASTERS[edge] for edge in edition.edges}
    return ModelEra(modules, frozenset([*SCHEMAS, *_SYSTEM]), edition.routes, upcasters)


# Steps


def account(state: Any, _schema: str, event: Any, ctx: Any) -> Did:
    """Do what the event says; the mark holds everything that the context tells."""
    state = state or {"sum": 0, "pad": "", "mark": "", **({"count": 0} if "@2" in ctx.module else {})}
    kept = {**state, "sum": state["sum"] + event["n"], "mark": _mark(ctx)}
    if "count" in kept:
        kept["count"] += 1
    action: Callable[[Any, Any], Did] | None = _ACTIONS.get(event["do"])
    if action is None:
        raise ValueError(f"there is no way to {event['do']}")
    return action(kept, event)


def mirror(state: Any, _schema: str, event: Any, _ctx: Any) -> Did:
    """Count; fail over every sixth of seven, and go when told."""
    if event["n"] % 7 == 6:
        raise ValueError("a sixth day")
    if event["do"] == "delete":
        return Did(None)
    return Did({"seen": (state or {"seen": 0})["seen"] + 1, "last": event["do"]})


def census(state: Any, schema: str, event: Any, _ctx: Any) -> Did:
    """Count what the system tells; fail over the third of a Mirror, so that failing twice is seen."""
    state = state or {"failures": 0, "stops": 0, "starts": 0}
    if event.get("module") == "town/Mirror" and state["failures"] == 2:
        raise ValueError("too many failures")
    field = {"sys/StepFailed@1": "failures", "sys/CascadeStopped@1": "stops"}.get(schema, "starts")
    return Did({**state, field: state[field] + 1})


def diary(state: Any, _schema: str, event: Any, _ctx: Any) -> Did:
    """Write one or two entries, or burn the book."""
    if event["pad"] < 0:
        return Did(None, reply="burnt")
    entry = {"n": len(state or ()), "pad": "d" * event["pad"]}
    return Did([entry, "again"] if event["pad"] % 2 else [entry], reply=len(state or ()))


def relay(state: Any, _schema: str, event: Any, _ctx: Any) -> Did:
    """Pass it on while something is left."""
    left = event["left"]
    count = (state or {"count": 0})["count"] + 1
    return Did({"count": count}, emit=[_pass(left - 1)] if left > 0 else [])


def _pass(left: int) -> tuple[str, Any, bytes]:
    return "town/Pass@1", {"left": left}, RELAYS[left % len(RELAYS)]


def _do(who: str, do: str, n: int) -> tuple[str, Any]:
    return "town/Do@1", {"who": who, "do": do, "n": n}


def _repeat(kept: Any, event: Any) -> Did:
    again = [_do(event["who"], "repeat", event["n"] - 1)] if event["n"] > 0 else []
    return Did(kept, emit=again, ann={"left": event["n"]})


def _mark(ctx: Any) -> str:
    seen = (
        ctx.world.hex(), ctx.module, ctx.key.hex(), ctx.cell_mode, ctx.beat, ctx.journal_height, ctx.now_ns,
        ctx.era, ctx.version, ctx.entropy.hex(),
    )  # fmt: skip
    return " ".join(map(str, seen))


_FAN: list[tuple[Any, ...]] = [
    _do("a", "add", 1), _do("b", "relay", 1), ("town/Lonely@1", {}), ("town/Note@1", {"who": "a", "pad": 9}),
]  # fmt: skip
_ACTIONS: dict[str, Callable[[Any, Any], Did]] = {
    "add": lambda kept, _: Did(kept),
    "ask": lambda kept, _: Did(kept, reply={"sum": kept["sum"]}, ann="asked"),
    "delete": lambda _, __: Did(None, reply="gone", emit=[_pass(1)]),
    "grow": lambda kept, event: Did({**kept, "pad": "x" * (event["n"] * 600)}),
    "link": lambda kept, _: Did({**kept, "link": Link(cid_of(BLOB))}, reply=Link(cid_of(BLOB))),
    "relay": lambda kept, event: Did(kept, emit=[_pass(event["n"])]),
    "repeat": _repeat,
    "fan": lambda kept, _: Did(kept, emit=_FAN),
    "wrong": lambda kept, _: Did(kept, emit=[_pass(0), ("town/Nowhere@1", {})]),
    "effect": lambda kept, _: Did(kept, effects=[("http.request", b"\xa0", None, None)]),
}


def _account_2(old: Any) -> Any:
    if old["sum"] == 3:
        raise ValueError("an unlucky sum")
    return {**old, "count": 100}


def _account_1(new: Any) -> Any:
    return {name: value for name, value in new.items() if name != "count"}


STEPS: dict[str, Any] = {
    "town/Account@1": account, "town/Account@2": account, "town/Mirror": mirror, "town/Census": census,
    "town/Diary": diary, "town/Relay": relay,
}  # fmt: skip
UPCASTERS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("town/Account@1", "town/Account@2"): _account_2,
    ("town/Account@2", "town/Account@1"): _account_1,
    ("town/Do@1", "town/Do@2"): lambda old: {**old, "by": "an upcaster"},
}
PROGRAMS = FunctionPrograms(STEPS, UPCASTERS)


def _plain(noun: str, *events: str, skip: bool = False) -> ModelModule:
    base = f"town/{noun}"
    return ModelModule(f"{base}@1", f"{base}@1", frozenset(events), STEPS[base], skip=skip)


def _wire(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    return {"key_only": True} if path == KEY_ONLY else {"key_field": path}


def _ns(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * SECOND_NS
