"""Calls that a run waits to be answered: which cells it has called, and what those wait for themselves.

The step that made a call says so in its record, and the event behind it names the cells it went to. So the
search goes back over the steps of the caller, and looks at the called cells as they are now.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from cellule.host.read.reader import Reader
from cellule.kernel.journal.records import EmittedRecord, StepRecord

CALL_STEPS_MAX: Final = 1_000  # steps of a caller that are looked at


@dataclass(frozen=True, slots=True)
class Called:
    """A cell that was called and has not answered, by the caller's word for the call; why it waits."""

    call: str
    module: str
    key: bytes
    reason: str


async def find_called(reader: Reader, base: str, key: bytes, calls: Collection[str]) -> list[Called]:
    """The cells behind calls of a run; those of steps longer ago than `CALL_STEPS_MAX` are left out."""
    entry, left = await reader.entry(base, key), set(calls)
    height, found = 0 if entry is None else entry.last, list[Called]()
    for _ in range(CALL_STEPS_MAX):
        if not left or not height:
            break
        frame = await reader.frame(height)
        step = frame.expect(height, StepRecord)
        for at, token, _ in step.extras.get("calls", ()):
            if token in left:
                left.remove(token)
                for module, called in frame.expect(height + at, EmittedRecord).targets:
                    reasons = await reader.reasons(module, called)
                    reason = "; ".join(map(str, reasons)) or "there is no such cell"
                    found.append(Called(token, module, called, reason))
        height = step.prev
    return found
