"""What CEL's specification says of the accepted syntax, case by case: values, and what has none.

The rows follow the areas of the public conformance suite. Where that suite expects something else, it is
about syntax that is not accepted (unsigned integers, times, keys that are not text) or about numbers that are
not finite, which are faults here.
"""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.values.expressions import ExpressionFault, compile_expression

VARIABLES = {"x": None, "y": None}
ARGUMENTS = {"x": {"name": 1024, "list": [0], "text": "horses", "none": None, "half": 0.5}, "y": 15}
FAULT = object()

LITERALS = [
    ("0", 0), ("0.0", 0.0), ("0e+0", 0.0), ("''", ""), ('""', ""), ("r''", ""), ("b''", b""),
    ("false", False),
    ("null", None), ("[]", []), ("{}", {}), ("17", 17), ("-9223372036854775808", -(2**63)),
    ("-2.3e+1", -23.0),
    ('"!"', "!"), (r"'\''", "'"), ("[-1]", [-1]), ("{'k': 'v'}", {"k": "v"}), ("0x55555555", 0x55555555),
    ("-0x55555555", -0x55555555), (r"b'\xff\000'", b"\xff\x00"), (r"b'\303\277'", b"\xc3\xbf"),
    ("b'ÿ'", b"\xc3\xbf"),
    (r"""'''a "quoted" 'text\''''""", "a \"quoted\" 'text'"), (r"' \\ \? \" \' \` '", " \\ ? \" ' ` "),
    (r"'\a\b\f\t\v\n\r'", "\a\b\f\t\v\n\r"), (r"'\x01 \x7F \u270c \U0001F431'", "\x01 \x7f ✌ 🐱"),
    (r"r'\x41\n'", r"\x41\n"), (r"br'\xff'", rb"\xff"), ("'''\n'''", "\n"),
]  # fmt: skip

ARITHMETIC = [
    ("42 + (-2)", 40), ("-42 - (-2)", -40), ("-42 * (-2)", 84), ("-42 / (-2)", 21), ("-7 / 2", -3),
    ("7 / -2", -3),
    ("42 % (-5)", 2), ("-42 % (-5)", -2), ("-(42)", -42), ("-(0)", 0), ("-(-42)", 42), ("15 * 0", 0),
    ("42 % 0", FAULT), ("15 / 0", FAULT), ("9223372036854775807 + 1", FAULT),
    ("-9223372036854775808 - 1", FAULT),
    ("5000000000 * 5000000000", FAULT), ("-(-9223372036854775808)", FAULT),
    ("-9223372036854775808 / -1", FAULT),
    ("-9223372036854775808 % -1", FAULT), ("9223372036854775807 - 9223372036854775807", 0),
    ("4.25 + 15.25", 19.5), ("-4.875 - (-0.125)", -4.75), ("40.75 * (-2.25)", -91.6875),
    ("0.0625 / 0.002", 31.25),
    ("-(4.5)", -4.5), ("-(-1.25)", 1.25), ("-(0.0)", 0.0), ("15.36 * 0.0", 0.0), ("1e-324 / 2.0", 0.0),
    ("15.75 / 0.0", FAULT), ("2.0 * 8.99e+307", FAULT), ("dyn(47.5) % dyn(5.5)", FAULT),
    ("x.half + dyn(1)", FAULT),
    ("3 - 3 + 3 - 3 + 3", 3), ("4 * 4 / 4 * 4 / 4", 4), ("!" * 32 + "true", True), ("-" * 32 + "19", 19),
    ("1.5 * (23.625 * 0.75) == (1.5 * 23.625) * 0.75", True), ("--9223372036854775808", FAULT),
]  # fmt: skip

COMPARISONS = [
    ("-1 == 1", False), ("1.0 == 1.0e+0", True), ("'abc' == r'abc'", True), ("'abc' == 'ABC'", False),
    ("null == null", True), ("b'abc' == b'abcd'", False), ("[] == []", True),
    ("[1, 2, 3] == [1, 3, 2]", False),
    ("{} == {}", True), ("{'k1': 'v1', 'k2': 'v2'} == {'k2': 'v2', 'k1': 'v1'}", True),
    ("[[]] != [[]]", False),
    ("{'k': 'v', 'k1': 'v1'} == {'k': 'v'}", False), ("{'k': true} != {'k1': true}", True),
    ("[] != [1]", True),
    ("{'k': 1.0} == {'k': 1}", True), ("dyn(1) == 1.0", True), ("dyn(1) == true", False),
    ("dyn('1') == 1", False),
    ("dyn(null) == 0", False), ("x.none == false", False), ("[1] == [true]", False), ("dyn([]) == {}", False),
    ("-0.0 < 0.0", False), ("-0.0 == 0.0", True), ("1.0 < 1.0000001", True), ("'Abc' < 'aBC'", True),
    ("'abc' < 'abcd'", True), ("'a' < 'á'", True), ("'a' < 'AB'", False), ("b'á' < b'b'", False),
    ("b'\\x00\\x01' > b'\\x01'", False), ("b'\\x00' > b''", True), ("false < true", True),
    ("true > true", False),
    (".99 > 9.9e-1", False), ("1 <= 1.0", True), ("2 >= 1.5", True), ("dyn(1) < 'a'", FAULT),
    ("dyn(true) < 1", FAULT), ("dyn([0]) < dyn([1])", FAULT), ("dyn(null) < dyn(null)", FAULT),
    ("dyn(9223372036854775807) < 9223372036854775808.0", False), ("dyn(1) < 1e300", True),
    ("9223372036854775807 <= 9223372036854777857.0", True), ("'\\uffff' < '\\U00010000'", True),
    ("2 in [1, 2.0]", True), ("dyn('2') in [1, 2]", False), ("'k' in {'k': null}", True),
    ("dyn(1) in {'k': 1}", False),
    ("[1] in [[1.0]]", True), ("1 in []", False), ("1 in x.name", FAULT),
]  # fmt: skip

LOGIC = [
    ("true ? 1 : 2", 1), ("false ? 'foo' : 'bar'", "bar"), ("2 / 0 > 4 ? 'baz' : 'quux'", FAULT),
    ("true ? 'cows' : 17", "cows"), ("x.text ? false : 17", FAULT), ("true ? 1 : 1 / 0", 1),
    ("false && 1 / 0 > 1", False),
    ("1 / 0 > 1 && false", False), ("x.text && false", False), ("false && x.text", False),
    ("true && 1 / 0 != 0", FAULT),
    ("1 / 0 != 0 && true", FAULT), ("x.text && x.text", FAULT), ("1 / 0 > 1 || true", True),
    ("x.text || true", True),
    ("true || x.text", True), ("false || 1 / 0 != 0", FAULT), ("1 / 0 != 0 || false", FAULT),
    ("x.text || x.text", FAULT),
    ("x.gone || x.text || 1 / 0 == 1 || true", True), ("!true", False), ("!x.text", FAULT),
    ("1 / 0 == 1 ? true : false || true", FAULT), ("(2 / 0 > 3 ? false : true) || true", True),
]  # fmt: skip

TEXTS = [
    ("size('')", 0), ("size('ÿ')", 1), ("size('πέντε')", 5), ("'🐱'.size()", 1), ("size(b'ÿ')", 2),
    ("size([1, 2])", 2),
    ("size({'a': 1})", 1), ("'foobar'.startsWith('foo')", True), ("''.startsWith('foo')", False),
    ("''.startsWith('')", True),
    ("'завтра'.startsWith('за')", True), ("'forté'.endsWith('té')", True),
    ("'foobar'.endsWith('foo')", False),
    ("'hello'.contains('ol')", False), ("'abababc'.contains('ababc')", True),
    ("'Straße'.contains('aß')", True),
    ("'hello'.contains('')", True), ("'he' + 'llo'", "hello"), ("'¢' + 'ÿ' + 'Ȁ'", "¢ÿȀ"), ("'' + ''", ""),
    ("b'a' + b''", b"a"), ("[0, 1] + [2] == [0, 1, 2]", True), ("[0] + [1] == [1, 0]", False),
    ("[1] + ['a']", [1, "a"]),
    ("x.list + x", FAULT), ("'hubba'.matches('ubb')", True), ("''.matches('foo|bar')", False),
    ("'cows'.matches('')", True),
    ("''.matches('')", True), ("'grey'.matches('gr(a|e)y')", True), ("'banana'.matches('ba(na)*')", True),
    ("'mañana'.matches('a+ñ+a+')", True), ("'🐱😀😀'.matches('(a|😀){2}')", True), ("y.matches('1')", FAULT),
]  # fmt: skip

FIELDS = [
    ("x.name", 1024), ("x.gone", FAULT), ("y.pancakes", FAULT), ("x.list.pancakes", FAULT),
    ("{'n': 'x'}['n']", "x"),
    ("{'map': {'k': 'v'}, 'list': [1]}['map']", {"k": "v"}), ("{'name': 100}.name", 100),
    ("{'a': 1}.b", FAULT),
    ("{'a': 1}[dyn(1)]", FAULT), ("{'k': null}['k']", None), ("[7, 8, 9][0]", 7), ("[7, 8, 9][dyn(0.0)]", 7),
    ("[7, 8, 9][dyn(0.1)]", FAULT), ("[7, 8, 9][dyn('')]", FAULT), ("[0, 1][-1]", FAULT),
    ("[0, 1][2]", FAULT),
    ("x.list[x.list[x.list[0]]]", 0), ("has(x.name)", True), ("has(x.gone)", False), ("has(x.none)", True),
    ("has({'a': 1}.a)", True), ("has({'a': 1}.b)", False), ("has(dyn([1]).b)", FAULT), ("has(y.b)", FAULT),
]  # fmt: skip

MACROS = [
    ("[1, 2, 3].exists(e, e == 2)", True), ("[1, 2, 3].exists(e, e > 3)", False),
    ("[].exists(e, e == 2)", False),
    ("[1, 'foo', 3].exists(e, e != '1')", True), ("[1, 2, 3].exists(e, e / 0 == 17)", FAULT),
    ("[0, 1].exists(e, 1 / e == 1)", True), ("[1, 'foo', 3].exists(e, e - 1 == 2)", True),
    ("[1, 2, 3].all(e, e > 0)", True), ("[].all(e, e > 0)", True), ("[1, 'foo', 3].all(e, e == 1)", False),
    ("[1, 'foo', 3].all(e, e % 2 == 1)", FAULT), ("[1, 2, 3].all(e, 6 / (2 - e) == 6)", False),
    ("[1, 2, 3].all(e, e / 0 != 17)", FAULT), ("[1].all(e, x.text)", FAULT),
    ("[].exists_one(a, a == 7)", False),
    ("[6, 7, 8].exists_one(f, f % 5 == 2)", True), ("[0, 1, 2, 3].exists_one(n, n % 2 == 1)", False),
    ("[3, 2, 1, 0].exists_one(n, 12 / n > 1)", FAULT), ("[].map(n, n / 2)", []),
    ("[2, 4, 6].map(n, n / 2)", [1, 2, 3]),
    ("[2, 1, 0].map(n, 4 / n)", FAULT), ("[1, 2, 3].map(n, n > 1, n * n)", [4, 9]),
    ("[].filter(n, n % 2 == 0)", []),
    ("[0, 1, 2, 3, 4].filter(n, n % 2 == 1)", [1, 3]), ("[3, 2, 1, 0].filter(n, 12 / n > 4)", FAULT),
    ("[[1, 2], [3]].map(n, size(n))", [2, 1]),
]  # fmt: skip

CONVERSIONS = [
    ("bytes('')", b""), ("bytes('ÿ')", b"\xc3\xbf"), ("bytes(b'a')", b"a"),
    (r"bytes('\377') == b'\377'", False),
    ("double(1000000000000)", 1e12), ("double(9223372036854775807)", 2.0**63), ("double('-0.0')", 0.0),
    ("double('123')", 123.0), ("double('-84.32e7')", -8.432e8), ("double('.5')", 0.5),
    ("double('1_0')", FAULT),
    ("double(' 1')", FAULT), ("double('')", FAULT), ("double('1e999')", FAULT), ("double(x.none)", FAULT),
    ("int(-123.456)", -123), ("int(1.9)", 1), ("int(-7.9)", -7), ("int(11.5)", 11), ("int(1e99)", FAULT),
    ("int(9223372036854775807.0)", FAULT), ("int(-9223372036854775808.0)", FAULT),
    ("int(9223372036854774784.0)", 2**63 - 1024),
    ("int('987')", 987), ("int('-987')", -987), ("int('+5')", 5), ("int('9223372036854775808')", FAULT),
    ("int('0x1')", FAULT),
    ("int('٣')", FAULT), ("int(dyn(true))", FAULT), ("string(123)", "123"), ("string(-456)", "-456"),
    ("string(123.456)", "123.456"), ("string(-4.5e-3)", "-0.0045"), ("string(1.0)", "1"), ("string(1e21)",
    "1" + "0" * 21),
    ("string(b'abc')", "abc"), (r"string(b'\303\277')", "ÿ"), (r"string(b'\000\xff')", FAULT),
    ("string('a')", "a"),
    ("type(true) == bool", True), ("type(0) == int && type(3.14) == double && type('f') == string", True),
    (r"type(b'\xff') == bytes && type([1]) == list && type({'a': 1}) == map && type(null) != map", True),
    ("type(type(7)) == type(int)", True), ("type(0.0) != type(-0.0)", False), ("type(dyn([1, 'one']))",
    "list"),
    ("type(1) == dyn('int')", False), ("type(7) == type(7.0)", False),
]  # fmt: skip

NESTED = [
    ("(" * 32 + "7" + ")" * 32, 7), ("[" * 12 + "'foo'" + "]" * 12 + "[0]" * 12, "foo"),
    ("size(" + "[" * 12 + "0" + "]" * 12 + ")", 1), ("size(" + "{'a': " * 12 + "0" + "}" * 12 + ")", 1),
    ("true ? true : " * 24 + "false", True), (" || ".join(["false"] * 32 + ["true"]), True),
    (" && ".join(["true"] * 32 + ["false"]), False), (f"[{', '.join(map(str, range(32)))}][17]", 17),
]  # fmt: skip

AREAS = {
    "literals": LITERALS, "arithmetic": ARITHMETIC, "comparisons": COMPARISONS, "logic": LOGIC,
    "texts": TEXTS,
    "fields": FIELDS, "macros": MACROS, "conversions": CONVERSIONS, "nested": NESTED,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [pytest.param(*case, id=f"{area}-{case[0][:40]}") for area, cases in AREAS.items() for case in cases],
)
def test_the_specification_holds_for(text, expected):
    expression = compile_expression(text, VARIABLES, gives_bool=False)
    if expected is FAULT:
        with pytest.raises(ExpressionFault):
            expression.evaluate(ARGUMENTS)
        return
    result = expression.evaluate(ARGUMENTS)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        "'horses' && false", "32 || true", "'cows' ? 1 : 2", "[0] < [1]", "{'a': 1} < {'b': 1}",
        "null > null",
        "47.5 % 5.5", "1 + 1.0", "-'a'", "!1", "1 in 'a'", "dyn", "-true",
    ],
)  # fmt: skip
def test_what_can_never_have_a_value_is_refused_at_once(text):
    """The suite runs these unchecked and expects an error, or what short-circuits around it."""
    with pytest.raises(Rejected):
        compile_expression(text, VARIABLES, gives_bool=False)
