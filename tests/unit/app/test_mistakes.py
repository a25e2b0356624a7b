"""Every common mistake of an author is refused with a stable code, the place, and a way out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict

import msgspec
import pytest

from cellule import App, EnzymeContext, Rejected, Retention, Step
from cellule.app import StepFailed, WorldStarted
from cellule.values.schema import derive


class Placed(msgspec.Struct, frozen=True):
    order_id: str
    total: int
    note: str | None = None


class Paid(msgspec.Struct, frozen=True):
    order_id: str


class Tick(msgspec.Struct, frozen=True):
    at: int


class Numbered(msgspec.Struct, frozen=True):
    number: int


class Foreign(msgspec.Struct, frozen=True):
    order_id: str


class Unregistered(msgspec.Struct, frozen=True):
    order_id: str


class Order(msgspec.Struct, frozen=True):
    total: int = 0


class Changing(msgspec.Struct):
    order_id: str


@dataclass
class ChangingToo:
    order_id: str


class Loose(TypedDict):
    order_id: str


class Plain:
    order_id: str


OTHER = App("billing")
OTHER.event(key="order_id")(Foreign)


def order(state: Order | None, event: Placed) -> Step[Order]:
    return Step(Order(event.total))


def takes_foreign(state: Order | None, event: Placed | Foreign) -> Step[Order]:
    return Step(Order())


def takes_unregistered(state: Order | None, event: Placed | Unregistered) -> Step[Order]:
    return Step(Order())


def takes_two(state: Order | None, event: Placed | Paid) -> Step[Order]:
    return Step(Order())


def takes_tick(state: Order | None, event: Placed | Tick) -> Step[Order]:
    return Step(Order())


def takes_numbered(state: Order | None, event: Placed | Numbered) -> Step[Order]:
    return Step(Order())


def takes_failed(state: Order | None, event: Placed | StepFailed) -> Step[Order]:
    return Step(Order())


def no_state_none(state: Order, event: Placed) -> Step[Order]:
    return Step(Order())


def no_return(state: Order | None, event: Placed):
    return Step(Order())


def no_event(state: Order | None, event) -> Step[Order]:
    return Step(Order())


def misspelt(state: Order | None, event: Plcaed) -> Step[Order]:  # noqa: F821
    return Step(Order())


async def waits(state: Order | None, event: Placed) -> Step[Order]:
    return Step(Order())


def beats(ctx: EnzymeContext, signal: str, target: str) -> int:
    return 0


def same(old: Order) -> Order:
    return old


def unnamed(old: int) -> Order:
    return Order(old)


def new_app() -> App:
    app = App("shop")
    app.event(key="order_id")(Placed)
    app.event(key="order_id")(Paid)
    app.event(Tick)
    app.event(key="number")(Numbered)
    return app


def built(app: App, function: Any, **options: Any) -> None:
    app.reducer(**options)(function)
    app.build(live=True)


def upcast(app: App, function: Any) -> None:
    app.upcaster(function)
    built(app, order)


def keyed(path: Any) -> Callable[[App], Any]:
    """An app in which the event's key stands at another path."""

    def mistake(_: App) -> None:
        app = App("shop")
        app.event(key=path)(Placed)
        built(app, order)

    return mistake


MISTAKES: dict[str, tuple[Callable[[App], Any], str, str, str]] = {
    # mistake: what is done, code, part of the message, part of the hint
    "a namespace that is no text": (lambda _: App(5), "names.malformed", "5, which is no text", "letters"),
    "an event whose name is no text": (
        lambda app: app.event(name=7, key="order_id")(Placed),
        "names.malformed",
        "local name of a name is 7",
        "letters",
    ),
    "a reducer whose name is no text": (
        lambda app: app.reducer(name=7)(_inner()),
        "names.malformed",
        "local name of a name is 7",
        "letters",
    ),
    "an event that is no record": (lambda app: app.event(Plain), "app.class", "Plain", "above @dataclass"),
    "an event that is a TypedDict": (
        lambda app: app.event(Loose),
        "app.class",
        "TypedDict",
        "msgspec.Struct",
    ),
    "an event decorator with a bare argument": (
        lambda app: app.event("order_id"),
        "app.class",
        "'order_id'",
        "options go by name",
    ),
    "a state that is no record": (lambda app: app.state(Plain), "app.class", "@app.state", "msgspec.Struct"),
    "an event that can change": (
        lambda app: app.event(Changing),
        "app.not_frozen",
        "Changing",
        "msgspec.Struct, frozen=True",
    ),
    "a dataclass that can change": (
        lambda app: app.event(ChangingToo),
        "app.not_frozen",
        "ChangingToo",
        "@dataclass(frozen=True)",
    ),
    "a key that is no path": (lambda app: app.event(key=7)(Foreign), "app.option", "key=7", '"order_id"'),
    "two events of one name": (
        lambda app: app.event(name="Placed")(Foreign),
        "app.name_taken",
        "Foreign",
        "version=2",
    ),
    "a state with the name of an event": (
        lambda app: app.state(name="Placed")(Order),
        "app.name_taken",
        "shop/Placed@1",
        "version=2",
    ),
    "a name with a space": (
        lambda app: app.event(name="Paid up")(Foreign),
        "names.malformed",
        "Paid up",
        "letters",
    ),
    "two reducers of one name": (
        lambda app: (built(app, order), app.reducer(name="order")(takes_two)),
        "app.name_taken",
        "shop/order",
        "Rename",
    ),
    "a reducer that is no function": (
        lambda app: app.reducer("order"),
        "app.function",
        "'order'",
        "right above a `def`",
    ),
    "an upcaster that is no function": (lambda app: app.upcaster(7), "app.function", "7", "@app.upcaster"),
    "an unknown failure policy": (
        lambda app: app.reducer(failure="retry")(order),
        "app.option",
        "failure='retry'",
        "'halt' or 'skip'",
    ),
    "an unknown upgrade policy": (
        lambda app: app.reducer(upgrade="auto")(order),
        "app.option",
        "upgrade='auto'",
        "'follow' or 'pin'",
    ),
    "a retention that is a bare time": (
        lambda app: app.reducer(retention=timedelta(days=1))(order),
        "app.option",
        "retention=",
        "Retention(ttl=",
    ),
    "an app without reducers": (
        lambda app: app.build(),
        "app.empty",
        "App('shop', version=1)",
        "@app.reducer",
    ),
    "an event of another app": (
        lambda app: built(app, takes_foreign),
        "app.event_unknown",
        "takes Foreign",
        "registered on the app 'billing'",
    ),
    "an event that is not registered": (
        lambda app: built(app, takes_unregistered),
        "app.event_unknown",
        "Unregistered",
        "@app.event",
    ),
    "an emitted event that is not registered": (
        lambda app: built(app, order, emits=[Unregistered]),
        "app.event_unknown",
        "emits",
        "@app.event",
    ),
    "a state that is used as an event": (
        lambda app: (app.state(Unregistered), built(app, takes_unregistered)),
        "app.event_unknown",
        "Unregistered",
        "use @app.event",
    ),
    "an emitted event of the system": (
        lambda app: built(app, order, emits=[WorldStarted]),
        "app.event_unknown",
        "emits",
        "no reducer emits",
    ),
    "an event without key at a keyed reducer": (
        lambda app: built(app, takes_tick),
        "app.key_missing",
        "Tick names no key",
        "keyed=False",
    ),
    "an event of the system at a keyed reducer": (
        lambda app: built(app, takes_failed),
        "app.key_missing",
        "StepFailed",
        "key={",
    ),
    "a key that is no field": (keyed("order"), "app.key_path", "'order'", "order_id, total, note"),
    "a key that may be absent": (keyed("note"), "app.key_path", "may be absent", "always there"),
    "a key in something that is no record": (keyed("order_id.x"), "app.key_path", "no record", "order_id"),
    "keys of different types": (
        lambda app: built(app, takes_numbered),
        "app.key_types",
        "number",
        "two reducers",
    ),
    "a key for an event that is not taken": (
        lambda app: built(app, order, key={Paid: "order_id"}),
        "app.key_choice",
        "does not take",
        "It takes",
    ),
    "a key that is a number": (
        lambda app: built(app, order, key={Placed: 7}),
        "app.key_choice",
        "is 7",
        "Give a path",
    ),
    "a key that is a list": (
        lambda app: built(app, order, key=["order_id"]),
        "app.key_choice",
        "order_id",
        "{Placed:",
    ),
    "a key beside keyed=False": (
        lambda app: built(app, order, key="order_id", keyed=False),
        "app.key_choice",
        "keyed=False",
        "Leave one",
    ),
    "only keys from senders": (
        lambda app: built(app, order, key={Placed: None}),
        "app.key_by_sender",
        "order",
        "at least one",
    ),
    "a state without None": (
        lambda app: built(app, no_state_none),
        "modules.state_not_optional",
        "no_state_none",
        "Order | None",
    ),
    "a forgotten return annotation": (
        lambda app: built(app, no_return),
        "modules.annotation_missing",
        "return value",
        "-> Step[Order]",
    ),
    "a forgotten event annotation": (
        lambda app: built(app, no_event),
        "modules.annotation_missing",
        "event",
        "Placed | Paid",
    ),
    "a misspelt class": (
        lambda app: built(app, misspelt),
        "modules.annotation_unknown",
        "Plcaed",
        "top level",
    ),
    "a reducer that waits": (
        lambda app: built(app, waits),
        "modules.async_function",
        "async def",
        "never waits",
    ),
    "an upcaster between equal names": (
        lambda app: upcast(app, same),
        "app.upcaster_names",
        "shop/Order@1 to shop/Order@1",
        "version=2",
    ),
    "an upcaster of something without name": (
        lambda app: upcast(app, unnamed),
        "app.upcaster_names",
        "int",
        "@app.state",
    ),
    "an option of a workflow that does not exist": (
        lambda app: app.workflow(upgrad="pin")(waits),
        "app.option",
        "upgrad='pin'",
        "upgrade",
    ),
    "an option of an enzyme that does not exist": (
        lambda app: app.enzyme("/mail", matc="prefix")(beats),
        "app.option",
        "matc='prefix'",
        "match",
    ),
    "a retention in seconds": (
        lambda app: app.reducer(retention=Retention(ttl=5))(order),
        "app.option",
        "ttl=5",
        "timedelta",
    ),
    "one event in place of a list": (
        lambda app: app.reducer(emits=Paid)(order),
        "app.option",
        "emits=",
        "emits=[Paid]",
    ),
    "a choice in place of yes or no": (
        lambda app: app.reducer(keyed="no")(order),
        "app.option",
        "keyed='no'",
        "True or False",
    ),
    "work that is shown, or not": (
        lambda app: app.adapter("shop.charge", operation="yes"),
        "app.option",
        "operation='yes'",
        "True or False",
    ),
    "a contract that is no file": (
        lambda app: app.fsm(5),
        "app.option",
        "file=5",
        "order.fsm.yaml",
    ),
    "an app that another file cannot find": (
        lambda app: (app.reducer(_inner()), app.build()),
        "app.not_bundled",
        "defined inside another function",
        "testing.World",
    ),
}


def _inner() -> Callable[..., Any]:
    def inside(state: Order | None, event: Placed) -> Step[Order]:
        return Step(Order())

    return inside


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_place_and_a_way_out(mistake):
    act, code, message, hint = MISTAKES[mistake]
    with pytest.raises(Rejected) as refused:
        act(new_app())
    error = refused.value
    assert error.code == code
    assert message in str(error)
    assert hint in error.hint


def test_an_event_of_an_app_with_the_same_name_is_explained():
    twin = App("shop")
    twin.event(key="order_id")(Unregistered)
    try:
        with pytest.raises(Rejected) as refused:
            built(new_app(), takes_unregistered)
        assert "one App object" in refused.value.hint
    finally:
        del Unregistered.__cellule_apps__


def test_a_reply_of_no_type_is_refused_when_the_app_is_built():
    """The first reply was refused instead, when its event was applied already."""
    with pytest.raises(Rejected, match="reply=5 is not possible") as refused:
        built(new_app(), order, key={Placed: "order_id"}, reply=5)
    assert refused.value.code == "app.option"


def test_nothing_is_kept_of_a_refused_declaration():
    app = new_app()
    before = (dict(app.events), dict(app.modules))
    for act, code, *_ in MISTAKES.values():
        if code in ("app.class", "app.not_frozen", "app.option", "app.function"):
            with pytest.raises(Rejected):
                act(app)
    assert (dict(app.events), dict(app.modules)) == before


def test_every_code_of_the_app_is_documented():
    from pathlib import Path

    root = Path(__file__).parents[3]
    text = (root / "docs/errors/app.md").read_text()
    codes = set()
    for file in (root / "src/cellule/app").glob("*.py"):
        codes |= {part.partition('"')[0] for part in file.read_text().split('"app.')[1:]}
    codes -= set(dir(App))  # `app.schedule` names the call, in a message
    assert codes
    assert {code for code in codes if f"## app.{code}" not in text} == set()


def test_a_class_typed_into_a_prompt_again_takes_the_place_of_the_old_one():
    import subprocess
    import sys

    code = """
import msgspec
from cellule import App, Step
app = App("shop")
for total in (int, float):
    @app.event(key="order_id")
    class Placed(msgspec.Struct, frozen=True):
        order_id: str
        total: total
    @app.reducer
    def order(state: Placed | None, event: Placed) -> Step[Placed]:
        return Step(event)
print(app.build(live=True).event_from_json("Placed", {"order_id": "a", "total": 1.5}).total)
"""
    shown = subprocess.run([sys.executable], input=code, capture_output=True, text=True, check=False)
    assert shown.stdout.strip() == "1.5", shown.stderr


class Forgotten(msgspec.Struct, frozen=True):
    order_id: str


def all_in_one(state: int | None, event: Forgotten) -> int:
    return (state or 0) + 1


def test_a_forgotten_key_is_said_aloud_with_both_ways_out():
    app = App("shop")
    app.event(Forgotten)
    app.reducer(all_in_one)
    with pytest.warns(
        UserWarning, match=r"all_in_one has one cell for all events: Forgotten names no key"
    ) as told:
        app.build(live=True)
    text = str(told[0].message)
    assert "keyed=False" in text
    assert '@app.event(key="...")' in text


def test_one_cell_that_is_meant_is_not_said():
    app = App("shop")
    app.event(Forgotten)
    app.reducer(keyed=False)(all_in_one)
    assert app.build(live=True).manifest.modules["shop/all_in_one"].key is None


def test_a_pydantic_model_is_refused_as_such():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Placed", order_id=(str, ...))
    with pytest.raises(Rejected, match=r"it is a Pydantic model.*msgspec\.Struct"):
        App("shop").event(key="order_id")(model)
    with pytest.raises(Rejected, match=r"cannot be stored: it is a Pydantic model\. Use a msgspec\.Struct"):
        derive(model | None, namespace="shop")


def test_what_looks_like_a_pydantic_model_is_refused_as_such():
    class Placed:
        model_fields = ()
        __pydantic_fields__ = ()

    with pytest.raises(Rejected, match="it is a Pydantic model"):
        App("shop").event(key="order_id")(Placed)
