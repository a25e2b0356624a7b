from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from cellule.kernel.program import Context as KernelContext
from cellule.modules.python.context import Context, key_reader
from cellule.values import encode
from cellule.values.schema import types as t
from cellule.values.schema.registry import NO_SCHEMAS, Schemas


def made(kernel):
    return Context(kernel, bytes.decode)


def test_the_time_is_that_of_the_beat(context):
    ctx = made(context)
    assert ctx.now == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert ctx.now_ns == 1_700_000_000_123_456_789


def test_everything_else_comes_from_the_journal(context):
    ctx = made(context)
    assert (ctx.height, ctx.beat, ctx.version, ctx.era) == (17, 3, 4, 0)
    assert (ctx.module, ctx.key) == ("com.acme/order@1", "o1")
    assert ctx.world == UUID(bytes=bytes(range(16)))


def test_chance_and_ids_repeat_for_the_same_step(context):
    one, other = made(context), made(context)
    assert [one.random.random() for _ in range(3)] == [other.random.random() for _ in range(3)]
    assert [one.uuid() for _ in range(5)] == [other.uuid() for _ in range(5)]


def test_chance_and_ids_are_frozen(context):
    ctx = made(context)
    assert ctx.random.getrandbits(64) == 0xC6680C949C41A892
    assert str(ctx.uuid()) == "018bcfe5-687b-7000-84af-12be90d9fb9f"
    assert str(ctx.uuid()) == "018bcfe5-687b-7001-8f3f-84c8efc1f753"


def test_another_step_sees_other_chance_and_ids(context):
    later = KernelContext(context.world, context.module, b"o1", 3, 18, context.now_ns, b"e" * 16, 0, 4)
    assert made(context).random.random() != made(later).random.random()
    assert made(context).uuid() != made(later).uuid()


def test_ids_are_version_7_distinct_and_in_order(context):
    ctx = made(context)
    ids = [ctx.uuid() for _ in range(4_096)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 4_096
    assert {(each.version, each.variant) for each in ids} == {(7, "specified in RFC 4122")}


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        (None, b"", b""),
        (t.Text(), "ø1".encode(), "ø1"),
        (t.Bytes(), b"\x01", b"\x01"),
        (t.Uuid(), encode(bytes(15) + b"\x07"), UUID(int=7)),
        (t.Int(), encode(-5), -5),
        (t.Time(), encode(1_000_000_000), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (t.Enum(("a", "b")), encode("a"), "a"),
    ],
)
def test_a_key_has_the_type_its_author_knows(schema, data, value):
    assert key_reader(schema, NO_SCHEMAS)(data) == value


def test_a_key_schema_may_be_a_ref():
    schemas = Schemas({"acme/Id@1": t.Text()})
    assert key_reader(t.Ref("acme/Id@1"), schemas)(b"o1") == "o1"
