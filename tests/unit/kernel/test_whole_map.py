"""Modules with `cell_mode: false` outside Python: what a program is called with, and what it may answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cellule.errors import Rejected
from cellule.kernel.abi import (
    AbiProgram,
    Input,
    decode_answer,
    decode_context,
    decode_input,
    decode_output,
    encode_output,
)
from cellule.kernel.journal.codes import DELETED, HALTED, OK, REFUSED
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.program import Output
from cellule.kernel.programs import ProgramKinds
from cellule.kernel.whole_map import EntryChange, WholeMap
from cellule.values import cid_of, decode, encode
from cellule.values.schema import wire_codec
from cellule.values.schema.types import Ref
from tests.support.kernel_world import KernelWorld
from tests.support.template_kind import TemplateKind, code_of

Answer = Callable[[Input], bytes]

DOCUMENT: dict[str, Any] = {
    "schemas": {
        "shop/Placed@1": {"record": {"order": {"text": {}}, "total": {"int": {}}}},
        "shop/Order@1": {"record": {"total": {"int": {}}}},
        "shop/Orders@1": {"map": {"key": {"text": {}}, "value": {"ref": "shop/Order@1"}}},
    },
    "modules": {
        "shop/Order@1": {
            "state": "shop/Orders@1",
            "event": ["shop/Placed@1"],
            "key": {"text": {}},
            "cell_mode": False,
            "context": True,
            "code": code_of(b"x"),
        }
    },
    "routing": {
        "subscriptions": [{"event": "shop/Placed@1", "module": "shop/Order@1", "key_field": "order"}]
    },
}


class MapKind(TemplateKind):
    """Runs a function of the test by the ABI."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def program(self, manifest: Any, module: Any, nodes: Any) -> Any:
        yield from ()
        return AbiProgram.of(manifest, module, lambda data: self._answer(decode_input(data)))


@pytest.fixture
def world_of(make_world):
    """A world whose orders are one map, kept by this function."""

    def make(answer: Answer) -> KernelWorld:
        world: KernelWorld = make_world(DOCUMENT, ProgramKinds(MapKind(answer)))
        world.cas[cid_of(b"x", "raw")] = b"x"
        return world

    return make


def place(world: KernelWorld, order: str, total: int = 3) -> Any:
    (step,) = world.send("shop/Placed@1", {"order": order, "total": total}).steps
    return step


def whole(call: Input) -> dict[str, Any]:
    state: Any = {} if call.state is None else decode(call.state)
    return state


def kept(call: Input) -> bytes:
    """Put the order into the map, and answer it whole."""
    event: Any = decode(call.value)
    return encode_output(Output(encode({**whole(call), event["order"]: {"total": event["total"]}})))


def told(call: Input) -> bytes:
    """Answer the change of one entry; an order of nothing is removed."""
    event: Any = decode(call.value)
    state = encode({"total": event["total"]}) if event["total"] else None
    assert call.key is not None
    return encode_output(Output(None), [EntryChange(call.key, state)])


def test_a_program_gets_the_whole_map_and_the_key_of_the_entry_that_the_event_is_for(world_of):
    calls: list[Input] = []
    world = world_of(lambda call: calls.append(call) or kept(call))
    place(world, "o1", 1)
    place(world, "o2", 2)
    assert [whole(call) for call in calls[:2]] == [{}, {"o1": {"total": 1}}]
    assert [call.key for call in calls[:2]] == [b"o1", b"o2"]
    context = decode_context(calls[1].context or b"")
    assert (context["cell_mode"], context["key"], context["version"]) == (False, b"o2", 1)
    assert world.state("shop/Order", b"") == {"o1": {"total": 1}, "o2": {"total": 2}}


def test_the_whole_map_and_changes_by_key_leave_the_same_bytes(world_of):
    found = []
    for answer in (kept, told):
        world = world_of(answer)
        for order, total in (("bb", 2), ("a", 1), ("bb", 5)):
            place(world, order, total)
        found.append(world.entry("shop/Order", b"").state)
    assert found[0] == found[1] == encode({"a": {"total": 1}, "bb": {"total": 5}})


def test_null_removes_an_entry_however_it_is_answered(world_of):
    def nulled(call: Input) -> bytes:
        event: Any = decode(call.value)
        entry = {"total": event["total"]} if event["total"] else None
        return encode_output(Output(encode({**whole(call), event["order"]: entry})))

    for answer in (nulled, told):
        world = world_of(answer)
        place(world, "o1", 1)
        place(world, "o2", 2)
        assert place(world, "o1", 0).status == OK
        assert world.state("shop/Order", b"") == {"o2": {"total": 2}}
        assert place(world, "never", 0).status == OK


def test_null_without_changes_deletes_the_map_and_no_changes_keep_it(world_of):
    answers = {
        1: kept,
        2: lambda call: encode_output(Output(None), []),
        3: lambda _: encode_output(Output(None)),
    }
    world = world_of(lambda call: answers[decode(call.value)["total"]](call))  # type: ignore[index, call-overload]
    place(world, "o1", 1)
    assert place(world, "o1", 2).status == OK
    assert world.state("shop/Order", b"") == {"o1": {"total": 1}}
    assert place(world, "o1", 3).status == DELETED
    assert world.state("shop/Order", b"") is None


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (encode_output(Output(encode(7))), "kernel.map_form", "it is a int"),
        (encode_output(Output(encode({"o": {"total": "x"}}))), "kernel.output_invalid", "state"),
        (encode_output(Output(encode({"": {"total": 1}}))), "kernel.map_form", "a key has 0 bytes"),
        (encode_output(Output(b"\xff")), "abi.invalid", "output.state: it is not canonical"),
        (encode_output(Output(None), [EntryChange(b"o", b"\xff")]), "abi.invalid", "changes[0].state"),
        (encode_output(Output(None), [EntryChange(b"\xff", None)]), "kernel.output_invalid", "no key of"),
        (encode_output(Output(None), [EntryChange(b"o", encode(7))]), "kernel.output_invalid", "state"),
        (encode_output(Output(encode({})), [EntryChange(b"o", None)]), "abi.invalid", "not both"),
    ],
)  # fmt: skip
def test_a_wrong_answer_fails_that_one_step(world_of, answer, code, text):
    world = world_of(lambda _: answer)
    step = place(world, "o1")
    assert (step.status, step.code) == (HALTED, code)
    assert text in step.text
    assert world.state("shop/Order", b"") is None


def test_changes_are_for_whole_maps_only():
    with pytest.raises(Rejected, match="a cell answers its state") as caught:
        decode_output(encode_output(Output(None), [EntryChange(b"o", None)]))
    assert caught.value.code == "abi.invalid"


def test_an_answer_with_changes_is_read_as_it_was_written():
    changes = [EntryChange(b"o1", b"\xa0"), EntryChange(b"o2", None)]
    output, found = decode_answer(encode_output(Output(None, ann=b"\x01"), changes))
    assert (output.ann, output.state, found) == (b"\x01", None, changes)


def test_a_refusal_changes_nothing(world_of):
    refusal = encode({"state": None, "refuse": {"reason": "sold out"}})
    world = world_of(lambda call: refusal if decode(call.value)["total"] == 9 else kept(call))  # type: ignore[index, call-overload]
    place(world, "o1", 1)
    assert place(world, "o1", 9).status == REFUSED
    assert world.state("shop/Order", b"") == {"o1": {"total": 1}}


def test_an_event_without_a_fitting_key_is_refused_at_the_edge(world_of):
    world = world_of(kept)
    for order, code in (("", "routing.key_empty"), ("x" * 600, "routing.key_too_long")):
        beat = world.send("shop/Placed@1", {"order": order, "total": 1})
        assert [outcome.error.code for outcome in beat.outcomes] == [code]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ({"int": {}}, [300, -1, 7, -200]),
        ({"bytes": {}}, [b"\x01", b"", b"\x00\x00"]),
        ({"uuid": {}}, [bytes(16), bytes([255] * 16)]),
        ({"enum": ["a", "bb"]}, ["bb", "a"]),
    ],
)
def test_a_map_is_written_in_the_form_of_its_schema_whatever_its_keys_are(key, values):
    document = {
        **DOCUMENT,
        "schemas": {
            **DOCUMENT["schemas"],
            "shop/Orders@1": {"map": {"key": key, "value": {"ref": "shop/Order@1"}}},
            "shop/Placed@1": {"record": {"order": key, "total": {"int": {}}}},
        },
        "modules": {"shop/Order@1": {**DOCUMENT["modules"]["shop/Order@1"], "key": key}},
    }
    manifest = load_manifest(document)
    form = WholeMap.of(manifest, manifest.modules["shop/Order"])
    entries = [[value, {"total": 1}] for value in values if value]
    wire: Any = sorted(entries, key=lambda pair: encode(pair[0]))
    data = encode(dict(wire) if key == {"enum": ["a", "bb"]} else wire)
    assert form.encode(form.entries(data)) == data
    codec = wire_codec(Ref("shop/Orders@1"), manifest.schemas)
    assert codec.encode(codec.decode(data)) == data
