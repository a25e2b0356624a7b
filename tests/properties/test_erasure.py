"""Random histories of erasable cells against a model: what is erased, what is read, which bytes there are.

A history sends, lets effects end, lets time pass, restarts, forks and erases. After it every world replays to
the bytes it had, nothing that anybody said stands in them, and an event is read exactly if no cell that took
part in it was erased since. `CELLULE_SIM_SEEDS` sets the number of histories.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cellule import ERASED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import StepRecord
from cellule.kernel.key_ring import key_id
from cellule.kernel.prove.verify import Verifier
from cellule.testing import World, seeds_wanted
from cellule.values.cbor import encode
from tests.support.nodes import load_app

PEOPLE = load_app(Path(__file__).parents[1] / "node_apps" / "people.py")
NAMES = ("ann", "bob", "cyd")
OPS = ("said", "said", "said", "met", "post", "later", "long", "fail", "delete", "end", "time", "restart",
       "lost", "erase", "erase friend", "fork")  # fmt: skip
STEPS = 40
FORKS_MAX = 3


class Line:
    """One world and what its model knows: who said what, and whose keys were destroyed since."""

    def __init__(self, world: World, said: dict[int, tuple[set[tuple[str, str]], str]]) -> None:
        self.world = world
        self.said = (
            said  # by the height of the event: the cells that took part, and the text, empty once erased
        )

    def forget(self, cell: tuple[str, str], key: bytes) -> None:
        """A key of a cell was destroyed, by the world that made it."""
        for height, (cells, _) in self.said.items():
            if cell in cells and key in self._stored(height):
                self.said[height] = (cells, "")

    def _stored(self, height: int) -> bytes:
        """The event at a height as its record has it: the ids of its keys are not hidden."""
        for frame in map(decode_frame, self.world.host.frames):
            if frame.header.first <= height <= frame.header.last:
                return encode(frame.at(height).value)
        raise LookupError(height)


class History:
    """A random history of a world and its forks."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = [Line(World(PEOPLE.app, seed=seed, elsewhere=False), {})]
        self.words = 0

    def word(self) -> str:
        """A text that nothing else says."""
        self.words += 1
        return f"secret-{self.words:04}-of-nobody"

    def step(self) -> None:
        """One thing that happens to one of the worlds."""
        line, name = self.random.choice(self.lines), self.random.choice(NAMES)
        world, what = line.world, self.random.choice(OPS)
        match what:
            case "met":
                self._send(line, PEOPLE.Met(name, self.word()), {("person", name), ("friend", name)})
            case "end":
                self._end(world)
            case "time":
                world.advance(minutes=self.random.choice((1, 70)))
            case "restart":
                world.host.snapshot()
                world.host.restart(self.random.randrange(world.host.snapshots_kept))
            case "lost":
                world.host.beat_lost([world.item(PEOPLE.Said(name, self.word()))])
            case "erase" | "erase friend":
                self._erase(line, "person" if what == "erase" else "friend", name)
            case "fork":
                self._fork(line)
            case _:
                self._send(line, PEOPLE.Said(name, self.word(), what), {("person", name)})

    def _send(self, line: Line, event, cells: set[tuple[str, str]]) -> None:
        explicit = f"id {self.words}" if self.random.random() < 0.3 else None
        sent = line.world.send(event, id=explicit, check=False)
        line.said[sent.height] = (cells, event.text)

    def _end(self, world: World) -> None:
        if world.intents.of("people.post"):
            intent = self.random.choice(world.intents.of("people.post"))
            if self.random.random() < 0.5:
                world.complete(intent, PEOPLE.Posted(self.word()))
            else:
                world.fail(intent, "post.lost", self.word())

    def _erase(self, line: Line, reducer: str, name: str) -> None:
        before = [list(each.world.host.frames) for each in self.lines]
        line.world.erase(reducer, name)
        for each, frames in zip(self.lines, before, strict=True):
            assert each.world.host.frames[: len(frames)] == frames
        key = key_id(line.world.host.world_id.bytes, f"people/{reducer}", name.encode())
        for each in self.lines:
            each.forget((reducer, name), key)

    def _fork(self, line: Line) -> None:
        if len(self.lines) <= FORKS_MAX:
            child = line.world.fork()
            self.lines.append(Line(child, dict(line.said)))

    def check(self) -> None:
        """What is read is what the model knows, and the bytes are what they were."""
        for line in self.lines:
            world = line.world
            world.chronicle.journal.forget()
            for height, (_, text) in line.said.items():
                found = world.chronicle.event(height)
                assert (found is ERASED) == (not text), height
                assert found is ERASED or found.text == text
            world.assert_replays()
            raw = b"".join([*world.host.frames, *world.host.cas.values()])
            assert b"secret-" not in raw


@pytest.mark.parametrize("seed", seeds_wanted(8))
def test_what_is_read_is_what_nobody_erased(seed):
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    history.check()


def test_a_verification_counts_each_step_once_as_run_again_or_as_erased():
    """An erased step that was counted nowhere made a verification look as if the journal were shorter."""
    world = World(PEOPLE.app, seed=1, elsewhere=False)
    for text in ("one", "two", "three"):
        world.send(PEOPLE.Said("ann", text))
    world.send(PEOPLE.Said("bob", "four"))
    world.erase("person", "ann")
    world.send(PEOPLE.Said("ann", "five"))
    verifier = Verifier()
    world.host._restored(0, verifier)
    assert verifier.difference is None
    steps = [
        step for frame in map(decode_frame, world.host.frames) for _, step in frame.of(StepRecord)
        if "control" not in step.extras
    ]  # fmt: skip
    assert sum(step.key == b"ann" for step in steps) > verifier.erased > 2
    assert verifier.erased + verifier.steps == len(steps)
