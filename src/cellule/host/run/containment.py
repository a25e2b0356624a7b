"""What happens when the kernel cannot do a beat: the one item or cell is found and put out of the way.

The kernel refuses what is wrong. If it raises something else, that is a defect of Cellule, and the world in
memory is dropped. The next owner would meet the same items again, so they are taken apart here: the world is
restored, does its own work without any item, then takes half of the items, and so on, until one alone fails.
That one is set aside: its sender is told, a row of the inbox is refused and kept for a person. If the world's
own work fails, or the step that the item leads to, the cell that was stepping is halted and keeps its
messages; if that is not enough the world is paused, with the reason. Only what fails even then ends it.

Rejected: refusing all items of the beat. Everybody's events would be lost for one that nobody can take.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from cellule.errors import CelluleError, Corrupted, Fenced, InvariantBroken, Unavailable, readable
from cellule.host.inbox.sends import Sent
from cellule.kernel.items import ControlItem, EventItem, ReceiptItem, RefusalItem, SignalItem, record_id
from cellule.kernel.limits import ERROR_TEXT_MAX
from cellule.kernel.manifest.system import SIGNAL
from cellule.kernel.state.intent_id import intent_shown

if TYPE_CHECKING:
    from cellule.host.run.world_runner import WorldRunner
    from cellule.kernel.state.ledger import Target

SET_ASIDE: Final = "host.set_aside"
_log = logging.getLogger("cellule.host")
WHO: Final = "cellule"  # who halts a cell or pauses a world by itself


def is_contained(error: Exception) -> bool:
    """Tell whether an error of a beat may come from one item or cell; the others say what they are about."""
    return not isinstance(error, Fenced | Corrupted | Unavailable)


class Containment:
    """Which items the next beats of one world take, after one that failed."""

    def __init__(self) -> None:
        self._limit: int | None = None  # items that a beat may take; None: no trouble
        self._suspects = 0
        self._is_alone = False  # the next beat does the world's own work only
        self._is_proven = False  # the last one did, and well
        self._halted: Target | None = None

    def items_max(self, usual: int) -> int:
        """How many items the next beat takes."""
        if self._is_alone:
            return 0
        return usual if self._limit is None else min(usual, self._limit)

    def passed(self, count: int) -> None:
        """A beat with so many items went well."""
        self._is_proven = self._is_alone
        self._is_alone = False
        self._suspects -= count
        if self._suspects <= 0:
            self._limit = None

    async def failed(
        self, runner: WorldRunner, error: Exception, sents: list[Sent], rows: dict[int, bytes]
    ) -> None:
        """Restore the world, and put what failed out of the way, or what may have failed back in line."""
        count, is_item = len(sents), len(sents) == 1 and self._is_proven
        self._is_alone, self._is_proven = True, False
        cell = runner.world.failed_cell
        if not is_item:
            runner.put_back(sents, rows)
        await runner.renew()
        if is_item:
            self._limit, self._suspects = None, 0
            if cell is None or not await _halt_with(runner, sents, rows, error, cell):
                await _set_aside(runner, sents[0], rows.get(id(sents[0])), error)
        elif count:
            self._limit, self._suspects = max(1, count // 2), count
        else:
            await self._stop_work(runner, error, cell)

    async def _stop_work(self, runner: WorldRunner, error: Exception, cell: Target | None) -> None:
        """The world's own work fails: halt the cell that was stepping, or else pause the world."""
        control = ControlItem("pause", WHO, _why(error))
        if cell is not None and cell != self._halted:
            control = _halting(cell, error)
        elif runner.world.ledger.paused:
            raise error
        self._halted = cell
        await runner.beat_quietly([Sent(control)], {})
        end = "the world is paused" if control.verb == "pause" else f"cell {_cell_text(cell)} is halted"
        _report(_broken(runner, "a step or timer of its own", error), end)


async def _halt_with(
    runner: WorldRunner, sents: list[Sent], rows: dict[int, bytes], error: Exception, cell: Target
) -> bool:
    """The step that an item leads to fails: admit the item, and halt its cell; False where that fails too."""
    try:
        await runner.beat_quietly([*sents, Sent(_halting(cell, error))], rows)
    except Exception as other:
        if not is_contained(other):
            raise
        await runner.renew()
        return False
    shown = _cell_text(cell)
    _report(_broken(runner, f"a step of {shown}", error), f"cell {shown} is halted")
    return True


def _cell_text(cell: Target | None) -> str:
    return "" if cell is None else f"{cell[0]}/{readable(cell[1])}"


def _halting(cell: Target, error: Exception) -> ControlItem:
    return ControlItem("cell.halt", WHO, _why(error), {"module": cell[0], "key": cell[1]})


def _why(error: Exception) -> str:
    return f"Cellule could not do its work: {_shown(error)}"[:ERROR_TEXT_MAX]


async def _set_aside(runner: WorldRunner, sent: Sent, row: bytes | None, error: Exception) -> None:
    """The kernel cannot take this item, and has nothing against the world without it."""
    item = sent.item
    broken = _broken(runner, _name_of(item), error)
    _report(broken, f"{_name_of(item)} is set aside")
    if row is None:
        sent.fail(broken)
    elif isinstance(item, RefusalItem):  # not even its refusal can be written
        runner.drop_row(row)
    else:
        await runner.keep_aside(row, _shown(error))
        text = str(broken)[:ERROR_TEXT_MAX]
        refused = Sent(RefusalItem(_name_of(item), SET_ASIDE, text, _id_of(item)))
        runner.put_back([refused], {id(refused): row})


def _report(broken: InvariantBroken, end: str) -> None:
    """A person should know, whether or not somebody waits; the world goes on."""
    _log.error("%s; %s", end, broken, exc_info=broken.__cause__)
    context = {"message": "a world met a defect of Cellule and goes on", "exception": broken}
    asyncio.get_running_loop().call_exception_handler(context)


def _broken(runner: WorldRunner, what: str, error: Exception) -> InvariantBroken:
    broken = InvariantBroken(
        SET_ASIDE, "world {world} could not take {what}: {why}", world=runner.world.world_id, what=what,
        why=_shown(error), hint="The world goes on without it. Please report this with the evidence.",
    )  # fmt: skip
    broken.__cause__ = error
    return broken


def _shown(error: Exception) -> str:
    text = str(error) if isinstance(error, CelluleError) else f"{type(error).__name__}: {error}"
    return text[:ERROR_TEXT_MAX].encode("utf-8", "replace").decode()


def _name_of(item: Any) -> str:
    """What a Refused record calls an item; `item` may be nothing of what it should be."""
    match item:
        case EventItem(schema=str(name)) | (str(name), _, _):
            return name
        case ControlItem(verb=str(name)):
            return f"control:{name}"
        case SignalItem():
            return SIGNAL
        case ReceiptItem():
            return "receipt"
    return "item"


def _id_of(item: Any) -> str | bytes | None:
    """By what the sender of an item, or who waits for the answer to a request, finds its refusal."""
    given = getattr(item, "id", None)
    if isinstance(item, ReceiptItem):
        return intent_shown(item.intent)
    if isinstance(item, ControlItem) and "request" in item.arguments:
        given = item.arguments["request"]
    return record_id(given) if isinstance(given, str | bytes | UUID) else None
