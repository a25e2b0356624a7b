"""Two conversations at once, followed live: what the model says is shown while it says it.

python converse.py FOLDER SERVER

`main.py` starts it as a process of its own, kills it in the middle of an answer, and goes on by itself.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent import Asked, Talk, app, talk
from model import CRATES, FILES

import cellule
from cellule import Rejected

WORLD = "talks"
TALKS = {"crates": CRATES, "files": FILES}

Show = Callable[[str, str], None]
"""Told which conversation it is, and the next piece of what the model says."""


async def converse(
    folder: Path, server: str, show: Show, asked: Callable[[], None] = lambda: None
) -> dict[str, Talk]:
    """Ask the questions, unless they were asked before, and follow the conversations to their ends."""
    async with cellule.open(folder, app) as node:
        world = await node.world(WORLD)
        for name, text in TALKS.items():
            await world.send(Asked(name, text, server), id=f"ask {name}")
        asked()
        seen: set[int] = set()
        states: dict[str, Talk] = {}
        async with asyncio.TaskGroup() as tasks:
            async for _ in world.tail(after=0):
                for effect in await world.effects(kind="llm.generate"):
                    if effect.height not in seen:
                        seen.add(effect.height)
                        tasks.create_task(follow(world, effect, show))
                found = [(name, await world.cell(talk, name).state()) for name in TALKS]
                states = {name: state for name, state in found if state is not None}
                if all(name in states and states[name].status in ("answered", "stopped") for name in TALKS):
                    break
        return states


async def follow(world: Any, effect: Any, show: Show) -> None:
    """Show an answer of the model while it comes; the notes end when the effect is settled."""
    with suppress(Rejected):  # it was settled before we could look
        async for note in world.notes(effect.id):
            assert isinstance(note, dict)
            show(effect.key.decode(), note["text"])


def say(name: str, text: str) -> None:
    """Say a piece of text in a line of its own, for whoever started this process."""
    print(name, text, sep="\t", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C is for main.py, which ends this process
        asyncio.run(converse(Path(sys.argv[1]), sys.argv[2], say, lambda: say("", "asked")))
