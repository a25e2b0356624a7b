"""Streams: events are the same however their bytes are cut."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cellule.effects.llm.adapter import NOTE_CHARS_MAX, NOTE_SECONDS_MIN, TextNotes
from cellule.effects.llm.answer import events

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
