"""`EffectForm`: a kind of effect with its Python types, as modules are described with it.

A manifest declares effects by schemas; the types here give these schemas. A reducer's receipts are found
through the forms of its effects, so that an author names types and never a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.manifest.limits import PRIORITY_DEFAULT
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.system import receipt_event
from cellule.modules.python.module_names import Naming
from cellule.modules.python.signature import Signature, shown_function
from cellule.modules.python.system import TimerFired, TimerSet, is_receipt, received
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.registry import NO_SCHEMAS, Schemas


@dataclass(frozen=True, slots=True)
class EffectForm:
    """A kind of effect: the classes of its params and receipt, and how it is performed."""

    kind: str
    params: Any
    receipt: Any
    timeout_ns: int | None = None
    attempts: int | None = None
    priority: int = PRIORITY_DEFAULT
    needs_grant: bool = False
    deadline_ns: int | None = None
    backoff_ns: int | None = None
    backoff_max_ns: int | None = None
    operation: bool = False

    def schemas(self, naming: Naming) -> Schemas:
        """The schemas of params and receipt, with all they refer to."""
        return naming.derived(self.params).schemas.merged(naming.derived(self.receipt).schemas)

    def document(self, naming: Naming) -> dict[str, Any]:
        """The entry of the manifest."""
        limits = {
            "timeout_ns": self.timeout_ns, "attempts": self.attempts, "deadline_ns": self.deadline_ns,
            "backoff_ns": self.backoff_ns, "backoff_max_ns": self.backoff_max_ns,
        }  # fmt: skip
        return {
            "params": naming.derived(self.params).name, "receipt": naming.derived(self.receipt).name,
            "priority": self.priority, "needs_grant": self.needs_grant,
            **{name: value for name, value in limits.items() if value is not None},
            **({"operation": True} if self.operation else {}),
        }  # fmt: skip


TIMER = EffectForm(TIMER_SET, TimerSet, TimerFired)


def effect_documents(forms: Iterable[EffectForm], naming: Naming) -> dict[str, Mapping[str, Any]]:
    """The entries of all kinds but `timer.set`, which every manifest has."""
    return {form.kind: form.document(naming) for form in forms if form.kind != TIMER_SET}


def effect_schemas(forms: Iterable[EffectForm], naming: Naming) -> Schemas:
    """The schemas of all params and receipts."""
    schemas = NO_SCHEMAS
    for form in forms:
        schemas = schemas.merged(form.schemas(naming))
    return schemas


def receipt_events(signature: Signature, forms: Iterable[EffectForm], naming: Naming) -> dict[str, Any]:
    """The schemas of the receipts a reducer takes, each with the type it gets them as."""
    forms = list(forms)
    events: dict[str, Any] = {}
    for receipt in signature.receipts:
        if not is_receipt(receipt):
            if receipt is TimerFired and not any(form.kind == TIMER_SET for form in forms):
                raise _no_effect(signature.function, receipt, forms, "a timer", "effects=[timer]")
            events[naming.derived(receipt).name or ""] = receipt
            continue
        python = received(receipt)
        kinds = [form.kind for form in forms if form.receipt == python]
        if not kinds:
            wanted = f"an effect whose receipt is {shown_type(python)}"
            raise _no_effect(signature.function, receipt, forms, wanted, "effects=[...]")
        events.update({receipt_event(kind): receipt for kind in kinds})
    return events


def _no_effect(
    function: Callable[..., Any], receipt: Any, forms: list[EffectForm], wanted: str, form: str
) -> Rejected:
    known = ", ".join(f"{each.kind} ({shown_type(each.receipt)})" for each in forms) or "no effect"
    return Rejected(
        "modules.receipt_unknown",
        "{function} takes {receipt}, but never asks for {wanted}; it asks for {known}.",
        function=shown_function(function), receipt=shown_type(receipt), wanted=wanted, known=known,
        hint=f"List the effect at the reducer: {form}.",
    )  # fmt: skip
