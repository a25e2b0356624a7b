"""What stands for the language model: it knows two questions, asks for tools, and answers word by word."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from cellule.testing.llm_server import ChatRequest, OpenAiServer, Reply, ScriptedCall

CRATES = "What do 12 crates at 37.50 cost, and which system do you run on?"
FILES = "Please remove all files of this machine."
PAUSE_S = 0.04  # between words


def answer(asked: ChatRequest) -> Reply:
    """The next turn of a conversation, by what was said in it so far."""
    spoken = asked.messages
    results = _results(spoken)
    if spoken[1]["content"] == CRATES:
        if not results:
            price = ScriptedCall("calculate", {"expression": "12 * 37.50"}, id="call_price")
            system = ScriptedCall("run", {"command": "uname", "args": ["-s"]}, id="call_system")
            return Reply(tool_calls=(price, system))
        return Reply(
            f"Twelve crates at 37.50 cost {results['call_price']} in all. I asked the machine what it is, and"
            f" it answered {results['call_system']}. Shall I order them?",
        )
    if not results:
        return Reply(
            tool_calls=(ScriptedCall("run", {"command": "rm", "args": ["-rf", "/"]}, id="call_remove"),)
        )
    return Reply(f"I may not do that ({results['call_remove']}).")


def _results(spoken: list[dict[str, Any]]) -> dict[str, str]:
    """What the tools said, by the ids of their calls."""
    return {each["tool_call_id"]: each["content"] for each in spoken if each["role"] == "tool"}


class Model(OpenAiServer):
    """The server of the model: it speaks no faster than people read."""

    async def _answer(self, asked: ChatRequest, writer: asyncio.StreamWriter) -> None:
        await super()._answer(asked, cast("asyncio.StreamWriter", _Unhurried(writer)))


class _Unhurried:
    """A connection that pauses after each piece it sends."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.write = writer.write
        self.transport = writer.transport
        self._drain = writer.drain

    async def drain(self) -> None:
        await self._drain()
        await asyncio.sleep(PAUSE_S)
