"""The SDKs in C and AssemblyScript: values come out with the bytes they went in with, outputs fit the ABI."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.kernel.program import StepFault
from cellule.modules.wasm import limits
from cellule.modules.wasm.runtime import Call, shared_runtime
from cellule.values import Link, cid_of, encode
from tests.support.wasm_sources import EXAMPLE, FIXTURES, SUFFIXES, built

FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)
EDGES = [n + d for n in (0, 23, 24, 0xFF, 0xFFFF, 0xFFFF_FFFF, 2**63 - 1, -(2**63) + 1) for d in (-1, 0, 1)]
VALUES = st.recursive(
    st.none() | st.booleans() | st.sampled_from(EDGES).filter(lambda n: n >= -(2**63)) | st.binary()
    | st.integers(-(2**63), 2**64 - 1) | FLOATS | st.text(),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=30), inner, max_size=30),
    max_leaves=40,
)  # fmt: skip


def caller(source: str, suffix: str, export: str) -> Callable[[bytes], bytes]:
    data = built(FIXTURES / f"{source}{suffix}")
    runtime = shared_runtime()
    compiled = runtime.compiled(cid_of(data, "raw"), data, source)
    call = Call(export, limits.FUEL_DEFAULT, limits.MEMORY_BYTES_MAX)
    return lambda given: runtime.call(compiled, call, given)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_value_that_is_read_and_written_again_has_the_same_bytes(suffix):
    echo = caller("echo", suffix, "upcast")

    @settings(max_examples=60, deadline=None)
    @given(VALUES)
    def law(value):
        data = encode(value)
        assert echo(data) == data

    law()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "value",
    [
        *EDGES[:-3], -(2**63), 2**64 - 1, "x" * 70_000, b"y" * 300_000, ["z" * 20] * 20_000,
        Link(cid_of(b"", "raw")),
        {"b": 1, "a": 2, "aa": 3, "": 4, "ä": 5, "x" * 300: 6}, "a\0b", "\U0001f600", 5e-324,
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_edges_of_the_format_keep_their_bytes(suffix, value):
    data = encode(value)
    assert caller("echo", suffix, "upcast")(data) == data


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x18", b"\x5a\xff\xff\xff\xff", b"\x9b" + b"\xff" * 8, b"\xbb" + b"\x7f" * 8, b"\x1f",
        b"\x82\x01",
        b"\xfb\x7f\xf8" + bytes(6), b"\xfb\x7f\xf0" + bytes(6), b"\xa2\x61a\x01\x61a\x02", b"\xa1\x01\x01",
        b"\xf7",
        encode(-(2**63) - 1),
    ],
    ids=lambda data: data.hex()[:16] or "empty",
)  # fmt: skip
def test_bytes_that_are_no_value_trap(suffix, data):
    with pytest.raises(StepFault) as caught:
        caller("echo", suffix, "upcast")(data)
    assert caught.value.code == "modules.wasm_trap"


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("keyed", [True, False])
def test_every_part_of_an_output_has_the_bytes_of_the_abi(suffix, keyed):
    """The same export serves both: with keys, `event.key` is there."""
    step = caller("all", suffix, "step")
    event = encode({"id": "a"})
    key = {"key": b"a"} if keyed else {}
    given = {"version": 1, "state": None, "event": {"schema": "t/E@1", "value": event, **key}}
    answer = {
        "state": encode({"schema": "t/E@1", "key": b"a" if keyed else None, "context": None}),
        "reply": encode(True),
        "ann": encode(["a note", 0.0]),
        "domain_events": [
            *({"schema": "t/A@1", "value": encode(n)} for n in range(9)),
            {"schema": "t/B@1", "value": event, "key": encode("k")},
        ],
        "effects": [
            {"kind": "timer.set", "params": encode(None)},
            {
                "kind": "http.request", "params": encode(None), "cap_slot": "slot", "idempotency_key": "id",
                "limits": {"attempts": 3},
            },
        ],
        "cancel": ["old"],
    }  # fmt: skip
    assert step(encode(given)) == encode(answer)
    context = {"beat": 3}
    given.update(ctx=encode(context), state=encode({}))
    answer.update(
        state=encode({"schema": "t/E@1", "key": b"a" if keyed else None, "context": context}),
        reply=encode(False),
    )
    assert step(encode(given)) == encode(answer)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_modules_of_the_example_are_small(suffix):
    assert len(built(EXAMPLE / f"counter{suffix}")) < 20_000
