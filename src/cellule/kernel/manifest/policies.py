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
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest.fields import Fields, items_of
from cellule.kernel.manifest.limits import RULES_MAX
from cellule.kernel.manifest.model import Policy, Rule, VerdictCode
from cellule.kernel.manifest.problems import Problems, near
from cellule.values.expressions import Expression, compile_expression
from cellule.values.schema import types as t
from cellule.values.schema.fault import shown
from cellule.values.schema.types import Schema

_VERDICTS: Final[tuple[VerdictCode, ...]] = ("allow", "deny", "require_approval")
_DEFAULTS: Final[tuple[VerdictCode, ...]] = ("allow", "deny")
_RULE_FIELDS: Final = ("name", "when", "then", "reason", "expires_ns")

VARIABLES: Final[Mapping[str, Schema]] = {
    "effect": t.record({
        "kind": t.Text(), "params": t.Any(), "priority": t.Int(), "cap_slot": t.Option(t.Text()),
        "idempotency_key": t.Option(t.Text()),
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
    return compile_expression(when, VARIABLES, gives_bool=True)


def load_policy(problems: Problems, path: str, section: object) -> Policy:
    """The policy of a document; without one, everything is allowed."""
    if section is None:
        return Policy()
    parts = items_of(problems, path, section) if isinstance(section, list | tuple) else [(path, section)]
    reader = _PolicyReader(problems)
    for place, part in parts:
        reader.read(place, part)
    if len(reader.rules) > RULES_MAX:
        problems.add(path, "length", f"there are {len(reader.rules)} rules; at most {RULES_MAX} are taken")
    return Policy(tuple(reader.rules), reader.default or "allow")


def normal_policy(policy: Policy) -> dict[str, Any]:
    """The section of the normal form; empty where everything is allowed."""
    if policy == Policy():
        return {}
    return {"rules": [_normal(rule) for rule in policy.rules], "default": policy.default}


class _PolicyReader:
    """Reads policies one after the other."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.rules: list[Rule] = []
        self.default: VerdictCode | None = None
        self._places: dict[str, str] = {}

    def read(self, path: str, part: object) -> None:
        if isinstance(part, str):
            self._shipped(path, part)
            return
        fields = Fields(self.problems, path, part, ("rules", "default"))
        for place, item in fields.items("rules"):
            rule = self._rule(Fields(self.problems, place, item, _RULE_FIELDS))
            if rule is not None:
                self._add(place, rule)
        if fields.get("default") is None:
            return
        default = fields.choice("default", _DEFAULTS, "deny")
        if self.default not in (None, default):
            text = f"an earlier policy says {self.default!r} already"
            self.problems.add(fields.at("default"), "duplicate", text, "A manifest has one default.")
        self.default = default

    def _shipped(self, path: str, name: str) -> None:
        if name not in SHIPPED:
            hint = near(name, SHIPPED) or f"There is: {', '.join(SHIPPED)}."
            self.problems.add(path, "policy_unknown", f"no policy {shown(name)} comes with Cellule", hint)
            return
        for rule in SHIPPED[name]:
            self._add(path, rule)

    def _add(self, place: str, rule: Rule) -> None:
        earlier = self._places.setdefault(rule.name, place)
        if earlier != place:
            text = f"the rule {shown(rule.name)} stands at {earlier} already"
            self.problems.add(place, "duplicate", text, "Decisions are recorded by the rule's name.")
        self.rules.append(rule)

    def _rule(self, fields: Fields) -> Rule | None:
        for needed in ("name", "when", "then"):
            fields.required(needed)
        name, when, reason = fields.text("name"), fields.text("when"), fields.text("reason")
        then = fields.choice("then", _VERDICTS, "deny")
        expires_ns = fields.positive("expires_ns")
        if expires_ns is not None and then != "require_approval":
            text = f"a rule that says {then} has nothing that could expire"
            self.problems.add(fields.at("expires_ns"), "unknown_field", text, "Leave it out.")
        if when is not None:
            try:
                compile_rule(when)
            except Rejected as error:
                self.problems.add(fields.at("when"), "policy_rule", str(error))
        if name is None or when is None:
            return None
        return Rule(name, when, then, reason or "", expires_ns)


def _normal(rule: Rule) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "name": rule.name, "when": rule.when, "then": rule.then, "reason": rule.reason or None,
        "expires_ns": rule.expires_ns,
    }  # fmt: skip
    return {name: part for name, part in parts.items() if part is not None}
