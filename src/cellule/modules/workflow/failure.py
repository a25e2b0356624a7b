"""How things end badly in a workflow, as exceptions: an effect or a call; and how a run goes on anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellule.kernel.manifest.system import Ended
from cellule.modules.workflow import history
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


class CallFailed(Exception):
    """A cell that was called gives no answer; `status`, `code` and `text` say why, `module` and `key` which.

    `status`: refused, failed, cancelled, deleted, dropped (a person took the call out of its queue, or there
    was no room), or ended: its run completed without this answer. A workflow that does not catch it fails.
    """

    def __init__(self, outcome: Mapping[str, Any]) -> None:
        self.status: str = outcome["status"]
        self.module: str = outcome["module"]
        self.key: bytes = outcome["key"]
        self.code: str = outcome["code"]
        self.text: str = outcome["text"]
        shown = self.key.decode(errors="backslashreplace")
        super().__init__(f"{self.module}/{shown} {self.status}: {self.text or self.code}")


class CallRefused(CallFailed):
    """The cell that was called refused."""


class CallCancelled(CallFailed):
    """The run that was called was cancelled."""


_CALLS = {"refused": CallRefused, "cancelled": CallCancelled}


def call_failure(outcome: Mapping[str, Any]) -> CallFailed:
    """The exception of a call that has failed."""
    return _CALLS.get(outcome["status"], CallFailed)(outcome)


def told_to_callers(status: str, detail: Any) -> Ended:
    """What those hear whose calls a run that is over has not answered."""
    match status:
        case history.FAILED:
            return Ended("failed", *detail)
        case history.CANCELLED:
            return Ended("cancelled", "workflow.cancelled", detail)
    return Ended("ended", "workflow.completed", "its run completed without this answer")


class GoesOn(BaseException):
    """Ends a run that goes on anew with these arguments, without its history."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        super().__init__(*arguments)
        self.arguments = arguments
