"""The ABI's envelopes: exact bytes, strict reading, errors that name the field."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellule.errors import Rejected
from cellule.kernel.abi import (
    AbiProgram,
    Input,
    decode_context,
    decode_input,
    decode_output,
    encode_context,
    encode_input,
    encode_output,
)
from cellule.kernel.manifest.effects import BOUNDS
from cellule.kernel.manifest.system import CONTEXT, CONTEXTS, SYSTEM_SCHEMAS
from cellule.kernel.program import Context, Emit, Output, Request, StepFault
from cellule.values import encode
from cellule.values.schema import wire_codec
from cellule.values.schema.types import Ref

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
BYTES = st.binary(max_size=40)
MAYBE = st.none() | BYTES
INPUTS = st.builds(Input, MAYBE, TEXT, BYTES, MAYBE, MAYBE)
EMITS = st.builds(Emit, TEXT, BYTES, MAYBE, st.none())  # calls, and their end, are for workflows
LIMITS = st.dictionaries(st.sampled_from(sorted(BOUNDS)), st.integers(0, 1 << 40), min_size=1)
REQUESTS = st.builds(Request, TEXT, BYTES, st.none() | TEXT, st.none() | TEXT, st.none() | LIMITS)
OUTPUTS = st.builds(
    Output, MAYBE, st.lists(EMITS, max_size=3), st.lists(REQUESTS, max_size=3), MAYBE, MAYBE, ended=st.none()
)


def context() -> Context:
    return Context(UUID(int=7).bytes, "shop/Order@1", b"o1", 2, 9, 1_700_000_000, bytes(16), 3, 4)


@given(INPUTS)
def test_an_input_is_read_as_it_was_written(call):
    assert decode_input(encode_input(call)) == call


@given(OUTPUTS)
def test_an_output_is_read_as_it_was_written(output):
    assert decode_output(encode_output(output)) == output


@given(st.binary(max_size=60))
def test_whatever_the_bytes_only_our_error_leaves(data):
    codes = set()
    for read in (decode_input, decode_output, decode_context):
        try:
            read(data)
        except Rejected as error:
            codes.add(error.code)
    assert codes <= {"abi.invalid"}


@given(OUTPUTS, st.data())
def test_an_output_with_one_bit_changed_is_refused_or_another_output(output, data):
    whole = bytearray(encode_output(output))
    at = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[at // 8] ^= 1 << at % 8
    try:
        found = decode_output(bytes(whole))
    except Rejected:
        return
    assert found != output
    assert encode_output(found) == bytes(whole)


def test_the_context_has_the_fields_of_its_schema_and_no_others():
    data = encode_context(context())
    for name in CONTEXTS:
        codec = wire_codec(Ref(name), SYSTEM_SCHEMAS)
        assert codec.encode(codec.decode(data)) == data
    assert set(decode_context(data)) == {name for name, _ in SYSTEM_SCHEMAS[CONTEXT].fields}
    assert decode_context(data)["entropy"] == context().entropy


@pytest.mark.parametrize(
    ("envelope", "problem"),
    [
        ({"version": 1, "state": None}, "input.event: it is missing"),
        (
            {"version": 2, "state": None, "event": {"schema": "a/B@1", "value": b""}},
            "input.version: 2 is not 1",
        ),
        (
            {"version": True, "state": None, "event": {"schema": "a/B@1", "value": b""}},
            "input.version: an integer",
        ),
        ({"version": 1, "state": None, "event": {"schema": "a/B@1"}}, "input.event.value: it is missing"),
        (
            {"version": 1, "state": None, "event": {"schema": "a/B@1", "value": b"", "key": None}},
            "event.key: bytes",
        ),
        (
            {"version": 1, "state": None, "event": {"schema": "a/B@1", "value": b""}, "ctx": {}},
            "input.ctx: bytes is needed",
        ),
    ],
)
def test_an_input_that_is_wrong_names_its_field(envelope, problem):
    with pytest.raises(Rejected) as caught:
        decode_input(encode(envelope))
    assert problem in str(caught.value)


def test_a_module_without_keys_is_called_without_one():
    calls = []

    def step(data: bytes) -> bytes:
        calls.append(decode_input(data))
        return encode_output(Output(None))

    for keyed in (True, False):
        AbiProgram(step, keyed=keyed).step(None, "a/B@1", b"\xa0", b"k" if keyed else b"", None)
    assert [call.key for call in calls] == [b"k", None]


def test_a_program_that_answers_no_bytes_fails_its_step():
    with pytest.raises(StepFault) as caught:
        AbiProgram(lambda _: None, keyed=False).step(None, "a/B@1", b"\xa0", b"", None)  # type: ignore[arg-type,return-value]
    assert caught.value.code == "abi.invalid"
