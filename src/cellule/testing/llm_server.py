"""A small server that speaks the chat completions of OpenAI, for tests and examples; on 127.0.0.1.

It answers by a script: replies in order, or a function from what was asked to a reply. Replies may be texts,
tool calls, refusals, and the ways in which a server fails: cut connections, silence, nonsense. Everything
that was asked is kept. It knows nothing of language.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

REQUEST_BYTES_MAX = 8_000_000
PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call of a reply; `arguments` become JSON unless they are a text already."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = "call_1"

    def as_json(self) -> dict[str, Any]:
        """The call as it stands in a message."""
        text = self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": text}}


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. Any `status` but 200 is an error with `message` and `code`.

    `cut_after` closes the connection after so many pieces of a stream; `pause_s` is the time between pieces;
    `silent` answers nothing until the server closes; `raw` is sent as the body, whatever it is.
    """

    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str | None = None
    refusal: str | None = None
    status: int = 200
    message: str = ""
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    silent: bool = False
    raw: bytes | None = None
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request as it came; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far."""
        return list(self.body.get("messages", []))


Script = Callable[[ChatRequest], Reply]


class OpenAiServer:
    """Serves scripted replies; with an `api_key`, whoever does not send it gets 401."""

    def __init__(self, script: Script | Iterable[Reply] = (), *, api_key: str | None = None) -> None:
        self.asked: list[ChatRequest] = []
        self.api_key = api_key
        self.port = 0
        self._script = script if callable(script) else _in_order(script)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """What `llm.generate` takes as `base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        """Listen on a free port, or on the one it had before."""
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", self.port, limit=REQUEST_BYTES_MAX
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end all connections, also the silent ones."""
        if self._server is None:
            return
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            asked = await _read(reader)
            self.asked.append(asked)
            await self._answer(asked, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, asked: ChatRequest, writer: asyncio.StreamWriter) -> None:
        reply = self._reply_to(asked)
        if reply.silent:
            await asyncio.get_running_loop().create_future()
        if reply.raw is not None or reply.status != 200:
            body = reply.raw if reply.raw is not None else json.dumps(_error(reply)).encode()
            _write_whole(writer, reply.status, reply.headers, body)
        elif asked.body.get("stream"):
            await _write_stream(writer, reply, asked)
        else:
            _write_whole(writer, 200, reply.headers, json.dumps(_completion(reply, asked)).encode())
        await writer.drain()

    def _reply_to(self, asked: ChatRequest) -> Reply:
        if self.api_key is not None and asked.headers.get("authorization") != f"Bearer {self.api_key}":
            sent = asked.headers.get("authorization", "")
            return Reply(status=401, message=f"Incorrect API key provided: {sent}", code="invalid_api_key")
        if asked.path != PATH:
            return Reply(status=404, message=f"Unknown path {asked.path}")
        return self._script(asked)


def _in_order(replies: Iterable[Reply]) -> Script:
    left = iter(list(replies))
    return lambda _asked: next(left, Reply(status=400, message="the script is at its end"))


async def _read(reader: asyncio.StreamReader) -> ChatRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request, *lines = head.split("\r\n")[:-2]
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ChatRequest(request.split(" ")[1], headers, json.loads(body) if body else {})


def _write_whole(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], body: bytes) -> None:
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    writer.write(_head(status, fields) + body)


async def _write_stream(writer: asyncio.StreamWriter, reply: Reply, asked: ChatRequest) -> None:
    fields = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **reply.headers}
    writer.write(_head(200, fields))
    sent = 0
    async for piece in _pieces(reply, asked):
        if sent == reply.cut_after:
            await writer.drain()
            writer.transport.abort()
            return
        data = b"data: " + piece + b"\n\n"
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
        sent += 1
        if reply.pause_s:
            await asyncio.sleep(reply.pause_s)
    writer.write(b"0\r\n\r\n")


async def _pieces(reply: Reply, asked: ChatRequest) -> AsyncIterator[bytes]:
    """The events of a stream: a role, words, parts of calls, the end, the usage, and the mark of the end."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in re.findall(r"\s*\S+\s*$|\s*\S+", reply.text)]
    for index, call in enumerate(reply.tool_calls):
        whole = call.as_json()
        text = whole["function"]["arguments"]
        whole["function"]["arguments"] = ""
        deltas.append({"tool_calls": [{"index": index, **whole}]})
        for at in range(0, len(text), 8):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": text[at : at + 8]}}]})
    if reply.refusal is not None:
        deltas.append({"refusal": reply.refusal})
    for delta in deltas:
        yield json.dumps(_chunk(asked, delta, None)).encode()
    yield json.dumps(_chunk(asked, {}, _finish(reply))).encode()
    if asked.body.get("stream_options", {}).get("include_usage"):
        yield json.dumps({**_chunk(asked, {}, None), "choices": [], "usage": _usage(reply, asked)}).encode()
    yield b"[DONE]"


def _chunk(asked: ChatRequest, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": asked.body.get("model"),
        "choices": [choice],
    }  # fmt: skip


def _completion(reply: Reply, asked: ChatRequest) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal}
    if reply.tool_calls:
        message["tool_calls"] = [call.as_json() for call in reply.tool_calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": asked.body.get("model"),
        "choices": [choice], "usage": _usage(reply, asked),
    }  # fmt: skip


def _finish(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def _usage(reply: Reply, asked: ChatRequest) -> dict[str, int]:
    """Counted in words: enough to see that the numbers arrive."""
    given = sum(len(str(message.get("content") or "").split()) for message in asked.messages)
    made = len(reply.text.split()) + len(reply.tool_calls)
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


def _error(reply: Reply) -> dict[str, Any]:
    return {"error": {"message": reply.message, "type": "error", "param": None, "code": reply.code}}


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()
