"""What one person does to the cells, dead letters and schedules of a world, journaled with who and why.

Many at once are many controls, each with a record of its own: one that is refused holds no other back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cellule.host.codecs import WorldCodecs
from cellule.host.ingress.arguments import Id, check_name, check_who_and_why
from cellule.host.ingress.checked_calls import checked_calls
from cellule.host.ingress.outcomes import Applied
from cellule.host.ingress.world_effects import Control
from cellule.host.read.journal_reader import nanoseconds_of
from cellule.host.read.migration_preview import MigrationPreview
from cellule.host.read.reader import Reader
from cellule.kernel.items import Verb
from cellule.kernel.journal.records import ControlRecord
from cellule.values.records import StepOf

TOGETHER: Final = 100  # controls that are on their way at once

Module = StepOf[Any] | str


@checked_calls("module")
class Operator:
    """A person at work on one world, by name."""

    def __init__(self, who: str, types: Callable[[], WorldCodecs], control: Control, reader: Reader) -> None:
        self.who, _ = check_who_and_why(who, "")
        self._types = types
        self._control = control
        self._reader = reader

    async def resume(
        self, module: Module | None = None, key: Any = None, *, why: str, id: Id | None = None
    ) -> Applied[Any]:
        """Let stopped cells try their first event again: one, a module's, or all."""
        return await self._one("cell.resume", why, self._cells(module, key), id)

    async def migrate(
        self, module: Module | None = None, key: Any = None, *, why: str, all: bool = False,
        to: int | None = None, id: Id | None = None,
    ) -> Applied[Any]:  # fmt: skip
        """Move cells to the newest code: one, or those of a module or of the world that wait for it.

        `all` moves also those that would follow at their next event, and those that are pinned. `to` is the
        era to move pinned cells to, where it is not the current one.
        """
        return await self._one("cell.migrate", why, self._migration(module, key, all=all, to=to), id)

    async def preview_migration(
        self, module: Module | None = None, key: Any = None, *, all: bool = False, to: int | None = None
    ) -> MigrationPreview:
        """What `migrate` would do: how many cells of which eras would move, and which cannot."""
        return await self._reader.preview_migration(self._migration(module, key, all=all, to=to))

    async def drop(
        self,
        module: Module,
        key: Any = None,
        *,
        why: str,
        count: int = 1,
        message: int | None = None,
        id: Id | None = None,
    ) -> Applied[Any]:
        """Take the first event out of a stopped cell's queue, and let the cell go on with the next one.

        Without a key, of every stopped cell of the module. `count` takes more of one cell; `message`, the
        height of an event, takes it only while it is the first. Whoever waits for a dropped event is told.
        """
        extra = {"count": count} if count != 1 else {}
        extra |= {} if message is None else {"message": message}
        return await self._one("cell.drop", why, {**self._cells(module, key), **extra}, id)

    async def delete(self, module: Module, *keys: Any, why: str) -> list[Applied[Any]]:
        """Delete cells; their open effects are abandoned, and events that wait for them find no state."""
        wanted = [self._cells(module, key) for key in keys] if keys else [self._cells(module, b"")]
        return await self._each("cell.delete", why, wanted)

    async def erase(self, module: Module, *keys: Any, why: str, id: Id | None = None) -> Applied[Any]:
        """Destroy the keys of cells whose module asks for erasure: nobody can read what they hold any more.

        Cells that are there are deleted as by `delete`; of those that are gone, what the journal has of them
        is erased. All of them go together, in one control. See `docs/guides/erasure.md` for what stays.
        """
        types = self._types()
        base = types.module(module)
        if not keys and types.manifest.modules[base].cell_key is None:
            keys = (b"",)  # its one cell
        wanted = [types.key(base, key) for key in keys]
        return await self._control("cell.erase", who=self.who, why=why, id=id, module=base, keys=wanted)

    async def redrive(self, *letters: int, why: str) -> list[Applied[Any]]:
        """Let dead letters happen again, by their heights: events and effects alike."""
        return await self._each("letter.redrive", why, [{"letter": letter} for letter in letters])

    async def dismiss(self, *letters: int, why: str) -> list[Applied[Any]]:
        """Let dead letters go for good, by their heights."""
        return await self._each("letter.dismiss", why, [{"letter": letter} for letter in letters])

    async def trigger_schedule(self, name: str, *, why: str, id: Id | None = None) -> Applied[Any]:
        """Send the event of a schedule now, whatever it is due; its next time stays as it is."""
        return await self._one("schedule.trigger", why, {"name": check_name("name", name)}, id)

    async def backfill_schedule(
        self, name: str, first: datetime, last: datetime, *, why: str
    ) -> list[Applied[Any]]:
        """Send the event of a schedule once for every due time from `first` to `last`, both in the past.

        One control for each frame that it takes.
        """
        begin: Any = nanoseconds_of(first)
        done: list[Applied[Any]] = []
        while begin:
            wanted = {"name": check_name("name", name), "from_ns": begin, "to_ns": nanoseconds_of(last)}
            done.append(await self._one("schedule.backfill", why, wanted))
            frame = await self._reader.frame(done[-1].height)
            begin = frame.expect(done[-1].height, ControlRecord).arguments.get("more")
        return done

    def _migration(self, module: Module | None, key: Any, *, all: bool, to: int | None) -> dict[str, Any]:
        extra: dict[str, Any] = {"all": True} if all else {}
        return {**self._cells(module, key), **extra, **({} if to is None else {"to": to})}

    def _cells(self, module: Module | None, key: Any) -> dict[str, Any]:
        if module is None:
            return {}
        types = self._types()
        base = types.module(module)
        if key is None and types.manifest.modules[base].cell_key is None:
            key = b""  # its one cell
        return {"module": base} if key is None else {"module": base, "key": types.key(base, key)}

    async def _one(
        self, verb: Verb, why: str, arguments: Mapping[str, Any], id: Id | None = None
    ) -> Applied[Any]:
        return await self._control(verb, who=self.who, why=why, id=id, **arguments)

    async def _each(
        self, verb: Verb, why: str, wanted: Sequence[Mapping[str, Any]]
    ) -> list[Applied[Any]]:  # fmt: skip
        """Do a verb for each; where some are refused the others are done, and the first refusal is raised."""
        done: list[Applied[Any]] = []
        errors: list[BaseException] = []
        for at in range(0, len(wanted), TOGETHER):
            calls = [self._one(verb, why, arguments) for arguments in wanted[at : at + TOGETHER]]
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    errors.append(outcome)
                else:
                    done.append(outcome)
        for error in errors:
            if len(wanted) > 1:
                error.add_note(f"{len(errors)} of {len(wanted)} were refused; the others are done")
            raise error
        return done
