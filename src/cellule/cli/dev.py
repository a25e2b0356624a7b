"""`cellule dev`: runs an app while it is being written. It tells what happens, and reloads on save.

A parent watches the app's files; a child runs the node and is asked to end, cleanly, when one of them
changes. A file that cannot be loaded, or a change that the stored worlds cannot take, is told; the next
save tries again.

A world's journal has requests and receipts. What happens between is in the outbox, which is looked at from
time to time: attempts that failed and kinds that nobody performs are told once.

Rejected: reloading inside one process. Old classes and half-loaded modules would live on in it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from watchfiles import PythonFilter, awatch
from watchfiles.main import FileChange

from cellule.assembly import open as open_node
from cellule.cli.app_file import folder_of, load_app
from cellule.cli.errors import Exit, usage
from cellule.cli.lines import clock_text, record_line
from cellule.cli.session import Session, renderer_of, until_interrupted
from cellule.errors import Unavailable
from cellule.host.ingress.handles import WorldHandle
from cellule.host.read.effects.model import EffectView
from cellule.kernel.state.rows import OPEN
from cellule.sources import SystemClock

APP_FILE = "app.py"
PARENT = "CELLULE_DEV_PARENT"  # tells the child whom it belongs to
PARENT_LOOK_S = 1.0
_GIVE_UP = (Exit.OK, Exit.USAGE, Exit.UNAVAILABLE, Exit.DAMAGED)  # a save would not change these


@until_interrupted
async def dev(
    session: Session,
    reload: Annotated[bool, typer.Option(help="Start again when a file beside the app changes.")] = True,
) -> None:
    """Run the app of --app (or app.py) and show what happens, until interrupted; reload on save."""
    await (_watch(session) if reload else _serve(session))


async def _serve(session: Session) -> None:
    """Open the folder with the app, and tell every record as it becomes durable."""
    app = load_app(_place(session))
    async with _with_parent(), open_node(session.data, app, objects=session.objects) as node:
        await node.node.check_owner()
        name = await session.chosen(node, create=True)
        world = await node.world(name, universe=session.universe_name)
        head, renderer = await world.head(), renderer_of(world)
        manifest = await renderer.manifest()
        events = sorted(name for name in manifest.routes if not name.startswith("sys/"))
        ready = {
            "kind": "ready", "world": world.name, "data": str(session.address), "height": head.height,
            "events": events,
        }  # fmt: skip
        text = f"world {world.name} in {session.address} is at work at height {head.height}"
        text += f"; it takes {', '.join(events)}"
        session.output.line(ready, Text(text, style="bold"))
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch_effects(session, world))
            try:
                async for frame in world.tail(head.height):
                    for told in await renderer.frame(frame):
                        session.output.line(told.json(), record_line(told))
            finally:
                watching.cancel()


async def _watch(session: Session) -> None:
    """Run the child, and start it again on every change; ends with it where a change would not help."""
    place = _place(session)
    folder = folder_of(place)
    data = session.address.folder
    ignored = [] if data is None else [data]
    changes = awatch(folder, watch_filter=PythonFilter(ignore_paths=ignored), rust_timeout=500)
    saved: asyncio.Future[set[FileChange]] = asyncio.ensure_future(anext(changes))
    while True:
        child = await _started(session, place)
        try:
            found = await _ended_or_saved(session, child, saved, folder)
        except OSError as error:
            raise _no_watch(folder, error) from error
        finally:
            await _end(child)
        names = sorted(Path(path).name for _, path in found)
        line = {"kind": "reload", "files": names}
        session.output.line(line, Text(f"{', '.join(names)} changed: starting again", style="bold"))
        saved = asyncio.ensure_future(anext(changes))


async def _ended_or_saved(
    session: Session, child: Process, saved: asyncio.Future[set[FileChange]], folder: Path
) -> set[FileChange]:
    """Return what was saved; leave with the child's exit code where waiting for that is pointless."""
    ended = asyncio.ensure_future(child.wait())
    try:
        both: set[asyncio.Future[Any]] = {ended, saved}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if saved.done():
            return saved.result()
        code = ended.result()
        if code in _GIVE_UP:
            raise typer.Exit(code)
        session.output.note(f"waiting for a change in {folder}")
        return await saved
    finally:
        ended.cancel()


def _no_watch(folder: Path, error: OSError) -> Unavailable:
    return Unavailable(
        "cli.watch", "{folder} cannot be watched for changes: {why}", folder=str(folder), why=error,
        hint="Run it without: cellule dev --no-reload.",
    )  # fmt: skip


async def _started(session: Session, place: str) -> Process:
    """The child: the same command without reloading, in a session of its own: only we interrupt it.

    The address travels in its environment: everybody on the machine can read a command line.
    """
    arguments = ["--app", place, "--universe", session.universe_name]
    arguments += ["--world", session.world_name] if session.world_name else []
    arguments += ["--json"] if session.output.as_json else []
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cellule", *arguments, "dev", "--no-reload",
        start_new_session=True, env={**os.environ, **_store_variables(session), PARENT: str(os.getpid())},
    )  # fmt: skip


def _store_variables(session: Session) -> dict[str, str]:
    objects = {} if session.objects is None else {"CELLULE_OBJECTS": session.objects}
    return {"CELLULE_DATA": session.data, **objects}


async def _end(child: Process) -> None:
    """Ask the child to end, and wait until it has finished what it accepted."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.terminate()  # SIGINT may be ignored until its handlers are set
        await child.wait()


@asynccontextmanager
async def _with_parent() -> AsyncIterator[None]:
    """End when the parent is gone: nobody would be left to end this process."""
    parent, task = os.environ.get(PARENT), asyncio.current_task()
    assert task is not None

    async def look() -> None:
        while parent is not None and str(os.getppid()) == parent:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(PARENT_LOOK_S)
        if parent is not None:
            task.cancel()

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()


def _place(session: Session) -> str:
    if session.app is not None:
        return session.app
    if not Path(APP_FILE).is_file():
        raise usage(
            "dev needs an app", hint=f"Give --app FILE.py:app, or have an {APP_FILE} here: cellule init."
        )
    return APP_FILE


LOOK_S = 1.0
SHOWN_MAX = 100  # effects looked at each time


async def watch_effects(session: Session, world: WorldHandle) -> None:
    """Tell of failed attempts and missing adapters, until cancelled."""
    told: set[tuple[str, str]] = set()
    while True:
        effects: list[EffectView] = []
        with suppress(Unavailable):  # whoever sends is told; this looks again
            effects = await world.effects(status=OPEN, limit=SHOWN_MAX)
        news = {_mark(each): each for each in effects if _is_news(each)}
        for mark, effect in news.items():
            if mark not in told:
                _tell(session, effect)
        told = {mark for mark in told | set(news) if mark in news or mark[0] == "no adapter"}
        await asyncio.sleep(LOOK_S)


def _is_news(effect: EffectView) -> bool:
    return effect.attempts is not None and effect.attempts.state in ("retrying", "no adapter")


def _mark(effect: EffectView) -> tuple[str, str]:
    """What is told once: every failed attempt, and every kind without adapter."""
    assert effect.attempts is not None
    if effect.attempts.state == "no adapter":
        return "no adapter", effect.kind
    return effect.id, str(effect.attempts.tried)


def _tell(session: Session, effect: EffectView) -> None:
    attempts = effect.attempts
    assert attempts is not None
    line = {
        "kind": "attempt", "effect": effect.kind, "intent": effect.id, "state": attempts.state,
        "tried": attempts.tried, "most": attempts.most, "error": attempts.error or None,
        "reason": effect.reason,
    }  # fmt: skip
    now = clock_text(SystemClock().now_ns())
    session.output.line(line, Text(f"{'':>8}  {now}  {'attempt':<9}{effect.kind}: {effect.reason}", "yellow"))
