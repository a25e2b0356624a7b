"""A real node through the synchronous facade: many threads, Ctrl-C, forks, closing while others call."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cellule.errors import Refused, Rejected, Unavailable, VersionConflict
from cellule.sync import SyncCell, SyncSent, SyncWorld, open_sync

EXAMPLE = Path(__file__).parents[2] / "examples" / "00-orders"
THREADS = 20
WAIT_S = 60


@pytest.fixture
def shop(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE)
    yield importlib.import_module("shop")
    sys.modules.pop("shop", None)


def test_an_order_goes_through_its_life_without_an_event_loop(shop, tmp_path):
    with open_sync(tmp_path, shop.app) as node:
        assert node.is_owner
        world = node.world("shop")
        assert isinstance(world, SyncWorld)
        assert world == node.world("shop")
        assert world.send(shop.Placed("o1", 30)).steps[0].version == 1
        assert world.send(shop.Paid("o1", 30), wait="reply").reply == 0
        cell = world.cell(shop.order, "o1")
        assert isinstance(cell, SyncCell)
        assert cell.state() == shop.Order(30, 30, shipped=True)
        assert [each.version for each in cell.history()] == [3, 2, 1]
        assert [each.name for each in node.worlds()] == ["shop"]
    with open_sync(tmp_path) as node:
        assert node.world("shop").cell("order", "o1").state()["shipped"] is True


def test_errors_are_those_of_the_node(shop, tmp_path):
    with open_sync(tmp_path, shop.app) as node:
        world = node.world()
        world.send(shop.Placed("o1", 30))
        with pytest.raises(Refused, match="too much"):
            world.send(shop.Paid("o1", 31))
        with pytest.raises(VersionConflict):
            world.send(shop.Placed("o2", 1), expected_version=5)
        with pytest.raises(Rejected):
            node.world("nowhere", create=False)


def test_handles_of_events_under_way_tell_their_outcome(shop, tmp_path):
    with open_sync(tmp_path, shop.app) as node:
        world = node.world()
        sents = [world.send_nowait(shop.Placed(f"o{each}", 10), id=f"placed-{each}") for each in range(50)]
        assert all(isinstance(each, SyncSent) and each.wait() == each for each in sents)
        again = world.send_nowait(shop.Placed("o1", 10), id="placed-1").wait()
        assert again.duplicate
        assert again.height == sents[1].height
        many = world.send_many(
            shop.Paid(f"o{each}", world.cell(shop.order, f"o{each}").state().total) for each in range(50)
        )
        assert all(each.finished and each.error is None for each in many)


def test_twenty_threads_share_one_node(shop, tmp_path):
    own, rounds = 10, 5

    def work(number):
        for each in range(own):
            world.send(shop.Placed(f"o{number}-{each}", 3))
        for _ in range(rounds):
            world.send(shop.Paid("all", 1))
        for each in range(own):
            world.send(shop.Paid(f"o{number}-{each}", 3))
        return sum(world.cell(shop.order, f"o{number}-{each}").state().paid for each in range(own))

    with open_sync(tmp_path, shop.app) as node:
        world = node.world()
        world.send(shop.Placed("all", 10_000))
        with ThreadPoolExecutor(THREADS) as pool:
            assert list(pool.map(work, range(THREADS))) == [3 * own] * THREADS
        shared = world.cell(shop.order, "all").view()
        assert shared.state == shop.Order(10_000, THREADS * rounds)
        assert shared.version == 1 + THREADS * rounds
    with open_sync(tmp_path, shop.app) as node:
        assert node.world().cell(shop.order, "all").state() == shared.state


def test_a_thread_follows_the_journal_until_the_block_is_left(shop, tmp_path):
    seen, enough = [], threading.Event()

    def follow():
        try:
            for frame in world.tail(after=0):
                seen.extend(range(frame.header.first, frame.header.last + 1))
                if seen[-1] >= wanted:
                    enough.set()
        except Unavailable:
            return "closed"
        return "ended"

    with ThreadPoolExecutor(1) as pool:
        with open_sync(tmp_path, shop.app) as node:
            world = node.world()
            wanted = world.send(shop.Placed("o1", 30)).steps[0].height
            following = pool.submit(follow)
            wanted = world.send(shop.Paid("o1", 3)).steps[0].height
            world.send(shop.Paid("o1", 3))
            assert enough.wait(WAIT_S)
        assert following.result(WAIT_S) == "closed"
    assert seen == list(range(1, len(seen) + 1))


def test_closing_while_threads_send_loses_nothing_that_was_acknowledged(shop, tmp_path):
    busy = threading.Barrier(THREADS + 1)

    def work(number):
        done = 0
        busy.wait(WAIT_S)
        try:
            for each in range(100_000):
                world.send(shop.Placed(f"o{number}-{each}", 1))
                done += 1
        except Unavailable:
            return done
        return done

    with ThreadPoolExecutor(THREADS) as pool:
        with open_sync(tmp_path, shop.app) as node:
            world = node.world()
            counts = [pool.submit(work, number) for number in range(THREADS)]
            busy.wait(WAIT_S)
            world.send(shop.Placed("meanwhile", 1))
        acknowledged = [count.result(WAIT_S) for count in counts]
    with open_sync(tmp_path, shop.app) as node:
        world = node.world()
        for number, count in enumerate(acknowledged):
            for each in range(count):
                assert world.cell(shop.order, f"o{number}-{each}").view().version == 1


INTERRUPTED = """
import sys, threading
sys.path.insert(0, {example!r})
import shop
from cellule.sync import open_sync
try:
    with open_sync({data!r}, shop.app) as node:
        world = node.world()
        world.send(shop.Placed("o1", 30))
        frames = world.tail()
        print("waiting", flush=True)
        next(frames)
except KeyboardInterrupt:
    print("interrupted", "cellule" in [each.name for each in threading.enumerate()], flush=True)
"""


def test_an_interrupt_ends_the_wait_and_closes_the_node_cleanly(shop, tmp_path):
    code = INTERRUPTED.format(example=str(EXAMPLE), data=str(tmp_path))
    child = subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout.readline() == "waiting\n"
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=WAIT_S)
    assert (child.returncode, out) == (0, "interrupted False\n")
    with open_sync(tmp_path, shop.app) as node:
        assert node.world().cell(shop.order, "o1").state() == shop.Order(30)


FORKED = """
import os, sys
sys.path.insert(0, {example!r})
import shop
from cellule.errors import Rejected
from cellule.sync import open_sync
with open_sync({data!r}, shop.app) as node:
    world = node.world()
    child = os.fork()
    if not child:
        try:
            world.send(shop.Placed("o1", 30))
        except Rejected as error:
            os._exit(7 if error.code == "sync.forked" else 1)
        os._exit(2)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    world.send(shop.Placed("o1", 30))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_is_told_to_open_its_own_node_instead_of_waiting_for_a_thread_it_lacks(tmp_path):
    code = FORKED.format(example=str(EXAMPLE), data=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert done.stdout == "7\n"
