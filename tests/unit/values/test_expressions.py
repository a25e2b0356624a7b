"""Expressions that are accepted: what they give, and which faults they raise."""

from __future__ import annotations

import threading

import pytest

from cellule.values import Link, cid_of
from cellule.values.expressions import ExpressionFault, compile_expression
from cellule.values.schema import Schemas
from cellule.values.schema import types as t

LINE = t.record({"sku": t.Text(), "qty": t.Int(), "price": t.Float(), "tags": t.Set(t.Text())})
ORDER = t.record(
    {
        "lines": t.List(t.Ref("shop/Line@1")),
        "total": t.Float(),
        "count": t.Int(),
        "note": t.Option(t.Text()),
        "stock": t.Map(t.Text(), t.Int()),
        "groups": t.Map(t.Text(), t.List(t.Int())),
        "pair": t.Tuple((t.Int(), t.Text())),
        "kind": t.Enum(("big", "small")),
        "payment": t.variant({"Card": t.Text(), "Cash": t.Int()}),
        "anything": t.Any(),
        "at": t.Time(),
    }
)
SCHEMAS = Schemas({"shop/Line@1": LINE, "shop/Order@1": ORDER})
VARIABLES = {"order": t.Ref("shop/Order@1"), "x": None}
ARGUMENTS = {
    "order": {
        "lines": [
            {"sku": "a-1", "qty": 2, "price": 1.5, "tags": ["new", "red"]},
            {"sku": "b-2", "qty": 0, "price": 0.0, "tags": []},
        ],
        "total": 3.0,
        "count": 4,
        "stock": {"b": 2, "a": 1},
        "groups": {"odd": [1, 3]},
        "pair": [7, "seven"],
        "kind": "big",
        "payment": {"$tag": "Card", "$value": "4242"},
        "anything": [1, {"k": "v"}],
        "at": 1_700_000_000_000_000_000,
    },
    "x": {
        "a": {"b": 5},
        "zero": 0.0,
        "none": None,
        "min": -(2**63),
        "list": [1, 2],
        "two words": "w",
        "raw": b"\xff",
    },
}


def evaluated(text, arguments=ARGUMENTS, gives_bool=False):
    return compile_expression(text, VARIABLES, gives_bool=gives_bool, schemas=SCHEMAS).evaluate(arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("order.count > 3 && order.kind == 'big'", True),
        ("order.lines.exists(l, l.qty == 2)", True),
        ("order.lines.all(l, l.tags.exists(tag, tag == 'red'))", False),
        ("order.lines.exists_one(l, l.price > 1.0)", True),
        ("order.lines.map(l, l.sku)", ["a-1", "b-2"]),
        ("order.lines.map(l, l.qty > 0, l.qty * 10)", [20]),
        ("order.lines.filter(l, l.qty == 0).size()", 1),
        ("order.groups['odd'].all(n, n % 2 == 1)", True),
        ("order.lines[0].tags.exists(tag, tag.startsWith('r'))", True),
        ("[1, x.a.b, 3].map(n, n + 1)", [2, 6, 4]),
        ("[order.lines, order.lines].all(ls, ls.exists(l, l.qty == 2))", True),
        ("has(order.note)", False),
        ("has(x.a.b) && !has(x.a.c)", True),
        ("order.lines.all(l, has(l.sku))", True),
        ("has(order.note) ? order.note : 'nothing'", "nothing"),
        ("x.none == null", True),
        ("x['two words'] + '!'", "w!"),
        ("order.pair[1]", "seven"),
        ("order.payment['$tag'] == 'Card' && order.payment['$value'] == '4242'", True),
        ("'a' in order.stock && !('z' in order.stock)", True),
        ("x.list[order.count - 3]", 2),
        ("order.stock[order.kind == 'big' ? 'a' : 'b']", 1),
        ("x == x && order.stock == {'a': 1, 'b': 2.0}", True),
        ("{'b': 1, 'a': [order.count], 'aa': null}", {"a": [4], "b": 1, "aa": None}),
        ("x.raw == b'\\xff' && size(x.raw) == 1", True),
        ("-order.count - -4", 0),
        ("-x.zero", 0.0),
        ("-(2.5)", -2.5),
        ("-9223372036854775808", -(2**63)),
        ("1 + 2 * 3 - 8 / 2 % 3", 6),
        ("10 - 2 - 3", 5),
        ("!(1 > 2) && true || false", True),
        ("true || false ? 1 : 2", 1),
        ("false ? 1 : true ? 2 : 3", 2),
        ("1 < 2 == true", True),
        ("order.total / 2.0", 1.5),
        ("int('7') + int(7.9) + size('abc')", 17),
        ("double('1.5') + double(1)", 2.5),
        ("string(12) + string(1.5)", "121.5"),
        ("bytes('ab')", b"ab"),
        ("'abc'.contains('b') && 'abc'.endsWith('c') && 'abc'.matches('^[a-c]+$')", True),
        ("type(x.a) == map && type(1) == int && type(x.list[0]) != double", True),
        ("dyn(1) == 'a'", False),
        ("1 == 1.0 && 2 > 1.5", True),
        ("0x1F // a comment\n + 1", 32),
        ("r'\\d' + \"\\u00e9\\x41\\101\\n\" + '''a'b'''", "\\déAA\na'b"),
        ("order.at - 1699999999000000000 < 2000000000", True),
        ("x.a.missing == 1 || true", True),
    ],
)  # fmt: skip
def test_an_accepted_expression_gives(text, expected):
    result = evaluated(text)

    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("1 / (order.count - 4)", "values.expression_division", "division by zero"),
        ("order.count % (order.count - 4)", "values.expression_division", "division by zero"),
        ("9223372036854775807 + order.count", "values.expression_overflow", "64 bits"),
        ("-x.min", "values.expression_overflow", "64 bits"),
        ("int(1e300)", "values.expression_overflow", "64 bits"),
        ("1.0 / x.zero", "values.expression_not_finite", "not finite"),
        ("1.0 / x.zero > 5.0", "values.expression_not_finite", "not finite"),
        ("1.0 / (1.0 / x.zero) == 0.0", "values.expression_not_finite", "not finite"),
        ("x.zero / x.zero == 0.0", "values.expression_not_finite", "not finite"),
        ("1e308 * 10.0 < 1.0", "values.expression_not_finite", "not finite"),
        ("double('nan') == 1.0", "values.expression_not_finite", "not finite"),
        ("order.lines.all(l, l.price / double(l.qty) > 0.1)", "values.expression_not_finite", "not finite"),
        ("x.a.missing", "values.expression_missing", "there is no x.a.missing"),
        ("x['two words'].more", "values.expression_missing", 'there is no x["two words"].more'),
        ("has(x.nothing.there)", "values.expression_missing", "there is no map x.nothing"),
        ("order.note == 'x'", "values.expression_missing", "there is no order.note"),
        ("order.stock[order.pair[1]]", "values.expression_missing", "there is no key 'seven'"),
        ("x.list[2]", "values.expression_missing", "there is no x.list[2]"),
        ("x.list[order.count]", "values.expression_missing", "an index lies outside its list"),
        ("x.a.b + 'text'", "values.expression_types", "wrong kind"),
        ("x.a.b + 1.5 > 1.0", "values.expression_types", "wrong kind"),
        ("-x.none", "values.expression_types", "wrong kind"),
        ("x.a.b && true", "values.expression_types", "wrong kind"),
        ("size(x.a.b)", "values.expression_types", "size() got a value of the wrong kind"),
        ("x.a.b.startsWith('5')", "values.expression_types", "startsWith() got a value of the wrong kind"),
        ("int(order.kind)", "values.expression_conversion", "int() cannot convert"),
    ],
)  # fmt: skip
def test_an_evaluation_without_an_answer_is_a_fault(text, code, says):
    with pytest.raises(ExpressionFault) as caught:
        evaluated(text)

    assert caught.value.code == code
    assert says in caught.value.text
    assert str(caught.value) == caught.value.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("true && 1 / (order.count - 4) > 2", "division by zero at column 14"),
        ("order.count > 3 &&\n  x.gone", "there is no x.gone at line 2, column 3"),
        (
            "order.lines.all(l, l.sku.startsWith(x.a))",
            "startsWith() got a value of the wrong kind at column 26",
        ),
        ("[0, 1].all(i, 1 / i + x.a > 0)", "division by zero at column 19"),
    ],
)
def test_a_fault_says_where_and_the_first_one_counts(text, says):
    with pytest.raises(ExpressionFault) as caught:
        evaluated(text)

    assert caught.value.text == says


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64])
def test_an_integer_outside_64_bits_is_refused_where_it_is_bound(number):
    with pytest.raises(ExpressionFault) as caught:
        evaluated("x.n == 1 || true", {"x": {"n": number}})

    assert caught.value.code == "values.expression_int_range"
    assert "x.n" in caught.value.text


def test_what_an_expression_does_not_mention_is_not_bound():
    assert evaluated("x.n == 1", {"x": {"n": 1, "huge": 2**70, "strange": object()}}) is True


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_float_that_is_not_finite_is_refused_where_it_is_bound(value):
    with pytest.raises(ExpressionFault) as caught:
        evaluated("x.n == 1.0", {"x": {"n": value}})

    assert caught.value.code == "values.expression_not_finite"


@pytest.mark.parametrize("value", [object(), {1: 2}, {"set"}, [[object()]]])
def test_an_argument_that_is_no_plain_value_is_a_fault(value):
    with pytest.raises(ExpressionFault) as caught:
        evaluated("x.n == 1", {"x": {"n": value}})

    assert caught.value.code == "values.expression_argument"
    assert "x.n" in caught.value.text


def test_an_argument_that_holds_itself_is_a_fault():
    circle = []
    circle.append(circle)

    with pytest.raises(ExpressionFault) as caught:
        evaluated("x == 1", {"x": circle})

    assert caught.value.code == "values.expression_argument"


def test_an_argument_that_is_not_given_is_missing():
    with pytest.raises(ExpressionFault) as caught:
        evaluated("x == 1", {})

    assert caught.value.code == "values.expression_missing"


def test_a_link_is_seen_as_the_text_of_its_cid():
    cid = cid_of(b"content")

    links = {"blob": Link(cid), "list": [Link(cid)]}

    assert evaluated(f"x.blob == '{cid}' && x.list == ['{cid}']", {"x": links}) is True


def test_a_guard_that_gives_no_boolean_is_a_fault():
    with pytest.raises(ExpressionFault) as caught:
        evaluated("x.a.b", gives_bool=True)

    assert caught.value.code == "values.expression_not_bool"


def test_more_values_than_an_expression_can_look_at_are_a_fault():
    many = {"order": {"lines": [{"qty": 1}] * 2_000}}
    pairs = "order.lines.all(a, order.lines.all(b, a.qty == b.qty))"

    with pytest.raises(ExpressionFault) as caught:
        evaluated(pairs, many)

    assert caught.value.code == "values.expression_cost"
    assert evaluated(pairs, {"order": {"lines": [{"qty": 1}] * 100}}) is True
    assert evaluated("order.lines.all(a, a.qty == 1)", many) is True


def test_a_value_counts_as_often_as_it_is_used():
    big = {"x": {"list": [0] * 600_000}}
    thrice = f"[{', '.join(['x.list'] * 20)}].size() == 20"

    with pytest.raises(ExpressionFault) as caught:
        evaluated(thrice, big)

    assert caught.value.code == "values.expression_cost"
    assert evaluated("size(x.list) == 600000", big) is True


def test_lists_inside_the_items_of_a_loop_are_counted_once():
    """They are part of the list that the outer loop runs over."""
    lines = [{"tags": ["t"] * 10} for _ in range(2_000)]

    assert evaluated("order.lines.all(l, l.tags.all(tag, tag == 't'))", {"order": {"lines": lines}}) is True


def test_one_expression_serves_many_threads():
    expression = compile_expression("x.n * 2", {"x": None}, gives_bool=False)
    wrong = []

    def work(offset):
        wrong.extend(n for n in range(offset, offset + 500) if expression.evaluate({"x": {"n": n}}) != n * 2)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in (0, 10_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_an_expression_shows_its_text():
    expression = compile_expression("x == 1", {"x": None}, gives_bool=True)

    assert expression.text == "x == 1"
    assert repr(expression) == "Expression('x == 1')"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("size('é')", 1),
        ("string(1.0)", "1"),
        ("int(-0.5)", 0),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("9007199254740993 == 9007199254740992.0", True),
        ("'é' == 'e\\u0301'", False),
        ("'Z' < 'a' && 'a' < 'é'", True),
        ("false < true", True),
        ("['a', 1] == ['a', 1.0]", True),
    ],
)
def test_meanings_that_running_worlds_depend_on(text, expected):
    assert evaluated(text) == expected
