"""Commands that misbehave: whatever they do, they end, and nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from cellule.effects.process.adapter import ProcessAdapter
from cellule.effects.process.types import ProcessRun

ANY = {"name": "tools", "allow": {"command": ["*", sys.executable]}}


@pytest.fixture
def mark():
    """A word that every process of a test has among its arguments."""
    return f"cellule-test-{os.getpid()}-{os.urandom(6).hex()}"


@pytest.fixture
def start(make_attempt):
    """Make the coroutine that runs a command."""

    def begin(command, *args, limit_s=60.0, attempt_s=60.0, **others):
        params = ProcessRun(command=command, args=list(args), timeout_s=limit_s, **others)
        return ProcessAdapter().perform(params, make_attempt(grant=ANY, timeout_s=attempt_s))

    return begin


def python(text):
    return "-c", textwrap.dedent(text)


def alive(mark):
    """The processes that carry the mark and still run."""
    processes = [each for each in psutil.process_iter(["cmdline", "status"]) if each.info["cmdline"]]
    return [
        each.pid
        for each in processes
        if mark in " ".join(each.info["cmdline"]) and each.info["status"] != psutil.STATUS_ZOMBIE
    ]


def exists(folder):
    return Path(folder).exists()


async def until(condition):
    """Wait until the condition holds; the test's own time limit ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 (what another process does gives no event)
        await asyncio.sleep(0.01)


async def test_a_command_that_takes_too_long_is_killed_and_its_output_kept(start, mark):
    ended = await start("sh", "-c", f"echo begun; sleep 1000; : {mark}", limit_s=1.5)
    assert (ended.stopped, ended.signal, ended.stdout) == ("time", signal.SIGKILL, b"begun\n")
    assert not alive(mark)


async def test_the_time_of_the_attempt_is_a_limit_too(start, mark):
    ended = await start("sleep", "1000", attempt_s=1.0)
    assert ended.stopped == "time"


async def test_a_command_that_ignores_signals_is_killed(start, mark):
    ended = await start(
        "sh", "-c", f"trap '' TERM INT HUP; while :; do sleep 0.1; done # {mark}", limit_s=1.5
    )
    assert (ended.stopped, alive(mark)) == ("time", [])


async def test_a_flood_of_output_is_cut_and_does_not_stop_the_command(start):
    ended = await start("sh", "-c", "head -c 50000000 /dev/zero; echo end >&2", output_max=1_000)
    assert (ended.exit_code, ended.stdout, ended.cut) == (0, bytes(1_000), True)
    assert ended.stderr == b"end\n"


async def test_an_endless_flood_ends_with_the_time(start):
    ended = await start("yes", output_max=10, limit_s=1.5)
    assert (ended.stopped, ended.stdout, ended.cut) == ("time", b"y\ny\ny\ny\ny\n", True)


async def test_exactly_as_much_output_as_allowed_is_not_cut(start):
    ended = await start("head", "-c", "70000", "/dev/zero", output_max=70_000)
    assert not ended.cut


async def test_no_output_may_be_wanted(start):
    ended = await start("echo", "hello", output_max=0)
    assert (ended.stdout, ended.cut) == (b"", True)


async def test_one_process_cannot_take_more_memory_than_allowed(start):
    script = python("""
        try:
            held = bytearray(400_000_000)
        except MemoryError:
            print("refused")
    """)
    ended = await start(sys.executable, "-S", *script, memory_max=100_000_000)
    assert (ended.stdout, ended.exit_code) == (b"refused\n", 0)


async def test_many_processes_together_cannot_take_more_memory_than_allowed(start, mark):
    script = python("""
        import os, time
        for _ in range(4):
            if os.fork() == 0:
                break
        held = bytearray(os.urandom(1)) * 60_000_000
        time.sleep(1000)
    """)
    ended = await start(sys.executable, "-S", *script, mark, memory_max=100_000_000)
    assert (ended.stopped, alive(mark)) == ("memory", [])


async def test_memory_that_processes_share_counts_once(start):
    script = python("""
        import os, time
        held = bytearray(os.urandom(1)) * 60_000_000
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                time.sleep(0.5)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
    """)
    ended = await start(sys.executable, "-S", *script, memory_max=150_000_000)
    assert (ended.stopped, ended.exit_code) == (None, 0)


async def test_a_file_cannot_grow_beyond_its_limit(start):
    ended = await start("sh", "-c", "head -c 5000 /dev/zero > file; wc -c < file", file_max=1_000)
    assert ended.stdout.strip() == b"1000"


async def test_a_command_that_multiplies_is_stopped_whole(start, mark):
    script = python("""
        import os, time
        for _ in range(6):
            os.fork()
        time.sleep(1000)
    """)
    ended = await start(sys.executable, "-S", *script, mark, processes_max=10)
    assert (ended.stopped, alive(mark)) == ("processes", [])


async def test_children_left_behind_are_killed_when_the_command_ends(start, mark):
    ended = await start("sh", "-c", f"for i in 1 2 3 4 5; do (sleep 1000; : {mark}) & done; echo left")
    assert (ended.exit_code, ended.stdout) == (0, b"left\n")
    assert not alive(mark)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt its orphans")
async def test_a_daemon_that_left_its_session_is_killed_too(start, mark):
    script = python("""
        import os, sys, time
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.setsid()
                    os.closerange(0, 3)
                    time.sleep(1000)
                os._exit(0)
        print("gone")
    """)
    ended = await start(sys.executable, "-S", *script, mark)
    assert (ended.exit_code, ended.stdout) == (0, b"gone\n")
    assert not alive(mark)


async def test_a_cancelled_attempt_leaves_no_process_and_no_folder(start, mark, tmp_path):
    seen = tmp_path / "where"
    script = f"pwd > {seen}.new; mv {seen}.new {seen}; (sleep 1000; : {mark}) & sleep 1000"
    running = asyncio.ensure_future(start("sh", "-c", script))
    await until(seen.exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(mark)
    assert not exists(seen.read_text().strip())


async def test_cancelling_twice_does_not_leave_the_command_running(start, mark, tmp_path):
    seen = tmp_path / "seen"
    running = asyncio.ensure_future(start("sh", "-c", f"touch {seen}; sleep 1000; : {mark}"))
    await until(seen.exists)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(mark)


async def test_a_command_dies_with_its_node(mark, tmp_path):
    seen = tmp_path / "where"
    node = tmp_path / "node.py"
    node.write_text(
        textwrap.dedent(f"""
            import asyncio
            from cellule.effects.process.child import run_supervised
            order = {{
                "path": "/bin/sh",
                "argv": ["sh", "-c", "pwd > {seen}.new; mv {seen}.new {seen}; sleep 1000; : {mark}"],
                "env": {{}}, "timeout_s": 1000, "memory_max": 10**9, "file_max": 10**6, "output_max": 10,
                "processes_max": 10,
            }}
            asyncio.run(run_supervised(order, b""))
        """)
    )
    process = await asyncio.create_subprocess_exec(sys.executable, str(node))
    await until(seen.exists)
    folder = seen.read_text().strip()
    assert exists(folder)
    process.kill()
    await process.wait()
    await until(lambda: not alive(mark) and not exists(folder))


async def test_many_commands_run_at_once(start):
    ended = await asyncio.gather(*[start("echo", str(number)) for number in range(8)])
    assert [each.stdout for each in ended] == [f"{number}\n".encode() for number in range(8)]
