"""The model's answer: read from one JSON document, or put together from the pieces of a stream.

What a server leaves out is empty here; what it sends in the wrong shape is `Failed`, because the same
question would give the same shape again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cellule.effects.llm.types import LlmGenerated, ToolCall, Usage
from cellule.effects.outcomes import Failed

ANSWER_BYTES_MAX = 900_000
TOOL_CALLS_MAX = 1_000


class WireFunction(msgspec.Struct):
    """The function of a tool call, or a part of it."""

    name: str | None = None
    arguments: str | None = None


class WireCall(msgspec.Struct):
    """A tool call, or a part of the one at `index`."""

    index: int | None = None
    id: str | None = None
    function: WireFunction = msgspec.field(default_factory=WireFunction)


class WireMessage(msgspec.Struct):
    """A turn, or a part of it."""

    content: str | None = None
    refusal: str | None = None
    tool_calls: list[WireCall] | None = None


class WireChoice(msgspec.Struct):
    """One of the answers; only the first is used."""

    message: WireMessage | None = None
    delta: WireMessage | None = None
    finish_reason: str | None = None


class WireUsage(msgspec.Struct):
    """Tokens; servers leave out what they do not count."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None


class WireAnswer(msgspec.Struct):
    """A whole answer, or one event of a stream."""

    choices: list[WireChoice] = []
    model: str | None = None
    usage: WireUsage | None = None
    error: Any = None


class Answer:
    """Collects an answer, all at once or piece by piece."""

    def __init__(self, model: str) -> None:
        self._texts: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[list[str]] = []
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._model = model
        self._size = 0

    def add(self, part: WireAnswer) -> str:
        """Take a whole answer or the next piece; return the text it adds."""
        self._model = part.model or self._model
        if part.usage is not None:
            given, made = part.usage.prompt_tokens or 0, part.usage.completion_tokens or 0
            self._usage = Usage(given, made, part.usage.total_tokens or given + made)
        if not part.choices:
            return ""
        choice = part.choices[0]
        self._finish = choice.finish_reason or self._finish
        message = choice.delta or choice.message
        return self._take(message) if message is not None else ""

    @property
    def is_whole(self) -> bool:
        """Whether the model has said why it ended."""
        return self._finish is not None

    def finished(self, scrub: Callable[[str], str]) -> LlmGenerated:
        """Return the answer, its texts scrubbed of what a server may repeat; `Failed` when there is none."""
        if self._finish is None and not self._size:
            raise Failed("effects.llm_answer", "The server's answer holds no choice of a model.")
        return LlmGenerated(
            text=scrub("".join(self._texts)),
            tool_calls=[ToolCall(*map(scrub, call)) for call in self._calls],
            finish_reason=scrub(self._finish or "stop"),
            usage=self._usage,
            model=scrub(self._model),
            refusal=scrub("".join(self._refusal)) or None,
        )

    def _take(self, message: WireMessage) -> str:
        text, refusal = message.content or "", message.refusal or ""
        self._texts.append(text)
        self._refusal.append(refusal)
        self._grow(text, refusal)
        for position, call in enumerate(message.tool_calls or []):
            self._take_call(call, position)
        return text

    def _take_call(self, call: WireCall, position: int) -> None:
        index = position if call.index is None else call.index
        if not 0 <= index <= len(self._calls) or index >= TOOL_CALLS_MAX:
            raise Failed("effects.llm_answer", f"The server's answer has a tool call at position {index}.")
        if index == len(self._calls):
            self._calls.append(["", "", ""])
        parts = (call.id or "", call.function.name or "", call.function.arguments or "")
        # An id and a name come whole, and some servers repeat them; only arguments come in parts.
        whole = self._calls[index]
        whole[0], whole[1] = whole[0] or parts[0], whole[1] or parts[1]
        whole[2] += parts[2]
        self._grow(*parts)

    def _grow(self, *texts: str) -> None:
        self._size += sum(len(text.encode(errors="replace")) for text in texts)
        if self._size > ANSWER_BYTES_MAX:
            raise Failed(
                "effects.llm_too_long",
                f"The answer is longer than the {ANSWER_BYTES_MAX} bytes of a receipt. Set max_tokens.",
            )


def read_part(data: bytes) -> WireAnswer:
    """Read a whole answer or an event; `Failed` when it is none."""
    try:
        return msgspec.json.decode(data, type=WireAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failed("effects.llm_answer", f"The server's answer cannot be read: {error}.") from error
