"""How things end badly in a workflow, as exceptions: an effect that failed; and how a run goes on anew."""

from __future__ import annotations

from typing import Any

from cellule.values.requests import Receipt


class EffectFailed(Exception):
    """An effect ended otherwise than `ok`, after all its attempts; `receipt` says how.

    A workflow that does not catch it ends as failed, with the receipt's code and text.
    """

    def __init__(self, receipt: Receipt[Any]) -> None:
        why = receipt.text or receipt.code or "no reason given"
        super().__init__(f"{receipt.kind} {receipt.status}: {why}")
        self.receipt = receipt
        self.kind = receipt.kind
        self.status = receipt.status
        self.code = receipt.code or f"effect.{receipt.status}"
        self.text = receipt.text or ""


class EffectDenied(EffectFailed):
    """A grant, the policy or a person did not allow the effect."""


class EffectTimedOut(EffectFailed):
    """The last attempt took too long: the effect may have happened."""


class EffectCancelled(EffectFailed):
    """Somebody cancelled the effect before it was done."""


_CLASSES = {"denied": EffectDenied, "timeout": EffectTimedOut, "cancelled": EffectCancelled}


def failure_of(receipt: Receipt[Any]) -> EffectFailed:
    """The exception of a receipt that is not ok."""
    return _CLASSES.get(receipt.status, EffectFailed)(receipt)


class GoesOn(BaseException):
    """Ends a run that goes on anew with these arguments, without its history."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        super().__init__(*arguments)
        self.arguments = arguments
