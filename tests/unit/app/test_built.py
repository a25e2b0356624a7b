from __future__ import annotations

import enum
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest

from cellule import App, Rejected, Step


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Place(msgspec.Struct, frozen=True):
    shelf: int
    box: str


class Moved(msgspec.Struct, frozen=True):
    text: str
    number: int
    flag: bytes
    ident: UUID
    at: datetime
    price: Decimal
    size: Size
    place: Place
    pair: tuple[int, str]


class Placed(msgspec.Struct, frozen=True):
    order_id: str
    total: int
    at: datetime


class PlacedOld(msgspec.Struct, frozen=True):
    order_id: str


class Order(msgspec.Struct, frozen=True):
    total: int
    at: datetime


NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
ID = UUID("018bcfe5-6800-7000-8000-000000000000")
MOVED = Moved("o1", 7, b"\x00\xff", ID, NOON, Decimal("1.50"), Size.LARGE, Place(3, "b"), (1, "x"))


def order(state: Order | None, event: Placed) -> Step[Order]:
    return Step(Order(event.total, event.at))


def totals(state: Order | None, event: Placed) -> Order:
    return Order(event.total, event.at)


def move(state: Order | None, event: Moved) -> Order:
    return Order(1, event.at)


@pytest.fixture
def app() -> App:
    app = App("shop")
    app.event(key="order_id", version=2)(Placed)
    app.event(key="order_id", name="Placed", version=1)(PlacedOld)
    app.event(key="text")(Moved)
    app.reducer(reply=Order)(order)
    app.reducer(keyed=False)(totals)
    return app


@pytest.fixture
def built(app):
    return app.build(live=True)


def refusal(act) -> Rejected:
    with pytest.raises(Rejected) as refused:
        act()
    return refused.value


def test_events_become_bytes_and_back(built):
    placed = Placed("o1", 30, NOON)
    name, data = built.encode_event(placed)
    assert name == "shop/Placed@2"
    assert built.decode_event(name, data) == placed
    assert built.event_to_json(name, data) == {"order_id": "o1", "total": 30, "at": "2024-02-29T12:00:00Z"}


def test_json_becomes_an_event_with_its_field_named_when_it_does_not_fit(built):
    view = {"order_id": "o1", "total": 30, "at": "2024-02-29T12:00:00Z"}
    assert built.event_from_json("Placed", view) == Placed("o1", 30, NOON)
    error = refusal(lambda: built.event_from_json("Placed", {**view, "total": "many"}))
    assert error.code == "schema.mismatch"
    assert "total" in str(error)


def test_an_object_that_does_not_fit_its_class_is_refused_with_the_field(built):
    assert "total" in str(refusal(lambda: built.encode_event(Placed("o1", "many", NOON))))


@pytest.mark.parametrize(
    ("given", "what", "hint"),
    [
        (Placed, "the class Placed", "Placed(...)"),
        ({"order_id": "o1"}, "order_id", "a pair: (name, data)"),
        (Order(1, NOON), "an object of Order", "@app.event"),
        (7, "int", "@app.event"),
    ],
)
def test_what_is_no_event_is_refused_with_a_way_out(built, given, what, hint):
    error = refusal(lambda: built.encode_event(given))
    assert error.code == "app.event_expected"
    assert what in str(error)
    assert hint in error.hint


def test_short_names_mean_the_newest_version(built):
    assert built.event_name("Placed") == "shop/Placed@2"
    assert built.event_name("shop/Placed") == "shop/Placed@2"
    assert built.event_name("shop/Placed@1") == "shop/Placed@1"
    assert built.event_class("Placed@1") is PlacedOld
    assert built.base("order") == built.base("shop/order@1") == built.base(order) == "shop/order"


@pytest.mark.parametrize("name", ["Plcaed", "shop/Plcaed", "shp/Placed@2", "Placed@3"])
def test_an_unknown_event_is_refused_with_the_nearest(built, name):
    error = refusal(lambda: built.event_name(name))
    assert error.code == "app.name_unknown"
    assert "Did you mean shop/Placed" in error.hint


def test_an_unknown_reducer_is_refused_with_those_that_exist(built):
    assert "Did you mean shop/order@1" in refusal(lambda: built.base("ordr")).hint
    assert "shop/totals@1" in refusal(lambda: built.base("zzz")).hint
    error = refusal(lambda: built.base(move))
    assert error.code == "app.name_unknown"
    assert "order, totals" in error.hint


def test_states_and_replies_become_objects(built):
    state = Order(30, NOON)
    data = built.encode_state(order, state)
    assert built.decode_state("order", data) == state
    assert built.state_to_json(order, data) == {"total": 30, "at": "2024-02-29T12:00:00Z"}
    assert built.decode_reply(order, data) == state
    assert built.decode_reply(totals, data)["total"] == 30


KEYS = {
    "text": ("o1", b"o1", "o1"),
    "number": (7, b"\x07", "7"),
    "flag": (b"\x00\xff", b"\x00\xff", "AP8="),
    "ident": (ID, b"\x50" + ID.bytes, str(ID)),
    "at": (NOON, None, "2024-02-29T12:00:00Z"),
    "price": (Decimal("1.50"), b"\x631.5", "1.5"),
    "size": (Size.LARGE, b"\x65large", "large"),
    "place": (Place(3, "b"), None, '{"box": "b", "shelf": 3}'),
    "place.shelf": (3, b"\x03", "3"),
    "pair": ((1, "x"), b"\x82\x01\x61x", '[1, "x"]'),
}


@pytest.mark.parametrize("path", KEYS)
def test_keys_of_all_types_go_to_bytes_and_text_and_back(path):
    value, data, text = KEYS[path]
    app = App("shop")
    app.event(key=path)(Moved)
    app.reducer(move)
    built = app.build(live=True)
    key = built.key(move)
    found = built.key_bytes(move, value)
    assert data is None or found == data
    assert built.key_value(move, found) == value
    assert key.text(found) == text
    assert key.from_text(text) == found


def test_the_key_bytes_are_those_the_router_finds_in_the_event():
    for path, (value, *_) in KEYS.items():
        app = App("shop")
        app.event(key=path)(Moved)
        app.reducer(move)
        built = app.build(live=True)
        from cellule.kernel.manifest.routes import Router

        name, data = built.encode_event(MOVED)
        assert Router(built.manifest).route(name, data, None) == [("shop/move", built.key_bytes(move, value))]


def test_a_reducer_without_keys_has_one_cell(built):
    key = built.key(totals)
    assert built.key_bytes(totals) == b""
    assert built.key_value(totals, b"") is None
    assert (key.text(b""), key.from_text("")) == ("", b"")


@pytest.mark.parametrize(
    ("reducer", "key", "problem"),
    [
        (order, 7, "7 is no key of shop/order"),
        (order, None, "a cell for each key, and no key is given"),
        (order, b"", "a cell for each key, and no key is given"),
        (order, "", "empty"),
        (order, "x" * 600, "600 bytes"),
        (totals, "o1", "has no key"),
    ],
)
def test_a_key_that_does_not_fit_is_refused(built, reducer, key, problem):
    error = refusal(lambda: built.key_bytes(reducer, key))
    assert error.code == "app.key_value"
    assert problem in str(error)


def test_typed_text_that_is_no_key_is_refused():
    app = App("shop")
    app.event(key="number")(Moved)
    app.reducer(move)
    key = app.build(live=True).key(move)
    for text in ("seven", '"7"', "[1]", "1.5"):
        assert refusal(lambda text=text: key.from_text(text)).code == "app.key_value"


def test_an_event_the_app_does_not_know_is_shown_as_plain_values(built):
    assert built.decode_event("other/Thing@1", b"\xa1aa\x01") == {"a": 1}
