"""The request of `llm.generate` as a server reads it: JSON with nothing in it that was not asked for."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cellule.effects.llm.types import LlmGenerate, Message, ResponseFormat, Tool
from cellule.effects.outcomes import Failed

_CHOICES = ("auto", "none", "required")
_PLAIN = ("temperature", "top_p", "max_tokens", "seed")


def body_of(params: LlmGenerate) -> bytes:
    """Return the JSON of the request; `Failed` when a part of it is no JSON."""
    body: dict[str, Any] = {"model": params.model, "messages": [_message(each) for each in params.messages]}
    body |= {name: value for name in _PLAIN if (value := getattr(params, name)) is not None}
    if params.stop:
        body["stop"] = params.stop
    if params.tools:
        body["tools"] = [_tool(each) for each in params.tools]
    if params.tool_choice is not None:
        body["tool_choice"] = _choice(params.tool_choice)
    if params.response_format is not None:
        body["response_format"] = _format(params.response_format)
    if params.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    _check_extra(params)
    try:
        return json.dumps({**body, **params.extra}, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise Failed("effects.llm_params", f"The request cannot be written as JSON: {error}.") from error


def _check_extra(params: LlmGenerate) -> None:
    """Nothing in `extra` stands for a field that has a name of its own: rules and grants see that one.

    Some servers read names of fields whatever their case, and then a long s is an s, too.
    """
    named = {*msgspec.structs.asdict(params), "stream_options"}
    taken = sorted(name for name in params.extra if name.casefold() in named)
    if taken:
        raise Failed(
            "effects.llm_params",
            f"extra holds {', '.join(taken)}, which is a field of the request itself. Give it there.",
        )


def _message(message: Message) -> dict[str, Any]:
    if message.parts and message.content is not None:
        raise Failed(
            "effects.llm_params", "A message has content and parts, of which one is sent. Give one of them."
        )
    turn: dict[str, Any] = {"role": message.role, "content": message.parts or message.content}
    if message.tool_calls:
        turn["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        turn["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        turn["name"] = message.name
    return turn


def _tool(tool: Tool) -> dict[str, Any]:
    optional = {"description": tool.description, "parameters": tool.parameters, "strict": tool.strict}
    given = {name: value for name, value in optional.items() if value is not None}
    return {"type": "function", "function": {"name": tool.name, **given}}


def _choice(choice: str) -> object:
    return choice if choice in _CHOICES else {"type": "function", "function": {"name": choice}}


def _format(wanted: ResponseFormat) -> dict[str, Any]:
    if wanted.type != "json_schema":
        return {"type": wanted.type}
    if wanted.name is None or wanted.schema is None:
        raise Failed(
            "effects.llm_params", "A response_format of json_schema needs name and schema. Give both."
        )
    inner = {"name": wanted.name, "schema": wanted.schema, "strict": wanted.strict}
    return {"type": "json_schema", "json_schema": inner}
