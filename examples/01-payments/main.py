"""Charge cards, ask a person, wait, write to customers; get killed, go on, and prove that nobody paid twice.

python examples/01-payments/main.py [--orders 40] [--data data/payments-demo] [--wait-s 1.0]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from bank import Bank
from rich.console import Console
from shop import OUTBOX, app, order
from work import orders_of

import cellule
from cellule import Options

HERE = Path(__file__).parent
MARK = "# Made by the payments example, which starts it anew each time. Delete it whenever you like.\n*\n"
KILL_AT = 0.4
WAIT_S = 60.0
console = Console(highlight=False)


def main() -> int:
    """Run the whole story; 0 if every order was charged at most once and nothing was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--orders", type=int, default=40, help="how many orders to take (at least 20)")
    parser.add_argument("--data", type=Path, default=Path("data/payments-demo"), help="the folder to make")
    parser.add_argument("--wait-s", type=float, default=1.0, help="how many seconds the three days last here")
    given = parser.parse_args()
    make_fresh(given.data)
    password = secrets.token_urlsafe(16)
    os.environ["CELLULE_SECRET_BANK"] = password
    os.environ[OUTBOX] = str(given.data / "outbox.jsonl")
    bank = Bank(password)
    with bank.open() as address:
        story = Story(given.data, max(20, given.orders), address, given.wait_s, bank)
        is_right = asyncio.run(story.run()) and story.check_hidden(password)
    if is_right:
        look_next(given.data)
    return 0 if is_right else 1


class Story:
    """What happens, in its order."""

    def __init__(self, folder: Path, count: int, bank_url: str, wait_s: float, bank: Bank) -> None:
        self.folder = folder
        self.orders = orders_of(count, bank_url, timedelta(seconds=wait_s))
        self.bank = bank
        self.command = (str(HERE / "work.py"), str(folder), str(count), bank_url, str(wait_s))

    async def run(self) -> bool:
        """All of it."""
        address = self.orders[0].bank
        console.print(f"\n[bold]{len(self.orders)} orders[/] are charged at {address}: a bank, often busy.\n")
        await self.until_killed()
        await self.to_the_end()
        return await self.prove()

    async def until_killed(self) -> None:
        """Let a process take the orders, and kill it while charges are under way."""
        heading(1, "Charging, until the process is killed")
        async with working(self.command) as process:
            if not await asyncio.to_thread(self.bank.wait_charges, int(len(self.orders) * KILL_AT), WAIT_S):
                sys.exit("The bank heard nothing. Please report this.")
            process.kill()
        said(
            f"killed with SIGKILL: the bank has booked {len(self.bank.ledger)} charges, not all were heard of"
        )

    async def to_the_end(self) -> None:
        """Start it again; a person decides about the large ones while it works."""
        heading(2, "Going on, while a person decides about the large amounts")
        async with working(self.command) as process, asyncio.TaskGroup() as tasks:
            lines = said_by(process)
            known = await anext(lines)
            said(f"{known} orders were known; what was under way is asked again, with the same keys")
            deciding = tasks.create_task(self.decide())
            async for finished in lines:
                if finished and finished % 10 == 0:
                    said(f"{finished} of {len(self.orders)} orders have come to an end")
            deciding.cancel()
        if process.returncode:
            sys.exit(f"The process that works ended with {process.returncode}.")

    async def decide(self) -> None:
        """Decide about what waits for a person, from another process than the one at work."""
        large = [each.order_id for each in self.orders if each.cents > 100_000]
        left = set(large)
        async with cellule.open(self.folder, app, options=Options(own=False)) as node:
            world = await node.world("shop")
            async for _ in world.tail(after=0):
                for parked in await world.effects(status="parked"):
                    name = parked.key.decode()
                    if name not in left:
                        continue
                    left.remove(name)
                    if name == large[-1]:
                        await world.deny(parked.id, who="ada", why="a stolen card")
                        said(f"ada denied {name}: a stolen card")
                    else:
                        await world.approve(parked.id, who="ada", why="I know them")
                        said(f"ada approved {name}")
                if not left:
                    return

    async def prove(self) -> bool:
        """Compare the bank's ledger, the letters and the journal with what was ordered."""
        heading(3, "Proving it")
        async with cellule.open(self.folder, app) as node:
            world = await node.world("shop")
            found = [await world.cell(order, each.order_id).state() for each in self.orders]
            result = await asyncio.to_thread(verified, self.folder)
        states = [state for state in found if state is not None]
        by_status = Counter(state.status for state in states)
        paid = Counter(state.order_id for state in states if state.status == "done")
        charged = Counter(charge["order"] for charge in self.bank.ledger.values())
        written = Counter(letters())
        asked = self.bank.asked.total()
        return all(
            [
                told(by_status == {"done": len(states) - 1, "denied": 1}, f"orders: {shown(by_status)}"),
                told(
                    charged == paid,
                    f"{asked} requests reached the bank, {charged.total()} charges: one for each paid order",
                ),
                told(written == paid, f"{written.total()} customers have one letter each"),
                told(
                    "difference" not in result, f"verified: {result['steps']} steps run again, the same bytes"
                ),
            ]
        )

    def check_hidden(self, password: str) -> bool:
        """Look for the password in every file."""
        files = [each for each in self.folder.rglob("*") if each.is_file()]
        found = [each.name for each in files if password.encode() in each.read_bytes()]
        return told(not found, f"the bank's password is in none of the {len(files)} files of the folder")


@asynccontextmanager
async def working(command: tuple[str, ...]) -> AsyncIterator[Process]:
    """A process at work; it is gone when the block is."""
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=subprocess.PIPE)
    try:
        yield process
    except BaseException:
        process.kill()  # as on Ctrl-C: nobody would read what it says
        raise
    finally:
        await process.wait()


async def said_by(process: Process) -> AsyncIterator[int]:
    """The numbers a process says, until it ends."""
    assert process.stdout is not None
    async for line in process.stdout:
        yield int(line.split()[1])


def letters() -> list[str]:
    """The orders that letters were written about."""
    return [json.loads(line)["order"] for line in Path(os.environ[OUTBOX]).read_text().splitlines()]


def verified(folder: Path) -> dict[str, Any]:
    """What `cellule verify` says about the world: every step was run again."""
    command = [sys.executable, "-m", "cellule", "--data", str(folder), "--json", "verify"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    worlds: list[dict[str, Any]] = json.loads(done.stdout)["worlds"]
    return worlds[0]


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


def look_next(folder: Path) -> None:
    """Say what is worth a look."""
    command = f"{Path(sys.executable).parent / 'cellule'} --data {folder}".replace(f"{Path.cwd()}/", "")
    console.print("\n[bold]Look around[/] (everything is still there):\n")
    for rest, meaning in (
        ("cell show order o10", "a large order as it is now"),
        ("cell history order o10", "placed, approved, charged, written to"),
        ("why order/o10", "which event led to which"),
        ("effect list", "what is still under way: nothing"),
        ("verify", "run every step again"),
    ):
        console.print(f"  {command} {rest:<24} [dim]{meaning}[/]", soft_wrap=True)
    console.print(f"\nThe app: examples/{HERE.name}/shop.py. Delete {folder} whenever you like.\n")


# What is shown


def shown(counts: Counter[str]) -> str:
    """Counts in words."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def heading(number: int, text: str) -> None:
    """A part of the story."""
    console.print(f"[bold cyan]{number}[/]  [bold]{text}[/]")


def said(text: str) -> None:
    """Something worth knowing."""
    console.print(f"   {text}", soft_wrap=True)


def told(holds: bool, text: str) -> bool:
    """Something that was checked."""
    console.print("   [green]ok[/] " if holds else "   [red]NO[/] ", text, sep="", soft_wrap=True)
    return holds


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
