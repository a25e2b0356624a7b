"""Operations of one world for whoever is outside it: start, tell the state, await, close, look, wait.

What changes an operation is journaled with who and why, by the owner or through its inbox; what was refused
changed nothing. A client that waits here sees the operation as of what is durable.
"""

from __future__ import annotations

from typing import Any

from cellule.errors import TimedOut
from cellule.host.ingress.arguments import Id, check_who_and_why
from cellule.host.ingress.checked_calls import checked_calls
from cellule.host.ingress.outcomes import Applied
from cellule.host.ingress.waits import within
from cellule.host.ingress.world_effects import Control
from cellule.host.read.operations import (
    OperationPage,
    OperationView,
    find_operation,
    get_operation,
    is_place,
    list_operations,
)
from cellule.host.read.reader import Reader
from cellule.host.store_retry import reading
from cellule.kernel.heartbeat.operations import FINAL
from cellule.kernel.items import Verb
from cellule.kernel.journal.records import ControlRecord
from cellule.values.cbor import encode


@checked_calls()
class Operations:
    """The operations of one world: `world.op`."""

    def __init__(self, control: Control, reader: Reader) -> None:
        self._control = control
        self._reader = reader

    async def start(
        self, verb: str, target: str, *, mode: str = "opm:states", ttl: int = 0, payload: Any = None,
        who: str = "client", why: str = "asked for", id: Id | None = None,
    ) -> str:  # fmt: skip
        """Start an operation, and return its id; asking again with the same `id` starts no second one."""
        arguments: dict[str, Any] = {"verb": verb, "target": target, "mode": mode, "ttl": ttl}
        if payload is not None:
            arguments["payload"] = encode(payload)
        done = await self._do("op.start", who, why, id, arguments)
        frame = await self._reader.frame(done.height)
        return str(frame.expect(done.height, ControlRecord).arguments["operation"])

    async def state(
        self, op: str, state: str, *, code: int = 0, note: str | None = None, who: str = "client",
        why: str = "asked for", id: Id | None = None,
    ) -> None:  # fmt: skip
        """Tell the state of an operation, with a code and a note."""
        arguments = {"id": op, "state": state, "code": code, "note": note}
        await self._do("op.state", who, why, id, arguments)

    async def await_(
        self, op: str, want: str, cont: str, *, ttl: int = 0, payload: Any = None, who: str = "client",
        why: str = "asked for", id: Id | None = None,
    ) -> None:  # fmt: skip
        """Have the signal `cont` sent once, when the operation is as wanted; after `ttl` beats `op/tmo`.

        `want` is a state (`ist:...`) or the status of its close (`sts:ok`, `sts:fail`, `sts:cnl`). The signal
        runs in the next beat, with the operation as its target. A `ttl` of 0 waits for ever.
        """
        arguments: dict[str, Any] = {"id": op, "want": want, "cont": cont, "ttl": ttl}
        if payload is not None:
            arguments["payload"] = encode(payload)
        await self._do("op.await", who, why, id, arguments)

    async def close(
        self, op: str, status: str = "sts:ok", *, summary: str | None = None, who: str = "client",
        why: str = "asked for", id: Id | None = None,
    ) -> None:  # fmt: skip
        """Close an operation: `sts:ok`, `sts:fail` or `sts:cnl`. The same again changes nothing."""
        await self._do("op.close", who, why, id, {"id": op, "status": status, "summary": summary})

    async def get(self, op: str) -> OperationView:
        """The whole dossier of an operation, by its id or by the path of what it shows."""
        return await get_operation(self._reader, op)

    async def list(
        self, *, state: str | None = None, after: str | None = None, limit: int = 100
    ) -> OperationPage:
        """Operations in the order of creation, a page at a time: `after=page.next`, until that is None."""
        return await list_operations(self._reader, after, limit, state)

    async def wait(self, op: str, want: str | None = None, *, timeout: float | None = None) -> OperationView:
        """Wait until an operation is closed, or as wanted: in a state (`ist:...`), closed with a status.

        `op` is its id, or the path of what it shows, such as `/cells/shop/order/o-1`: then it may begin
        later, and the newest counts. It is asked whenever the world has a new frame, and may miss a state
        between two of them.
        """
        last: OperationView | None = None

        def timed_out() -> TimedOut:
            return TimedOut(
                "operation.wait_timeout", "operation {id} is not {want} after {seconds} s; it is {state}",
                id=op, want=want or "closed", seconds=timeout,
                state="unknown" if last is None else last.state,
                hint="It goes on. Wait again, or have a signal sent by `await`.",
            )  # fmt: skip

        async with within(timeout, timed_out):
            while True:
                head = await self._reader.journal.head()
                find = find_operation if is_place(op) else get_operation
                last = await find(self._reader, op)
                if last is not None and _is_as_wanted(last, want):
                    return last
                with reading():
                    await self._reader.next_head(head)

    async def _do(
        self, verb: Verb, who: str, why: str, id: Id | None, arguments: dict[str, Any]
    ) -> Applied[Any]:
        who, why = check_who_and_why(who, why)
        wanted = {name: value for name, value in arguments.items() if value is not None}
        operation = wanted.pop("id", None)
        if operation is not None:
            wanted["operation"] = operation
        return await self._control(verb, who=who, why=why, id=id, **wanted)


def _is_as_wanted(view: OperationView, want: str | None) -> bool:
    if want is None:
        return view.is_closed
    return view.status == want if want in FINAL else view.state == want
