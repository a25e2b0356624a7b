"""Fifty thousand devices report; seven fall silent and are found; the report of the day is written.

python examples/04-devices/main.py [--devices 50000] [--data data/devices-demo]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from devices import REPORTS, SILENT_AFTER, Reading, app, device, fleet
from rich.console import Console

import cellule
from cellule import WorldHandle

MARK = "# Made by the devices example, which starts it anew each time. Delete it whenever you like.\n*\n"
SILENT = 7
WAIT_S = 120
console = Console(highlight=False)


async def story(folder: Path, count: int) -> bool:
    """Report, fall silent, be found, come back."""
    every = timedelta(seconds=max(1.0, count / 5_000))  # long enough for all to report in time
    names = [f"device-{number:05}" for number in range(count)]
    silent = names[:: count // SILENT][:SILENT]
    async with cellule.open(folder, app=app) as node:
        world = await node.world("plant")
        with timed(f"{count:,} devices report for the first time"):
            await world.send_many(Reading(name, 20.0, every) for name in names)
        with timed(f"all but {SILENT} report again"):
            await world.send_many(Reading(name, 21.0, every) for name in names if name not in silent)
        with timed(f"{SILENT} are silent for {every.total_seconds() * SILENT_AFTER:g} s"):
            await world.cell(fleet).wait_until(f"state.offline >= {SILENT}", timeout=WAIT_S)
        with timed("which ones? a look at all states"):
            found = [name async for name in offline(world)]
        ok = told(set(silent) <= set(found), f"offline: {', '.join(silent)}")
        await world.send(Reading(silent[0], 20.5, timedelta(hours=1)))
        back = await world.cell(device, silent[0]).state()
        ok &= told(back is not None and back.online, f"{silent[0]} is back")
        me = world.operator("the example")
        await me.trigger_schedule("daily report", why="nobody waits until tomorrow here")
        await world.cell(fleet).wait_until("state.reports >= 1", timeout=WAIT_S)
        [report] = (folder / "reports").iterdir()
        ok &= told(f'"devices": {count}' in report.read_text(), f"{report.name}: {report.read_text()}")
    return ok


async def offline(world: WorldHandle) -> AsyncIterator[str]:
    """The names of all devices that are offline, page by page."""
    after = None
    while True:
        page = await world.cells(device, where="!state.online", after=after, limit=1_000)
        for cell in page.cells:
            if cell.state is not None:
                yield cell.state.name
        if page.next is None:
            return
        after = page.next


@contextmanager
def timed(text: str) -> Iterator[None]:
    """Say what was done, and how long it took."""
    began = time.monotonic()
    yield
    console.print(f"   {text}: {time.monotonic() - began:.1f} s", soft_wrap=True)


def told(holds: bool, text: str) -> bool:
    """Something that was checked."""
    console.print("   [green]ok[/] " if holds else "   [red]NO[/] ", text, sep="", soft_wrap=True)
    return holds


def make_fresh(folder: Path) -> None:
    """Make the folder, in place of the one an earlier run left; leave alone what is not ours."""
    mark = folder / ".gitignore"
    if folder.exists() and any(folder.iterdir()):
        if not mark.exists() or mark.read_text() != MARK:
            sys.exit(f"{folder} holds something else. Name another folder with --data.")
        shutil.rmtree(folder)
    (folder / "reports").mkdir(parents=True)
    mark.write_text(MARK)


def main() -> int:
    """Run the story; 0 if everything was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--devices", type=int, default=50_000, help="how many devices there are")
    parser.add_argument("--data", type=Path, default=Path("data/devices-demo"), help="the folder to make")
    given = parser.parse_args()
    make_fresh(given.data)
    os.environ[REPORTS] = str(given.data / "reports")
    return 0 if asyncio.run(story(given.data, max(100, given.devices))) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
