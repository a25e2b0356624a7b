"""Whatever the code of an adapter does is one attempt that failed, counted and told; all else goes on."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextvars import ContextVar
from copy import deepcopy
from datetime import timedelta

import msgspec
import pytest

from cellule.effects.adapter import AdapterLimits, Failed, Retry
from cellule.effects.child_tasks import TaskExit, contained_tasks
from cellule.host.outbox.search import due_rows
from cellule.values.cbor import decode
from tests.support.outbox import check_left_nothing, opening
from tests.support.virtual_tests import in_virtual_time

SECOND = 1_000_000_000
TENANT: ContextVar[str] = ContextVar("TENANT", default="nobody")


class Unreadable(Exception):
    def __str__(self):
        raise SystemExit(3)

    __repr__ = __str__


class Liar(Exception):
    @property
    def __class__(self):
        raise KeyboardInterrupt


class Text(str):
    __slots__ = ()

    def __str__(self):
        raise SystemExit("gone")

    __repr__ = __format__ = encode = __getitem__ = __str__


class Hollow(Retry):
    def __init__(self):
        pass


def exits():
    sys.exit("enough")


RAISED = {
    "exit": (exits, "SystemExit: enough ("),
    "interrupt": (lambda: raised(KeyboardInterrupt()), "KeyboardInterrupt ("),
    "generator exit": (lambda: raised(GeneratorExit()), "GeneratorExit ("),
    "group": (
        lambda: raised(BaseExceptionGroup("both", [SystemExit(1), ValueError("x")])),
        "BaseExceptionGroup: both (2 sub-exceptions): SystemExit: 1",
    ),
    "unreadable": (lambda: raised(Unreadable()), "Unreadable: <Unreadable without text: its __str__ raises"),
    "liar": (lambda: raised(Liar("x")), "KeyboardInterrupt"),
    "text": (lambda: raised(ValueError(Text("x"))), "ValueError: "),
    "hollow": (lambda: raised(Hollow()), "AttributeError: "),
    "retry after a text": (
        lambda: raised(Retry("busy", after_s="5")),
        "busy; its after_s is no number of seconds (",
    ),
    "retry for an unreadable reason": (lambda: raised(Retry(Unreadable())), "<Unreadable without text"),
    "cancelled": (lambda: raised(asyncio.CancelledError()), "the adapter of test.work cancelled its"),
    "oneself": (lambda: asyncio.current_task().cancel(), "the adapter of test.work cancelled its own task"),
}  # fmt: skip


def raised(error):
    raise error


async def exits_in_a_task():
    """As a task group or a client library does."""
    exits()


async def gathers(work):
    await asyncio.gather(work, asyncio.sleep(1))


async def groups(work):
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work)
        tasks.create_task(asyncio.sleep(1))


async def asks_a_task_of_a_task(work):
    await asyncio.create_task(groups(work))


async def forgets(work):
    task = asyncio.create_task(work)
    await asyncio.sleep(0.1)
    assert isinstance(task.exception(), TaskExit)
    raise Retry("TaskExit: a task of the adapter raised SystemExit: enough (")


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize("name", RAISED)
@in_virtual_time
async def test_it_is_one_attempt_that_failed_and_the_next_one_has_its_place(bench, work_types, name, later):
    do, said = RAISED[name]

    async def hostile(params, attempt):
        if later:
            await asyncio.sleep(0.1)
        if params.number == 0:
            do()
            await asyncio.sleep(0.1)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(hostile, concurrency=1)) as pool:
        intents = await bench.opened(pool, opening(0, attempts=2), *map(opening, range(1, 6)))
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, intents)
    first, *others = [found[intent] for intent in intents]
    assert (first.status, first.code, first.attempts) == ("failed", "effects.exhausted", 2)
    assert first.text.startswith(said)
    assert [each.status for each in others] == ["ok"] * 5


@pytest.mark.parametrize("way", [gathers, groups, asks_a_task_of_a_task, forgets])
@in_virtual_time
async def test_a_task_that_an_adapter_starts_ends_its_attempt_and_nothing_else(bench, work_types, way):
    """It went through to whoever ran the loop, past every `except`, and the node was gone."""

    async def hostile(params, attempt):
        if params.number == 0:
            await way(exits_in_a_task())
        return work_types[1](params.number)

    async with bench.pool(bench.worker(hostile, concurrency=1)) as pool:
        intents = await bench.opened(pool, opening(0, attempts=2), opening(1))
        await pool.wait_idle()
    assert asyncio.get_running_loop().get_task_factory() is None
    found = await check_left_nothing(bench.world, intents)
    first, second = [found[intent] for intent in intents]
    assert (first.status, first.attempts, second.status) == ("failed", 2, "ok")
    assert "raised SystemExit: enough (" in first.text
    if way is not forgets:
        assert "test_hostile.py" in first.text


async def test_a_generator_that_exits_when_it_is_collected_ends_nothing():
    """Its end is a task of the loop, begun wherever the garbage is collected: it ended the node."""
    told = []

    async def exits_at_its_end():
        try:
            yield 1
        finally:
            exits()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    try:
        async with contained_tasks():
            generator = exits_at_its_end()
            await anext(generator)
            del generator
            for _ in range(5):
                gc.collect()
                await asyncio.sleep(0)
    finally:
        loop.set_exception_handler(None)
    assert [str(error) for error in told] == ["a task of the adapter raised SystemExit: enough"]


@in_virtual_time
async def test_a_task_of_an_adapter_that_is_cancelled_before_it_begins_is_begun_and_ended(bench, work_types):
    """A coroutine that nobody ever awaited is warned of, and warnings are errors here."""

    async def hasty(params, attempt):
        task = asyncio.create_task(exits_in_a_task())
        assert task.get_coro().cr_code is exits_in_a_task.__code__
        task.cancel()
        await asyncio.wait([task])
        return work_types[1](params.number)

    async with bench.pool(bench.worker(hasty)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    assert (await check_left_nothing(bench.world, [intent]))[intent].status == "ok"


@in_virtual_time
async def test_the_reason_has_the_places_in_the_authors_file(bench):
    async def broken(params, attempt):
        exits()

    async with bench.pool(bench.worker(broken)) as pool:
        [intent] = await bench.opened(pool, opening(1, attempts=1))
        await pool.wait_idle()
    text = (await check_left_nothing(bench.world, [intent]))[intent].text
    line = exits.__code__.co_firstlineno + 1
    assert f"test_hostile.py:{line} in exits, called at " in text
    assert "broken" in text
    assert "attempts.py" not in text  # our own files say nothing to the author


@pytest.mark.parametrize("after", [timedelta(seconds=40), 40, 40.0])
@in_virtual_time
async def test_a_pause_may_be_a_number_or_a_timedelta(bench, after):
    async def busy(params, attempt):
        raise Retry("busy", after_s=after)

    async with bench.pool(bench.worker(busy)) as pool:
        await bench.opened(pool, opening(1))
        begun_ns = bench.clock.now_ns()
        await asyncio.sleep(1)
        [page] = [page async for page in due_rows(bench.engine, 1 << 63)]
        assert page.rows[0].row.ready_ns - begun_ns >= 40 * SECOND


@pytest.mark.parametrize("after", [float("nan"), float("inf"), -5, 10**400, True])
@in_virtual_time
async def test_any_other_pause_is_taken_within_reason(bench, work_types, after):
    async def busy(params, attempt):
        if attempt.number == 1:
            raise Retry("busy", after_s=after)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(busy)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await asyncio.sleep(86_401)
        await pool.wait_idle()
    assert (await check_left_nothing(bench.world, [intent]))[intent].attempts == 2


class Odd(float):
    """A number that is neither more nor less than any other."""

    def __lt__(self, other):
        return False

    __gt__ = __lt__

    def __float__(self):
        return float("inf")


@in_virtual_time
async def test_a_pause_of_a_class_of_its_own_is_taken_within_reason(bench, work_types):
    """What it compares as was believed, and the pool could not compute with it: the node ended."""

    async def busy(params, attempt):
        if attempt.number == 1:
            raise Retry("busy", after_s=Odd(3))
        return work_types[1](params.number)

    async with bench.pool(bench.worker(busy)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await asyncio.sleep(86_401)
        await pool.wait_idle()
    assert (await check_left_nothing(bench.world, [intent]))[intent].attempts == 2


FAILURES = [
    lambda: Failed("bank.no", Unreadable()),
    lambda: Failed(7, "seven"),
    lambda: Failed(Text("x"), "y"),
]


@pytest.mark.parametrize("make", FAILURES, ids=["text", "code", "hostile code"])
@in_virtual_time
async def test_a_failure_for_good_is_one_whatever_it_says(bench, make):
    async def refused(params, attempt):
        raise make()

    async with bench.pool(bench.worker(refused)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.status, receipt.attempts, receipt.exhausted) == ("failed", 1, False)
    assert type(receipt.text) is str


@in_virtual_time
async def test_a_failure_out_of_a_task_group_is_the_failure(bench):
    async def grouped(params, attempt):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(refuse())

    async def refuse():
        raise Failed("bank.no", "no money")

    async with bench.pool(bench.worker(grouped)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.code, receipt.text) == ("bank.no", "no money")


class Paid(msgspec.Struct, frozen=True):
    number: int
    text: str = ""

    def __post_init__(self):
        if self.number == 0:
            raise SystemExit("params with code")


VALUES = {
    "unreadable": Unreadable,
    "text": lambda: Text("x"),
    "object": object,
    "hostile field": lambda: Paid(1, Text("x")),
    "surrogate": lambda: Paid(1, "\ud800"),
}


@pytest.mark.parametrize("name", VALUES)
@in_virtual_time
async def test_a_value_that_is_no_receipt_fails_its_effect_only(bench, name):
    async def odd(params, attempt):
        return VALUES[name]() if params.number else Paid(2)

    work = bench.worker(odd)
    work.receipt = Paid
    async with bench.pool(work) as pool:
        intents = await bench.opened(pool, opening(1), opening(0))
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, intents)
    assert found[intents[1]].status == "ok"
    receipt = found[intents[0]]
    assert receipt.code == "effects.receipt" or decode(receipt.value) == {"number": 1, "text": "x"}


@in_virtual_time
async def test_classes_of_params_may_have_code_that_fails(bench):
    work = bench.worker()
    work.params = Paid
    async with bench.pool(work) as pool:
        intents = await bench.opened(pool, opening(0), opening(1))
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, intents)
    assert (found[intents[0]].status, found[intents[0]].code) == ("failed", "effects.params")
    assert "SystemExit: params with code (" in found[intents[0]].text
    assert found[intents[1]].status == "ok"


# Attempts do not see each other


@in_virtual_time
async def test_context_variables_end_with_their_attempt(bench, work_types):
    seen = []

    async def tenant(params, attempt):
        seen.append(TENANT.get())
        TENANT.set(f"tenant {params.number}")
        if params.number % 2:
            await asyncio.sleep(0.1)
        assert TENANT.get() == f"tenant {params.number}"
        return work_types[1](params.number)

    async with bench.pool(bench.worker(tenant, concurrency=1)) as pool:
        intents = await bench.opened(pool, *map(opening, range(6)))
        await pool.wait_idle()
    assert seen == ["nobody"] * 6
    await check_left_nothing(bench.world, intents)


@in_virtual_time
async def test_every_attempt_has_a_task_of_its_own(bench, work_types):
    tasks = []

    async def keeps(params, attempt):
        for task in tasks:
            task.cancel()  # a late cancellation reaches nobody else
        tasks.append(asyncio.current_task())
        return work_types[1](params.number)

    async with bench.pool(bench.worker(keeps, concurrency=1)) as pool:
        intents = await bench.opened(pool, *map(opening, range(6)))
        await pool.wait_idle()
    assert len(set(tasks)) == 6
    found = await check_left_nothing(bench.world, intents)
    assert {each.status for each in found.values()} == {"ok"}


@in_virtual_time
async def test_every_attempt_has_a_grant_of_its_own(bench, work_types):
    """They had the world's: what one adapter made of it held for every later request."""
    grant = {"name": "bank", "hosts": ["bank.example"], "allow": {"to": ["a"]}}
    seen = []

    async def widens(params, attempt):
        seen.append(deepcopy(attempt.grant))
        attempt.grant["hosts"].append("other.example")
        attempt.grant["allow"]["to"].append("*")
        attempt.grant["client"] = object()
        if attempt.number == 1:
            raise Retry("busy", after_s=1)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(widens, concurrency=1)) as pool:
        intents = await bench.opened(pool, opening(0, grant=grant), opening(1, grant=grant))
        await pool.wait_idle()
    assert seen == [grant] * 4
    assert grant == {"name": "bank", "hosts": ["bank.example"], "allow": {"to": ["a"]}}
    await check_left_nothing(bench.world, intents)


@in_virtual_time
async def test_limits_that_are_code_are_asked_for_at_the_beginning(bench, work_types):
    """What they raised while an attempt failed ended the pool."""

    class Work:
        kind, params, receipt = "test.work", *work_types
        is_at_work = False

        @property
        def limits(self):
            if self.is_at_work:
                raise SystemExit("limits")
            return AdapterLimits(attempts=2, timeout_s=1)

        async def perform(self, params, attempt):
            self.is_at_work = True
            await asyncio.sleep(params.number)
            raise ValueError("no")

        async def close(self):
            pass

    async with bench.pool(Work()) as pool:
        intents = await bench.opened(pool, opening(0), opening(1))
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, intents)
    assert [found[intent].status for intent in intents] == ["failed"] * 2


@in_virtual_time
async def test_an_attempt_that_does_not_stop_loses_its_place(bench, work_types):
    free = asyncio.Event()

    async def stubborn(params, attempt):
        while params.number == 0 and not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return work_types[1](params.number)

    async with bench.pool(bench.worker(stubborn, concurrency=1)) as pool:
        intents = await bench.opened(pool, opening(0, attempts=1, timeout_ns=SECOND, priority=0), opening(1))
        await pool.wait_idle()
        found = await check_left_nothing(bench.world, intents)
        free.set()
    assert found[intents[1]].status == "ok"
    receipt = found[intents[0]]
    assert (receipt.status, receipt.attempts) == ("timeout", 1)
    assert receipt.text == "it took longer than 1 s, and goes on although it was cancelled"
    await check_left_nothing(bench.world, intents)  # what it did later counts no more


async def ends_its_own_task():
    asyncio.current_task().cancel()
    await asyncio.sleep(1)


CLOSINGS = [
    ends_its_own_task,
    lambda: asyncio.create_task(exits_in_a_task()),
    lambda: gathers(exits_in_a_task()),
    lambda: asyncio.sleep(3_600),
]


@in_virtual_time
async def test_an_adapter_that_cannot_be_closed_keeps_nobody_from_it(bench, work_types):
    closed = []
    free = asyncio.Event()

    async def goes_on():
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    class Work:
        params, receipt, limits = *work_types, AdapterLimits()

        def __init__(self, kind, error=None):
            self.kind, self.error = kind, error

        async def perform(self, params, attempt):
            return work_types[1](params.number)

        async def close(self):
            if isinstance(self.error, BaseException):
                raise self.error
            if self.error is not None:
                await self.error()
            closed.append(self.kind)

    errors = [SystemExit(1), Unreadable(), asyncio.CancelledError(), *CLOSINGS, goes_on]
    every = [Work(f"test.bad{number}", error) for number, error in enumerate(errors)]
    async with bench.pool(*every, Work("test.work")) as pool:
        intents = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    assert closed == ["test.work"]
    free.set()
    await check_left_nothing(bench.world, intents)
