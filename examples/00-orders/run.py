"""Take thousands of orders, get killed in the middle, go on, and prove that nothing was lost.

python examples/00-orders/run.py [--orders 20000] [--data data/orders-demo]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from shop import app, order
from stream import stream

import cellule

HERE = Path(__file__).parent
MARK = "# Made by the orders example, which starts it anew each time. Delete it whenever you like.\n*\n"
KILL_AT = 0.45
console = Console(highlight=False)


def main() -> int:
    """Run the whole story; 0 if everything acknowledged was there and verified."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--orders", type=int, default=20_000, help="how many orders to take (at least 200)")
    parser.add_argument("--data", type=Path, default=Path("data/orders-demo"), help="the folder to make")
    arguments = parser.parse_args()
    folder, orders = arguments.data, max(200, arguments.orders)
    make_fresh(folder)
    ids = [given for given, _ in stream(orders)]
    console.print(f"\n[bold]{orders:,} orders, {len(ids):,} events.[/] Every order is a cell of its own:")
    console.print("placed, paid in one part or two, and shipped by itself once it is paid.\n")

    heading(1, "Taking orders, until the process is killed")
    acknowledged, _ = take(folder, orders, 0, len(ids), kill_at=int(len(ids) * KILL_AT))
    said(f"killed with SIGKILL: {acknowledged:,} events were acknowledged, more were under way")

    heading(2, "Looking at what is left")
    kept = look(folder, ids, acknowledged)

    heading(3, "Going on behind the last acknowledged event, with the same ids")
    finished, known = take(folder, orders, acknowledged, len(ids))
    is_right = finished == len(ids) and known == kept - acknowledged
    told(is_right, f"all {finished:,} acknowledged; {known:,} had arrived before, and were recognised")

    heading(4, "Proving it")
    is_right = asyncio.run(prove(folder, ids, orders)) and is_right
    if is_right:
        look_next(folder)
    return 0 if is_right else 1


def make_fresh(folder: Path) -> None:
    """Make the folder, in place of the one an earlier run left; leave alone what is not ours."""
    mark = folder / ".gitignore"
    if folder.exists() and any(folder.iterdir()):
        if not mark.exists() or mark.read_text() != MARK:
            sys.exit(f"{folder} holds something else. Name another folder with --data.")
        with cellule.open_sync(folder) as node:
            if not node.is_owner:
                sys.exit(f"Another process works in {folder}. Stop it, or name another folder with --data.")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(MARK)


def take(folder: Path, orders: int, first: int, count: int, *, kill_at: int | None = None) -> tuple[int, int]:
    """Let a process take the orders; how many events it acknowledged, and how many of them were known."""
    acknowledged, known = first, 0
    command = [sys.executable, str(HERE / "stream.py"), str(folder), str(orders), str(first)]
    with (
        live("events", count, first) as advance,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,  # noqa: S603 - our own script
    ):
        try:
            assert process.stdout is not None
            for line in process.stdout:
                acknowledged, again = (int(word) for word in line.split())
                known += again
                advance(acknowledged, count)
                if kill_at is not None and acknowledged >= kill_at:
                    process.kill()
                    break
        except BaseException:
            process.kill()  # as on Ctrl-C: nobody would read what it says
            raise
    if kill_at is None and process.returncode:
        sys.exit(f"The process that takes the orders ended with {process.returncode}.")
    return acknowledged, known


def look(folder: Path, ids: list[str], acknowledged: int) -> int:
    """Open the folder as the killed process left it; how many events it holds."""
    began = time.perf_counter()
    with cellule.open_sync(folder, app=app) as node:
        world = node.world()
        said(f"opened again in {time.perf_counter() - began:.2f} s, up to height {world.head().height:,}")
        found = ids_in(world.frames())
    if found != ids[: len(found)] or len(found) < acknowledged:
        sys.exit(
            f"The journal has other events than were sent: please report this, with the folder {folder}."
        )
    told(True, f"all {acknowledged:,} acknowledged events are in the journal, once each and in order")
    said(f"{len(found) - acknowledged:,} more had arrived before the kill, though nobody was told")
    return len(found)


async def prove(folder: Path, ids: list[str], orders: int) -> bool:
    """Compare the journal with what was sent, read every order, and run every step again."""
    async with cellule.open(folder, app=app) as node:
        world = await node.world()
        found = ids_in([frame async for frame in world.frames()])
        told(found == ids, f"{len(found):,} events are in the journal, once each and in order")
        done = 0
        for start in range(1, orders + 1, 1_000):
            cells = [
                world.cell(order, f"o{number}") for number in range(start, min(start + 1_000, orders + 1))
            ]
            states = await asyncio.gather(*(cell.state() for cell in cells))
            done += sum(state is not None and state.shipped and state.paid == state.total for state in states)
        told(done == orders, f"{done:,} of {orders:,} orders are paid and shipped")
    said("running every step again")
    result = verified(folder)
    difference = result.get("difference")
    told(
        difference is None, f"verified: {result['steps']:,} steps run again, {difference or 'no difference'}"
    )
    return found == ids and done == orders and difference is None


def verified(folder: Path) -> dict[str, Any]:
    """What `cellule verify` says about the world: every step was run again."""
    command = [sys.executable, "-m", "cellule", "--data", str(folder), "--json", "verify"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    worlds: list[dict[str, Any]] = json.loads(done.stdout)["worlds"]
    return worlds[0]


def ids_in(frames: Iterable[Any]) -> list[str]:
    """The ids of all events in the journal that were sent with one, in order."""
    records = (record for frame in frames for record in frame.records)
    return [record.id for record in records if isinstance(getattr(record, "id", None), str)]


def look_next(folder: Path) -> None:
    """Say what is worth a look."""
    command = f"{Path(sys.executable).parent / 'cellule'} --data {folder}".replace(f"{Path.cwd()}/", "")
    console.print("\n[bold]Look around[/] (everything is still there):\n")
    for rest, meaning in (
        ("cell show order o1", "an order as it is now"),
        ("cell history order o1", "and how it became so"),
        ("why order/o1", "which event led to which"),
        ("journal tail --no-follow", "the newest records"),
        ("verify", "run every step again"),
    ):
        console.print(f"  {command} {rest:<25} [dim]{meaning}[/]", soft_wrap=True)
    console.print(f"\nThe app: examples/{HERE.name}/shop.py. Delete {folder} whenever you like.\n")


# What is shown


@contextmanager
def live(unit: str, count: int, first: int = 0) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; a line for every quarter elsewhere."""
    if console.is_terminal:
        with Progress(
            TextColumn("  "), BarColumn(40), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn(),
            console=console, transient=False,
        ) as bar:  # fmt: skip
            task = bar.add_task(unit, total=count, completed=first)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    quarter = first * 4 // count

    def advance(done: int, total: int) -> None:
        nonlocal quarter
        if done * 4 // total > quarter:
            quarter = done * 4 // total
            said(f"{done:,} of {total:,} {unit}")

    yield advance


def heading(number: int, text: str) -> None:
    """A part of the story."""
    console.print(f"[bold cyan]{number}[/]  [bold]{text}[/]")


def said(text: str) -> None:
    """Something worth knowing."""
    console.print(f"   {text}", soft_wrap=True)


def told(holds: bool, text: str) -> None:
    """Something that was checked."""
    console.print("   [green]ok[/] " if holds else "   [red]NO[/] ", text, sep="", soft_wrap=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
