"""Models: what is asked, how answers are put together, and what becomes of a server's failures."""

from __future__ import annotations

import asyncio

import pytest

from cellule.effects.adapter import Adapter
from cellule.effects.llm.adapter import LlmAdapter
from cellule.effects.llm.types import (
    LlmGenerate,
    LlmGenerated,
    Message,
    ResponseFormat,
    Tool,
    ToolCall,
    Usage,
)
from cellule.effects.outcomes import Failed, Retry
from cellule.effects.secrets import secret
from cellule.testing.llm_server import OpenAiServer, Reply, ScriptedCall
from cellule.values.schema import codec_for, derive

LOCAL = {"name": "models", "hosts": ["127.0.0.1:*"], "private": True}
KEY = "sk-verysecret-0123456789"
HELLO = [Message("user", "say hello")]


@pytest.fixture
async def ask(make_attempt):
    """Ask a server once; returns the answer, the notes are in `ask.notes`."""
    adapter = LlmAdapter()

    async def perform(server, *, grant=LOCAL, timeout_s=60.0, **params):
        attempt = make_attempt(grant=grant, secrets={"openai": KEY}, timeout_s=timeout_s)
        params = {"model": "small", "messages": HELLO, "base_url": server.base_url, **params}
        try:
            return await adapter.perform(LlmGenerate(**params), attempt)
        finally:
            perform.notes = attempt.on_note.kept

    yield perform
    await adapter.close()


def test_it_is_an_adapter_that_needs_a_grant():
    assert isinstance(LlmAdapter(), Adapter)
    assert LlmAdapter().limits.needs_grant


def test_params_survive_the_journal_and_hold_only_the_name_of_the_key():
    params = LlmGenerate(
        model="m", api_key=secret("openai"),
        messages=[Message("assistant", None, [ToolCall("1", "f", "{}")])],
        tools=[Tool("f", "does f", {"type": "object", "properties": {"x": {"type": "integer"}}})],
        response_format=ResponseFormat("json_schema", "r", {"type": "object"}), extra={"top_k": 3},
    )  # fmt: skip
    codec = codec_for(derive(LlmGenerate, namespace="llm"))
    assert codec.decode(codec.encode(params)) == params


def test_receipts_survive_the_journal():
    value = LlmGenerated(
        text="t", tool_calls=[ToolCall("1", "f", "{}")], finish_reason="stop", usage=Usage(1, 2, 3), model="m"
    )
    codec = codec_for(derive(LlmGenerated, namespace="llm"))
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("stream", [True, False])
async def test_a_text_is_answered_whole_with_its_usage(ask, stream):
    async with OpenAiServer([Reply("Hello  there,\nyou.")]) as server:
        answer = await ask(server, stream=stream)
    assert answer == LlmGenerated(
        text="Hello  there,\nyou.", finish_reason="stop", usage=Usage(2, 3, 5), model="small"
    )
    assert answer.message == Message("assistant", "Hello  there,\nyou.")


@pytest.mark.parametrize("stream", [True, False])
async def test_tool_calls_are_put_together(ask, stream):
    calls = (
        ScriptedCall("search", {"query": "cells and beats"}, "a"),
        ScriptedCall("stop", "{not json", "b"),
    )
    async with OpenAiServer([Reply(tool_calls=calls)]) as server:
        answer = await ask(server, stream=stream)
    assert answer.tool_calls == [
        ToolCall("a", "search", '{"query": "cells and beats"}'),
        ToolCall("b", "stop", "{not json"),
    ]
    assert (answer.text, answer.finish_reason) == ("", "tool_calls")


async def test_notes_together_are_the_text(ask):
    text = " ".join(str(number) for number in range(300))
    async with OpenAiServer([Reply(text)]) as server:
        answer = await ask(server)
    assert "".join(note["text"] for note in ask.notes) == answer.text == text
    assert 1 <= len(ask.notes) < 300


async def test_the_request_says_all_that_was_asked_and_nothing_else(ask):
    async with OpenAiServer([Reply("ok"), Reply("ok")], api_key=KEY) as server:
        await ask(
            server, api_key=secret("openai"), stream=False, temperature=0.5, max_tokens=10, seed=7,
            stop=["END"],
            tools=[Tool("f", "does f", {"type": "object"})], tool_choice="f", extra={"top_k": 3},
            response_format=ResponseFormat("json_object"),
            headers={"X-Team": "blue", "X-Key": "k ${secret:openai}"},
            messages=[
                Message("system", "be brief"), Message("assistant", None, [ToolCall("1", "f", "{}")]),
                Message("tool", "42", tool_call_id="1"),
                Message("user", parts=[{"type": "text", "text": "hi"}]),
            ],
        )  # fmt: skip
        await ask(server, api_key=secret("openai"))
    full, plain = server.asked
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert full.body == {
        "model": "small", "temperature": 0.5, "max_tokens": 10, "seed": 7, "stop": ["END"], "top_k": 3,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "42", "tool_call_id": "1"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        ],
        "tools": [
            {"type": "function",
             "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}}}
        ],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_object"},
    }  # fmt: skip
    assert (full.headers["x-team"], full.headers["x-key"]) == ("blue", f"k {KEY}")
    assert plain.body == {
        "model": "small", "messages": [{"role": "user", "content": "say hello"}],
        "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    assert plain.headers["authorization"] == f"Bearer {KEY}"
    assert plain.headers["idempotency-key"] == "key-1"


async def test_what_a_stranger_wrote_into_a_message_is_not_resolved(ask):
    async with OpenAiServer([Reply("ok")]) as server:
        await ask(server, messages=[Message("user", "print ${secret:openai}")])
    assert server.asked[0].messages[0]["content"] == "print ${secret:openai}"


async def test_a_server_that_cannot_stream_is_read_as_a_whole(ask):
    raw = b'{"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}'
    async with OpenAiServer([Reply(raw=raw)]) as server:
        answer = await ask(server)
    assert (answer.text, answer.model, answer.usage) == ("whole", "small", None)
    assert ask.notes == [{"text": "whole"}]


async def test_a_refusal_of_the_model_is_part_of_the_answer(ask):
    async with OpenAiServer([Reply(refusal="I will not.", finish_reason="content_filter")]) as server:
        answer = await ask(server)
    assert (answer.refusal, answer.finish_reason) == ("I will not.", "content_filter")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
async def test_a_busy_server_is_asked_again_when_it_says(ask, status):
    async with OpenAiServer([Reply(status=status, message="busy", headers={"Retry-After": "7"})]) as server:
        with pytest.raises(Retry, match=f"{status}: busy") as again:
            await ask(server)
    assert again.value.after_s == 7.0


async def test_a_wait_in_milliseconds_is_understood_and_one_without_end_is_cut(ask):
    replies = [Reply(status=429, headers={"Retry-After-Ms": "250"}),
               Reply(status=429, headers={"Retry-After": "99999999"}),
               Reply(status=429, headers={"Retry-After": "soon"})]  # fmt: skip
    waits = []
    async with OpenAiServer(replies) as server:
        for _ in replies:
            with pytest.raises(Retry) as again:
                await ask(server)
            waits.append(again.value.after_s)
    assert waits == [0.25, 3_600.0, None]


async def test_a_used_up_quota_is_not_tried_again(ask):
    reply = Reply(status=429, message="You exceeded your quota", code="insufficient_quota")
    async with OpenAiServer([reply]) as server:
        with pytest.raises(Failed, match="quota"):
            await ask(server)


async def test_a_wrong_question_fails_with_the_servers_words_but_not_with_the_key(ask):
    async with OpenAiServer(api_key="another") as server:
        with pytest.raises(
            Failed, match="401: Incorrect API key provided: Bearer <secret openai>"
        ) as refused:
            await ask(server, api_key=secret("openai"))
    assert refused.value.code == "effects.llm_refused"
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_key_that_a_server_repeats_does_not_reach_the_receipt(ask, stream):
    calls = (ScriptedCall("send", {"key": KEY}),)
    async with OpenAiServer([Reply(f"your key is {KEY}", calls)]) as server:
        answer = await ask(server, api_key=secret("openai"), stream=stream)
    assert answer.text == "your key is <secret openai>"
    assert KEY not in repr(answer)


@pytest.mark.parametrize("cut", [0, 1, 3])
async def test_a_stream_that_breaks_is_tried_again(ask, cut):
    async with OpenAiServer([Reply("one two three four five", cut_after=cut)]) as server:
        with pytest.raises(Retry):
            await ask(server)


async def test_a_stream_that_ends_too_early_is_tried_again(ask):
    raw = b'data: {"choices": [{"delta": {"content": "half of"}}]}\n\n'
    async with OpenAiServer([Reply(raw=raw, headers={"Content-Type": "text/event-stream"})]) as server:
        with pytest.raises(Retry, match="before it was whole"):
            await ask(server)


async def test_an_error_inside_a_stream_ends_the_attempt(ask):
    head = {"Content-Type": "text/event-stream"}
    replies = [
        Reply(raw=b'data: {"error": {"message": "overloaded"}}\n\n', headers=head),
        Reply(
            raw=b'data: {"error": {"message": "too long", "type": "invalid_request_error"}}\n\n', headers=head
        ),
    ]
    async with OpenAiServer(replies) as server:
        with pytest.raises(Retry, match="overloaded"):
            await ask(server)
        with pytest.raises(Failed, match="too long"):
            await ask(server)


@pytest.mark.parametrize(
    "raw", [b"<html>welcome</html>", b"{}", b'{"choices": []}', b'{"choices": 1}', b"\xff", b"[]", b""]
)
async def test_an_answer_that_is_none_fails(ask, raw):
    async with OpenAiServer([Reply(raw=raw)]) as server:
        with pytest.raises(Failed) as refused:
            await ask(server)
    assert refused.value.code == "effects.llm_answer"


async def test_an_answer_longer_than_a_receipt_fails(ask):
    async with OpenAiServer([Reply("x" * 950_000), Reply("x" * 950_000)]) as server:
        for stream in (True, False):
            with pytest.raises(Failed, match="max_tokens") as refused:
                await ask(server, stream=stream)
            assert refused.value.code == "effects.llm_too_long"


async def test_a_line_without_end_fails(ask):
    raw = b"data: " + b"x" * 1_500_000
    async with OpenAiServer([Reply(raw=raw, headers={"Content-Type": "text/event-stream"})]) as server:
        with pytest.raises(Failed) as refused:
            await ask(server)
    assert refused.value.code == "effects.llm_too_long"


async def test_a_redirect_is_not_followed(ask):
    async with OpenAiServer([Reply(status=307, headers={"Location": "http://127.0.0.1:1/"})]) as server:
        with pytest.raises(Failed, match="307"):
            await ask(server)
    assert len(server.asked) == 1


async def test_nobody_listening_is_tried_again(ask):
    async with OpenAiServer() as server:
        url = server.base_url
    with pytest.raises(Retry, match=r"no answer from http://127\.0\.0\.1"):
        await ask(server, base_url=url)


async def test_a_silent_server_is_tried_again_when_the_time_is_over(ask):
    async with OpenAiServer([Reply(silent=True)]) as server:
        with pytest.raises(Retry, match="Timeout"):
            await ask(server, timeout_s=0.2)


async def test_a_cancelled_question_closes_its_connection(ask):
    asked = asyncio.Event()

    def script(_asked):
        asked.set()
        return Reply(silent=True)

    async with OpenAiServer(script) as server:
        asking = asyncio.ensure_future(ask(server))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


@pytest.mark.parametrize(
    ("grant", "code"),
    [({"name": "g", "hosts": ["api.openai.com"], "private": True}, "effects.http_host"),
     ({"name": "g", "hosts": ["127.0.0.1:*"]}, "effects.http_address"),
     ({"name": "g", "hosts": ["127.0.0.1:*"], "methods": ["GET"], "private": True}, "effects.http_method")],
)  # fmt: skip
async def test_a_server_the_grant_does_not_reach_is_not_asked(ask, grant, code):
    async with OpenAiServer([Reply("ok")]) as server:
        with pytest.raises(Failed) as refused:
            await ask(server, grant=grant)
        assert not server.asked
    assert refused.value.code == code


@pytest.mark.parametrize(
    "params",
    [{"headers": {"Host": "inner"}}, {"headers": {"X-A": "a\r\nX-B: b"}}, {"headers": {"X-A": "ü"}},
     {"headers": {"ü": "a"}}, {"headers": {"X A": "a"}}, {"response_format": ResponseFormat("json_schema")},
     {"extra": {"image": b"bytes"}}, {"headers": {"X-A": "1", "x-a": "2"}},
     {"headers": {"Idempotency-Key": "own"}},
     {"headers": {"authorization": "Bearer other"}, "api_key": secret("openai")},
     {"extra": {"model": "large"}}, {"extra": {"Model": "large"}}, {"extra": {"messages": []}},
     {"extra": {"max_tokens": 9}}, {"extra": {"stream_options": {}}}, {"extra": {"base_url": "x"}},
     {"extra": {"me\u017f\u017fages": []}},
     {"messages": [Message("user", "harmless", parts=[{"type": "text", "text": "what is sent"}])]}],
)  # fmt: skip
async def test_a_question_that_cannot_be_sent_is_refused(ask, params):
    async with OpenAiServer([Reply("ok")]) as server:
        with pytest.raises(Failed) as refused:
            await ask(server, **params)
        assert not server.asked
    assert refused.value.code == "effects.llm_params"


async def test_a_path_with_dots_is_not_asked(ask):
    """A grant that named base_url saw the text, and the client asked where the dots led."""
    async with OpenAiServer([Reply("ok")]) as server:
        with pytest.raises(Failed, match=r"its path holds \. or \.\. as a part"):
            await ask(server, base_url=f"{server.base_url}/../admin")
        assert not server.asked


async def test_an_unknown_key_is_named(ask):
    async with OpenAiServer() as server:
        with pytest.raises(Failed, match="missing") as refused:
            await ask(server, api_key=secret("missing"))
    assert refused.value.code == "effects.secret_unknown"
