"""What `cellule doctor` found: one line for each thing it looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cellule.cli.errors import Exit, exit_code, message_of
from cellule.errors import CelluleError

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    status: Status
    text: str
    exit: Exit = Exit.OK

    def json(self) -> dict[str, str]:
        """The finding as JSON data."""
        return {"what": self.what, "status": self.status, "text": self.text}

    @classmethod
    def of_error(cls, what: str, error: CelluleError) -> Finding:
        """What went wrong, and what to do about it."""
        return cls(what, "fail", f"{message_of(error)} {error.hint}".strip(), exit_code(error))
