"""A test's world, run again in another process whose hash seed is another one.

Python orders sets of texts by hashes that differ from process to process, so a step that lets this order out
computes something else after a restart. One process that lives as long as the tests verifies world after
world: it restores the first snapshot, runs every recorded step again, and compares. It asks for nodes of the
CAS as it needs them. This module is also what that process runs; a message has its length before it.

    parent -> child    DAG-CBOR {world, root, frames: how many, path}, then the frames
    child -> parent    DAG-CBOR [cid, ...]: nodes it needs; each is answered by its bytes, none by no bytes
    child -> parent    DAG-CBOR {steps, difference?, problem?}: the end of this world

Rejected: a process for each world. Python and Cellule take half a second to begin.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import IO, Any, Final
from uuid import UUID

from cellule.errors import StepFailed, Unavailable
from cellule.kernel.lineage import Ancestor, Lineage
from cellule.kernel.need import drive
from cellule.kernel.prove.verify import Verifier
from cellule.kernel.world import World
from cellule.modules.kinds import CodeKinds
from cellule.values.cbor import decode_trusted, encode
from cellule.values.cid import Cid

_LENGTH_BYTES: Final = 4
_JOBS_PER_PROGRAMS: Final = 100  # programs are kept for the next worlds, but not for ever
_PROBLEM_CHARS_MAX: Final = 4_000

Fetch = Callable[[Iterable[Cid]], Mapping[Cid, bytes]]


class OtherProcess:
    """The process, started when it is first needed, and again if it ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = Lock()

    def verify(self, lineage: Lineage, root: Cid, frames: Sequence[bytes], fetch: Fetch) -> None:
        """Run all steps of a world again, there; raises `testing.differs_elsewhere` at a difference."""
        with self._lock:
            answer = self._asked(lineage, root, frames, fetch)
        problem = answer.get("problem")
        if problem is not None:
            raise _unavailable(problem)
        difference = answer.get("difference")
        if difference is not None:
            raise StepFailed(
                "testing.differs_elsewhere", "a step did something else in another process: {difference}.",
                difference=difference,
                hint="The order of a set, hash(), id() or the process itself reached the result: sort sets, "
                "and use only the state, the event and ctx.",
            )  # fmt: skip

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            _end(process)

    def _asked(self, lineage: Lineage, root: Cid, frames: Sequence[bytes], fetch: Fetch) -> Any:
        process = self._started()
        given, taken = process.stdin, process.stdout
        assert given is not None
        assert taken is not None
        ancestors = [[each.world.bytes, each.last] for each in lineage.ancestors]
        header: Any = {
            "world": lineage.world.bytes, "ancestors": ancestors, "root": bytes(root), "frames": len(frames),
            "path": sys.path,
        }  # fmt: skip
        try:
            _write(given, encode(header), *frames)
            while True:
                message: Any = decode_trusted(_read(taken))
                if isinstance(message, dict):
                    return message
                wanted = [Cid.of_bytes(cid) for cid in message]
                found = fetch(wanted)
                _write(given, *(found.get(cid, b"") for cid in wanted))
        except (EOFError, OSError) as error:
            self.close()
            raise _unavailable(f"it ended with {process.wait()}") from error
        except BaseException:
            self.close()  # in the middle of a conversation it is of no more use
            raise

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self.close()
            self._owner = os.getpid()
            self._process = subprocess.Popen(  # noqa: S603 - our own module, by the running interpreter
                [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONHASHSEED": other_seed(os.environ)},
            )  # fmt: skip
        return self._process


OTHER_PROCESS: Final = OtherProcess()
"""The one that all worlds of this process use."""
atexit.register(OTHER_PROCESS.close)


def other_seed(environment: Mapping[str, str]) -> str:
    """A hash seed that is not the one a process with this environment has."""
    return "2" if environment.get("PYTHONHASHSEED") == "1" else "1"


def main() -> None:
    """Verify worlds from standard input until it ends; what steps print goes nowhere."""
    given, taken = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    programs, jobs = CodeKinds(), 0
    while header := _read(given, at_end=b""):
        if jobs == _JOBS_PER_PROGRAMS:
            programs.close()
            programs, jobs = CodeKinds(), 0
        jobs += 1
        _write(taken, encode(_verified(decode_trusted(header), programs, given, taken)))


def _verified(header: Any, programs: CodeKinds, given: IO[bytes], taken: IO[bytes]) -> Any:
    sys.path[:] = header["path"]
    frames = [_read(given) for _ in range(header["frames"])]

    def fetch(cids: Iterable[Cid]) -> dict[Cid, bytes]:
        wanted = list(cids)
        _write(taken, encode([bytes(cid) for cid in wanted]))
        found = [_read(given) for _ in wanted]
        return {cid: data for cid, data in zip(wanted, found, strict=True) if data}

    verifier = Verifier()
    try:
        ancestors = tuple(Ancestor(UUID(bytes=world), last) for world, last in header["ancestors"])
        lineage = Lineage(UUID(bytes=header["world"]), ancestors)
        restoring = World.restore(Cid.of_bytes(header["root"]), lineage.world, programs, lineage=lineage)
        opened = drive(restoring.open(verifier.witness), restoring.nodes, fetch)
        for frame in frames:
            drive(opened.apply(frame), restoring.nodes, fetch)
    except Exception:  # noqa: BLE001 - whatever it is, the parent tells it
        return {"steps": verifier.steps, "problem": traceback.format_exc()[-_PROBLEM_CHARS_MAX:]}
    difference = verifier.difference
    return {"steps": verifier.steps, **({} if difference is None else {"difference": str(difference)})}


def _write(stream: IO[bytes], *messages: bytes) -> None:
    stream.writelines(len(message).to_bytes(_LENGTH_BYTES, "big") + message for message in messages)
    stream.flush()


def _read(stream: IO[bytes], *, at_end: bytes | None = None) -> bytes:
    head = stream.read(_LENGTH_BYTES)
    if not head and at_end is not None:
        return at_end
    size = int.from_bytes(head, "big")
    data = stream.read(size) if len(head) == _LENGTH_BYTES else b""
    if len(head) != _LENGTH_BYTES or len(data) != size:
        raise EOFError("the other end is gone")
    return data


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):  # it may be gone already
        process.stdin.close()
    process.stdout.close()
    process.wait()


def _unavailable(problem: str) -> Unavailable:
    return Unavailable(
        "testing.other_process", "the process that runs worlds again failed: {problem}.", problem=problem,
        hint="The app's code must load in any process; World(app, elsewhere=False) leaves this out.",
    )  # fmt: skip


if __name__ == "__main__":
    main()
