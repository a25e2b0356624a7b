"""An accepted expression gives the same answer, or the same fault, wherever it is evaluated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from random import Random

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from cellule.errors import Rejected
from cellule.values import decode, encode
from cellule.values.expressions import ExpressionFault, compile_expression
from cellule.values.schema import types as t

VARIABLES = {
    "a": t.record(
        {
            "n": t.Int(), "m": t.Int(), "f": t.Float(), "g": t.Float(), "s": t.Text(), "b": t.Bool(),
            "ns": t.List(t.Int()), "ss": t.Set(t.Text()), "opt": t.Option(t.Int()),
            "by": t.Map(t.Text(), t.Int()),
            "rows": t.List(t.record({"k": t.Text(), "v": t.Int(), "w": t.Float()})),
        }
    ),
    "u": None,
}  # fmt: skip

NUMBERS = st.one_of(st.integers(-4, 9), st.integers(1, 99), st.sampled_from([2**63 - 1, -(2**63)]))
FLOATS = st.sampled_from([0.0, 1.0, -2.5, 0.1, 1e308, 3.0])
WORDS = st.sampled_from(["", "a", "ab", "é", "zebra", "12", "x y"])
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, FLOATS, WORDS, st.binary(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=5)),
    max_leaves=8,
)
ROWS = st.lists(st.fixed_dictionaries({"k": WORDS, "v": NUMBERS, "w": FLOATS}), min_size=1, max_size=4)
ARGUMENTS = st.fixed_dictionaries(
    {
        "a": st.fixed_dictionaries(
            {
                "n": NUMBERS, "m": NUMBERS, "f": FLOATS, "g": FLOATS, "s": WORDS, "b": st.booleans(),
                "ns": st.lists(NUMBERS, min_size=1, max_size=4), "rows": ROWS,
                "ss": st.lists(WORDS, max_size=4, unique=True),
                "by": st.dictionaries(WORDS, NUMBERS, max_size=6),
            },
            optional={"opt": NUMBERS},
        ),
        "u": st.one_of(PLAIN, st.fixed_dictionaries(dict.fromkeys(["k", "a", "x y"], PLAIN))),
    }
)  # fmt: skip


LEAVES = {
    "int": [
        "1",
        "-3",
        "a.n",
        "a.m",
        "a.opt",
        "a.by['a']",
        "a.ns[0]",
        "size(u)",
        "9223372036854775807",
        "size(a.ss)",
    ],
    "double": ["0.5", "a.f", "a.g", "-1.0", "a.rows[0].w"],
    "string": ["'a'", "a.s", "'\\n'", "string(a.n)", "a.rows[0].k"],
    "bool": [
        "true",
        "a.b",
        "has(a.opt)",
        "a.n > a.m",
        "a.by == {'a': 1}",
        "type(u) == map",
        "u.k.z == 1",
        "has(u.k)",
    ],
    "list": ["a.ns", "a.ss", "[]", "a.rows"],
    "map": ["a.by", "{}", "a"],
    "any": ["u", "null", "u.a", "u['x y']", "b'x'"],
}

TEMPLATES = {
    "int": [
        "(<int> + <int>)", "<int> - <int> * <int>", "(<int> / <int>)", "<int> % (<int>)", "-(<int>)",
        "size(<list>)", "<string>.size()", "int(<double>)", "size(<map>)", "(<bool> ? <int> : <int>)",
    ],
    "double": [
        "(<double> + <double>)", "<double> / <double>", "(<double> * <double>)", "double(<int>)",
        "double(string(<int>))",
    ],
    "string": [
        "(<string> + <string>)", "string(<int>)", "string(<double>)", "(<bool> ? <string> : <string>)",
    ],
    "bool": [
        "<bool> && <bool>", "(<bool> || <bool>)", "dyn(<any>) == dyn(<any>)", "dyn(<map>) != dyn(<any>)",
        "<int> < (<double>)", "(<string> in <map>)", "(<any> in <list>)", "!(<bool>)",
        "a.ns.all(@int, <bool>)", "a.ss.exists(@string, <bool>)", "['b', a.s].exists_one(@string, <bool>)",
        "a.rows.exists(@row, @@.v > <int> || <bool>)", "<string>.matches('^[a-z]*$')",
        "<string>.contains(<string>)",
    ],
    "list": [
        "[<any>, <any>]", "[<map>]", "a.ns.map(@int, <int>)", "a.rows.filter(@row, <bool>)",
        "a.ss.map(@string, <bool>, [@@])", "[<int>, <int>].map(@int, {'k': <any>, 'v': @@})",
        "(<list> + <list>)",
    ],
    "map": ["{'k': <any>, 'a b': <any>}", "{'z': a.by, 'y': <map>}"],
    "any": ["<int>", "<double>", "<string>", "<bool>", "<list>", "<map>"],
}  # fmt: skip
"""By kind: `<kind>` is another expression, `@kind` makes a macro variable, and `@@` is its name."""

SLOT = re.compile(r"<(\w+)>|@(\w+)|@@")


def written(chance, kind, depth, scope):
    """Make an expression of a kind; `scope` lists the macro variables by kind."""
    templates = [*LEAVES.get(kind, []), *scope.get(kind, [])]
    if depth > 0:
        templates += 2 * TEMPLATES[kind]
    name = f"i{depth}"

    def filled(slot):
        if slot[1]:
            return written(chance, slot[1], depth - 1, scope)
        if slot[2]:
            scope[slot[2]] = [*scope.get(slot[2], []), name]
        return name

    scope = dict(scope)
    return SLOT.sub(filled, chance.choice(templates))


def refused_with(text):
    try:
        compile_expression(text, VARIABLES, gives_bool=False)
    except Rejected as refused:
        return refused.code
    return None


def outcome(expression, arguments):
    try:
        return ["value", expression.evaluate(arguments)]
    except ExpressionFault as fault:
        return ["fault", fault.code, fault.text]


def outcomes(batch):
    """The outcome of each text with its arguments, evaluated three times."""
    results = []
    for text, arguments in batch:
        expression = compile_expression(text, VARIABLES, gives_bool=False)
        first = outcome(expression, arguments)
        assert [outcome(expression, arguments) for _ in range(2)] == [first, first]
        results.append(first)
    return results


@pytest.fixture(scope="module")
def batch():
    """Accepted expressions with arguments.

    The arguments are Hypothesis's, the texts a seeded generator's: left to draw each choice of a text,
    Hypothesis repeats the same few simple ones.
    """
    found = {}
    chance = Random(5)

    @seed(5)
    @settings(max_examples=150, deadline=None, database=None, phases=[Phase.generate])
    @given(ARGUMENTS)
    def collect(arguments):
        texts = [
            written(chance, chance.choice(sorted(TEMPLATES)), chance.randint(1, 4), {}) for _ in range(8)
        ]
        found.update((text, arguments) for text in texts if refused_with(text) is None)

    collect()
    return list(found.items())


def test_two_processes_with_other_hashes_give_the_same_outcomes(batch):
    assert len(batch) >= 500
    program = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('everywhere', {__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "batch = module.decode(sys.stdin.buffer.read())\n"
        "sys.stdout.buffer.write(module.encode(module.outcomes(batch)))\n"
    )
    given_bytes = encode([list(entry) for entry in batch])

    answers = [
        subprocess.run(
            [sys.executable, "-c", program], input=given_bytes, capture_output=True, check=True, timeout=120,
            env={**os.environ, "PYTHONHASHSEED": seed_text},
        ).stdout
        for seed_text in ("1", "2")
    ]  # fmt: skip

    here = encode(outcomes(batch))
    assert answers[0] == answers[1] == here
    kinds = {result[0] for result in decode(here)}
    assert kinds == {"value", "fault"}


PIECES = st.one_of(
    st.sampled_from(
        ["a", ".n", ".ns", ".all", "u", ".", "x", "1", "1.5", "'s'", "b'x'", "r'", "0x", "null", "\n"]
    ),
    st.sampled_from(["(", ")", "[", "]", "{", "}", ",", ":", "?", "//", "has(", "size(", ".map(i,"]),
    st.sampled_from(["+", "-", "!", "==", "&&", "||", " in "]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join), ARGUMENTS)
def test_any_text_is_refused_or_evaluated(text, arguments):
    code = refused_with(text)

    if code is None:
        assert outcome(compile_expression(text, VARIABLES, gives_bool=False), arguments)[0] in (
            "value",
            "fault",
        )
    else:
        assert code.startswith("values.expression_")
