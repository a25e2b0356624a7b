"""The synchronous facade: generated and current, and a loop thread that never leaves a caller waiting."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import gc
import importlib.util
import inspect
import sys
import threading
import traceback
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cellule import sync
from cellule.errors import OutcomeUnknown, Rejected, Unavailable
from cellule.loop_thread import LoopThread

ROOT = Path(__file__).parents[2]
WAIT_S = 30


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_sync", ROOT / "tools" / "generate_sync.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


class Place:
    """What the loop thread keeps open in these tests."""

    def __init__(self):
        self.left = threading.Event()
        self.waiting = threading.Event()
        self.failed = asyncio.Event()

    async def add(self, a, b):
        await asyncio.sleep(0)
        return a + b

    async def fail(self, error):
        raise error

    async def wait_for_ever(self):
        self.waiting.set()
        await asyncio.Event().wait()

    async def count(self, upto):
        try:
            for number in range(upto):
                await asyncio.sleep(0)
                yield number
        finally:
            self.left.set()


@asynccontextmanager
async def place():
    yield Place()


@pytest.fixture
def opened():
    thread = LoopThread(place())
    with thread as inner:
        yield thread, inner


# The generated file


def test_the_facade_is_what_the_generator_writes(generator):
    current = (ROOT / "src" / "cellule" / "sync.py").read_text()
    assert current == generator.generate(), "run: python tools/generate_sync.py"


def test_every_public_method_has_its_synchronous_twin_with_the_same_words(generator):
    for subject in generator.SUBJECTS:
        original = getattr(importlib.import_module(subject.module), subject.name)
        facade = getattr(sync, subject.facade)
        for name, member in vars(original).items():
            if name.startswith("_") or name in subject.left_out or inspect.ismemberdescriptor(member):
                continue
            twin = vars(facade)[name]
            assert not inspect.iscoroutinefunction(twin)
            assert inspect.getdoc(twin) == inspect.getdoc(member).replace("`await ", "`")
            if inspect.isfunction(member):
                assert list(inspect.signature(twin).parameters) == list(inspect.signature(member).parameters)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("async def join(self, other: WorldHandle) -> None: ...", "takes a handle"),
        ("async def all(self) -> dict[str, WorldHandle]: ...", "returns dict"),
        ("async def all(self) -> AsyncIterator[CellHandle]: ...", "iterates over handles"),
        ("@asynccontextmanager\nasync def held(self) -> AsyncIterator[int]: ...", "is decorated with"),
    ],
)
def test_the_generator_refuses_what_it_has_no_rule_for(generator, source, said):
    with pytest.raises(generator.NotUnderstood, match=said):
        generator._method(generator.SUBJECTS[0], ast.parse(source).body[0], generator.Imports())


def test_an_attribute_without_a_written_type_is_refused(generator):
    init = ast.parse("def __init__(self, a: int):\n    self.a = a\n    self.b = made()").body[0]
    with pytest.raises(generator.NotUnderstood, match="attribute b"):
        list(generator._attributes(init))


# The loop thread


def test_a_call_returns_what_its_coroutine_returned(opened):
    thread, inner = opened
    assert thread.call(lambda: inner.add(2, 3)) == 5


def test_an_error_keeps_its_type_and_the_lines_that_raised_it(opened):
    thread, inner = opened
    error = KeyError("lost")
    with pytest.raises(KeyError) as caught:
        thread.call(lambda: inner.fail(error))
    assert caught.value is error
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[0] == "test_an_error_keeps_its_type_and_the_lines_that_raised_it"
    assert names[-1] == "fail"


def test_an_exit_asked_for_on_the_loop_reaches_the_caller_and_the_loop_goes_on(opened):
    thread, inner = opened
    with pytest.raises(SystemExit):
        thread.call(lambda: inner.fail(SystemExit(3)))
    assert thread.call(lambda: inner.add(1, 1)) == 2


def test_a_call_sees_the_context_variables_of_its_thread(opened):
    thread, _ = opened
    request = contextvars.ContextVar("request", default="none")
    request.set("r7")

    async def asked():
        return request.get()

    assert thread.call(asked) == "r7"


async def test_a_call_inside_a_running_event_loop_is_refused_with_a_hint():
    thread = LoopThread(place())
    with thread as inner:
        with pytest.raises(Rejected, match="asyncio") as caught:
            thread.call(lambda: inner.add(1, 1))
        assert caught.value.code == "sync.in_event_loop"
        with pytest.raises(Rejected, match="running event loop"):
            thread.iterate(inner.count(1))
        assert await asyncio.to_thread(thread.call, lambda: inner.add(1, 1)) == 2


def test_a_call_from_the_loop_itself_is_refused_instead_of_waiting_for_itself(opened):
    thread, inner = opened

    async def nested():
        return thread.call(lambda: inner.add(1, 1))

    with pytest.raises(Rejected, match="running event loop"):
        thread.call(nested)


async def test_opening_inside_a_running_event_loop_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(Rejected) as caught, sync.open_sync(tmp_path / "data"):
        pass
    assert caught.value.code == "sync.in_event_loop"
    assert not (tmp_path / "data").exists()


def test_a_call_after_the_block_is_refused(opened):
    thread = LoopThread(place())
    with thread as inner:
        pass
    with pytest.raises(Unavailable) as caught:
        thread.call(lambda: inner.add(1, 1))
    assert caught.value.code == "sync.closed"


def test_an_error_while_opening_is_raised_as_it_is_and_the_thread_ends():
    @asynccontextmanager
    async def broken():
        raise PermissionError("no such luck")
        yield

    thread = LoopThread(broken())
    with pytest.raises(PermissionError, match="no such luck"), thread:
        pass
    assert not thread._thread.is_alive()


def test_an_error_while_closing_is_raised_when_the_block_is_left():
    @asynccontextmanager
    async def grudging():
        yield 1
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"), LoopThread(grudging()):
        pass


def test_an_exception_of_the_block_stays_what_it_was():
    with pytest.raises(ZeroDivisionError), LoopThread(place()):
        1 / 0  # noqa: B018 - the point is the exception


def test_when_the_context_dies_waiting_calls_end_and_the_block_raises_why():
    @asynccontextmanager
    async def dying():
        inner = Place()

        async def die():
            await inner.failed.wait()
            raise OSError("poisoned")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(die())
            yield inner

    async def set_off(inner):
        inner.failed.set()
        await inner.wait_for_ever()

    def use(thread):
        with thread as inner:
            with pytest.raises(OutcomeUnknown) as ended:
                thread.call(lambda: set_off(inner))
            codes.append(ended.value.code)

    codes = []
    with pytest.raises(ExceptionGroup) as caught:
        use(LoopThread(dying()))
    assert codes == ["sync.interrupted"]
    assert caught.group_contains(OSError, match="poisoned")


def test_leaving_the_block_ends_calls_of_other_threads_that_wait_for_ever():
    errors = []

    def wait(thread, inner):
        try:
            thread.call(inner.wait_for_ever)
        except OutcomeUnknown as error:
            errors.append(error.code)

    thread = LoopThread(place())
    with thread as inner:
        other = threading.Thread(target=wait, args=(thread, inner))
        other.start()
        assert inner.waiting.wait(WAIT_S)
    other.join(WAIT_S)
    assert errors == ["sync.interrupted"]


def test_an_iterator_gives_all_items_in_order(opened):
    thread, inner = opened
    assert list(thread.iterate(inner.count(5))) == [0, 1, 2, 3, 4]
    assert inner.left.wait(WAIT_S)


def test_closing_an_iterator_early_ends_the_one_on_the_loop(opened):
    thread, inner = opened
    items = thread.iterate(inner.count(5))
    assert next(items) == 0
    items.close()
    assert inner.left.wait(WAIT_S)


def test_dropping_an_iterator_ends_the_one_on_the_loop(opened):
    thread, inner = opened
    items = thread.iterate(inner.count(5))
    assert next(items) == 0
    del items
    gc.collect()
    assert inner.left.wait(WAIT_S)
    assert thread.call(lambda: inner.add(1, 1)) == 2


def test_an_iterator_that_outlives_the_block_is_refused_and_closes_quietly():
    thread = LoopThread(place())
    with thread as inner:
        items = thread.iterate(inner.count(5))
        assert next(items) == 0
    with pytest.raises(Unavailable, match="closed"):
        next(items)
    assert inner.left.is_set()


def test_nothing_is_kept_of_calls_that_are_over(opened):
    thread, inner = opened
    for number in range(10):
        thread.call(lambda number=number: inner.add(number, 1))
    with pytest.raises(ValueError, match="no"):
        thread.call(lambda: inner.fail(ValueError("no")))
    list(thread.iterate(inner.count(3)))
    assert inner.left.wait(WAIT_S)
    thread.call(lambda: asyncio.sleep(0))
    assert not thread._calls
