"""Policies as authors write them: `rule(when=..., then=...)`, and the section of the manifest they become.

A condition is CEL; it is compiled when the app is built, where a mistake is refused with its position.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, get_args

from cellule.app.declarations import bad_option, duration_ns

Then = Literal["allow", "deny", "require_approval"]
Default = Literal["allow", "deny"]

_THEN: Final = get_args(Then)
_DEFAULT: Final = get_args(Default)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule; made by `rule`."""

    when: str
    then: Then
    reason: str
    expires_ns: int | None
    name: str | None


def rule(
    *, when: str, then: Then, reason: str = "", expires: timedelta | None = None, name: str | None = None
) -> PolicyRule:
    """A rule of a policy: where the CEL text `when` holds, `then` decides.

    `reason` is told to whoever asked and to whoever has to approve; an approval that nobody gives until it
    `expires` is denied. Decisions are recorded under the rule's `name`.
    """
    text: object = when
    if not isinstance(text, str) or not text:
        raise bad_option("rule()", "when", when, "a CEL text, such as 'effect.params.cents > 10000'")
    if then not in _THEN:
        raise bad_option("rule()", "then", then, " or ".join(map(repr, _THEN)))
    if expires is not None and then != "require_approval":
        raise bad_option("rule()", "expires", expires, "it only with then='require_approval'")
    expires_ns = None if expires is None else duration_ns("rule()", "expires", expires)
    return PolicyRule(when, then, reason, expires_ns, name)


Part = str | PolicyRule
"""A part of a policy: a rule, or the name of a policy that comes with Cellule."""


class Policies:
    """The policy of an app: parts in the order they were given, and at most one default."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._default: Default | None = None

    def add(self, parts: Iterable[Part], default: Default | None) -> None:
        """Add parts behind those that are there."""
        parts = list(parts)
        for part in parts:
            if not isinstance(part, str | PolicyRule):
                raise bad_option("App.policy", "a part", part, "rule(...), or the name of a shipped policy")
        if default not in (None, *_DEFAULT):
            raise bad_option("App.policy", "default", default, " or ".join(map(repr, _DEFAULT)))
        if default is not None and self._default not in (None, default):
            raise bad_option(
                "App.policy", "default", default, f"one default: {self._default!r} is said already"
            )
        self._parts += parts
        self._default = default or self._default

    def document(self) -> list[Any]:
        """The section of the manifest."""
        found: list[Any] = [
            part if isinstance(part, str) else {"rules": [_entry(part, at)]}
            for at, part in enumerate(self._parts, 1)
        ]
        return found if self._default is None else [*found, {"default": self._default}]


def _entry(part: PolicyRule, at: int) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "name": part.name or f"rule {at}", "when": part.when, "then": part.then,
        "reason": part.reason or None, "expires_ns": part.expires_ns,
    }  # fmt: skip
    return {name: value for name, value in parts.items() if value is not None}
