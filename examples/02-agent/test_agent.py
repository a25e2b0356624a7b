"""Tests of the agent: the model and the tools are answered by the test; one run talks to a real server."""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path

import agent
import model
import pytest
from agent import Asked, Result, Talk, talk
from converse import converse
from main import person

from cellule import Refused
from cellule.effects.llm.types import LlmGenerated, Message, ToolCall
from cellule.effects.process.types import ProcessEnded
from cellule.testing import World

SERVER = "http://127.0.0.1:8080/v1"
QUESTION = "What do 12 crates at 37.50 cost?"


@pytest.fixture
def cellule_app():
    return agent.app


def says(text: str = "", *calls: ToolCall) -> LlmGenerated:
    reason = "tool_calls" if calls else "stop"
    return LlmGenerated(text=text, tool_calls=list(calls), finish_reason=reason, model="clerk")


def call(name: str, number: int = 1, **arguments: object) -> ToolCall:
    return ToolCall(f"call_{number}", name, json.dumps(arguments))


def ask(world: World, text: str = QUESTION) -> Talk:
    world.send(Asked("t", text, SERVER))
    return state(world)


def last_words(world: World) -> str:
    return state(world).messages[-1].content or ""


def state(world: World) -> Talk:
    found = world.state(talk, "t")
    assert found is not None
    return found


def model_says(world: World, *said: LlmGenerated) -> None:
    for each in said:
        world.complete(world.intents.of("llm.generate")[0], each)


def test_a_question_goes_to_the_model_with_the_whole_history(world: World) -> None:
    ask(world)
    model_says(world, says("450."))
    ask(world, "And thirteen?")
    [asked] = world.intents
    assert [message.role for message in asked.params.messages] == ["system", "user", "assistant", "user"]
    assert asked.params.api_key.name == "llm"


def test_a_tool_is_used_and_its_result_goes_back(world: World) -> None:
    ask(world)
    model_says(world, says("", call("calculate", expression="12 * 37.5")))
    [used] = world.intents
    assert (used.kind, used.params.expression) == ("agent.calculate", "12 * 37.5")
    world.complete(used, Result("450"))
    assert state(world).messages[-1] == Message("tool", "450", tool_call_id="call_1")
    model_says(world, says("They cost 450."))
    assert state(world).status == "answered"
    assert state(world).messages[-1].content == "They cost 450."


def test_the_model_is_asked_again_when_all_its_tools_are_done(world: World) -> None:
    ask(world)
    model_says(world, says("", call("calculate", 1, expression="1"), call("calculate", 2, expression="2")))
    first, second = world.intents
    world.complete(second, Result("2"))
    assert state(world).status == "using tools"
    world.complete(first, Result("1"))
    assert [message.content for message in state(world).messages[-2:]] == ["2", "1"]
    assert state(world).status == "thinking"


def test_a_command_waits_for_a_person(world: World) -> None:
    ask(world)
    model_says(world, says("", call("run", command="uname")))
    assert not world.intents.of("llm.generate")
    [parked] = world.approvals
    world.approve(parked)
    [running] = world.intents
    world.complete(running, ProcessEnded(exit_code=0, stdout=b"Linux\n"))
    assert state(world).messages[-1].content == "Linux"


def test_the_model_hears_that_a_person_refused(world: World) -> None:
    ask(world)
    model_says(world, says("", call("run", command="date")))
    world.deny(world.approvals[0], why="not now")
    assert state(world).messages[-1].content == "denied: not now"
    assert state(world).status == "thinking"


def test_a_command_that_is_not_granted_never_reaches_a_person(world: World) -> None:
    ask(world)
    model_says(world, says("", call("run", command="rm", args=["-rf", "/"])))
    assert not world.approvals
    assert last_words(world).startswith("denied: command is 'rm'")


@pytest.mark.parametrize(
    "wrong",
    [
        call("fly"),
        ToolCall("call_1", "calculate", "{"),
        call("calculate", number=1),
        call("run", command=[1]),
    ],
)
def test_a_call_that_makes_no_sense_is_told_to_the_model(world: World, wrong: ToolCall) -> None:
    ask(world)
    model_says(world, says("", wrong))
    assert last_words(world).startswith("error: ")
    assert state(world).status == "thinking"


def test_a_model_that_never_answers_is_stopped(world: World) -> None:
    ask(world)
    model_says(world, *[says("", call("fly"))] * agent.TURNS_MAX)
    assert (state(world).status, state(world).why) == ("stopped", "no answer after 8 turns")
    assert not world.intents


def test_calls_with_the_same_id_are_two_calls(world: World) -> None:
    ask(world)
    model_says(world, says("", call("calculate", 1, expression="1"), call("calculate", 1, expression="2")))
    for used, result in zip(world.intents, ["1", "2"], strict=True):
        world.complete(used, Result(result))
    assert [message.content for message in state(world).messages[-2:]] == ["1", "2"]
    assert state(world).status == "thinking"


def test_an_answer_that_was_given_up_counts_only_while_the_conversation_waits_for_it(world: World) -> None:
    ask(world, "First?")
    world.fail(world.intents[0], "llm.away", "the model is away", exhausted=True)
    assert (state(world).status, state(world).why) == ("stopped", "the model is away")
    world.redrive(*world.letters)
    model_says(world, says("One."))
    assert (state(world).status, last_words(world)) == ("answered", "One.")
    ask(world, "Second?")
    world.fail(world.intents[0], "llm.away", "the model is away", exhausted=True)
    ask(world, "Third?")
    world.redrive(*world.letters)
    _third, second = world.intents
    world.complete(second, says("Two."))
    assert [refused.code for refused in world.refusals] == ["talk.late"]
    model_says(world, says("Three."))
    assert last_words(world) == "Three."


def test_the_budget_of_the_grant_ends_a_conversation_and_comes_back_in_time(world: World) -> None:
    world.on("llm.generate", lambda _params: says("Yes."))
    for number in range(100):
        ask(world, f"Question {number}?")
    assert ask(world, "One more?").status == "stopped"
    assert state(world).why.startswith("grant model ")
    world.advance(hours=1)
    assert ask(world, "And now?").status == "answered"


def test_a_question_that_comes_too_early_waits_for_its_turn(world: World) -> None:
    ask(world, "First?")
    assert ask(world, "Second?").questions == ["Second?"]
    model_says(world, says("One."))
    assert state(world).messages[-1] == Message("user", "Second?")
    model_says(world, says("Two."))
    assert state(world).status == "answered"


def test_a_conversation_survives_a_restart_between_any_two_turns(world: World) -> None:
    ask(world)
    world.restart()
    model_says(world, says("", call("calculate", expression="12 * 37.5")))
    world.restart()
    world.complete(world.intents[0], Result("450"))
    world.restart()
    model_says(world, says("They cost 450."))
    assert state(world).messages[-1].content == "They cost 450."


@pytest.mark.parametrize(("text", "value"), [("12 * 37.5", 450), ("-(1 + 2) / 4", -0.75)])
def test_the_calculator_calculates(text: str, value: float) -> None:
    assert agent.value_of(ast.parse(text, mode="eval").body) == value


@pytest.mark.parametrize("text", ["open('x')", "2 ** 9", "a", "True or 1"])
def test_the_calculator_evaluates_nothing_else(text: str) -> None:
    with pytest.raises(ValueError, match="only numbers"):
        agent.value_of(ast.parse(text, mode="eval").body)


def test_each_user_has_a_budget_of_their_own(world: World) -> None:
    world.on("llm.generate", lambda _params: says("450."))
    for number in range(agent.TURNS_AN_HOUR):
        world.send(Asked(f"ada {number % 3}", QUESTION, SERVER, user="ada"))
    world.send(Asked("ada 9", QUESTION, SERVER, user="ada"))
    spent = world.state(talk, "ada 9")
    assert spent is not None
    assert (spent.status, "for each extra.user" in spent.why) == ("stopped", True)
    world.send(Asked("bob 1", QUESTION, SERVER, user="bob"))
    other = world.state(talk, "bob 1")
    assert other is not None
    assert other.status == "answered"
    world.advance(hours=1)
    world.send(Asked("ada 9", QUESTION, SERVER, user="ada"))
    again = world.state(talk, "ada 9")
    assert again is not None
    assert again.status == "answered"


def test_nobody_speaks_in_the_conversation_of_somebody_else(world: World) -> None:
    world.send(Asked("t", QUESTION, SERVER, user="ada"))
    with pytest.raises(Refused) as refusal:
        world.send(Asked("t", "Forget all that.", SERVER, user="eve")).check()
    assert refusal.value.code == "talk.not_yours"


def test_conversations_with_a_real_server_are_approved_from_elsewhere_and_shown_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLULE_SECRET_LLM", "the-key")
    monkeypatch.setattr(model, "PAUSE_S", 0.01)
    shown: dict[str, str] = {}

    def show(name: str, text: str) -> None:
        shown[name] = shown.get(name, "") + text

    async def run() -> dict[str, Talk]:
        begun = asyncio.Event()
        async with model.Model(model.answer, api_key="the-key") as server, asyncio.TaskGroup() as tasks:
            talking = tasks.create_task(converse(tmp_path, server.base_url, show, begun.set))
            await begun.wait()
            tasks.create_task(person(tmp_path, ask=False))
        return talking.result()

    ends = asyncio.run(run())
    assert {state.status for state in ends.values()} == {"answered"}
    assert "cost 450 in all" in (ends["crates"].messages[-1].content or "")
    assert shown.items() <= {name: state.messages[-1].content for name, state in ends.items()}.items()
