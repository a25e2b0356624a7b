"""Expressions that are refused when compiled: the code, the place and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cellule.errors import Rejected
from cellule.values.expressions import compile_expression
from cellule.values.expressions.limits import DEPTH_MAX, TEXT_BYTES_MAX
from cellule.values.schema import types as t

ORDER = t.record(
    {
        "lines": t.List(t.record({"tags": t.Set(t.Text()), "qty": t.Int(), "price": t.Float()})),
        "stock": t.Map(t.Text(), t.Int()),
        "by_number": t.Map(t.Int(), t.Int()),
        "count": t.Int(),
        "name": t.Text(),
        "pair": t.Tuple((t.Int(), t.Text())),
        "choice": t.variant({"A": t.Int()}),
        "anything": t.Any(),
    }
)
VARIABLES = {"order": ORDER, "x": None}
PAGES = Path(__file__).parents[3] / "docs" / "errors" / "values.md"
SOURCES = Path(__file__).parents[3] / "src" / "cellule" / "values"


def refusal(text, *, gives_bool=False):
    with pytest.raises(Rejected) as caught:
        compile_expression(text, VARIABLES, gives_bool=gives_bool)
    return caught.value


@pytest.mark.parametrize(
    ("text", "code", "column", "says"),
    [
        ("", "syntax", 1, "a value was expected"),
        ("1 +", "syntax", 4, "the expression ends"),
        ("1 2", "syntax", 3, "'2' stands where"),
        ("order.count = 4", "syntax", 13, "Compare with =="),
        ("x & y", "syntax", 3, "&& and ||"),
        ("x.$tag", "syntax", 3, "x['name']"),
        ("'abc", "syntax", 1, "closing quote"),
        ("'a\nb'", "syntax", 1, "closing quote"),
        ("'\\q'", "syntax", 2, "unknown escape"),
        ("'\\ud800'", "syntax", 2, "no character"),
        ("12abc", "syntax", 1, "runs into"),
        ("9223372036854775808", "syntax", 1, "64 bits"),
        ("-9223372036854775809", "syntax", 2, "64 bits"),
        ("1e999", "syntax", 1, "too large"),
        ("!-1", "syntax", 2, "two signs"),
        ("for", "syntax", 1, "reserved"),
        ("x.in", "syntax", 3, "name of a field"),
        ("{'a': 1, 'a': 2}", "syntax", 10, "twice"),
        ("b'\\u0041'", "syntax", 3, "byte strings"),
        ("\ud800", "syntax", 1, "surrogate"),
        ("{1: 2}", "unsupported", 2, "text literal"),
        ("5u", "unsupported", 1, "signed"),
        ("uint(5)", "unsupported", 1, "signed"),
        ("now() > 5", "unsupported", 1, "sees only its arguments"),
        ("timestamp('2020-01-01T00:00:00Z')", "unsupported", 1, "integers of nanoseconds"),
        ("duration('1h')", "unsupported", 1, "integers of nanoseconds"),
        ("'a'.matches(order.name)", "unsupported", 13, "text literal"),
        ("math.greatest(1, 2)", "unknown_function", 6, "size(x)"),
        ("optional.of(1)", "unknown_function", 10, "The functions are"),
        ("x.getHours()", "unknown_function", 3, "The functions are"),
        ("y == 1", "unknown_variable", 1, "The variables are: order, x."),
        ("true && order.lines.all(l, z)", "unknown_variable", 28, "l, order, x"),
        ("[1].all(l, true) && l == 1", "unknown_variable", 21, "'l'"),
        ("order.nope", "unknown_field", 1, "The fields are: anything, by_number, choice, count"),
        ("has(order.nope)", "unknown_field", 5, "'nope'"),
        ("order.lines[0].nope", "unknown_field", 1, "price, qty, tags"),
        ("order.lines.all(l, l.nope == 1)", "unknown_field", 20, "price, qty, tags"),
        ("order.pair[2]", "unknown_field", 1, "no such item"),
        ("order.choice.A", "unknown_field", 1, "$tag"),
        ("order.count.more", "unknown_field", 1, "no fields"),
        ("order.stock.all(k, true)", "macro_range", 1, "no order"),
        ("order.exists(k, true)", "macro_range", 1, "no order"),
        ("order.choice.map(k, k)", "macro_range", 1, "no order"),
        ("{'a': 1}.map(k, k)", "macro_range", 1, "no order"),
        ("x.map(k, k)", "macro_range", 1, "no schema"),
        ("order.anything.filter(k, true)", "macro_range", 1, "no schema"),
        ("order.lines.all(l, x.all(m, true))", "macro_range", 20, "no schema"),
        ("[x].all(l, l.all(m, true))", "macro_range", 12, "no schema"),
        ("order.by_number.all(k, true)", "macro_range", 1, "no order"),
        ("order.pair.all(k, true)", "macro_range", 1, "no schema"),
        ("order.lines.filter(l, true).all(m, true)", "macro_range", 13, "one macro"),
        ("dyn(order.lines).all(m, true)", "macro_range", 1, "one macro"),
        ("(order.lines + order.lines).all(m, true)", "macro_range", 2, "one macro"),
        ("order.lines.all(true)", "usage", 13, "x.all(item, condition)"),
        ("order.lines.all(l.x, true)", "usage", 13, "x.all(item, condition)"),
        ("order.lines.map(x, 1)", "usage", 17, "already names"),
        ("order.lines.all(l, order.lines.all(l, true))", "usage", 36, "already names"),
        ("has(x)", "usage", 1, "has(x.field)"),
        ("size(1, 2)", "usage", 1, "size(x)"),
        ("contains('a', 'b')", "usage", 1, "x.contains('text')"),
        ("x.int()", "usage", 3, "int(x)"),
        ("order.count + 1.5", "types", 15, "int with double"),
        ("order.name - 'a'", "types", 14, "does not take string"),
        ("order.count == 'four'", "types", 16, "never equals"),
        ("order.count < order.name", "types", 15, "int with string"),
        ("1 < 2 < 3", "types", 9, "Join comparisons with &&"),
        ("x < [1]", "types", 5, "does not order list"),
        ("'a' in order.name", "types", 8, "contains"),
        ("!order.count", "types", 2, "must be bool"),
        ("order.count && true", "types", 1, "must be bool"),
        ("order.count ? 1 : 2", "types", 1, "must be bool"),
        ("order.lines.all(l, l.qty)", "types", 20, "must be bool"),
        ("order.lines.map(l, l.qty, l.qty)", "types", 20, "must be bool"),
        ("-order.name", "types", 2, "no negative"),
        ("size(order.count)", "types", 6, "does not take int"),
        ("order.name.contains(1)", "types", 21, "must be string"),
        ("x[1.5]", "types", 3, "text or an integer"),
        ("x[order.lines]", "types", 3, "text or an integer"),
        ("'a'.b", "types", 1, "no fields"),
        ("'a'.matches('(')", "pattern", 13, "regular expression"),
        ("'a'.matches('(?=a)')", "pattern", 13, "Look-around"),
        ("'a'.matches('([a-z]{30}){30}')", "cost", 13, "size"),
        ("order.lines.all(a, order.lines.all(b, order.lines.map(c, 1) == [1]))", "cost", 13, "too long"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_and_where(text, code, column, says):
    error = refusal(text)

    assert error.code == f"values.expression_{code}"
    assert (error.fields["line"], error.fields["column"]) == (1, column)
    assert says in str(error)


def test_a_refusal_names_the_line():
    error = refusal("order.count > 1 &&\n  order.nope == 2")

    assert (error.fields["line"], error.fields["column"]) == (2, 3)


def test_a_guard_that_cannot_give_a_boolean_is_refused():
    assert refusal("order.count + 1", gives_bool=True).code == "values.expression_types"


def test_an_expression_beyond_the_length_is_refused():
    text = "x == '" + "é" * (TEXT_BYTES_MAX // 2) + "'"

    assert refusal(text).code == "values.expression_too_long"


def test_a_schema_whose_ref_leads_nowhere_is_refused():
    with pytest.raises(Rejected) as caught:
        compile_expression("x == 1", {"x": t.Ref("shop/Gone@1")}, gives_bool=True)

    assert caught.value.code == "schema.ref_unknown"


NESTED = {
    "brackets": ("(1 + ", "1", ")"),
    "divisions": ("(x.a / ", "x.b", ")"),
    "lists": ("[", "1", "]"),
    "maps": ("{'a': ", "1", "}"),
    "calls": ("dyn(", "x", ")"),
    "denials": ("!(x || ", "x", ")"),
    "negatives": ("-(x + ", "x", ")"),
    "choices": ("x ? 1 : ", "2", ""),
    "conditions": ("(", "x", " ? x : x)"),
    "all ranks": ("dyn(!x || x && x == x + x * ", "x", ")"),
    "indices": ("x[x.a + ", "1", "]"),
}


@pytest.mark.parametrize("name", NESTED)
def test_nesting_is_accepted_up_to_the_limit_and_refused_beyond(name):
    opening, core, closing = NESTED[name]

    def nested(depth):
        return opening * depth + core + closing * depth

    compile_expression(nested(DEPTH_MAX - 2), VARIABLES, gives_bool=False)
    assert refusal(nested(DEPTH_MAX + 1)).code == "values.expression_too_deep"


def test_steps_of_a_path_are_levels():
    compile_expression("x" + ".a" * (DEPTH_MAX - 1), VARIABLES, gives_bool=False)

    assert refusal("x" + ".a" * (DEPTH_MAX + 1)).code == "values.expression_too_deep"


def test_a_long_list_of_conditions_does_not_nest():
    compile_expression(" || ".join(f"x == {n}" for n in range(300)), VARIABLES, gives_bool=True)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5 + "'aaaaaaaa'" + "].map(a, [a, a, a, a, a, a, a, a, a, a])[0]" * 5,
        f"[1].map(a, [[{'a, ' * 300}]].map(b, [[{'b, ' * 300}]].map(c, [{'c, ' * 300}])))",
        f"[[['a'].map(a, {'a + ' * 99}a)[0]].map(b, {'b + ' * 99}b)[0]].map(c, {'c + ' * 99}c)",
        f"[{'1, ' * 400}].all(a, 'a'.matches('^[a-z]{{450}}$'))",
    ],
)
def test_values_cannot_be_made_to_grow_without_bound(text):
    assert refusal(text).code in ("values.expression_cost", "values.expression_macro_range")


def test_every_code_has_its_section():
    used = set()
    for source in ((SOURCES / "expressions").glob("*.py"), [SOURCES / "calendar.py"]):
        for each in source:
            used |= set(re.findall(r'"(values\.(?:expression|cron|zone|interval)_\w+)"', each.read_text()))

    told = set(re.findall(r"^## (values\.\w+)$", PAGES.read_text(), re.MULTILINE))
    assert used - told == set()
    assert {code for code in told if re.match(r"values\.(expression|cron|zone|interval)_", code)} == used
