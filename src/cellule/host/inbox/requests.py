"""Requests from other processes to the owner of a world: work of the host, done once and then journaled.

    inbox item = {kind: "request", what: "snapshot", who, why, id}

A request is no item of a beat: it is taken out of the inbox's rows, done, and put back as the control that
notes what came of it, with the request's id among its arguments. The row goes in the commit of that control,
so a crash before it does the work again, and whoever asked finds the outcome in the journal.

Rejected: the verb itself as a control. The kernel would record that a snapshot was wished for, and neither
whether nor where there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cellule.errors import CelluleError, Unavailable
from cellule.kernel.items import ControlItem, RefusalItem
from cellule.kernel.limits import ERROR_TEXT_MAX
from cellule.values.cid import Cid
from cellule.values.link import Link

Taken = tuple[int, Cid]


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody asks the owner for a snapshot."""

    who: str
    why: str
    id: bytes

    def row(self) -> dict[str, Any]:
        """As the inbox stores it."""
        return {"kind": "request", "what": "snapshot", "who": self.who, "why": self.why, "id": self.id}

    @classmethod
    def of_row(cls, row: Any) -> Request:
        """Read a stored row; `ValueError` for what is no request."""
        who, why, given = row["who"], row["why"], row["id"]
        known = row["what"] == "snapshot" and isinstance(who, str) and isinstance(why, str)
        if not known or not isinstance(given, bytes):
            raise ValueError(row["what"])
        return cls(who, why, given)

    def note(self, height: int, root: Cid) -> ControlItem:
        """The control that answers it."""
        arguments = {"height": height, "snapshot": Link(root), "request": self.id}
        return ControlItem("snapshot", self.who, self.why, arguments, durable=True)

    def refusal(self, error: BaseException) -> RefusalItem:
        """What is recorded where it cannot be done."""
        code = error.code if isinstance(error, CelluleError) else "host.snapshot_failed"
        return RefusalItem("control:snapshot", code, str(error)[:ERROR_TEXT_MAX], self.id)


class Requests:
    """The requests under way in one hosted world.

    `ask` begins a snapshot; `answer` gets what notes it and the key of the request's row.
    """

    def __init__(
        self,
        ask: Callable[[], asyncio.Future[Taken]],
        answer: Callable[[ControlItem | RefusalItem, bytes], None],
    ) -> None:
        self._ask = ask
        self._answer = answer
        self._under_way: set[bytes] = set()
        self._closed = False

    @property
    def waiting(self) -> bool:
        """Tell whether rows of requests are still in the inbox."""
        return bool(self._under_way)

    def begin(self, request: Request, key: bytes) -> None:
        """Do what is asked for; when the store is out of reach, once more."""

        def done(taken: asyncio.Future[Taken]) -> None:
            error = taken.exception()
            if self._closed:
                return
            if isinstance(error, Unavailable):
                self.begin(request, key)
                return
            self._under_way.discard(key)
            self._answer(request.refusal(error) if error else request.note(*taken.result()), key)

        self._under_way.add(key)
        self._ask().add_done_callback(done)

    def close(self) -> None:
        """The world ends here: requests that are not done stay in its inbox."""
        self._closed = True
