"""No accepted expression depends on the order of a map."""

from __future__ import annotations

import random

import pytest

from cellule.errors import Rejected
from cellule.values.expressions import ExpressionFault, compile_expression

ACCEPTED = [
    "[''] + m", "m + ['']", "['', m]", "[m][0]", "m == n", "m in [n]", "'a' in m", "size(m)",
    "m.size() == n.size()", "{'x': m}", "[1] + m", "[m] + [n]", "true ? m : n", "string(m)", "m['a']",
    "has(m.a)", "m.a + m['b']", "[m, n].map(x, x)", "[m].map(x, x.a)", "m < n", "type(m)", "m + n",
    "[{'b': 1, 'a': 2}]", "{'b': 1, 'a': 2}", "dyn(m)", "m[0]",
]  # fmt: skip
REFUSED = [
    "m.all(k, k != '')", "m.map(k, k)", "m.filter(k, true)", "m.exists(k, true)",
    "m.exists_one(k, k == 'a')", "m.join()",
]  # fmt: skip


def shuffled(value, chance):
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {name: shuffled(value[name], chance) for name in names}
    return value


def outcome(expression, arguments):
    try:
        given = expression.evaluate(arguments)
    except ExpressionFault as fault:
        return "fault", str(fault)
    return "value", repr(given)


@pytest.mark.parametrize("text", ACCEPTED)
def test_the_answer_is_the_same_whatever_the_order(text):
    """Once `[''] + map` was random: 3 of 30 equal requests were denied."""
    expression = compile_expression(text, {"m": None, "n": None}, gives_bool=False)
    names = [f"k{number}" for number in range(30)]
    inner = {"a": "1", "b": "2", **{name: {"y": 1, "x": 2} for name in names}}
    found = set()
    for seed in range(30):
        chance = random.Random(seed)
        found.add(outcome(expression, {"m": shuffled(inner, chance), "n": shuffled(inner, chance)}))
    assert len(found) == 1


@pytest.mark.parametrize("text", ["[''] + m", "m + ['']", "[1] + m"])
def test_a_list_and_a_map_are_not_joined(text):
    expression = compile_expression(text, {"m": None}, gives_bool=False)
    with pytest.raises(ExpressionFault):
        expression.evaluate({"m": {"a": 1}})


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_go_over_a_map_is_refused_when_it_is_compiled(text):
    with pytest.raises(Rejected):
        compile_expression(text, {"m": None, "n": None}, gives_bool=False)
