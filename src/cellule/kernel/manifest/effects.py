"""The section `effects`: the kinds of effects that modules may ask for, and the schemas of their receipts.

    kind payments.charge -> params and receipt schemas of the document -> receipts of effect.payments/charge@1

The schema of a kind's receipts is made here, from its receipt schema; a document may write it out, but only
as it is made. `timer.set` is the kernel's own and always there. A document without the section is of the
older form, in which kinds were only listed by modules: each of these takes and gives any value.

Rejected: any value for a kind that a document with the section does not declare. A typing error in
`effects_emitted` would become an effect that nobody performs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest import fields as f
from cellule.kernel.manifest.limits import (
    ATTEMPTS_DEFAULT,
    ATTEMPTS_MAX,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    TIMEOUT_NS_DEFAULT,
)
from cellule.kernel.manifest.model import TIMER_SET, EffectKind
from cellule.kernel.manifest.problems import Problems, below, near
from cellule.kernel.manifest.schemas import is_receipt
from cellule.kernel.manifest.system import (
    SYSTEM_SCHEMAS,
    TIMER_FIRED,
    TIMER_SET_PARAMS,
    VALUE,
    receipt_event,
    receipt_schema,
)
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.fault import shown
from cellule.values.schema.registry import Schemas

Kinds = Mapping[str, EffectKind]

_SPAN_MAX: Final = (1 << 63) - 1
_EFFECT: Final[f.Table] = {
    "params": f.schema, "receipt": f.schema, "timeout_ns": f.whole(0, _SPAN_MAX),
    "attempts": f.whole(0, ATTEMPTS_MAX), "priority": f.whole(0, PRIORITY_MAX), "needs_grant": f.flag,
    "deadline_ns": f.whole(0, _SPAN_MAX),
    "backoff_ns": f.whole(0, _SPAN_MAX), "backoff_max_ns": f.whole(0, _SPAN_MAX),
    "operation": f.flag,
}  # fmt: skip
_DEFAULTS: Final[Mapping[str, Any]] = {
    "params": VALUE, "receipt": VALUE, "timeout_ns": TIMEOUT_NS_DEFAULT, "attempts": ATTEMPTS_DEFAULT,
    "priority": PRIORITY_DEFAULT,
}  # fmt: skip
_is_kind = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+", re.ASCII).fullmatch
_FORM: Final = "It is lower-case and has at least two parts, such as payments.charge."

KIND_ALIASES: Final = {"fs.blob.put": "blob.put", "fs.blob.get": "blob.get"}
"""Kinds by the names that older documents have for them."""

TIMER: Final = EffectKind(
    TIMER_SET, TIMER_SET_PARAMS, TIMER_FIRED, receipt_event(TIMER_SET), TIMEOUT_NS_DEFAULT, 1,
    PRIORITY_DEFAULT,
)  # fmt: skip


def load_effects(scope: f.Scope, path: str, section: object) -> dict[str, EffectKind]:
    """The declared kinds, with `timer.set`; None as the section declares nothing."""
    kinds = {TIMER_SET: TIMER}
    for given, place, body in f.named_of(scope.problems, path, section, "kind"):
        kind = KIND_ALIASES.get(given, given)
        if not check_kind_name(scope.problems, place, kind):
            continue
        fields, found = f.read_entry(_EFFECT, scope, place, {} if body is None else body)
        if kind == TIMER_SET:
            _check_timer(fields, found)
        else:
            kinds[kind] = _made(kind, _nullable_refused(fields, found))
    return dict(sorted(kinds.items()))


def check_kind_name(problems: Problems, path: str, kind: str) -> bool:
    """Tell whether this can be a kind of effect; if not, note the problem."""
    if not _is_kind(kind):
        problems.add(path, "effect_kind", f"{shown(kind)} is no kind of effect", _FORM)
        return False
    try:
        Name.parse(receipt_event(kind))
    except Rejected as error:
        problems.add(path, "effect_kind", f"the kind is too long: {error}")
        return False
    return True


def untyped(listed: Iterable[str]) -> dict[str, EffectKind]:
    """The kinds of a document that has no section `effects`: those that its modules list."""
    kinds = {kind: _made(kind, {}) for kind in listed if kind != TIMER_SET}
    return dict(sorted({TIMER_SET: TIMER, **kinds}.items()))


def with_receipts(problems: Problems, path: str, schemas: Schemas, kinds: Kinds) -> Schemas:
    """All schemas with those of receipts; a receipt's schema that the document declares must be the same."""
    made = {each.event: receipt_schema(each.receipt) for each in kinds.values() if each.external}
    for name in schemas:
        if name in SYSTEM_SCHEMAS or not is_receipt(name):
            continue
        if name not in made:
            hint = near(name, made) or "Declare the effect, and its schema is made."
            problems.add(below(path, name), "reserved", f"{name} is the receipt of no effect", hint)
        elif schemas[name] != made[name]:
            text = f"{name} is not the schema that is made for receipts of this effect"
            problems.add(below(path, name), "effect_receipt", text, "Leave it out: it is made.")
    return Schemas({**schemas, **made})


def _made(kind: str, found: Mapping[str, Any]) -> EffectKind:
    """A kind, with the defaults of what was not said: any value for params and receipt."""
    said = {name: value for name, value in found.items() if value is not None}
    return EffectKind(**{"kind": kind, "event": receipt_event(kind), **_DEFAULTS, **said})


def _nullable_refused(fields: f.Fields, found: dict[str, Any]) -> dict[str, Any]:
    receipt = found["receipt"]
    if receipt is None or not isinstance(fields.scope.schemas.resolve(t.Ref(receipt)), t.Option | t.Unit):
        return found
    problem = f"{receipt} may be null, and then a receipt could not tell whether it has a value"
    fields.note("receipt", "effect_receipt", problem, "Name a record.")
    return {**found, "receipt": None}


def _check_timer(fields: f.Fields, found: Mapping[str, Any]) -> None:
    """`timer.set` may be written out, but only as it is."""
    for name in _EFFECT:
        if name in ("params", "receipt"):
            wanted = getattr(TIMER, name)
            if found[name] not in (None, wanted):
                fields.note(name, "effect_reserved", f"the {name} of {TIMER_SET} are {wanted}")
        elif fields.get(name) is not None:
            problem = f"{TIMER_SET} is performed by the kernel and has no {name}"
            fields.note(name, "effect_reserved", problem, "Leave it out.")


BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "attempts": (1, ATTEMPTS_MAX),
    "backoff_max_ns": (0, _SPAN_MAX),
    "backoff_ns": (0, _SPAN_MAX),
    "deadline_ns": (1, _SPAN_MAX),
    "priority": (0, PRIORITY_MAX),
    "timeout_ns": (1, _SPAN_MAX),
}
"""The least and the most of every limit that a request may set.

They stand in its Intent record, so that approving, retrying or repairing it gives the same row as the step
that asked. They come from user code, so they are checked where they enter the kernel.
"""


def limits_problem(limits: Any) -> str | None:
    """What is wrong with a request's limits, for people; None where nothing is."""
    if not isinstance(limits, Mapping) or not limits:
        return "its limits are a map of names to whole numbers"
    for name, value in limits.items():
        if name not in BOUNDS:
            return f"{name!r} is no limit of a request; it may set {', '.join(BOUNDS)}"
        least, most = BOUNDS[name]
        if type(value) is not int or not least <= value <= most:
            return f"{name} is a whole number from {least} to {most}, not {value!r}"
    return None


def limited(effect: EffectKind, limits: Mapping[str, int] | None) -> EffectKind:
    """The kind as this request wants it performed."""
    said: dict[str, Any] = {} if limits is None else dict(limits)
    return replace(effect, **said) if said else effect
