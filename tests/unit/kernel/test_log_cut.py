"""A log that a step begins anew, and programs that keep where a log ends in place of reading it."""

from __future__ import annotations

import pytest

from cellule.kernel.journal.codes import HALTED, OK
from cellule.kernel.limits import LOG_CHUNK_BYTES
from cellule.kernel.program import LogMark, Output, StepFault
from cellule.kernel.state.log_state import NOTHING, advanced, append
from cellule.values import decode, encode
from tests.support.kernel_world import Did, FunctionPrograms

LONG = "x" * 5_000


def counting(state, schema, value, ctx):
    """Appends one entry, and begins anew after every tenth."""
    entries = state or []
    is_full = len(entries) == 10
    return Did([{"n": 0 if is_full else len(entries), "pad": LONG}], cut=is_full)


@pytest.fixture
def world(make_world, shop):
    return make_world(shop(Order={"state": "log"}), FunctionPrograms({"shop/Order": counting}))


def paid(world):
    return world.send("shop/Paid@1", {"order": "o1"})


def entries(world):
    entry = world.entry("shop/Order", b"o1")
    chunks = [world.cas[link.cid] for link in entry.get("log", ())]
    return [each["n"] for part in [*chunks, entry.state] for each in decode(part)]


def test_a_log_is_begun_anew_by_the_step_that_says_so(world):
    for turn in range(25):
        if turn == 12:
            world.snapshot()
        paid(world)
    assert entries(world) == list(range(5))
    entry = world.entry("shop/Order", b"o1")
    assert (entry.version, entry.get("log", ())) == (25, ())
    assert entry.size == len(entry.state) < LOG_CHUNK_BYTES


def test_a_cut_can_seal_a_chunk_of_its_own(make_world, shop):
    def cutting(state, schema, value, ctx):
        return Did([LONG] * 8, cut=True)

    world = make_world(shop(Order={"state": "log"}), FunctionPrograms({"shop/Order": cutting}))
    for _ in range(3):
        paid(world)
    entry = world.entry("shop/Order", b"o1")
    [chunk] = entry.get("log")
    assert (decode(world.cas[chunk.cid]), decode(entry.state)) == ([LONG] * 8, [])


def test_what_is_no_log_cannot_be_cut(make_world, shop):
    def cutting(state, schema, value, ctx):
        return Did({"total": 1, "paid": True, "seen": 1}, cut=True)

    world = make_world(shop(), FunctionPrograms({"shop/Order": cutting}))
    beat = paid(world)
    assert [step.status for step in beat.steps] == [HALTED]
    assert "has no log to cut" in world.entry("shop/Order", b"o1").get("text")


class Keeping:
    """Keeps where each log ends, and answers from that alone; `read` counts the logs it had to read."""

    is_canonical = True

    def __init__(self):
        self.kept = {}
        self.read = []
        self.asked = 0

    def resume(self, mark, schema, value, key, context):
        self.asked += 1
        known = self.kept.get(key)
        if known is None or known[0] != mark:
            self.mark = mark
            return None
        return self._answer(key, known[1], mark)

    def step(self, state, schema, value, key, context):
        self.read.append(0 if state is None else len(decode(state)))
        return self._answer(key, self.read[-1], NOTHING if state is None else self.mark)

    def _answer(self, key, count, mark):
        if count == 3:
            raise StepFault("test.third", "no")
        added = encode([{"n": count, "pad": LONG}])
        self.kept[key] = (advanced(mark, added)[0], count + 1)
        return Output(added)

    def forget(self):
        self.kept.clear()


@pytest.fixture
def keeping(make_world, shop, monkeypatch):
    program = Keeping()
    programs = FunctionPrograms({"shop/Order": counting})
    find = FunctionPrograms.program

    def program_of(self, manifest, module, nodes):
        found = yield from find(self, manifest, module, nodes)
        return program if module.base == "shop/Order" else found

    monkeypatch.setattr(FunctionPrograms, "program", program_of)
    world = make_world(shop(Order={"state": "log", "failure": "skip"}), programs)
    return world, program


def test_a_program_that_keeps_where_a_log_ends_need_not_read_it(keeping):
    world, program = keeping
    for _ in range(2):
        paid(world)
    assert (program.read, program.asked) == ([0], 1)
    program.forget()
    assert [step.status for step in paid(world).steps] == [OK]
    assert program.read == [0, 2]


def test_a_program_that_fails_as_it_resumes_fails_its_step(keeping):
    world, _ = keeping
    for _ in range(3):
        paid(world)
    [step] = paid(world).steps
    assert (step.code, step.text) == ("test.third", "no")


def test_a_mark_names_one_log_only():
    one, two = encode([1]), encode([2])
    first, _ = advanced(NOTHING, one)
    assert first == LogMark((), append(b"\x80", one)) != advanced(NOTHING, two)[0]
    long, chunk = advanced(first, encode(["y" * LOG_CHUNK_BYTES]))
    assert chunk is not None
    assert (len(long.chunks), long.tail) == (1, b"\x80")


def test_verifying_sees_a_step_that_no_longer_cuts(make_world, shop):
    cuts = [True]

    def cutting(state, schema, value, ctx):
        return Did([1], cut=cuts[0])

    world = make_world(shop(Order={"state": "log"}), FunctionPrograms({"shop/Order": cutting}))
    paid(world)
    assert world.verify() is None
    cuts[0] = False
    difference = world.verify()
    assert difference is not None
    assert (difference.field, difference.recorded, difference.computed) == ("cut", True, False)
    cuts[0] = True
