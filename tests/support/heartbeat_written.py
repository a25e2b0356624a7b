"""All bytes that worlds of the heartbeat write, as one digest; run as a program, to compare hash seeds.

The cases of the files bring bindings, retries, payloads, later beats and operations; a world with mailboxes
brings ids, deadlines, retention, pauses, effects of enzymes and failures. Behind the digest stands how many
records of each kind it covers, and the order of a set in this process.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

from cellule import App, EnzymeContext, timer
from cellule.heartbeat.mailboxes.mailbox import Mailbox
from cellule.kernel.journal.frame import decode_frame
from cellule.testing import World
from cellule.testing.memory_host import MemoryHost
from cellule.testing.vectors.agenda import agenda
from cellule.testing.vectors.document import read
from cellule.testing.vectors.ops import ops

app = App("written")
app.mailboxes()
app.operations()
BOARD = "/mail/news"
EVERY = 3  # of the cases, so many are left out


@app.enzyme("/work", match="prefix", effects=[timer])
def work(ctx: EnzymeContext, signal: str | None, target: str | None) -> int | None:
    """Does what its signal says, in an order that a set would change."""
    match str(signal).rpartition("/")[2]:
        case "post":
            Mailbox(ctx, BOARD).post({"n": ctx.beat}, ttl={"beats": 2, "unix_ns": 5_000_000_000})
        case "bind":
            for name in ("work", "other", "third"):
                ctx.bind("/place/deep", name, propagate=True)
        case "again":
            return -1
        case "fail":
            raise ValueError("as told")
        case "wait":
            ctx.effect(timer(after=timedelta(seconds=3)), then="/work/post")
    ctx.report("info", "done")
    return None


@app.enzyme("/chain", depth=2)
def chain(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    """Goes on until it is stopped."""
    ctx.signal("/chain")


def mail_world() -> None:
    """A world that does all of it, with a snapshot and a restart behind every beat."""
    world = World(app, evict=True, elsewhere=False)
    hand = world.heartbeat
    hand.write(BOARD, {"kind": "inbox", "owner": "ada"})
    hand.bind(BOARD, "mailbox")
    for name in ("bind", "wait", "post", "again", "fail", "post"):
        world.signal(f"/work/{name}")
        world.beat()
    world.signal("/chain")
    world.signal("/op/begin", payload={"for": "/work", "verb": "work"})
    hand.control("heartbeat.pause")
    for number in range(3):
        world.signal("/work/post", payload=number)
        world.signal("/sig_ctl/look")
        world.beat()
    hand.control("heartbeat.resume")
    for _ in range(8):
        world.beat()
    world.advance(seconds=10)
    world.signal("/op/end", payload={"for": "/work"})
    world.settle()


def main(paths: list[str]) -> None:
    """Write all of it, and print its digest."""
    written, kinds = hashlib.sha256(), Counter[str]()
    beat = MemoryHost.beat

    def noted(self: MemoryHost, items: object = (), **options: object) -> object:
        done = beat(self, items, **options)
        if done.frame is not None:
            written.update(done.frame)
            kinds.update(type(each).__name__ for each in decode_frame(done.frame).records)
        written.update(repr(self._snapshots[-1]).encode())
        return done

    MemoryHost.beat = noted
    perform = {"agenda": agenda, "ops": ops}
    for path in paths:
        for entry in read(Path(path))[::EVERY]:
            if entry.section in perform:
                perform[entry.section](entry.case)
    mail_world()
    counted = ",".join(f"{name}={count}" for name, count in sorted(kinds.items()))
    sys.stdout.write(f"{written.hexdigest()} {counted}\n{[*{'a', 'b', 'c', 'd'}]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
