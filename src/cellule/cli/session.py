"""What a command works on: the global options, and the folder opened as they say.

Reading never takes the folder's lock: it sees what is durable, whoever owns the folder, and leaves no trace.
Working takes the lock where it is free, and goes through the owner's inbox where it is not. No command
performs effects but `dev`: what a command makes a cell ask for waits in the outbox.

Rejected: taking the lock for every command. A look at a cell would keep a node from starting.
"""

from __future__ import annotations

import asyncio
import getpass
import inspect
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, get_type_hints

import typer

from cellule.app import App
from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.cli.app_file import load_app
from cellule.cli.errors import Exit, cellule_error, exit_code
from cellule.cli.output import Output, close_broken_pipe, while_read
from cellule.errors import Rejected, Unavailable
from cellule.host.codecs import StoredCodecs
from cellule.host.ingress.handles import WorldHandle
from cellule.host.node import DEFAULT_UNIVERSE
from cellule.host.own.directory import UniverseInfo, WorldInfo
from cellule.host.own.ownership import SessionInfo
from cellule.host.read.record_view import RecordRenderer, key_of_text
from cellule.host.service import DEFAULT_WORLD, Cellule
from cellule.kernel.manifest.model import Manifest
from cellule.loop_end import to_the_end
from cellule.store.address import StoreAddress, parse_address
from cellule.values.schema.text_forms import time_text

P = ParamSpec("P")
_ENDING: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}  # and what the second does


@dataclass(frozen=True, slots=True)
class Session:
    """The global options of one command."""

    data: str = field(repr=False)  # as it was given: it may hold a password
    objects: str | None
    app: str | None
    world_name: str | None
    universe_name: str
    output: Output

    def run(self, work: Coroutine[Any, Any, None], *, until_interrupted: bool = False) -> None:
        """Run a command to its end, and turn what goes wrong into a message and an exit code.

        `until_interrupted`: the command has no other end, so an interrupt is a good one.
        """
        try:
            asyncio.run(to_the_end(_until_ended(work) if until_interrupted else work))
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise typer.Exit(Exit.OK if until_interrupted else Exit.INTERRUPTED) from None
        except BrokenPipeError:
            close_broken_pipe()
            raise typer.Exit(Exit.OK) from None
        except BaseException as error:  # noqa: BLE001 - what is no Cellule error is raised again
            self._failed(error)

    def _failed(self, error: BaseException) -> NoReturn:
        found = cellule_error(error)
        if found is None:
            raise error
        self.output.error(found)
        raise typer.Exit(exit_code(found)) from None

    # Opening

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Cellule]:
        """The store as a reader sees it; nothing is made."""
        options = Options(own=False, tune_process=False, create=False)
        async with open_node(self.data, None, objects=self.objects, deploy="never", options=options) as node:
            yield node

    def working(self, *, create: bool = False) -> AbstractAsyncContextManager[Cellule]:
        """The store to change something; made where it is missing only if `create` says so."""
        options = Options(tune_process=False, perform=False, create=create)
        return open_node(self.data, self.load_app(), objects=self.objects, options=options)

    def trying(self) -> AbstractAsyncContextManager[Cellule]:
        """The store to try something out with the app: it is read, and nothing is made or deployed."""
        options = Options(own=False, tune_process=False, perform=False, create=False)
        return open_node(self.data, self.load_app(), objects=self.objects, deploy="never", options=options)

    def load_app(self) -> App | None:
        """The app of `--app`, if it was given."""
        return None if self.app is None else load_app(self.app)

    @property
    def address(self) -> StoreAddress:
        """The address of `--data` and `--objects`, for commands that look at it themselves."""
        return parse_address(self.data, self.objects)

    # Names

    async def universe(self, node: Cellule) -> UniverseInfo | None:
        """The universe of `--universe`; None for the default one before it is first used."""
        if self.universe_name != DEFAULT_UNIVERSE:
            return await node.node.directory.universe(self.universe_name)
        known = await node.universes()
        return next((each for each in known if each.name == DEFAULT_UNIVERSE), None)

    async def worlds(self, node: Cellule) -> list[WorldInfo]:
        """All worlds of the universe."""
        universe = await self.universe(node)
        return [] if universe is None else await node.node.directory.worlds(universe.id)

    async def info(self, node: Cellule, name: str | None = None) -> WorldInfo:
        """The directory's entry of the world meant."""
        chosen = await self.chosen(node, name)
        universe = await node.node.universe(self.universe_name)
        return await node.node.directory.world(universe, chosen)

    async def world(self, node: Cellule, name: str | None = None) -> WorldHandle:
        """The world meant: by name, by `--world`, `main`, or the only one there is."""
        chosen = await self.chosen(node, name)
        world = await node.world(chosen, universe=self.universe_name, create=False)
        if self.app is not None:
            world.types = StoredCodecs(await renderer_of(world).manifest())  # people and programs write JSON
        return world

    @asynccontextmanager
    async def world_to_read(self, name: str | None = None) -> AsyncIterator[WorldHandle]:
        """The world meant, in a store that is only read."""
        async with self.reading() as node:
            yield await self.world(node, name)

    @asynccontextmanager
    async def world_to_change(self, name: str | None = None) -> AsyncIterator[WorldHandle]:
        """The world meant, to change something in it."""
        async with self.working() as node:
            yield await self.world(node, name)

    async def chosen(self, node: Cellule, name: str | None = None, *, create: bool = False) -> str:
        """The name of the world meant; `main` where there is none yet and one may be made."""
        wanted = name or self.world_name
        if wanted is not None:
            return wanted
        names = [each.name for each in await self.worlds(node)]
        if DEFAULT_WORLD in names:
            return DEFAULT_WORLD
        if len(names) == 1:
            return names[0]
        if not names and create:
            return DEFAULT_WORLD
        if not names:
            raise Rejected(
                "cli.no_worlds", "universe {universe} in {store} has no worlds yet",
                universe=self.universe_name, store=str(self.address),
                hint="Make one: cellule world create NAME --app FILE.py:app",
            )  # fmt: skip
        raise Rejected(
            "cli.which_world", "universe {universe} has {count} worlds", universe=self.universe_name,
            count=len(names), hint=f"Name one with --world: {', '.join(sorted(names)[:8])}.",
        )  # fmt: skip


async def _until_ended(work: Coroutine[Any, Any, None]) -> None:
    """Do work that has no end of its own, until a signal comes or nobody reads what it writes."""
    with ended_by_signals():
        await while_read(work)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the current task cleanly on SIGINT and SIGTERM; a second signal ends the process at once.

    The handlers are our own because a shell starts what it runs in the background with SIGINT ignored, and
    Python then leaves it ignored.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    before = {sign: signal.getsignal(sign) for sign in _ENDING}

    def end(*_: object) -> None:
        for sign, hard in _ENDING.items():
            signal.signal(sign, hard)
        loop.call_soon_threadsafe(task.cancel)

    for sign in _ENDING:
        signal.signal(sign, end)  # not the loop's way, which could not end an app that hangs while it loads
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


Work = Callable[Concatenate[Session, P], Coroutine[Any, Any, None]]


def in_session(function: Work[P]) -> Callable[P, None]:
    """Make a command of a function that takes a session first: typer gives it the rest of its parameters.

    A dataclass as a parameter stands for one option a field; what is raised becomes a message and exit code.
    """
    return _command(function, until_interrupted=False)


def until_interrupted(function: Work[P]) -> Callable[P, None]:
    """The same for a function that has no end of its own, so that an interrupt is a good one."""
    return _command(function, until_interrupted=True)


def _command(function: Work[P], *, until_interrupted: bool) -> Callable[P, None]:
    group = _group_of(function)
    group_type = None if group is None else get_type_hints(function)[group]

    @wraps(function)
    def run(context: typer.Context, *args: P.args, **kwargs: P.kwargs) -> None:
        session = context.find_object(Session)
        assert session is not None
        if group is not None and group_type is not None:
            given = {each.name: kwargs.pop(each.name) for each in fields(group_type)}
            kwargs[group] = group_type(**given)
        session.run(function(session, *args, **kwargs), until_interrupted=until_interrupted)

    # Typer reads the signature to know the options; the session is what it knows as its context.
    _, *own = inspect.signature(function).parameters.values()
    hints = {"context": typer.Context, **get_type_hints(function, include_extras=True)}
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [each.replace(annotation=hints[each.name]) for each in (context, *own) if each.name != group]
    if group is not None:
        parameters += _options_of(hints[group])
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def _group_of(function: Callable[..., object]) -> str | None:
    """The parameter that stands for several options: one whose type is a dataclass."""
    hints = get_type_hints(function)
    return next((name for name, hint in hints.items() if name != "session" and is_dataclass(hint)), None)


def _options_of(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            each.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]  # fmt: skip


def cell_of(manifest: Manifest, module: str, key: str) -> tuple[str, bytes]:
    """A cell as a person names it; `Rejected` with suggestions for a module there is not."""
    base = StoredCodecs(manifest).module(module)
    return base, key_of_text(manifest, base, key)


def cell_named(manifest: Manifest, name: str) -> tuple[str, bytes]:
    """The cell of `module/key`; both may hold slashes, so the longest module that fits is meant."""
    for base in sorted(manifest.modules, key=len, reverse=True):
        for short in (base, base.rpartition("/")[2]):
            if name == short:
                return cell_of(manifest, base, "")
            if name.startswith(f"{short}/"):
                return cell_of(manifest, base, name[len(short) + 1 :])
    module, _, key = name.partition("/")
    return cell_of(manifest, module, key)


async def owner_of(node: Cellule) -> dict[str, Any] | None:
    """The process that owns the store, if it is another one; None where nobody does."""
    owner = next((each for each in await node.sessions() if each.owns), None)
    return None if owner is None or node.is_owner else session_json(owner)


def session_json(session: SessionInfo) -> dict[str, Any]:
    """A node's session as JSON data."""
    return {
        "host": session.host, "pid": session.pid, "since": time_text(session.since_ns), "owns": session.owns,
        "node": None if session.node is None else str(session.node), "expires_ms": session.expires_ms,
        "text": str(session),
    }  # fmt: skip


def operator() -> str:
    """Who runs this command, for the journal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """Give up after a while; whatever was sent stays sent."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable(
            "cli.timeout", "{what} did not come within {seconds} s", what=what, seconds=seconds,
            hint="What was handed over is not lost: see `cellule journal tail`, or raise --timeout.",
        ) from None  # fmt: skip


def renderer_of(world: WorldHandle) -> RecordRenderer:
    """A renderer of the world's records."""
    return RecordRenderer(world.follower)
