"""Let a model use tools, ask a person before it runs a command, get killed while it answers, and go on.

python examples/02-agent/main.py [--ask] [--data data/agent-demo]
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
from pathlib import Path
from typing import Any

from agent import Talk, app
from converse import WORLD, converse
from model import Model, answer
from rich.console import Console
from rich.markup import escape

import cellule
from cellule import Options

HERE = Path(__file__).parent
MARK = "# Made by the agent example, which starts it anew each time. Delete it whenever you like.\n*\n"
KILL_AFTER = 2  # pieces of the answer
console = Console(highlight=False)


def main() -> int:
    """Run the whole story; 0 if both conversations came to their ends and the journal verifies."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ask", action="store_true", help="ask you before the model runs a command")
    parser.add_argument("--data", type=Path, default=Path("data/agent-demo"), help="the folder to make")
    given = parser.parse_args()
    make_fresh(given.data)
    key = os.environ["CELLULE_SECRET_LLM"] = secrets.token_urlsafe(16)
    is_right = asyncio.run(run(given.data, key, ask=given.ask)) and check_hidden(given.data, key)
    if is_right:
        look_next(given.data)
    return 0 if is_right else 1


async def run(folder: Path, key: str, *, ask: bool) -> bool:
    """The story, in its order."""
    async with Model(answer, api_key=key) as server:
        console.print(f"\n[bold]Two conversations[/] with a model at {server.base_url}.\n")
        await until_killed(folder, server.base_url, ask=ask)
        heading(2, "Going on in another process, from the history in the cell")
        ends = await converse(folder, server.base_url, show)
        return await prove(folder, server, ends)


async def until_killed(folder: Path, server: str, *, ask: bool) -> None:
    """Let a process talk, and kill it while the model answers; meanwhile a person is asked."""
    heading(1, "Talking, until the process is killed in the middle of an answer")
    async with talking(folder, server) as process, asyncio.TaskGroup() as tasks:
        assert process.stdout is not None
        await process.stdout.readline()  # everything is asked
        asking = tasks.create_task(person(folder, ask=ask))
        pieces = 0
        async for line in process.stdout:
            name, _, text = line.decode().rstrip("\n").partition("\t")
            show(name, text)
            pieces += name == "crates"
            if pieces == KILL_AFTER:
                break
        process.kill()
        asking.cancel()
    if pieces < KILL_AFTER:
        sys.exit("The process that talks ended before it could be killed.")
    said("killed with SIGKILL: that answer was never whole, so it is in no journal")


async def person(folder: Path, *, ask: bool) -> None:
    """Somebody who decides about commands, in another process than the one at work."""
    async with cellule.open(folder, app, options=Options(own=False)) as node:
        world = await node.world(WORLD)
        async for _ in world.tail(after=0):
            for parked in await world.effects(status="parked"):
                params = (await world.effect(parked.id)).params
                command = " ".join([params["command"], *params["args"]])
                said(f"{parked.key.decode()} wants to run [bold]{escape(command)}[/]")
                if ask and (await asyncio.to_thread(input, "   Let it? [y/n] ")).strip() != "y":
                    await world.deny(parked.id, who="you", why="the person said no")
                else:
                    await world.approve(parked.id, who="you" if ask else "ada", why="harmless")
                    said(f"{'you' if ask else 'ada'} approved it")
                return


async def prove(folder: Path, server: Model, ends: dict[str, Talk]) -> bool:
    """Look at what was said, how often the model was asked, and run every step again."""
    heading(3, "Proving it")
    for name, state in ends.items():
        said(f"[dim]{name}:[/] {escape(state.messages[-1].content or state.why)}")
    result = await asyncio.to_thread(verified, folder)
    keys = Counter(each.headers["idempotency-key"] for each in server.asked)
    turns = sum(message.role == "assistant" for state in ends.values() for message in state.messages)
    answers = {name: state.messages[-1].content or "" for name, state in ends.items()}
    return all(
        [
            told(all(state.status == "answered" for state in ends.values()), "both questions are answered"),
            told("450" in answers["crates"], "the calculator's result is in the answer"),
            told("denied" in answers["files"], "rm is granted to nobody, and the model was told so"),
            told(
                len(keys) == turns and keys.total() > turns,
                f"{turns} turns of the model in {keys.total()} requests: what was cut off was asked again",
            ),
            told("difference" not in result, f"verified: {result['steps']} steps run again, the same bytes"),
        ]
    )


def check_hidden(folder: Path, key: str) -> bool:
    """Look for the key of the model in every file."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    found = [each.name for each in files if key.encode() in each.read_bytes()]
    return told(not found, f"the model's key is in none of the {len(files)} files of the folder")


@asynccontextmanager
async def talking(folder: Path, server: str) -> AsyncIterator[Process]:
    """A process that talks; it is gone when the block is."""
    command = (sys.executable, str(HERE / "converse.py"), str(folder), server)
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    try:
        yield process
    except BaseException:
        process.kill()  # as on Ctrl-C: nobody would read what it says
        raise
    finally:
        await process.wait()


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
        ("cell show talk crates", "the whole conversation"),
        ("cell history talk crates", "turn by turn"),
        ("why talk/crates", "which answer led to which question"),
        ("verify", "run every step again"),
    ):
        console.print(f"  {command} {rest:<25} [dim]{meaning}[/]", soft_wrap=True)
    console.print(f"\nThe app: examples/{HERE.name}/agent.py. Delete {folder} whenever you like.\n")


# What is shown


def show(name: str, text: str) -> None:
    """A piece of what the model says in a conversation."""
    said(f"[dim]{name}:[/] {escape(text.strip())}")


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
