"""Calls in an expression: functions, `has`, and the macros that run over lists.

Maps iterate in random order, so a macro runs only over a list literal, or over a path whose schema is a list
or a set; and a macro's variable never takes a name that already means something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cellule.values.expressions import shapes
from cellule.values.expressions.fault import Refusal
from cellule.values.expressions.functions import FUNCTIONS, REFUSED, Function, known_functions
from cellule.values.expressions.limits import PATTERN_COST, PATTERN_SIZE_MAX
from cellule.values.expressions.operators import check_is
from cellule.values.expressions.patterns import pattern_size
from cellule.values.expressions.scope import Scope
from cellule.values.expressions.syntax import MACROS, Call, Index, ListOf, Literal, MapOf, Name, Node, Select
from cellule.values.expressions.terms import ATOM, UNARY, Term
from cellule.values.expressions.work import ALL, ONE, Work, plus, times
from cellule.values.schema import types as t

Lower = Callable[[Node], Term]

_UNSUPPORTED: Final = "values.expression_unsupported"
_USAGE: Final = "values.expression_usage"
_CONSTANT: Final = frozenset({"size", "type", "dyn"})
"""Functions that take no longer for a larger value."""


def lower_call(scope: Scope, node: Call, lower: Lower) -> Term:
    """Check a call and write it; raises `Refusal`."""
    if node.of is not None and node.name in MACROS:
        return _macro(scope, node, node.of, lower)
    if node.of is None and node.name == "has":
        return _has(scope, node, lower)
    if node.name in REFUSED:
        raise Refusal(_UNSUPPORTED, node.at, f"{node.name}() is not part of expressions", REFUSED[node.name])
    function = FUNCTIONS.get(node.name)
    if function is None:
        raise Refusal(
            "values.expression_unknown_function", node.at, f"there is no function {node.name!r}",
            f"The functions are: {known_functions()}.",
        )  # fmt: skip
    return _function(scope, node, function, lower)


def _function(scope: Scope, node: Call, function: Function, lower: Lower) -> Term:
    fits = function.free and len(node.arguments) == 1 if node.of is None else function.method
    if not fits or (node.of is not None and len(node.arguments) != function.arguments):
        raise Refusal(
            _USAGE, node.at, f"{node.name} is not called like this", f"Call it as {function.usage}."
        )
    subject_node, *rest = node.arguments if node.of is None else (node.of, *node.arguments)
    subject = lower(subject_node).settled()
    if function.takes and subject.kind is not None and subject.kind not in function.takes:
        raise Refusal("values.expression_types", subject_node.at, f"{node.name} does not take {subject.kind}")
    arguments = [lower(argument).settled() for argument in rest]
    for part, argument in zip(rest, arguments, strict=True):
        check_is(argument.kind, "string", part.at, f"what {node.name} looks for")
    inside = ", ".join(argument.source for argument in arguments)
    source = (
        f"{node.name}({subject.source})"
        if node.of is None
        else f"{subject.above(UNARY)}.{node.name}({inside})"
    )
    own = _pattern_work(scope, rest[0]) if node.name == "matches" else ONE
    works = [ONE if node.name in _CONSTANT and subject.is_argument else subject.work]
    work = plus(own, *works, *(argument.work for argument in arguments))
    loose = node.name == "double" and subject.kind not in shapes.NUMBERS
    return Term(source, ATOM, function.gives, work, loose=loose)


def _pattern_work(scope: Scope, node: Node) -> Work:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        raise Refusal(
            _UNSUPPORTED, node.at, "a pattern must be a text literal", "Use contains, startsWith or endsWith."
        )
    size = pattern_size(node.value)
    if size > PATTERN_SIZE_MAX:
        raise Refusal(
            "values.expression_cost", node.at, f"the pattern has size {size} of {PATTERN_SIZE_MAX}",
            "Repeat less ({n} multiplies the size), or use startsWith, endsWith and size.",
        )  # fmt: skip
    scope.patterns.append((node.at, node.value))
    return (size * PATTERN_COST,)


def _has(scope: Scope, node: Call, lower: Lower) -> Term:
    if len(node.arguments) != 1 or not isinstance(node.arguments[0], Select):
        raise Refusal(_USAGE, node.at, "has takes one field", "Call it as has(x.field), or ask 'key' in x.")
    field = node.arguments[0]
    found = scope.path(field)
    if found is not None:
        return Term(scope.bind(found[0]._replace(asks=True)), kind="bool")
    term = lower(field)
    return Term(f"has({term.source})", ATOM, "bool", term.work)


def _macro(scope: Scope, node: Call, of: Node, lower: Lower) -> Term:
    most = 3 if node.name == "map" else 2
    if not 2 <= len(node.arguments) <= most or not isinstance(node.arguments[0], Name):
        usage = f"x.{node.name}(item, {'value' if node.name == 'map' else 'condition'})"
        raise Refusal(_USAGE, node.at, f"{node.name} is not called like this", f"Call it as {usage}.")
    name = node.arguments[0]
    if name.name in scope.macros or name.name in scope.variables:
        raise Refusal(
            _USAGE, name.at, f"{name.name!r} already names a variable", "Choose another name for the item."
        )
    items = lower(of).settled()
    item = _item(scope, node, of, items)
    rounds = _rounds(scope, of, items)
    newly = {items.variable} - scope.spent
    scope.macros[name.name] = item
    scope.spent |= newly
    bodies = [lower(body).settled() for body in node.arguments[1:]]
    scope.spent -= newly
    del scope.macros[name.name]
    for part, body in zip(node.arguments[1:], bodies, strict=True):
        if node.name != "map" or (len(bodies) == 2 and part is node.arguments[1]):
            check_is(body.kind, "bool", part.at, f"the condition of {node.name}")
    return _written(node, items, item, bodies, rounds)


def _item(scope: Scope, node: Call, of: Node, items: Term) -> Term:
    """The macro's variable; raises where `of` is not known to be a list."""
    inner = shapes.bare(items.schema, scope.schemas)
    if isinstance(of, ListOf):
        return scope.macro_variable(inner.item if isinstance(inner, t.List) else None)
    if isinstance(of, Name | Select | Index) and isinstance(inner, t.List | t.Set):
        return scope.macro_variable(inner.item)
    what, hint = "something that is neither a list literal nor a path", "Put all conditions into one macro."
    if isinstance(of, MapOf) or isinstance(inner, t.Record | t.Variant | t.Map):
        what, hint = "a map, which has no order", "Read its fields by name, or ask 'key' in x."
    elif isinstance(of, Name | Select | Index):
        what, hint = (
            "a value that no schema says is a list or a set",
            "Compare with a list literal: x in ['a', 'b'].",
        )
    raise Refusal("values.expression_macro_range", of.at, f"{node.name} would run over {what}", hint)


def _rounds(scope: Scope, of: Node, items: Term) -> Work:
    """How often the body runs. Lists inside the items of a loop have, all together, the size of its list."""
    if isinstance(of, ListOf):
        return items.work
    amortised = items.variable and items.variable not in scope.spent
    return ONE if amortised else ALL


def _written(node: Call, items: Term, item: Term, bodies: list[Term], rounds: Work) -> Term:
    source = f"{items.above(UNARY)}.{node.name}({item.source}, {', '.join(body.source for body in bodies)})"
    work = plus(items.work, times(plus(rounds), plus(*(body.work for body in bodies))))
    if node.name not in ("map", "filter"):
        return Term(source, ATOM, "bool", work)
    # The library copies the list it builds, and all that it holds, for every item.
    whole = items.work if isinstance(node.of, ListOf) else ALL
    if node.name == "filter":
        return Term(source, ATOM, "list", plus(work, times(plus(rounds), whole)), items.schema)
    work = plus(work, times(plus(rounds), times(whole, bodies[-1].work)))
    schema = bodies[-1].schema
    return Term(source, ATOM, "list", work, None if schema is None else t.List(schema))
