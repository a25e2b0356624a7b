"""Streams: events are the same however their bytes are cut."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellule.effects.llm.adapter import NOTE_CHARS_MAX, NOTE_SECONDS_MIN, TextNotes
from cellule.effects.llm.answer import Answer, events, read_part
from cellule.effects.llm.types import ToolCall

STREAM = (
    b': hello\r\n\r\ndata: {"a": 1}\n\nevent: x\ndata:two\ndata: lines\r\n\r\n\n\ndata: [DONE]\n\ndata: open'
)


def read(chunks):
    async def source():
        for chunk in chunks:
            yield chunk

    async def collect():
        return [event async for event in events(source())]

    return asyncio.run(collect())


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_the_cuts_between_chunks_do_not_matter(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[begin:end] for begin, end in pairwise(edges)]
    assert read(chunks) == [b'{"a": 1}', b"two\nlines", b"[DONE]"]


def test_the_first_piece_is_told_at_once_and_the_rest_is_gathered(make_attempt):
    attempt, now = make_attempt(), [100.0]
    notes = TextNotes(attempt, lambda: now[0])
    for word in ("a", "b", "c"):
        notes.add(word)
    assert attempt.on_note.kept == [{"text": "a"}]
    now[0] += NOTE_SECONDS_MIN
    notes.add("d")
    assert attempt.on_note.kept == [{"text": "a"}, {"text": "bcd"}]
    notes.add("")
    notes.flush()
    assert len(attempt.on_note.kept) == 2


def test_much_text_is_told_without_waiting(make_attempt):
    attempt = make_attempt()
    notes = TextNotes(attempt, lambda: 100.0)
    notes.add("a")
    notes.add("b" * NOTE_CHARS_MAX)
    assert [len(note["text"]) for note in attempt.on_note.kept] == [1, NOTE_CHARS_MAX]


def test_a_byte_order_mark_in_front_says_nothing():
    """The first event was lost, since its line did not begin with `data`."""
    marked = b"\xef\xbb\xbf" + b'data: {"a": 1}\n\ndata: two\n\n'
    for cut in range(6):
        assert read([marked[:cut], marked[cut:]]) == [b'{"a": 1}', b"two"]
    assert read_part(b"\xef\xbb\xbf{}").choices == []


def calls_of(*pieces):
    answer = Answer("m")
    for piece in pieces:
        answer.add(read_part(msgspec.json.encode({"choices": [{"delta": {"tool_calls": piece}}]})))
    answer.add(read_part(b'{"choices": [{"finish_reason": "tool_calls"}]}'))
    return answer.finished(str).tool_calls


def call(arguments, name=None, **more):
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return [{"function": function, **more}]


BOTH = [ToolCall("1", "f", '{"a": 1}'), ToolCall("2", "g", '{"b": 2}')]


@pytest.mark.parametrize("index", [{"index": 0}, {}], ids=["the same index", "no index"])
def test_another_id_begins_another_call(index):
    """Calls with one index, or none, became a single call with both arguments."""
    first, second = call('{"a": 1}', "f", id="1", **index), call('{"b": 2}', "g", id="2", **index)
    assert calls_of(first, second) == BOTH
    assert calls_of(first + second) == BOTH


def test_parts_without_id_go_on_with_the_call_before():
    pieces = [call('{"a"', "f", id="1", index=0), call(": 1}", index=0)]
    pieces += [call("", "g", id="2", index=0), call('{"b"', index=0), call(": 2}", index=0)]
    assert calls_of(*pieces) == BOTH


def test_whole_calls_without_id_and_index_are_told_apart():
    assert calls_of(call('{"a": 1}', "f"), call('{"a": 2}', "f")) == [
        ToolCall("", "f", '{"a": 1}'),
        ToolCall("", "f", '{"a": 2}'),
    ]


def test_servers_that_repeat_id_and_name_give_one_call():
    pieces = [call(part, "f", id="1", index=0) for part in ('{"a"', ": ", "1}")]
    assert calls_of(*pieces) == BOTH[:1]


def test_a_secret_that_comes_in_pieces_is_in_no_note(make_attempt):
    """Each piece was scrubbed by itself, and none of them was the secret."""
    attempt, now = make_attempt(), [100.0]
    attempt.secrets.redactor.learn("bank", "sk-live-0123456789")
    notes = TextNotes(attempt, lambda: now[0])
    for piece in ("the key is sk-l", "ive-01", "2345", "6789, \u00e9", " thanks"):
        now[0] += 1
        notes.add(piece)
    notes.flush()
    told = "".join(note["text"] for note in attempt.on_note.kept)
    assert told == "the key is <secret bank>, \u00e9 thanks"
