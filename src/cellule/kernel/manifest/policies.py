"""The section `policy`: rules in CEL that allow an intent, deny it or ask a person, in their order.

    {"rules": [{"name": ..., "when": CEL, "then": "allow" | "deny" | "require_approval"}], "default": ...}
    "reducers-micro-only"         a shipped policy, by name
    [one of the two, ...]         several: all rules in their order, and the one default that is said

The first rule that matches decides, then the default. A shipped policy is written out in the normal form, so
a world's policy never changes because Cellule did. Rules are compiled here so that a malformed one is found
when the manifest is made; what they see is in `VARIABLES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from cellule.errors import Rejected
from cellule.kernel.manifest import fields as f
from cellule.kernel.manifest.limits import RULES_MAX
from cellule.kernel.manifest.model import Policy, Rule, VerdictCode, plain
from cellule.kernel.manifest.problems import Problems, near
from cellule.values.expressions import Expression, compile_expression
from cellule.values.schema import types as t
from cellule.values.schema.fault import shown
from cellule.values.schema.types import Schema

VARIABLES: Final[Mapping[str, Schema]] = {
    "effect": t.record({
        "kind": t.Text(), "params": t.Any(), "priority": t.Int(), "cap_slot": t.Option(t.Text()),
        "idempotency_key": t.Option(t.Text()), "host": t.Option(t.Text()),
    }),
    "module": t.record({"name": t.Text(), "kind": t.Text(), "style": t.Text()}),
    "cell": t.record({"key": t.Text()}),
    "grant": t.Option(t.Text()),
    "now_ns": t.Int(),
}  # fmt: skip
"""What a rule sees: the effect that is asked for, who asks, with which grant, and when."""

_MICRO: Final = 'effect.kind == "timer.set" || effect.kind.startsWith("blob.")'
SHIPPED: Final[Mapping[str, tuple[Rule, ...]]] = {
    "reducers-micro-only": (
        Rule("micro-effects of reducers", f'module.style == "reducer" && ({_MICRO})', "allow"),
        Rule(
            "reducers-micro-only", 'module.style == "reducer"', "deny",
            "reducers may only set timers and keep blobs",
        ),
    ),
}  # fmt: skip
"""The policies that come with Cellule, by name."""


def compile_rule(when: str) -> Expression:
    """The condition of a rule, ready to be asked; raises `Rejected` with the place of what is wrong."""
    rule = compile_expression(when, VARIABLES, gives_bool=True)
    for path in rule.paths:
        if path.root == "effect" and path.steps[:2] == ("params", "headers") and len(path.steps) > 2:
            _check_header(path.steps[2])
    return rule


def _check_header(name: object) -> None:
    if isinstance(name, str) and name != name.lower():
        raise Rejected(
            "kernel.rule_header", "the header {name} is seen in lower case", name=name,
            hint=f"Write effect.params.headers[{name.lower()!r}].",
        )  # fmt: skip


def load_policy(scope: f.Scope, path: str, section: object) -> Policy:
    """The policy of a document; without one, everything is allowed."""
    if section is None:
        return Policy()
    problems = scope.problems
    parts = f.items_of(problems, path, section) if isinstance(section, list | tuple) else [(path, section)]
    rules: list[tuple[str, Rule]] = []
    default: str | None = None
    for place, part in parts:
        if isinstance(part, str):
            rules += _shipped(problems, place, part)
            continue
        fields, found = f.read_entry(
            {"rules": _rules, "default": f.choice("allow", "deny", default="deny")}, scope, place, part
        )
        rules += found["rules"]
        if fields.get("default") is None:
            continue
        if default not in (None, found["default"]):
            problem = f"an earlier policy says {default!r} already"
            fields.note("default", "duplicate", problem, "A manifest has one default.")
        default = found["default"]
    _check_names(problems, rules)
    if len(rules) > RULES_MAX:
        problems.add(path, "length", f"there are {len(rules)} rules; at most {RULES_MAX} are taken")
    return Policy(tuple(rule for _, rule in rules), cast("VerdictCode", default or "allow"))


def normal_policy(policy: Policy) -> dict[str, Any]:
    """The section of the normal form; empty where everything is allowed."""
    if policy == Policy():
        return {}
    return {"rules": [plain(rule) for rule in policy.rules], "default": policy.default}


def _shipped(problems: Problems, path: str, name: str) -> list[tuple[str, Rule]]:
    if name not in SHIPPED:
        hint = near(name, SHIPPED) or f"There is: {', '.join(SHIPPED)}."
        problems.add(path, "policy_unknown", f"no policy {shown(name)} comes with Cellule", hint)
    return [(path, rule) for rule in SHIPPED.get(name, ())]


def _check_names(problems: Problems, rules: list[tuple[str, Rule]]) -> None:
    places: dict[str, str] = {}
    for place, rule in rules:
        earlier = places.setdefault(rule.name, place)
        if earlier != place:
            problem = f"the rule {shown(rule.name)} stands at {earlier} already"
            problems.add(place, "duplicate", problem, "Decisions are recorded by the rule's name.")


def _rules(fields: f.Fields, name: str) -> list[tuple[str, Rule]]:
    """The rules of one policy with their places."""
    rules: list[tuple[str, Rule]] = []
    for place, item in fields.items(name):
        _, found = f.read_entry(_RULE, fields.scope, place, item, required=("name", "when", "then"))
        if found["name"] is not None and found["when"] is not None:
            rules.append((place, Rule(**{**found, "reason": found["reason"] or ""})))
    return rules


def _when(fields: f.Fields, name: str) -> str | None:
    when = f.text(fields, name)
    try:
        if when is not None:
            compile_rule(when)
    except Rejected as error:
        fields.note(name, "policy_rule", str(error))
    return when


def _expires(fields: f.Fields, name: str) -> int | None:
    then = fields.get("then")
    if then in ("allow", "deny"):
        fields.without(name, f"a rule that says {then} has nothing that could expire")
    return f.positive(fields, name)


_RULE: Final[f.Table] = {
    "name": f.text, "when": _when, "then": f.choice("allow", "deny", "require_approval", default="deny"),
    "reason": f.text, "expires_ns": _expires,
}  # fmt: skip
