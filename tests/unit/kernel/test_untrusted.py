"""Programs by `code.kind`, and what the kernel makes of the output of one that it does not trust."""

from __future__ import annotations

from typing import Any

import pytest

from cellule.errors import Rejected
from cellule.kernel.items import RefusedItem
from cellule.kernel.journal.codes import HALTED, OK, PARKED, REFUSED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord
from cellule.kernel.program import Emit, Output
from cellule.kernel.programs import ProgramKinds
from cellule.values import Link, cid_of, decode, encode
from cellule.values.envelope import open_envelope
from cellule.values.link import Value
from tests.support.kernel_world import FunctionPrograms, KernelWorld
from tests.support.template_kind import TemplateKind, code_of

SCHEMAS = {
    "shop/Placed@1": {
        "record": {"order": {"text": {}}, "total": {"int": {}}, "file": {"option": {"hash": {}}}}
    },
    "shop/Shipped@1": {"record": {"order": {"text": {}}}},
    "shop/Order@1": {
        "record": {
            "total": {"int": {}}, "rate": {"option": {"float": {}}}, "file": {"option": {"hash": {}}},
            "tags": {"option": {"set": {"text": {}}}},
        }
    },
    "shop/Mail@1": {"record": {"to": {"text": {}}}},
}  # fmt: skip
STATE = {"total": {"$": "event.total"}}


def document(code: Any, **module: Any) -> dict[str, Any]:
    """A shop with one module of this code."""
    return {
        "schemas": SCHEMAS,
        "effects": {"mail.send": {"params": "shop/Mail@1", "receipt": "shop/Mail@1"}},
        "modules": {
            "shop/Order@1": {
                "state": "shop/Order@1", "event": ["shop/Placed@1"], "key": {"text": {}}, "code": code,
                "effects_emitted": ["mail.send"], **module,
            },
            "shop/Ship@1": {"state": "shop/Shipped@1", "event": ["shop/Shipped@1"], "key": {"text": {}}},
        },
        "routing": {
            "subscriptions": [
                {"event": "shop/Placed@1", "module": "shop/Order@1", "key_field": "order"},
                {"event": "shop/Shipped@1", "module": "shop/Ship@1", "key_field": "order"},
            ]
        },
    }  # fmt: skip


class Kinds(ProgramKinds):
    """Templates, by kind."""

    def __init__(self) -> None:
        super().__init__(TemplateKind())


@pytest.fixture
def world_of(make_world):
    """A world whose one module is this template; its bytes are in the CAS, as a host would have put them."""

    def make(case: dict[str, Any], **module: Any) -> KernelWorld:
        data = encode({"shop/Placed@1": case})
        world = make_world(document(code_of(data), **module), Kinds())
        world.cas |= {cid_of(each, "raw"): each for each in (data, FILE)}
        return world

    return make


def placed(world: KernelWorld, **more: Value) -> Any:
    """The step on one order."""
    steps = world.send("shop/Placed@1", {"order": "o1", "total": 3, **more}).steps
    return next(step for step in steps if step.module == "shop/Order")


def test_a_program_of_bytes_takes_steps(world_of):
    case = {
        "state": {"total": {"+": [{"$": "state.total"}, {"$": "event.total"}]}},
        "reply": {"was": {"$": "state.total"}}, "ann": "noted",
        "domain_events": [{"schema": "shop/Shipped@1", "value": {"order": {"$": "event.order"}}}],
        "effects": [{"kind": "mail.send", "params": {"to": {"$": "event.order"}}}],
    }  # fmt: skip
    world = world_of(case)
    assert placed(world).status == OK
    assert placed(world).version == 2
    assert world.state("shop/Order", b"o1") == {"total": 6}
    world.settle()
    assert len(world.world.ledger.book.counts) == 1


def test_a_program_is_given_its_context_where_the_module_declares_it(world_of):
    state = {"total": {"+": [{"$": "ctx.journal_height"}, {"$": "ctx.version"}]}}
    world = world_of({"state": state}, context=True)
    step = placed(world)
    assert world.state("shop/Order", b"o1") == {"total": step.height}


def test_a_program_of_bytes_refuses(world_of):
    world = world_of({"raw": encode({"state": None, "refuse": {"reason": "sold out", "code": "shop.none"}})})
    step = placed(world)
    assert (step.status, step.text, step.code) == (REFUSED, "sold out", "shop.none")
    assert world.entry("shop/Order", b"o1") is None


def test_a_program_that_answers_null_deletes_its_cell(world_of):
    world = world_of({"reply": 1})
    assert placed(world).status == OK + 1
    assert world.entry("shop/Order", b"o1") is None


FILE = b"not yours"
FOREIGN = Link(cid_of(FILE, "raw"))
NEGATIVE_ZERO = bytes.fromhex("fb8000000000000000")
ORDER = encode({"order": "a"})
NAN = bytes.fromhex("fb7ff8000000000000")


def answer(**parts: Value) -> dict[str, Any]:
    """A step that answers this envelope as it is."""
    return {"raw": encode({"state": None, **parts})}


@pytest.mark.parametrize(
    ("case", "code", "text"),
    [
        ({"raw": b"\xff"}, "abi.invalid", "output: it is not canonical DAG-CBOR"),
        ({"raw": b""}, "abi.invalid", "output: it is not canonical"),
        ({"raw": bytes.fromhex("a1657374617465f6") + b"\x00"}, "abi.invalid", "not canonical"),
        ({"raw": bytes.fromhex("a178057374617465f6")}, "abi.invalid", "not canonical"),
        (answer(refuse={}), "abi.invalid", "output.refuse.reason: it is missing"),
        (answer(refuse={"reason": 5}), "abi.invalid", "output.refuse.reason: text is needed"),
        (answer(refuse={"reason": "no"}, reply=b"\xf6"), "abi.invalid", "but the answer has reply, too"),
        (answer(refuse={"reason": "no", "code": "c" * 201}), "kernel.refusal_invalid", "201 characters"),
        ({"raw": encode([])}, "abi.invalid", "output: a map is needed"),
        ({"raw": encode({})}, "abi.invalid", "output.state: it is missing"),
        ({"raw": encode({"state": {}})}, "abi.invalid", "output.state: bytes is needed"),
        (answer(more=1), "abi.invalid", "output.more: there is no such field"),
        (answer(domain_events=None), "abi.invalid", "output.domain_events: a list is needed"),
        (answer(domain_events=[1]), "abi.invalid", "output.domain_events[0]: a map is needed"),
        (answer(domain_events=[{"schema": "a/B@1"}]), "abi.invalid", "domain_events[0].value: it is missing"),
        (answer(effects=[{"kind": 1, "params": b""}]), "abi.invalid", "output.effects[0].kind: text"),
        (answer(domain_events=[{"schema": "a/B@1", "value": b""}] * 10_001), "abi.invalid", "10001 entries"),
        (answer(ann=bytes(4_000_000)), "abi.invalid", "at most 4000000"),
        (answer(ann=bytes(1_000_001)), "kernel.output_size", "at most 1000000"),
        (answer(state=b"\xf6\xf6"), "kernel.output_invalid", "state:"),
        (answer(state=encode({"total": "three"})), "kernel.output_invalid", "total"),
        (answer(state=encode({"total": 1, "other": 1})), "kernel.output_invalid", "other"),
        (answer(state=encode({"total": 1, "rate": None})), "kernel.output_invalid", "canonical form"),
        (answer(state=encode({"total": 1, "rate": 1})), "kernel.output_invalid", "canonical form"),
        (answer(state=encode({"total": 1, "tags": ["b", "a"]})), "kernel.output_invalid", "state:"),
        (answer(state=encode({"total": 1, "file": FOREIGN})), "kernel.output_invalid", "was not given"),
        (answer(reply=NEGATIVE_ZERO), "kernel.output_invalid", "reply:"),
        (answer(ann=NAN), "kernel.output_invalid", "ann:"),
        (answer(reply=encode(FOREIGN)), "kernel.output_invalid", "reply: it links"),
        (
            answer(domain_events=[{"schema": "shop/None@1", "value": encode({})}]),
            "kernel.output_invalid", "domain_events[0].schema: the manifest has no schema",
        ),
        (
            answer(domain_events=[{"schema": "sys/WorldStarted@1", "value": encode({})}]),
            "kernel.output_invalid", "Cellule's own",
        ),
        (
            answer(domain_events=[{"schema": "effect.mail/send@1", "value": encode({})}]),
            "kernel.output_invalid", "Cellule's own",
        ),
        (
            answer(domain_events=[{"schema": "shop/Shipped@1", "value": encode({})}]),
            "kernel.output_invalid", "domain_events[0].value:",
        ),
        (
            answer(domain_events=[{"schema": "shop/Shipped@1", "value": ORDER, "key": b"b"}]),
            "routing.key_differs", "emitted shop/Shipped@1",
        ),
        (
            answer(effects=[{"kind": "http.request", "params": encode({})}]),
            "kernel.effect_undeclared", "http.request",
        ),
        (
            answer(effects=[{"kind": "mail.send", "params": encode({"to": 1})}]),
            "kernel.output_invalid", "effects[0].params:",
        ),
        (
            answer(effects=[{"kind": "mail.send", "params": encode({"to": "a"}), "idempotency_key": ""}]),
            "kernel.effect_key", "0 characters",
        ),
        ({"trap": "boom"}, "kernel.program_trap", "RuntimeError: boom"),
        ({"state": STATE, "spin": 2_000}, "test.fuel", "fuel"),
    ],
)  # fmt: skip
def test_a_wrong_answer_fails_that_one_step(world_of, case, code, text):
    world = world_of(case)
    step = placed(world)
    assert (step.status, step.code) == (HALTED, code)
    assert text in step.text
    assert world.state("shop/Order", b"o1") is None
    assert world.entry("shop/Order", b"o1").get("status") == "halted"


def test_a_link_that_the_step_was_given_may_be_kept(world_of):
    world = world_of({"state": {**STATE, "file": {"$": "event.file"}}})
    assert placed(world, file=FOREIGN).status == OK
    assert world.state("shop/Order", b"o1")["file"] == FOREIGN


class _Proven(TemplateKind):
    """A kind whose programs claim that what they ask for is checked."""

    def program(self, manifest: Any, module: Any, nodes: Any) -> Any:
        yield from ()
        return self

    def step(self, *_: Any) -> Output:
        from cellule.kernel.program import CheckedRequest

        return Output(encode({"total": 1}), (), [CheckedRequest("mail.send", encode({"to": 1}))])


def test_an_untrusted_program_cannot_vouch_for_its_own_requests(make_world):
    world = make_world(document(code_of(FILE)), ProgramKinds(_Proven()))
    world.cas[FOREIGN.cid] = FILE
    assert placed(world).code == "kernel.output_invalid"


# Which kind


def test_code_of_an_unknown_kind_is_refused_with_the_kinds_that_are_known(make_world):
    with pytest.raises(Rejected, match=r"shop/Order@1 is of kind 'wasm'; this node runs: template") as caught:
        make_world(document({"kind": "wasm", "hash": "sha256:00"}), Kinds())
    assert caught.value.code == "kernel.code_kind"


def test_a_kind_checks_its_code_when_a_world_is_made(make_world):
    with pytest.raises(Rejected, match="has no link `blob`"):
        make_world(document({"kind": "template"}), Kinds())


def test_a_deploy_of_an_unknown_kind_is_refused_and_the_world_goes_on(world_of):
    world = world_of({"state": STATE})
    (told,) = world.deploy(document({"kind": "templat"})).told
    assert isinstance(told, RefusedItem)
    assert told.error.code == "kernel.code_kind"
    assert told.error.hint == "Did you mean template?"
    assert placed(world).status == OK


# Code that cannot be loaded


def test_a_module_without_code_keeps_its_events_until_code_is_deployed(make_world):
    world = make_world(document({}), Kinds())
    step = placed(world)
    assert (step.status, step.code) == (PARKED, "kernel.code_unavailable")
    assert world.entry("shop/Order", b"o1").get("status") == "needs code"
    assert world.verify() is None
    data = encode({"shop/Placed@1": {"state": STATE}})
    world.cas[cid_of(data, "raw")] = data
    world.deploy(document(code_of(data)))
    world.control("cell.resume", module="shop/Order", key=b"o1")
    world.settle()
    assert world.state("shop/Order", b"o1") == {"total": 3}


class _Missing(Kinds):
    """Programs of a machine that lacks a library."""

    def program(self, manifest: Any, module: Any, nodes: Any) -> Any:
        yield from ()
        raise Rejected("modules.requires", "pydantic 2.11.1 is not installed")


def test_a_library_that_is_missing_on_one_machine_is_no_failed_step(make_world):
    """It used to be a halted step, which `verify` could not repeat where the library was installed."""
    world = make_world(document({}), _Missing())
    step = placed(world)
    assert (step.status, step.code) == (PARKED, "kernel.code_unavailable")
    assert "pydantic" in step.text
    world.programs = FunctionPrograms({"shop/Order": lambda *_: {"total": 1}})  # another machine
    assert world.verify() is None


# Upcasters


@pytest.mark.parametrize(("template", "status"), [({"total": 4}, OK), ({"total": "x"}, HALTED)])
def test_the_answer_of_an_untrusted_upcaster_is_checked(make_world, template, status):
    first = encode({"shop/Placed@1": {"state": STATE}})
    second = encode({"shop/Placed@1": {"state": {"total": {"$": "state.total"}}}, "shop/Order@1": template})
    world = make_world(document(code_of(first)), Kinds())
    world.cas |= {cid_of(data, "raw"): data for data in (first, second)}
    placed(world)
    changed = document(code_of(second), state="shop/Order@2")
    changed["schemas"] = {**SCHEMAS, "shop/Order@2": {"record": {"total": {"int": {}}}}}
    changed["upcasters"] = [{"from": "shop/Order@1", "to": "shop/Order@2", "code": code_of(second)}]
    world.deploy(changed)
    assert placed(world).status == status


class Scribbler:
    """A program that says what it is told to, value or not, and vouches for nothing."""

    def __init__(self, output):
        self.output = output

    def program(self, *_):
        yield from ()
        return self

    def check(self, *_):
        pass

    def step(self, *_):
        return self.output


GOOD = encode({"total": 1, "paid": False, "seen": 1})
SCRIBBLES = {
    "an event that nobody takes": Output(GOOD, [Emit("shop/Nobody@1", b"\xff\xff", None)]),
    "an event that is spelled twice": Output(GOOD, [Emit("shop/Nobody@1", b"\x18\x01", None)]),
    "an event that is text": Output(GOOD, [Emit("shop/Nobody@1", "text", None)]),
    "a state": Output(b"\xff"),
    "a reply": Output(GOOD, reply=b"\x18\x01"),
    "an annotation": Output(GOOD, ann=b""),
}


@pytest.mark.parametrize("what", SCRIBBLES)
def test_bytes_that_are_no_value_fail_the_step_whoever_wrote_them(make_world, shop, what):
    """They were journaled where nobody subscribes, and the world was called damaged ever after."""
    world = make_world(shop(), Scribbler(SCRIBBLES[what]))
    [step, *_] = world.send("shop/Placed@1", {"order": "o1", "total": 1}).steps
    assert (step.status, step.code) == (HALTED, "kernel.output_invalid")
    for frame in world.frames:
        for _, record in decode_frame(frame).of(EmittedRecord):
            decode(open_envelope(record.value).data)


class _Odd(BaseException):
    """What is no `Exception`."""


class _Failing(ProgramKinds):
    """Programs whose code raises this when it is loaded."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def check(self, code: Any, what: str) -> None:
        """Any code will do."""

    def program(self, manifest: Any, module: Any, nodes: Any) -> Any:
        yield from ()
        raise self.error


@pytest.mark.parametrize("error", [_Odd("no"), SystemExit(3), ValueError("no")])
def test_whatever_loading_code_raises_parks_its_cells_alone(make_world, error):
    """What is no `Exception` ended the beat, its world and the node."""
    world = make_world(document({}), _Failing(error))
    step = placed(world)
    assert (step.status, step.code) == (PARKED, "kernel.code_unavailable")
    assert type(error).__name__ in step.text
