"""The enzymes that Cellule brings: an app that wants them says so, and they are bundled like its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellule.heartbeat import exposed_operations
from cellule.heartbeat.mailboxes import enzyme as mailboxes

Declare = Callable[..., Callable[..., Any]]
"""`app.enzyme`."""


def add_mailboxes(declare: Declare) -> None:
    """The enzyme that runs mailboxes."""
    declare(mailboxes.QUERY, match="prefix", name=mailboxes.NAME)(mailboxes.mailbox)


def add_operations(declare: Declare) -> None:
    """The enzyme by which cells show their work as operations."""
    for query in reversed(exposed_operations.QUERIES):  # decorators run from the lowest up
        declare(query, name=exposed_operations.NAME)(exposed_operations.operation)
