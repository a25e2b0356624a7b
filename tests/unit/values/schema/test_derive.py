from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import msgspec
import pytest

from cellule.errors import Rejected
from cellule.values.cid import Cid
from cellule.values.link import Link
from cellule.values.schema import DurationNs, Schemas, TimeNs, derive, to_document

T = TypeVar("T")
OrderId = NewType("OrderId", str)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Item(msgspec.Struct, frozen=True):
    sku: str
    price: Decimal


class Order(msgspec.Struct, kw_only=True, rename="camel"):
    order_id: OrderId
    items: list[Item]
    placed_at: datetime
    note: str | None = None
    paid: bool = False
    tags: set[str] = set()


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Options(TypedDict):
    depth: int
    label: NotRequired[str]


class Placed(msgspec.Struct, tag="placed"):
    order_id: str


class Paid(msgspec.Struct, tag="paid"):
    amount: int


class Tree(msgspec.Struct):
    value: int
    left: Tree | None = None
    right: Optional[Tree] = None  # noqa: UP045 - the older spelling is supported too


class Box(msgspec.Struct, Generic[T]):
    content: T


@dataclasses.dataclass
class Crate(Generic[T]):
    content: list[T]


@dataclasses.dataclass
class IntCrate(Crate[int]):
    label: str


_EVENTS = {"Placed": {"ref": "acme/Placed@1"}, "Paid": {"ref": "acme/Paid@1"}}


def document(python, **more):
    return to_document(derive(python, namespace="acme", **more).schema)


def documents(python, **more):
    return derive(python, namespace="acme", **more).schemas.documents()


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        (None, {"unit": {}}),
        (bool, {"bool": {}}),
        (int, {"int": {}}),
        (float, {"float": {}}),
        (str, {"text": {}}),
        (bytes, {"bytes": {}}),
        (datetime, {"time": {}}),
        (timedelta, {"duration": {}}),
        (TimeNs, {"time": {}}),
        (DurationNs, {"duration": {}}),
        (Decimal, {"dec": {}}),
        (UUID, {"uuid": {}}),
        (Link, {"hash": {}}),
        (Cid, {"hash": {}}),
        (Any, {"option": {"any": {}}}),
        (Color, {"enum": ["blue", "red"]}),
        (Level, {"enum": [1, 2]}),
        (Literal["b", "a"], {"enum": ["a", "b"]}),
        (Literal["a", None], {"option": {"enum": ["a"]}}),  # noqa: PYI061 - both spellings are supported
        (Literal["a"] | Literal["b"], {"enum": ["a", "b"]}),  # noqa: PYI030 - as above
        (OrderId, {"text": {}}),
        (int | None, {"option": {"int": {}}}),
        (list[int], {"list": {"int": {}}}),
        (Sequence[int], {"list": {"int": {}}}),
        (tuple[int, ...], {"list": {"int": {}}}),
        (tuple[int, str], {"tuple": [{"int": {}}, {"text": {}}]}),
        (set[str], {"set": {"text": {}}}),
        (frozenset[str], {"set": {"text": {}}}),
        (AbstractSet[str], {"set": {"text": {}}}),
        (dict[str, int], {"map": {"key": {"text": {}}, "value": {"int": {}}}}),
        (Mapping[UUID, int], {"map": {"key": {"uuid": {}}, "value": {"int": {}}}}),
        (Annotated[int, msgspec.Meta(ge=0, lt=10)], {"int": {}, "min": 0, "max": 9}),
        (Annotated[int, msgspec.Meta(gt=0, le=10)], {"int": {}, "min": 1, "max": 10}),
        (Annotated[float, msgspec.Meta(gt=0)], {"float": {}, "min": 5e-324}),
        (Annotated[str, msgspec.Meta(min_length=1, title="t")], {"text": {}, "min_length": 1}),
        (Annotated[list[int], msgspec.Meta(max_length=3)], {"list": {"int": {}}, "max_length": 3}),
        (Annotated[int | None, msgspec.Meta(ge=1)], {"option": {"int": {}, "min": 1}}),
        (Annotated[int, "a remark"], {"int": {}}),
        (Placed | Paid, {"variant": _EVENTS}),
        (list[Placed | Paid | None], {"list": {"option": {"variant": _EVENTS}}}),
    ],
)  # fmt: skip
def test_an_annotation_has_this_schema(python, expected):
    assert document(python) == expected


def test_a_struct_becomes_a_named_record_with_its_wire_names():
    derived = derive(Order, namespace="com.acme", version=2)
    assert derived.name == "com.acme/Order@2"
    assert derived.schemas.documents() == {
        "com.acme/Item@2": {"record": {"price": {"dec": {}}, "sku": {"text": {}}}},
        "com.acme/Order@2": {
            "record": {
                "items": {"list": {"ref": "com.acme/Item@2"}},
                "note": {"option": {"text": {}}},
                "orderId": {"text": {}},
                "paid": {"option": {"bool": {}}},
                "placedAt": {"time": {}},
                "tags": {"option": {"set": {"text": {}}}},
            }
        },
    }


def test_the_derived_schemas_equal_their_document_round_trip():
    for python in (Order, Tree, Point, Pair, Options, Placed | Paid, Box[int], IntCrate):
        schemas = derive(python, namespace="acme").schemas
        assert Schemas.load(schemas.documents()) == schemas


@pytest.mark.parametrize(
    ("python", "fields"),
    [
        (Point, {"x": {"int": {}}, "y": {"option": {"int": {}}}}),
        (Pair, {"left": {"int": {}}, "right": {"option": {"text": {}}}}),
        (Options, {"depth": {"int": {}}, "label": {"option": {"text": {}}}}),
        (Placed, {"order_id": {"text": {}}}),
        (
            Tree,
            {
                "value": {"int": {}},
                "left": {"option": {"ref": "acme/Tree@1"}},
                "right": {"option": {"ref": "acme/Tree@1"}},
            },
        ),
        (IntCrate, {"content": {"list": {"int": {}}}, "label": {"text": {}}}),
    ],
)
def test_every_kind_of_class_becomes_a_record(python, fields):
    assert documents(python) == {f"acme/{python.__name__}@1": {"record": fields}}


def test_generic_classes_are_named_by_their_arguments():
    assert documents(Box[int]) == {"acme/Box_int@1": {"record": {"content": {"int": {}}}}}
    assert documents(Crate[list[str]]) == {
        "acme/Crate_list_str@1": {"record": {"content": {"list": {"list": {"text": {}}}}}}
    }


def test_names_can_be_chosen_for_the_whole_and_for_single_classes():
    assert derive(Order, namespace="acme", name="Purchase").name == "acme/Purchase@1"
    union = derive(Placed | Paid, namespace="acme", name="OrderEvent")
    assert union.name == "acme/OrderEvent@1"
    assert set(union.schemas) == {"acme/OrderEvent@1", "acme/Placed@1", "acme/Paid@1"}
    chosen = derive(Placed | Paid, namespace="acme", names={Placed: "shop/Begun@3"})
    assert to_document(chosen.schema)["variant"].keys() == {"Begun", "Paid"}
    assert "shop/Begun@3" in chosen.schemas


def test_type_aliases_stand_for_what_they_name():
    extensions = pytest.importorskip("typing_extensions")
    plain = extensions.TypeAliasType("plain", list[int])
    generic = extensions.TypeAliasType("generic", dict[str, T], type_params=(T,))
    union = extensions.TypeAliasType("union", Placed | Paid)
    assert document(plain) == {"list": {"int": {}}}
    assert document(generic[bool]) == {"map": {"key": {"text": {}}, "value": {"bool": {}}}}
    assert document(union | None)["option"]["variant"].keys() == {"Placed", "Paid"}


class Naive(msgspec.Struct):
    when: date


class DefaultedOption(msgspec.Struct):
    note: str | None = "x"


class NullField(msgspec.Struct):
    nothing: None


class Unset(msgspec.Struct):
    x: int | msgspec.UnsetType = msgspec.UNSET


class BadWireName(msgspec.Struct):
    first: int = msgspec.field(name="a.b")


@dataclasses.dataclass
class Computed:
    x: int
    y: int = dataclasses.field(init=False)


@dataclasses.dataclass
class NeedsMore:
    x: int
    extra: dataclasses.InitVar[int]


class MixedEnum(enum.Enum):
    A = "a"
    B = 1


class FloatEnum(enum.Enum):
    A = 1.5


class Empty(enum.Enum):
    pass


class Bits(enum.Flag):
    A = 1


class Mutable(msgspec.Struct):
    x: int


class Holder(msgspec.Struct, frozen=True):
    items: list[int]


class MaybeMissing(TypedDict):
    x: NotRequired[int | None]


class Dangling(msgspec.Struct):
    x: Missing  # noqa: F821 - the point of the test


@pytest.mark.parametrize(
    ("python", "where", "advice"),
    [
        (Naive, "Naive.when", "Use datetime"),
        (DefaultedOption, "DefaultedOption.note", "Default it to None"),
        (NullField, "NullField.nothing", "use bool"),
        (Unset, "Unset.x", "Use None"),
        (Computed, "Computed.y", "ordinary field"),
        (NeedsMore, "NeedsMore", "Make it a field"),
        (Dangling, "Dangling", "top level"),
        (MaybeMissing, "MaybeMissing.x", "do not allow None"),
        (MixedEnum, "MixedEnum", "str or int values"),
        (FloatEnum, "FloatEnum", "str or int values"),
        (Empty, "Empty", "at least one"),
        (Bits, "Bits", "set[...]"),
        (Literal["a", 1], "Literal", "str or int values"),
        (Literal[True], "Literal", "str or int values"),
        (int | str, "int | str", "record of its own"),
        (int | float, "int | float", "Use float"),
        (Placed | str, "Placed | str", "record of its own"),
        (Placed | list[int], "list[int]", "record of its own"),
        (Options | Placed, "Options", "not TypedDict"),
        (Box[int] | Box[str], "Box", "not one generic class"),
        (Box, "Box.content", "Give it"),
        (list, "list", "list[str]"),
        (dict, "dict", "dict[str, int]"),
        (set, "set", "set[str]"),
        (tuple, "tuple", "tuple[str, ...]"),
        (tuple[()], "tuple", "Use None"),
        (object, "object", "typing.Any"),
        (complex, "complex", "two floats"),
        (bytearray, "bytearray", "Use bytes"),
        (time, "time", "timedelta"),
        (Path, "Path", "Use str"),
        (collections.deque, "deque", "msgspec.Struct"),
        (set[Mutable], "Mutable", "frozen"),
        (set[Holder], "Holder", "frozen"),
        (set[list[int]], "list[int]", "frozen"),
        (dict[Any, int], "dict", "frozen"),
        (dict[Options, int], "Options", "frozen"),
        (Annotated[int, msgspec.Meta(multiple_of=2)], "multiple_of", "your own code"),
        (Annotated[str, msgspec.Meta(pattern="a")], "pattern", "your own code"),
        (Annotated[datetime, msgspec.Meta(tz=False)], "tz=False", "aware"),
        (Annotated[bool, msgspec.Meta(ge=1)], "Bool", "Remove"),
        (Annotated[str, TimeNs.__metadata__[0]], "nanoseconds", "TimeNs"),
    ],
)
def test_an_annotation_without_schema_is_refused_with_place_and_advice(python, where, advice):
    with pytest.raises(Rejected) as caught:
        derive(python, namespace="acme")
    assert caught.value.code == "schema.annotation_unsupported"
    assert where in str(caught.value)
    assert advice in str(caught.value)


def test_a_wire_name_that_key_paths_could_not_name_is_refused():
    with pytest.raises(Rejected) as caught:
        derive(BadWireName, namespace="acme")
    assert caught.value.fields["path"] == "BadWireName.first"


def test_two_classes_of_one_name_are_refused_unless_they_say_the_same():
    def other(**fields):
        return msgspec.defstruct("Item", list(fields.items()), frozen=True)

    same = other(sku=str, price=Decimal)
    assert "acme/Item@1" in documents(tuple[Item, same])
    with pytest.raises(Rejected) as caught:
        derive(tuple[Item, other(sku=int)], namespace="acme")
    assert caught.value.code == "schema.name_conflict"
    different = derive(tuple[Item, other(sku=int)], namespace="acme", names={Item: "acme/OldItem@1"})
    assert set(different.schemas) == {"acme/OldItem@1", "acme/Item@1"}


def test_a_union_of_two_classes_with_one_local_name_is_refused():
    twin = msgspec.defstruct("Placed", [("x", int)])
    with pytest.raises(Rejected, match="their tag"):
        derive(Placed | twin, namespace="acme", names={twin: "other/Placed@1"})


def test_a_recursive_alias_is_refused():
    extensions = pytest.importorskip("typing_extensions")
    nested = extensions.TypeAliasType("nested", "list[nested]")
    with pytest.raises(Rejected, match="list\\[nested\\]"):
        derive(nested, namespace="acme")


def test_a_field_that_is_no_identifier_is_refused():
    odd = msgspec.defstruct("Odd", [("class", int)])
    with pytest.raises(Rejected, match="not an identifier"):
        derive(odd, namespace="acme")


def test_bases_that_use_one_type_variable_twice_are_refused():
    @dataclasses.dataclass
    class Base(Generic[T]):
        first: T

    @dataclasses.dataclass
    class Child(Base[int], Generic[T]):
        second: T

    Base.__annotations__, Child.__annotations__ = {"first": T}, {"second": T}
    with pytest.raises(Rejected, match="different arguments"):
        derive(Child[str], namespace="acme")
