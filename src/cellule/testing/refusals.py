"""What the deterministic loop refuses, and why: everything whose outcome no seed decides.

Rejected: leaving asyncio's own NotImplementedError. It names neither the cause nor what to use instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn, TypeVar

from cellule.errors import Rejected

L = TypeVar("L", bound=asyncio.AbstractEventLoop)

REFUSED = {
    "threads": "call_soon_threadsafe run_in_executor set_default_executor",
    "sockets": (
        "getaddrinfo getnameinfo create_connection create_server sendfile start_tls create_unix_connection"
        " create_unix_server connect_accepted_socket create_datagram_endpoint connect_read_pipe"
        " connect_write_pipe add_reader remove_reader add_writer remove_writer sock_recv"
        " sock_recv_into sock_recvfrom sock_recvfrom_into"
        " sock_sendall sock_sendto sock_connect sock_accept sock_sendfile"
    ),
    "subprocesses": "subprocess_shell subprocess_exec",
    "signals": "add_signal_handler remove_signal_handler",
}
"""What would break determinism, and the loop methods that would let it in."""

_AS_COMPLETED = {"as_completed", "as_completed.<locals>.<setcomp>", "_AsCompletedIterator.__init__"}
_ENSURE_FUTURE = {"ensure_future", "_ensure_future"}


def refusing(kind: type[L]) -> type[L]:
    """Give a loop class methods that refuse everything in `REFUSED`."""
    for what, names in REFUSED.items():
        for name in names.split():
            setattr(kind, name, _refusal(name, what))
    return kind


def refuse(name: str, what: str) -> NoReturn:
    """Refuse the loop method `name`."""
    raise Rejected(
        "testing.not_deterministic", "loop.{name} needs {what}, which no seed can decide",
        name=name, what=what,
        hint="Pass a part that works in virtual time, or test this one on an ordinary event loop.",
    )  # fmt: skip


def check_not_as_completed(caller: FrameType | None) -> None:
    """Refuse coroutines given to `asyncio.as_completed`: it starts them in the order of their addresses."""
    if caller is None or caller.f_code.co_name not in _ENSURE_FUTURE:
        return
    while caller is not None and caller.f_code.co_name in _ENSURE_FUTURE:
        caller = caller.f_back
    if caller is None or caller.f_code.co_qualname not in _AS_COMPLETED:
        return
    if caller.f_globals.get("__name__") == "asyncio.tasks":
        raise Rejected(
            "testing.as_completed", "asyncio.as_completed starts coroutines in the order of their addresses",
            hint="Make tasks of them first: as_completed([create_task(c) for c in ...]).",
        )  # fmt: skip


def _refusal(name: str, what: str) -> Callable[..., NoReturn]:
    def method(_self: object, *_args: Any, **_options: Any) -> NoReturn:
        refuse(name, what)

    method.__name__ = method.__qualname__ = name
    return method
