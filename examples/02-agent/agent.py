"""A conversation with a language model that may use tools. Every one is a cell; its state is its history.

What the model asks for becomes effects: a calculator is free, a command waits until somebody approves it, and
the grants say which commands there are and how often the model may be asked. Results go back to the model,
turn by turn, until it answers.
"""

from __future__ import annotations

import ast
import json
import operator
from datetime import timedelta
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from cellule import App, Effect, Failed, Receipt, Refuse, Step, llm, process, rule, secret
from cellule.effects.llm.types import LlmGenerate, LlmGenerated, Message, Tool, ToolCall
from cellule.effects.process.types import ProcessEnded, ProcessRun

TURNS_MAX = 8  # answers of the model to one question
TURNS_AN_HOUR = 100  # of the model, for each user
RULES = "You are a careful clerk. Calculate with the tool, never in your head."

app = App("agent")
app.grant(
    "model",
    effects=[llm],
    hosts=["127.0.0.1:*"],
    private=True,
    budget=(TURNS_AN_HOUR, timedelta(hours=1)),
    budget_by="extra.user",  # each user has a budget of their own, however many conversations
    bytes_max=200_000,
)
app.grant("commands", effects=[process], allow={"command": ["uname", "date"]})
app.policy(
    rule(
        name="commands",
        when="effect.kind == 'process.run'",
        then="require_approval",
        reason="the model wants to run a command on this machine",
        expires=timedelta(days=1),
    )
)


@app.event(key="talk")
class Asked(msgspec.Struct, frozen=True):
    """A question of a user; `server` is where the model is."""

    talk: str
    text: str
    server: str
    user: str = "anybody"


class Talk(msgspec.Struct, frozen=True):
    name: str
    server: str
    user: str
    status: Literal["thinking", "using tools", "answered", "stopped"]
    messages: list[Message]
    turns: int = 0  # since the last question
    calls: dict[str, str] = {}  # tools at work: the ids of their calls by the keys of their effects
    questions: list[str] = []  # asked meanwhile
    why: str = ""


class Sum(msgspec.Struct, frozen=True):
    expression: str


class Result(msgspec.Struct, frozen=True):
    text: str


TOOLS = [
    Tool(
        "calculate",
        "The value of an expression with numbers, + - * / and brackets.",
        {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    ),
    Tool(
        "run",
        "What a command prints. A person is asked first.",
        {
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "args": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["command"],
        },
    ),
]


@app.adapter("agent.calculate", timeout_s=5)
async def calculate(params: Sum) -> Result:
    """The calculator: one async function."""
    try:
        return Result(f"{value_of(ast.parse(params.expression, mode='eval').body):g}")
    except (SyntaxError, ValueError, ArithmeticError) as error:
        raise Failed("agent.expression", f"{params.expression!r} has no value: {error}") from error


def value_of(node: ast.expr) -> float:
    """The value of an expression of numbers; nothing else is evaluated."""
    signs = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -value_of(inner)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in signs:
            return float(signs[type(sign)](value_of(left), value_of(right)))
    raise ValueError("only numbers, + - * / and brackets are known")


@app.reducer(effects=[llm, calculate, process], grants=["model", "commands"])
def talk(
    state: Talk | None,
    event: Asked | Receipt[LlmGenerated] | Receipt[Result] | Receipt[ProcessEnded],
) -> Step[Talk] | Refuse:
    """One turn of the loop."""
    if isinstance(event, Asked):
        return asked(state, event)
    if state is None:
        return Refuse(f"{event.kind} answers a conversation that never began", code="talk.unknown")
    if llm.is_receipt(event):
        return model_said(state, event)
    return tool_said(state, event)


def asked(state: Talk | None, event: Asked) -> Step[Talk] | Refuse:
    """A question begins a turn of the model, or waits until the one before is answered."""
    if not event.text.strip():
        return Refuse("a question is needed", code="talk.empty")
    if state is None:
        state = Talk(event.talk, event.server, event.user, "answered", [Message("system", RULES)])
    if event.user != state.user:
        return Refuse(f"this is a conversation of {state.user}", code="talk.not_yours")
    waiting = [*state.questions, event.text]
    if state.status in ("thinking", "using tools"):
        return Step(replace(state, questions=waiting))
    return next_question(replace(state, server=event.server, questions=waiting))


def next_question(state: Talk) -> Step[Talk]:
    if not state.questions:
        return Step(state)
    first, *rest = state.questions
    messages = [*state.messages, Message("user", first)]
    return think(replace(state, messages=messages, questions=rest, turns=0, why=""))


def think(state: Talk) -> Step[Talk]:
    """Ask the model for its next turn; the whole history goes along."""
    if state.turns >= TURNS_MAX:
        return Step(replace(state, status="stopped", why=f"no answer after {TURNS_MAX} turns"))
    request = LlmGenerate(
        model="clerk",
        messages=state.messages,
        tools=TOOLS,
        base_url=state.server,
        api_key=secret("llm"),
        extra={"user": state.user},
    )
    state = replace(state, status="thinking", turns=state.turns + 1)
    return Step(state, effects=[llm(request, key=turn_key(state))])


def turn_key(state: Talk) -> str:
    """What tells an answer to this history from one that comes too late."""
    return f"{state.name} after {len(state.messages)}"


def model_said(state: Talk, receipt: Receipt[LlmGenerated]) -> Step[Talk] | Refuse:
    """The model answered, or wants tools; what it asks for becomes effects."""
    if receipt.key != turn_key(state):
        return Refuse("the conversation has gone on without this answer", code="talk.late")
    said = receipt.value
    if said is None:
        return Step(replace(state, status="stopped", why=receipt.text or receipt.status))
    state = replace(state, messages=[*state.messages, said.message])
    if not said.tool_calls:
        return next_question(replace(state, status="answered"))
    effects: list[Effect] = []
    for number, call in enumerate(said.tool_calls):
        key = f"{turn_key(state)}, call {number}"  # ids of calls may be the same: a model wrote them
        try:
            effects.append(use(call, key))
            state = replace(state, calls={**state.calls, key: call.id})
        except ValueError as error:
            state = answered(state, call.id, f"error: {error}")
    if not effects:
        return think(state)
    return Step(replace(state, status="using tools"), effects=effects)


def use(call: ToolCall, key: str) -> Effect:
    """The effect that a call of the model asks for; models get names and arguments wrong at times."""
    try:
        given: dict[str, Any] = json.loads(call.arguments)
        match call.name:
            case "calculate":
                return calculate(msgspec.convert(given, Sum), key=key)
            case "run":
                wanted = msgspec.convert(given, ProcessRun)
                return process(ProcessRun(command=wanted.command, args=wanted.args, timeout_s=10), key=key)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    raise ValueError(f"there is no tool {call.name}")


def tool_said(state: Talk, receipt: Receipt[Any]) -> Step[Talk] | Refuse:
    """A tool is done, failed, or was refused: the model is told either way."""
    call = state.calls.get(receipt.key or "")
    if call is None:
        return Refuse("the model knows how this call ended", code="talk.late")
    left = {key: each for key, each in state.calls.items() if key != receipt.key}
    state = answered(replace(state, calls=left), call, result_of(receipt))
    return Step(state) if left else think(state)


def answered(state: Talk, call: str, text: str) -> Talk:
    return replace(state, messages=[*state.messages, Message("tool", text, tool_call_id=call)])


def result_of(receipt: Receipt[Any]) -> str:
    match receipt.value:
        case Result(text=text):
            return text
        case ProcessEnded(exit_code=0, stdout=bytes(printed)):
            return printed.decode("utf-8", "replace").strip()
        case ProcessEnded() as ended:
            return (
                f"error: it ended with {ended.exit_code} {(ended.stderr or b'').decode('utf-8', 'replace')}"
            )
    return f"{receipt.status}: {receipt.text}"
