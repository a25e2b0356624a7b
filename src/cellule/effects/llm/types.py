"""What `llm.generate` is asked for and what it answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cellule.effects.secrets.reference import Secret

BASE_URL = "https://api.openai.com/v1"
MESSAGES_MAX = 10_000
TOOLS_MAX = 1_000


class ToolCall(msgspec.Struct, frozen=True):
    """The model asks for a tool; `arguments` is JSON text as the model wrote it, which may be wrong."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True):
    """One turn of the conversation.

    An assistant's turn may carry `tool_calls`; a tool's turn answers one, named by `tool_call_id`. `parts`
    are pieces of content in the server's own form (images, files) and stand in the place of `content`.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    name: str | None = None
    parts: list[Any] = []


class Tool(msgspec.Struct, frozen=True):
    """A function that the model may ask for; `parameters` is a JSON Schema as plain data."""

    name: str
    description: str | None = None
    parameters: Any = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    """The form of the answer; `json_schema` needs `name` and `schema`."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema: Any = None
    strict: bool = True


class LlmGenerate(msgspec.Struct, frozen=True, kw_only=True):
    """Ask a model for the next turn of a conversation.

    `api_key` is sent as bearer token; `headers` may hold secrets as texts with `${secret:name}`. `extra` are
    further fields of the request, as the server takes them. With `stream` the text is told in progress notes
    while it comes.
    """

    model: str
    messages: Annotated[list[Message], Meta(min_length=1, max_length=MESSAGES_MAX)]
    base_url: str = BASE_URL
    api_key: Secret | None = None
    headers: dict[str, str] = {}
    tools: Annotated[list[Tool], Meta(max_length=TOOLS_MAX)] = []
    tool_choice: str | None = None  # auto, none, required, or the name of a tool
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    seed: int | None = None
    stop: list[str] = []
    response_format: ResponseFormat | None = None
    stream: bool = True
    extra: dict[str, Any] = {}


class Usage(msgspec.Struct, frozen=True):
    """Tokens, as the server counted them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class LlmGenerated(msgspec.Struct, frozen=True, kw_only=True):
    """The model's turn: a text, or the tools it wants called. `refusal` says why it gave neither."""

    text: str
    tool_calls: list[ToolCall] = []
    finish_reason: str
    usage: Usage | None = None
    model: str
    refusal: str | None = None

    @property
    def message(self) -> Message:
        """The turn as it goes back into the conversation."""
        return Message("assistant", self.text or None, self.tool_calls)
