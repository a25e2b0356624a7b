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
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest.fields import Fields, named_of
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
from cellule.values.schema.types import Schema

Kinds = Mapping[str, EffectKind]

_FIELDS: Final = ("params", "receipt", "timeout_ns", "attempts", "priority", "needs_grant")
_is_kind = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+", re.ASCII).fullmatch
_FORM: Final = "It is lower-case and has at least two parts, such as payments.charge."

TIMER: Final = EffectKind(
    TIMER_SET, TIMER_SET_PARAMS, TIMER_FIRED, receipt_event(TIMER_SET), TIMEOUT_NS_DEFAULT, 1,
    PRIORITY_DEFAULT, needs_grant=False,
)  # fmt: skip


def load_effects(problems: Problems, path: str, section: object, schemas: Schemas) -> dict[str, EffectKind]:
    """The declared kinds, with `timer.set`; None as the section declares nothing."""
    kinds = {TIMER_SET: TIMER}
    for kind, place, body in named_of(problems, path, section, "kind"):
        if not check_kind_name(problems, place, kind):
            continue
        fields = Fields(problems, place, {} if body is None else body, _FIELDS)
        if kind == TIMER_SET:
            _check_timer(problems, fields)
        else:
            kinds[kind] = _read(fields, kind, schemas)
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
    kinds = {kind: _untyped(kind) for kind in listed if kind != TIMER_SET}
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


def normal_effects(kinds: Kinds) -> dict[str, Any]:
    """The section of the normal form."""
    return {kind: _normal(each) for kind, each in kinds.items() if each.external}


def _normal(each: EffectKind) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "params": each.params, "receipt": each.receipt, "timeout_ns": each.timeout_ns,
        "attempts": each.attempts, "priority": each.priority,
    }  # fmt: skip
    return {**parts, "needs_grant": True} if each.needs_grant else parts


def _read(fields: Fields, kind: str, schemas: Schemas) -> EffectKind:
    receipt = _schema(fields, "receipt", schemas)
    if isinstance(schemas.resolve(t.Ref(receipt)), t.Option | t.Unit):
        text = f"{receipt} may be null, and then a receipt could not tell whether it has a value"
        fields.problems.add(fields.at("receipt"), "effect_receipt", text, "Name a record.")
        receipt = VALUE
    return EffectKind(
        kind, _schema(fields, "params", schemas), receipt, receipt_event(kind),
        fields.positive("timeout_ns") or TIMEOUT_NS_DEFAULT,
        fields.whole("attempts", 1, ATTEMPTS_MAX, ATTEMPTS_DEFAULT),
        fields.whole("priority", 0, PRIORITY_MAX, PRIORITY_DEFAULT), fields.flag("needs_grant"),
    )  # fmt: skip


def _schema(fields: Fields, name: str, schemas: Mapping[str, Schema]) -> str:
    """The schema that a field names; any value where it names none."""
    found = fields.name(name)
    if found is None:
        return VALUE
    if found not in schemas:
        text = f"there is no schema {found}"
        fields.problems.add(fields.at(name), "schema_unknown", text, near(found, schemas))
        return VALUE
    return found


def _check_timer(problems: Problems, fields: Fields) -> None:
    """`timer.set` may be written out, but only as it is."""
    for name, wanted in (("params", TIMER_SET_PARAMS), ("receipt", TIMER_FIRED)):
        if fields.name(name) not in (None, wanted):
            problems.add(fields.at(name), "effect_reserved", f"the {name} of {TIMER_SET} are {wanted}")
    for name in _FIELDS[2:]:
        if fields.get(name) is not None:
            text = f"{TIMER_SET} is performed by the kernel and has no {name}"
            problems.add(fields.at(name), "effect_reserved", text, "Leave it out.")


def _untyped(kind: str) -> EffectKind:
    return EffectKind(
        kind, VALUE, VALUE, receipt_event(kind), TIMEOUT_NS_DEFAULT, ATTEMPTS_DEFAULT, PRIORITY_DEFAULT,
        needs_grant=False,
    )  # fmt: skip
