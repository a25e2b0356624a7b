# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pytest

from cellule.errors import CelluleError, Corrupted, Rejected
from cellule.values import cbor
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link
from cellule.values.schema import DurationNs, TimeNs, codec_for, derive

T = TypeVar("T")
CID = cid_of(b"\xa0")
NOON = datetime(2024, 2, 29, 12, 0, 0, 250, tzinfo=UTC)
NOON_NS = 1_709_208_000_000_250_000


class Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Item(msgspec.Struct):
    sku: str
    quantity: int
    price: float


class Order(msgspec.Struct):
    order_id: str
    items: list[Item]
    paid: bool = False
    note: str | None = None
    seal: bytes = b""


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Placed(msgspec.Struct, tag=True):
    order_id: str


class Paid(msgspec.Struct, frozen=True, array_like=True):
    amount: Decimal


class Rich(msgspec.Struct, kw_only=True, rename="camel"):
    created_at: datetime
    took: timedelta
    ident: UUID
    price: Decimal
    color: Color
    tags: set[str]
    scores: dict[int, float]
    corner: tuple[int, str]
    path: tuple[Point, ...]
    last: Placed | Paid | None = None
    mode: Literal["a", "b"] = "a"
    link: Link | None = None
    cid: Cid | None = None
    exact: TimeNs = 0
    span: DurationNs = 0
    extra: Any = None
    by_point: dict[Point, list[Placed | Paid]] = {}
    holes: list[int | None] = []


class Tree(msgspec.Struct):
    value: int
    left: Tree | None = None
    right: Tree | None = None


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Options(TypedDict):
    depth: int
    label: NotRequired[str]
    limit: int | None


class Box(msgspec.Struct, Generic[T]):
    content: T


class Bounded(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(ge=1, le=9)]
    name: Annotated[str, msgspec.Meta(min_length=2)]
    items: Annotated[list[int], msgspec.Meta(max_length=2)] = []
    rate: Annotated[float, msgspec.Meta(gt=0)] = 0.5
    groups: Annotated[dict[str, int], msgspec.Meta(max_length=1)] = {}


class Even(msgspec.Struct):
    number: int

    def __post_init__(self):
        if self.number % 2:
            raise ValueError("must be even")


@dataclasses.dataclass
class Odd:
    number: int
    when: datetime | None = None

    def __post_init__(self):
        if not self.number % 2:
            raise ValueError("must be odd")


class NoDefault(msgspec.Struct):
    note: str | None


class Views(msgspec.Struct):
    items: Sequence[int]
    named: Mapping[str, float]
    blobs: list[bytes] = []


def codec(python):
    return codec_for(derive(python, namespace="acme"))


def rich(**changes) -> Rich:
    return Rich(
        **{
            "created_at": NOON,
            "took": timedelta(milliseconds=-1500),
            "ident": UUID(int=7),
            "price": Decimal("12.500"),
            "color": Color.RED,
            "tags": {"x", "yy", "a"},
            "scores": {3: 1.0, -1: 2.5, 300: 0.5},
            "corner": (1, "x"),
            "path": (Point(1), Point(2, 3)),
            "last": Paid(Decimal("1E+3")),
            "link": Link(CID),
            "cid": CID,
            "exact": NOON_NS + 1,
            "extra": {"k": [1, None, b"x", Link(CID)]},
            "by_point": {Point(2): [Placed("o1")], Point(1): []},
            "holes": [1, None],
            **changes,
        }
    )


VALUES = [
    (Order, Order("o1", [Item("a", 1, 2.5), Item("b", 2, 0.5)], True, "hi", b"\x01\x02")),
    (Order, Order("o1", [])),
    (Rich, rich()),
    (Tree, Tree(1, Tree(2, None, Tree(3)), None)),
    (Point, Point(1, -5)),
    (Pair, Pair(1, "x")),
    (Options, {"depth": 1, "label": "x", "limit": 5}),
    (Options, {"depth": 1, "limit": None}),
    (Box[int], Box(5)),
    (Box[list[Point]], Box([Point(1)])),
    (Placed | Paid, Placed("x")),
    (Placed | Paid | None, None),
    (list[Placed | Paid], [Placed("x"), Paid(Decimal(1))]),
    (Bounded, Bounded(9, "ab", [1, 2], 5e-324, {"a": 1})),
    (Even, Even(2)),
    (Odd, Odd(3, NOON)),
    (NoDefault, NoDefault(None)),
    (NoDefault, NoDefault("x")),
    (Views, Views([1], {"a": 1.5}, [b"x", bytes(4)])),
    (None, None),
    (int, 2**64 - 1),
    (dict[str, Item], {"a b": Item("a", 1, 1.0)}),
    (dict[Color, int], {Color.RED: 1}),
    (dict[bytes, int], {b"bb": 1, b"c": 2}),
    (dict[tuple[int, str], bool], {(1, "a"): True, (0, "b"): False}),
    (frozenset[Point], frozenset({Point(1), Point(2)})),
    (set[tuple[int, ...]], {(1, 2), ()}),
    (set[UUID], {UUID(int=2**120), UUID(int=1)}),
    (set[Decimal], {Decimal("1.5"), Decimal(-1)}),
    (set[float], {0.5, -1.0, 2.0}),
    (set[Color], {Color.RED, Color.BLUE}),
    (set[bool], {True, False}),
    (Annotated[list[bool], "remark"], [True]),
    (tuple[int, ...], (1, 2)),
]


@pytest.mark.parametrize(("python", "value"), VALUES)
def test_a_value_comes_back_equal_and_of_the_same_class(python, value):
    both = codec(python)
    data = both.encode(value)
    for found in (both.decode(data), both.decode_trusted(data), both.from_wire(both.to_wire(value))):
        assert found == value
        assert type(found) is type(value)
    assert both.to_wire(value) == cbor.decode(data)
    assert both.wire.encode(cbor.decode(data)) == data


def test_the_wire_form_is_that_of_the_design():
    assert codec(Rich).to_wire(rich()) == {
        "createdAt": NOON_NS,
        "took": -1_500_000_000,
        "ident": bytes(15) + b"\x07",
        "price": "12.5",
        "color": "red",
        "tags": ["a", "x", "yy"],
        "scores": [[3, 1.0], [300, 0.5], [-1, 2.5]],
        "corner": [1, "x"],
        "path": [{"x": 1, "y": 0}, {"x": 2, "y": 3}],
        "last": {"$tag": "Paid", "$value": {"amount": "1000"}},
        "mode": "a",
        "link": Link(CID),
        "cid": Link(CID),
        "exact": NOON_NS + 1,
        "span": 0,
        "extra": {"k": [1, None, b"x", Link(CID)]},
        "byPoint": [[{"x": 1, "y": 0}, []], [{"x": 2, "y": 0}, [{"$tag": "Placed", "$value": {"order_id": "o1"}}]]],
        "holes": [1, None],
    }  # fmt: skip


def test_an_integer_in_a_float_field_is_stored_as_a_float():
    assert codec(Item).encode(Item("a", 1, 1)) == codec(Item).encode(Item("a", 1, 1.0))


def test_none_is_absent_in_a_record_and_null_elsewhere():
    assert codec(NoDefault).encode(NoDefault(None)) == b"\xa0"
    assert codec(list[int | None]).encode([None]) == b"\x81\xf6"


def test_a_field_with_a_default_is_written_and_may_be_absent():
    orders = codec(Order)
    assert orders.to_wire(Order("o", []))["paid"] is False
    for absent in ({}, {"paid": None}):
        data = cbor.encode({"order_id": "o", "items": [], **absent})
        assert orders.decode(data) == Order("o", [])


def test_a_default_factory_makes_a_new_value_each_time():
    views = codec(Views)
    data = cbor.encode({"items": [], "named": {}})
    first, second = views.decode(data), views.decode(data)
    assert first.blobs == []
    assert first.blobs is not second.blobs


def test_datetimes_of_any_zone_name_the_same_moment():
    times = codec(datetime)
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5)))
    assert times.encode(elsewhere) == times.encode(NOON)
    assert times.decode(times.encode(elsewhere)) == NOON


def test_subclasses_of_plain_values_are_stored_as_plain_values():
    class Special(str):
        __slots__ = ()

    assert codec(Item).encode(Item(Special("a"), Level.LOW, 1.0)) == codec(Item).encode(Item("a", 1, 1.0))
    assert codec(list[str]).encode([Color.RED]) == codec(list[str]).encode(["red"])
    assert codec(bytes).encode(CID) == codec(bytes).encode(bytes(CID))


class Level(enum.IntEnum):
    LOW = 1


def test_bytes_that_look_like_a_cid_stay_bytes():
    blobs = codec(Views)
    value = Views([], {}, [(1).to_bytes(4, "little"), bytes(CID)])
    assert blobs.decode(blobs.encode(value)) == value
    assert codec(UUID).decode(codec(UUID).encode(UUID(bytes=b"\x01\x71\x12\x0c" + bytes(12)))).int >> 120 == 1


class SpecialItem(Item):
    extra: int = 0


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("python", "value", "message"),
    [
        (Order, Order(1, []), "acme/Order@1 $.order_id: expected text, got the integer 1."),
        (Order, Order("o", [Item("a", "1", 1.0)]), "acme/Order@1 $.items[0].quantity: expected an integer, got the text '1'."),
        (Order, Order("o", [Item("a", True, 1.0)]), "acme/Order@1 $.items[0].quantity: expected an integer, got true."),
        (Order, Order("o", [Item("a", 2**64, 1.0)]), "acme/Order@1 $.items[0].quantity: expected an integer from -2^64 to 2^64-1, got the integer 18446744073709551616."),
        (Order, Order("o", [Item("a", 1, float("nan"))]), "acme/Order@1 $.items[0].price: expected a finite float, got the float nan."),
        (Order, Order("o", [Item("a", 1, float("inf"))]), "acme/Order@1 $.items[0].price: expected a finite float, got the float inf."),
        (Order, Order("o", [Item("a", 1, -0.0)]), "acme/Order@1 $.items[0].price: expected a float that is not -0.0, got the float -0.0. Add 0.0 to it: -0.0 + 0.0 is 0.0."),
        (Order, Order("\ud800", []), "acme/Order@1 $.order_id: expected text without lone surrogates, got the text '\\ud800'."),
        (Order, Order("o", [{"sku": "a"}]), "acme/Order@1 $.items[0]: expected Item, got a map of 1."),
        (Order, Order("o", ()), "acme/Order@1 $.items: expected list, got a list of 0."),
        (Order, Order("o", [], None), "acme/Order@1 $.paid: expected a boolean, got null."),
        (Order, Order("o", [], True, 5), "acme/Order@1 $.note: expected text, got the integer 5."),
        (Order, Order("o", [], True, None, "x"), "acme/Order@1 $.seal: expected bytes, got the text 'x'."),
        (Order, Point(1), "acme/Order@1 $: expected Order, got Point(x=1, y=0)."),
        (Rich, rich(created_at=NOON.replace(tzinfo=None)), "acme/Rich@1 $.created_at: expected an aware datetime, got datetime.datetime(2024, 2, 29, 12, 0, 0, 250). Give it a time zone, like datetime.now(UTC)."),
        (Rich, rich(created_at=5), "acme/Rich@1 $.created_at: expected a datetime, got the integer 5."),
        (Rich, rich(created_at=datetime(9999, 1, 1, tzinfo=UTC)), "acme/Rich@1 $.created_at: expected a time between the years 1386 and 2554, got datetime.datetime(9999, 1, 1, 0, 0, tzinfo="),
        (Rich, rich(took=timedelta(days=999999)), "acme/Rich@1 $.took: expected a duration of at most 584 years, got datetime.timedelta(days=999999)."),
        (Rich, rich(took=1), "acme/Rich@1 $.took: expected a timedelta, got the integer 1."),
        (Rich, rich(ident="7"), "acme/Rich@1 $.ident: expected a UUID, got the text '7'."),
        (Rich, rich(price=1.5), "acme/Rich@1 $.price: expected a Decimal, got the float 1.5."),
        (Rich, rich(price=Decimal("NaN")), "acme/Rich@1 $.price: expected a finite Decimal, got Decimal('NaN')."),
        (Rich, rich(price=Decimal("1E+2000")), "acme/Rich@1 $.price: expected a Decimal of at most 1000 characters, got Decimal('1E+2000')."),
        (Rich, rich(color="red"), "acme/Rich@1 $.color: expected Color, got the text 'red'."),
        (Rich, rich(mode="c"), "acme/Rich@1 $.mode: expected one of 'a', 'b', got the text 'c'."),
        (Rich, rich(tags=["a"]), "acme/Rich@1 $.tags: expected set, got a list of 1."),
        (Rich, rich(tags={1}), "acme/Rich@1 $.tags[0]: expected text, got the integer 1."),
        (Rich, rich(scores={"a": 1.0}), "acme/Rich@1 $.scores.a: expected an integer, got the text 'a'."),
        (Rich, rich(scores={5: "x"}), "acme/Rich@1 $.scores[\"the integer 5\"]: expected a finite float, got the text 'x'."),
        (Rich, rich(scores=[]), "acme/Rich@1 $.scores: expected dict, got a list of 0."),
        (Rich, rich(corner=[1, "x"]), "acme/Rich@1 $.corner: expected a tuple of exactly 2, got a list of 2."),
        (Rich, rich(corner=(1, 2)), "acme/Rich@1 $.corner[1]: expected text, got the integer 2."),
        (Rich, rich(path=(Point("x"),)), "acme/Rich@1 $.path[0].x: expected an integer, got the text 'x'."),
        (Rich, rich(last=Point(1)), "acme/Rich@1 $.last: expected Placed or Paid, got Point(x=1, y=0)."),
        (Rich, rich(last=Placed(3)), "acme/Rich@1 $.last.order_id: expected text, got the integer 3."),
        (Rich, rich(link=5), "acme/Rich@1 $.link: expected a link, got the integer 5."),
        (Rich, rich(holes=[1, "x"]), "acme/Rich@1 $.holes[1]: expected an integer, got the text 'x'."),
        (Options, {"depth": 1, "limit": 1, "x": 2}, "acme/Options@1 $: unknown field 'x'. The fields are: depth, label, limit."),
        (Options, {"limit": 1}, "acme/Options@1 $.depth: expected an integer, got null."),
        (Bounded, Bounded(10, "ab"), "acme/Bounded@1 $.count: expected an integer from 1 to 9, got the integer 10."),
        (Bounded, Bounded(1, "a"), "acme/Bounded@1 $.name: expected text of at least 2 characters, got a length of 1."),
        (Bounded, Bounded(1, "ab", [1, 2, 3]), "acme/Bounded@1 $.items: expected a list of at most 2 items, got a length of 3."),
        (Bounded, Bounded(1, "ab", [], 0.0), "acme/Bounded@1 $.rate: expected a finite float of at least 5e-324, got the float 0.0."),
        (Bounded, Bounded(1, "ab", [], 1.0, {"a": 1, "b": 2}), "acme/Bounded@1 $.groups: expected a map of at most 1 entries, got a length of 2."),
        (dict[str, Item], {"a": Item("a", None, 1.0)}, "dict[str, test_codec.Item] $.a.quantity: expected an integer, got null."),
        (list[Item], [SpecialItem("a", 1, 1.0)], "A subclass could hold more than its base stores: use exactly this class."),
        (Any, LOOP, "nests too deeply"),
        (Any, {"a": [{1}]}, "$.a[0]: expected a plain value (null, boolean, number, text, bytes, link, list, map), got {1}."),
    ],
)  # fmt: skip
def test_encoding_refuses_a_wrong_object_with_its_path(python, value, message):
    for convert in (codec(python).encode, codec(python).to_wire):
        with pytest.raises(Rejected) as caught:
            convert(value)
        assert message.replace("test_codec.", f"{__name__}.") in str(caught.value)


def test_an_object_whose_field_was_deleted_is_refused():
    item = Item("a", 1, 1.0)
    del item.sku
    with pytest.raises(Rejected, match="sku"):
        codec(Item).encode(item)


ORDER = {"order_id": "o", "items": [{"sku": "a", "quantity": 1, "price": 1.0}]}


@pytest.mark.parametrize(
    ("python", "value", "message"),
    [
        (Order, {**ORDER, "x": 1}, "$: unknown field 'x'. The fields are: items, note, order_id, paid, seal."),
        (Order, {"order_id": "o", "items": [{"sku": "a", "quantity": 1, "price": 1.0, "x": 1}]}, "$.items[0]: unknown field 'x'. The fields are: price, quantity, sku."),
        (Order, {"order_id": "o"}, "$: the required field 'items' is missing."),
        (Order, {"order_id": "o", "items": [{"sku": "a", "quantity": 1}]}, "$.items[0]: the required field 'price' is missing."),
        (Order, {**ORDER, "order_id": 5}, "$.order_id: expected text, got the integer 5."),
        (Order, {**ORDER, "seal": "aGk="}, "$.seal: expected bytes, got the text 'aGk='."),
        (Order, {**ORDER, "items": {}}, "$.items: expected a list, got a map of 0."),
        (Order, [], "$: expected a record, got a list of 0."),
        (Views, {"items": [], "named": {}, "blobs": ["aGk="]}, "$.blobs[0]: expected bytes, got the text 'aGk='."),
        (Views, {"items": ["x"], "named": {}}, "$.items[0]: expected an integer, got the text 'x'."),
        (Views, {"items": [], "named": {"a": "x"}}, "$.named.a: expected a finite float, got the text 'x'."),
        (Placed | Paid, {"$tag": "Lost", "$value": {}}, "$.$tag: expected"),
        (Placed | Paid, {"$tag": "Placed", "$value": {"order_id": 1}}, "$.$value.order_id: expected text, got the integer 1."),
        (Placed | Paid, {"$tag": "Placed"}, "$.$value: expected a record, got null."),
        (Placed | Paid, {"order_id": "x"}, "expected a variant {'$tag', '$value'} of Paid, Placed, got a map of 1."),
        (Bounded, {"count": 0, "name": "ab"}, "$.count: expected an integer from 1 to 9, got the integer 0."),
        (Bounded, {"count": 1, "name": "ab", "items": [1, 2, 3]}, "$.items: expected a list of at most 2 items, got a length of 3."),
        (Even, {"number": 3}, "$: Even refused it: must be even."),
        (list[Even], [{"number": 2}, {"number": 3}], "$[1]: Even refused it: must be even."),
        (Odd, {"number": 2}, "$: Odd refused it: must be odd."),
        (datetime, 1, "$: 1 nanoseconds are not whole microseconds, and a datetime holds no more. Annotate the field as TimeNs to keep nanoseconds as an integer."),
        (timedelta, 1001, "Annotate the field as DurationNs"),
        (datetime, "x", "$: expected an integer, got the text 'x'."),
        (UUID, b"x", "$: expected a UUID as 16 bytes, got 1 bytes."),
        (Decimal, "1e5", "$: expected a plain decimal as text, like '12.5', got the text '1e5'."),
        (Color, "green", "$: expected one of 'blue', 'red', got the text 'green'."),
        (Literal["a"], "b", "$: expected one of 'a', got the text 'b'."),
        (Link, b"x", "$: expected a link, got 1 bytes."),
        (bytes, Link(CID), "$: expected bytes, got Link"),
        (set[int], [1, 1], "$: an item of the set occurs twice."),
        (set[int], ["x"], "$[0]: expected an integer, got the text 'x'."),
        (frozenset[Point], [{"x": 1}, {"x": 1}], "$: an item of the set occurs twice."),
        (dict[int, int], [[1, 1], [1, 2]], "$: a key of the map occurs twice."),
        (dict[int, int], [[1, 1, 1]], "$[0]: expected a pair [key, value], got a list of 3."),
        (tuple[int, str], [1], "$: expected a list of exactly 2, got a list of 1."),
        (tuple[int, str], [1, 2], "$[1]: expected text, got the integer 2."),
        (None, 1, "$: expected null, got the integer 1."),
        (Any, None, ""),
    ],
)  # fmt: skip
def test_decoding_refuses_a_wrong_value_with_its_path(python, value, message):
    both = codec(python)
    data = cbor.encode(value)
    if not message:
        assert both.decode(data) == value
        return
    for convert in (both.decode, both.decode_trusted):
        with pytest.raises(Rejected) as caught:
            convert(data)
        assert message in str(caught.value)
        assert caught.value.code.startswith("schema.")
    with pytest.raises(Rejected):
        both.from_wire(value)


def test_what_a_constructor_raised_stays_the_cause():
    with pytest.raises(Rejected) as caught:
        codec(list[Odd]).decode(cbor.encode([{"number": 2}]))
    assert isinstance(caught.value.__cause__, ValueError)


class Lookup(msgspec.Struct):
    name: str

    def __post_init__(self):
        _ = {"a": 1}[self.name]


@pytest.mark.parametrize("python", [Lookup, list[Lookup], msgspec.defstruct("Outer", [("inner", Lookup)])])
def test_any_exception_of_a_constructor_becomes_a_rejection(python):
    good = Lookup("a")
    value = [good] if python == list[Lookup] else good if python is Lookup else python(good)
    data = codec(python).encode(value).replace(b"\x61a", b"\x61b")
    with pytest.raises(Rejected, match="Lookup refused it: 'b'"):
        codec(python).decode(data)


def test_bytes_that_are_not_canonical_are_refused_unless_trusted():
    too_long = bytes.fromhex("1801")
    with pytest.raises(CelluleError):
        codec(int).decode(too_long)
    with pytest.raises(Corrupted):
        codec(int).decode_trusted(b"\xff")


def test_a_recursive_value_that_is_too_deep_is_refused():
    tree = Tree(0)
    for _ in range(5000):
        tree = Tree(0, tree)
    with pytest.raises(Rejected) as caught:
        codec(Tree).encode(tree)
    assert caught.value.code == "schema.too_deep"
    shallow = Tree(0)
    for _ in range(200):
        shallow = Tree(0, shallow)
    with pytest.raises(Rejected):
        codec(Tree).encode(shallow)


def test_a_struct_that_forbids_unknown_fields_itself_reads_the_same():
    class Strict(msgspec.Struct, forbid_unknown_fields=True):
        number: int

    strict = codec(Strict)
    assert strict.decode(strict.encode(Strict(1))) == Strict(1)
    with pytest.raises(Rejected, match="unknown field 'x'"):
        strict.decode(cbor.encode({"number": 1, "x": 1}))


def test_decoding_nested_records_checks_every_level_for_unknown_fields():
    inner = msgspec.defstruct("Inner", [("a", int), ("b", int | None, None)])
    middle = msgspec.defstruct(
        "Middle", [("one", inner), ("many", dict[str, list[inner]]), ("pair", tuple[inner, int])]
    )
    outer = msgspec.defstruct(
        "Outer", [("middle", middle), ("maybe", middle | None, None), ("seal", bytes, b"")]
    )
    both = codec(outer)
    good = {"one": {"a": 1}, "many": {"k": [{"a": 1}]}, "pair": [{"a": 1, "b": 2}, 5]}
    assert both.encode(both.from_wire({"middle": good, "maybe": good})) == cbor.encode(
        {"middle": good, "maybe": good, "seal": b""}
    )
    extra = {"a": 1, "x": 1}
    for path, bad in (
        ("$.middle.one", {**good, "one": extra}),
        ("$.middle.many.k[0]", {**good, "many": {"k": [extra]}}),
        ("$.middle.pair[0]", {**good, "pair": [extra, 5]}),
        ("$.middle", {**good, "x": 1}),
    ):
        with pytest.raises(Rejected) as caught:
            both.decode(cbor.encode({"middle": bad}))
        assert f"{path}: unknown field 'x'" in str(caught.value)


def test_generic_structs_check_their_type_arguments():
    with pytest.raises(Rejected, match="expected an integer"):
        codec(Box[int]).decode(cbor.encode({"content": "x"}))


class Path(msgspec.Struct):
    to: str
    then: Path | None = None


class Ride(msgspec.Struct):
    name: str
    start: datetime
    stay: timedelta | None
    seats: tuple[int, bool]
    kind: Literal["bus", "train"]


class Bag(msgspec.Struct):
    names: list[str]
    labels: dict[str, str]


def test_what_comes_with_the_bytes_is_nobodys_else():
    codec = codec_for(derive(Ride, namespace="test"))
    ride = Ride("north", NOON, None, (3, True), "bus")
    _, data, decoded = codec.encode_with_fields(ride)
    ride.name = "south"
    assert (
        decoded == cbor.decode(data) == {"name": "north", "start": NOON_NS, "seats": [3, True], "kind": "bus"}
    )


@pytest.mark.parametrize(
    "value", [Bag(["a"], {"b": "c"}), Path("a", Path("b")), Item("a", 1, 0.5), Color.RED, UUID(int=7), [1, 2]]
)
def test_what_may_be_shared_or_is_dear_to_tell_comes_alone(value):
    codec = codec_for(derive(list[int] if isinstance(value, list) else type(value), namespace="test"))
    assert codec.encode_with_fields(value) == (codec.name, codec.encode(value), None)


@pytest.mark.parametrize(
    "value", [Ride("\ud800", NOON, None, (1, True), "bus"), Ride("a", NOON, None, (2**70, True), "bus")]
)
def test_what_cannot_be_encoded_is_refused_with_its_place(value):
    codec = codec_for(derive(Ride, namespace="test"))
    with pytest.raises(Rejected) as alone:
        codec.encode(value)
    with pytest.raises(Rejected) as caught:
        codec.encode_with_fields(value)
    assert str(caught.value) == str(alone.value)
