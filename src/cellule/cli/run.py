"""`cellule run`: a node that runs for good, for a service manager or a container.

It performs effects and works on every world of the store; the app is brought into one of them, the rest go on
with their stored code. Beside another owner it stands by, and takes over when that one is gone. SIGTERM and
SIGINT end it after everything accepted is finished.

What happens is logged to standard error. A readiness file says that the node is open and in which role; it is
renamed into place, and it is gone when the node is.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

import typer

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.cli.app_file import load_app
from cellule.cli.dev import APP_FILE
from cellule.cli.errors import usage
from cellule.cli.output import harmless, json_text
from cellule.cli.session import Session, ended_by_signals, in_session
from cellule.host.service import Cellule
from cellule.values.schema.text_forms import time_text

_log = logging.getLogger("cellule.run")


class Level(StrEnum):
    """How much is logged."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


@in_session
async def run(
    session: Session,
    app: Annotated[
        str | None, typer.Argument(help="The app: FILE.py:app or module:app; --app and app.py otherwise.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Written when the node is ready, removed when it ends.")
    ] = None,
    log_level: Annotated[Level, typer.Option(help="What to log to standard error.")] = Level.info,
) -> None:
    """Run a node for good: all worlds of the store, effects included, until SIGTERM or SIGINT."""
    if app is not None and session.app is not None and app != session.app:
        raise usage("the app is named twice: {first} and --app {second}", first=app, second=session.app)
    with ended_by_signals(), _logs(log_level, as_json=session.output.as_json), _Ready(ready_file) as ready:
        try:
            await _serve(session, app or session.app or _app_here(), ready)
        except asyncio.CancelledError:
            _log.info("asked to end: everything that was accepted is finished")


def _app_here() -> str | None:
    return APP_FILE if Path(APP_FILE).is_file() else None


async def _serve(session: Session, place: str | None, ready: _Ready) -> None:
    app = None if place is None else load_app(place)
    if app is None:
        _log.warning("no app was named: the worlds run their stored code, with Cellule's own adapters only")
    options = Options(create=app is not None)  # without an app an empty store has nothing to run
    async with open_node(session.data, app, objects=session.objects, options=options) as node:
        while True:
            if not node.is_owner:
                await _stand_by(session, node, ready)
            if app is not None:
                world = await node.world(
                    await session.chosen(node, create=True), universe=session.universe_name
                )
                head = await world.head()
                _log.info("world %s is at work at height %d", world.name, head.height)
            ready.tell("owner", str(session.address))
            await node.wait_guest()


async def _stand_by(session: Session, node: Cellule, ready: _Ready) -> None:
    """Wait until the store is ours."""
    owner = next((each for each in await node.sessions() if each.owns), None)
    _log.info("standing by: %s", "nobody owns the store yet" if owner is None else f"{owner} owns the store")
    ready.tell("guest", str(session.address))
    await node.wait_owner()


class _Ready:
    """The readiness file, if one was asked for."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def tell(self, role: str, address: str) -> None:
        """Say that the node is open, in a file that is there whole or not at all, then in the log."""
        if self._path is not None:
            beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
            beside.write_text(json.dumps({"pid": os.getpid(), "role": role, "data": address}) + "\n")
            beside.replace(self._path)
        _log.info("ready as %s of %s", role, address)

    def __enter__(self) -> Self:
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)  # of a process that was killed
                self._path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise usage(
                    "--ready-file {path} cannot be written: {why}",
                    path=str(self._path),
                    why=error.strerror or str(error),
                ) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


@contextmanager
def _logs(level: Level, *, as_json: bool) -> Iterator[None]:
    """Send what Cellule and the app log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JsonLines() if as_json else _TextLines("%(asctime)s %(levelname)-7s %(name)s  %(message)s")
    )
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.getLevelNamesMapping()[level.upper()])
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


class _TextLines(logging.Formatter):
    """Lines for people: what users wrote does not steer their terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        return harmless(super().format(record))


class _JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's time, level, logger and text."""
        line = {
            "at": time_text(int(record.created * 1e9)), "level": record.levelname.lower(),
            "logger": record.name, "text": record.getMessage(),
        }  # fmt: skip
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json_text(line)
