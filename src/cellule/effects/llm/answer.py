"""The model's answer: read from one JSON document, or put together from the pieces of a stream.

What a server leaves out is empty here; what it sends in the wrong shape is `Failed`, because the same
question would give the same shape again. Of server-sent events only `data` lines count. A server's error
means that another try may help, or that none will; its text is passed on scrubbed and cut.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from cellule.effects.attempt import Attempt
from cellule.effects.http.response import retry_after_s
from cellule.effects.llm.types import LlmGenerated, ToolCall, Usage
from cellule.effects.outcomes import Failed, Retry

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some servers begin with it; it says nothing
EVENT_BYTES_MAX = 1_000_000
STREAM_BYTES_MAX = 64_000_000


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each event; `Failed` when one, or all together, are too long."""
    line, data, seen, is_begun = b"", bytearray(), 0, False
    async for chunk in chunks:
        seen += len(chunk)
        *whole, line = (line + chunk).split(b"\n")
        # Some servers begin with a byte order mark, which belongs to no field.
        if whole and not is_begun:
            is_begun, whole[0] = True, whole[0].removeprefix(BYTE_ORDER_MARK)
        for each in (ended.removesuffix(b"\r") for ended in whole):
            if not each and data:
                yield bytes(data)
                data.clear()
            elif each.startswith(b"data:"):
                data += (b"\n" if data else b"") + each[5:].removeprefix(b" ")
        if len(line) + len(data) > EVENT_BYTES_MAX or seen > STREAM_BYTES_MAX:
            raise Failed("effects.llm_too_long", "The server sent more than an answer can have.")
    if data:
        yield bytes(data)


ERROR_BYTES_MAX = 64_000
ERROR_CHARS_MAX = 300
_MAY_PASS = {408, 409, 425, 429}
_WILL_NOT_PASS = {"insufficient_quota", "billing_hard_limit_reached"}


def outcome_of(
    status: int, headers: Mapping[str, str], body: bytes, attempt: Attempt, now_ns: int
) -> Retry | Failed:
    """Return what to raise for an answer with this status."""
    error = _error(body)
    said = f"the server answered {status}: {_said(error, attempt)}"
    if (status in _MAY_PASS or status >= 500) and _code(error) not in _WILL_NOT_PASS:
        return Retry(said, retry_after_s(headers, now_ns))
    return Failed("effects.llm_refused", said)


def outcome_in_stream(error: Any, attempt: Attempt) -> Retry | Failed:
    """Return what to raise for an error that came in the place of the answer's next piece."""
    said = f"the server stopped its answer: {_said(error, attempt)}"
    if _code(error) in _WILL_NOT_PASS or (
        isinstance(error, dict) and error.get("type") == "invalid_request_error"
    ):
        return Failed("effects.llm_refused", said)
    return Retry(said)


def _error(body: bytes) -> Any:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body.decode(errors="replace")
    return document.get("error", document) if isinstance(document, dict) else document


def _said(error: Any, attempt: Attempt) -> str:
    text = error.get("message") if isinstance(error, dict) else error
    return attempt.scrub(str(text or "nothing"))[:ERROR_CHARS_MAX]


def _code(error: Any) -> str:
    return str(error.get("code") or error.get("type") or "") if isinstance(error, dict) else ""


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
        self._at: dict[int, int] = {}  # by the index that a server gives: the call that its parts belong to
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
        return self._take(message, whole=choice.delta is None) if message is not None else ""

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

    def _take(self, message: WireMessage, *, whole: bool) -> str:
        text, refusal = message.content or "", message.refusal or ""
        self._texts.append(text)
        self._refusal.append(refusal)
        self._grow(text, refusal)
        for call in message.tool_calls or []:
            self._take_call(call, whole=whole)
        return text

    def _take_call(self, call: WireCall, *, whole: bool) -> None:
        parts = (call.id or "", call.function.name or "", call.function.arguments or "")
        # An id and a name come whole, and some servers repeat them; only arguments come in parts.
        known = self._calls[self._place(call, parts, whole=whole)]
        known[0], known[1] = known[0] or parts[0], known[1] or parts[1]
        known[2] += parts[2]
        self._grow(*parts)

    def _place(self, call: WireCall, parts: tuple[str, str, str], *, whole: bool) -> int:
        """Which call a part belongs to. Some servers give every call the same index, or none: another id
        begins another call, and so does a name behind arguments that are whole.
        """
        index = call.index if call.index is not None else -1
        at = self._at.get(index, len(self._calls) - 1 if index == -1 else len(self._calls))
        if index > len(self._calls) or index < -1 or at >= TOOL_CALLS_MAX:
            raise Failed("effects.llm_answer", f"The server's answer has a tool call at position {index}.")
        if whole or not 0 <= at < len(self._calls) or _is_another(self._calls[at], parts):
            at = len(self._calls)
            self._calls.append(["", "", ""])
            if at >= TOOL_CALLS_MAX:
                raise Failed("effects.llm_answer", f"The server's answer has more than {at} tool calls.")
        self._at[index] = at
        return at

    def _grow(self, *texts: str) -> None:
        self._size += sum(len(text.encode(errors="replace")) for text in texts)
        if self._size > ANSWER_BYTES_MAX:
            raise Failed(
                "effects.llm_too_long",
                f"The answer is longer than the {ANSWER_BYTES_MAX} bytes of a receipt. Set max_tokens.",
            )


def _is_another(known: list[str], parts: tuple[str, str, str]) -> bool:
    """Tell whether a part with this id and name begins another call than the one that is known."""
    call_id, name, _ = parts
    if call_id and known[0]:
        return call_id != known[0]
    return bool(name and known[1]) and _is_json(known[2])


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def read_part(data: bytes) -> WireAnswer:
    """Read a whole answer or an event; `Failed` when it is none."""
    try:
        return msgspec.json.decode(data.removeprefix(BYTE_ORDER_MARK), type=WireAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failed("effects.llm_answer", f"The server's answer cannot be read: {error}.") from error
