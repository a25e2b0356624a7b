"""Calls in an expression: functions, `has`, and the macros that run over lists.

A map has no order, so a macro runs only over a list literal, or over a path whose schema is a list or a set;
and a macro's variable never takes a name that already means something. `all` and `exists` are `&&` and `||`
over the items: one that decides counts more than a fault of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cellule.values.expressions import shapes
from cellule.values.expressions.fault import ExpressionFault, Refusal, wrong_kind
from cellule.values.expressions.functions import FUNCTIONS, REFUSED, Function, check_taken, known_functions
from cellule.values.expressions.limits import ALL, ONE, PART_BYTES, PATTERN_SIZE_MAX, Work, plus, times
from cellule.values.expressions.operators import check_is, has_field, is_true
from cellule.values.expressions.pattern import Pattern, PatternError, PatternTooLarge
from cellule.values.expressions.scope import Frame, Run, Scope, Term
from cellule.values.expressions.syntax import MACROS, Call, Index, ListOf, Literal, MapOf, Name, Node, Select
from cellule.values.schema import types as t

Compile = Callable[[Node], Term]

_UNSUPPORTED: Final = "values.expression_unsupported"
_USAGE: Final = "values.expression_usage"
_CONSTANT: Final = frozenset({"size", "type", "dyn"})
"""Functions that take no longer for a larger value."""


def compile_call(scope: Scope, node: Call, compile_node: Compile) -> Term:
    """Check a call and compile it; raises `Refusal`."""
    if node.of is not None and node.name in MACROS:
        return _macro(scope, node, node.of, compile_node)
    if node.of is None and node.name == "has":
        return _has(scope, node, compile_node)
    if node.name in REFUSED:
        raise Refusal(_UNSUPPORTED, node.at, f"{node.name}() is not part of expressions", REFUSED[node.name])
    function = FUNCTIONS.get(node.name)
    if function is None:
        raise Refusal(
            "values.expression_unknown_function", node.at, f"there is no function {node.name!r}",
            f"The functions are: {known_functions()}.",
        )  # fmt: skip
    return _function(scope, node, function, compile_node)


def _function(scope: Scope, node: Call, function: Function, compile_node: Compile) -> Term:
    fits = function.free and len(node.arguments) == 1 if node.of is None else function.method
    if not fits or (node.of is not None and len(node.arguments) != int(not function.free)):
        raise Refusal(
            _USAGE, node.at, f"{node.name} is not called like this", f"Call it as {function.usage}."
        )
    subject_node = node.arguments[0] if node.of is None else node.of
    subject = compile_node(subject_node)
    if function.takes and subject.kind is not None and subject.kind not in function.takes:
        raise Refusal("values.expression_types", subject_node.at, f"{node.name} does not take {subject.kind}")
    if not function.free:
        return _text_method(scope, node, function, subject, compile_node)
    name, of, place = node.name, subject.run, scope.place(node.at)

    def run(frame: Frame) -> Any:
        value = of(frame)
        check_taken(name, function, value, place)
        return function.run(value, place)

    work = ONE if name in _CONSTANT and subject.is_argument else subject.work
    return Term(run, function.gives, plus(work))


def _text_method(scope: Scope, node: Call, function: Function, subject: Term, compile_node: Compile) -> Term:
    wanted, work = node.arguments[0], subject.work
    if node.name == "matches":
        pattern = _pattern(wanted)
        part = Term(lambda _: pattern, "string")
        work = times((pattern.size * PART_BYTES,), work)
    else:
        part = compile_node(wanted)
    check_is(part.kind, "string", wanted.at, f"what {node.name} looks for")
    name, of, looked_for, place = node.name, subject.run, part.run, scope.place(node.at)

    def run(frame: Frame) -> bool:
        value, wanted = of(frame), looked_for(frame)
        check_taken(name, function, value, place)
        if wanted.__class__ is not str and wanted.__class__ is not Pattern:
            wrong_kind(f"{name}()", place)
        return bool(function.run(value, wanted, place))

    return Term(run, "bool", plus(work, part.work))


def _pattern(node: Node) -> Pattern:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        raise Refusal(
            _UNSUPPORTED, node.at, "a pattern must be a text literal", "Use contains, startsWith or endsWith."
        )
    try:
        return Pattern(node.value)
    except PatternTooLarge:
        raise Refusal(
            "values.expression_cost", node.at, f"the pattern has a size of more than {PATTERN_SIZE_MAX}",
            "Repeat less ({n} multiplies the size), or use startsWith, endsWith and size.",
        ) from None  # fmt: skip
    except PatternError as error:
        raise Refusal(
            "values.expression_pattern", node.at, f"the pattern is no regular expression: {error}",
            "Look-around, back references and \\p{...} do not exist here.",
        ) from None  # fmt: skip


def _has(scope: Scope, node: Call, compile_node: Compile) -> Term:
    if len(node.arguments) != 1 or not isinstance(node.arguments[0], Select):
        raise Refusal(_USAGE, node.at, "has takes one field", "Call it as has(x.field), or ask 'key' in x.")
    selected = node.arguments[0]
    found = scope.path(selected)
    if found is not None:
        return Term(scope.read(found[0]._replace(asks=True), node.at), "bool")
    compile_node(selected)  # checks that there can be such a field
    of, field, place = compile_node(selected.of), selected.field, scope.place(node.at)
    return Term(lambda frame: has_field(of.run(frame), field, place), "bool", plus(of.work))


def _macro(scope: Scope, node: Call, of: Node, compile_node: Compile) -> Term:
    arguments_max = 3 if node.name == "map" else 2
    if not 2 <= len(node.arguments) <= arguments_max or not isinstance(node.arguments[0], Name):
        usage = f"x.{node.name}(item, {'value' if node.name == 'map' else 'condition'})"
        raise Refusal(_USAGE, node.at, f"{node.name} is not called like this", f"Call it as {usage}.")
    name = node.arguments[0]
    if name.name in scope.macros or name.name in scope.variables:
        raise Refusal(
            _USAGE, name.at, f"{name.name!r} already names a variable", "Choose another name for the item."
        )
    items = compile_node(of)
    slot, item = _item(scope, node, of, items)
    rounds = _rounds(scope, of, items)
    newly = {items.variable} - scope.spent
    scope.macros[name.name] = item
    scope.spent |= newly
    bodies = [compile_node(body) for body in node.arguments[1:]]
    scope.spent -= newly
    del scope.macros[name.name]
    for part, body in zip(node.arguments[1:], bodies, strict=True):
        if node.name != "map" or (len(bodies) == 2 and part is node.arguments[1]):
            check_is(body.kind, "bool", part.at, f"the condition of {node.name}")
    run = _loop(node.name, items.run, slot, [body.run for body in bodies], scope.place(node.at))
    return _described(node, run, items, bodies, rounds)


def _item(scope: Scope, node: Call, of: Node, items: Term) -> tuple[int, Term]:
    """The macro's variable and its slot; raises where `of` is not known to be a list."""
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
    amortised = items.variable is not None and items.variable not in scope.spent
    return ONE if amortised else ALL


def _described(node: Call, run: Run, items: Term, bodies: list[Term], rounds: Work) -> Term:
    work = plus(items.work, times(plus(rounds), plus(*(body.work for body in bodies))))
    if node.name not in ("map", "filter"):
        return Term(run, "bool", work)
    if node.name == "filter":
        return Term(run, "list", work, items.schema)
    # What a body gives can hold the item many times, so the size of the list bounds the size of each value.
    whole = items.work if isinstance(node.of, ListOf) else ALL
    work = plus(work, times(plus(rounds), times(whole, bodies[-1].work)))
    schema = bodies[-1].schema
    return Term(run, "list", work, None if schema is None else t.List(schema))


def _loop(name: str, items: Run, slot: int, bodies: list[Run], place: str) -> Run:
    """What runs over the items; all but `map` ask a condition first."""
    body, value = bodies[0], bodies[-1]

    def listed(frame: Frame) -> list[Any]:
        values = items(frame)
        return values if values.__class__ is list else wrong_kind(f"{name}()", place)

    def decided(frame: Frame) -> bool:
        decisive = name == "exists"
        fault: ExpressionFault | None = None
        for item in listed(frame):
            frame[slot] = item
            try:
                if is_true(body(frame), place) is decisive:
                    return decisive
            except ExpressionFault as error:
                fault = fault or error
        if fault is not None:
            raise fault
        return not decisive

    def filtered(frame: Frame) -> list[Any]:
        return [frame[slot] for frame[slot] in listed(frame) if is_true(body(frame), place)]

    def mapped(frame: Frame) -> list[Any]:
        if len(bodies) == 1:
            return [value(frame) for frame[slot] in listed(frame)]
        return [value(frame) for frame[slot] in listed(frame) if is_true(body(frame), place)]

    def only_one(frame: Frame) -> bool:
        return len(filtered(frame)) == 1

    return {
        "all": decided, "exists": decided, "filter": filtered, "map": mapped, "exists_one": only_one
    }[name]  # fmt: skip
