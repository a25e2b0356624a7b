"""The agenda of a beat, decided: the impulses that are due, in order, and what the enzymes make of them.

It runs whole against the world as it was when the beat began, and changes nothing: `agenda_records.py` writes
down what was decided here, and `verify` compares it with what was written. An agenda that would fill the
frame goes on in the next beat, where it stopped.

While the heartbeat is paused impulses stay where they are, but for diagnostics, continuations and signals
under `/sig_ctl`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from cellule.kernel.decide.enzyme_actions import Staged
from cellule.kernel.decide.enzyme_runs import FATAL, RETRY, Runner
from cellule.kernel.decide.eras import Eras
from cellule.kernel.decide.resolution import Resolver
from cellule.kernel.heartbeat.cell_paths import cell_of, is_cell_path
from cellule.kernel.heartbeat.entries import Entry
from cellule.kernel.journal.writer import RECORD_BYTES
from cellule.kernel.limits import AGENDA_BYTES_MAX, OUTPUT_BYTES_MAX, PARAMS_INLINE_MAX
from cellule.kernel.need import Need
from cellule.kernel.program import StepFault
from cellule.kernel.state.heartbeat import Heartbeat
from cellule.kernel.state.heartbeat_rows import Impulse, passes_pause, payload_digest, place_of
from cellule.kernel.state.ledger import Ledger, Target

_PAGE = 256
_NUMBER_BYTES = 5  # of an entry's number
_LINE_BYTES = 8
_RETRY_BYTES = 10  # of one entry, and how often it sent an impulse again
Identity = tuple[str | None, str | None, bytes]


class Line(NamedTuple):
    """One entry of an impulse: its return code; whether it ran, and then what it did or why it failed."""

    entry: Entry
    code: int
    ran: bool
    staged: Staged | None = None
    fault: StepFault | None = None


class Handled(NamedTuple):
    """What becomes of an impulse that was queued for `beat` at `height`."""

    beat: int
    height: int
    impulse: Impulse
    lines: Sequence[Line] = ()
    cycle: bool = False
    over: int = 0
    dropped: Sequence[Entry] = ()
    cell: Target | None = None  # it is a message for this cell


class Agenda:
    """Decides the agenda of one beat."""

    def __init__(
        self, ledger: Ledger, heartbeat: Heartbeat, eras: Eras, world: bytes, entropy: bytes, size: int = 0
    ) -> None:
        self._ledger = ledger
        self._heartbeat = heartbeat
        self._resolver = Resolver(ledger, heartbeat)
        self._runner = Runner(ledger, eras, world, entropy)
        self._codes: dict[tuple[Identity, int], int] = {}  # of entries that ran for an identity
        self._size = size  # of the frame, with what the impulses so far add to it

    def decide(self) -> Generator[Need, None, list[Handled]]:
        """Handle all impulses that are due, or as many as a frame takes, and one at least."""
        done: list[Handled] = []
        after = b""
        while True:
            page = yield from self._heartbeat.due(self._ledger.beat, after, _PAGE)
            for key, impulse in page:
                if self._size >= AGENDA_BYTES_MAX and done:
                    return done
                if self._heartbeat.paused and not passes_pause(impulse):
                    continue
                done.append((yield from self._handle(*place_of(key), impulse)))
            if len(page) < _PAGE:
                return done
            after = page[-1][0] + b"\0"

    def _handle(self, beat: int, height: int, impulse: Impulse) -> Generator[Need, None, Handled]:
        self._size += RECORD_BYTES + len(impulse.signal or "") + len(impulse.target or "")
        if impulse.target is not None and is_cell_path(impulse.target):
            self._size += PARAMS_INLINE_MAX
            return Handled(beat, height, impulse, cell=cell_of(impulse.target))
        resolved = yield from self._resolver.resolve(impulse)
        lines: list[Line] = []
        room, retried = OUTPUT_BYTES_MAX, 0
        identity = identity_of(impulse)
        for at, entry in enumerate(resolved.entries):
            code = self._codes.get((identity, entry.number))
            if code is not None:
                line = Line(entry, code, ran=False)
            else:
                line, room = yield from self._run(entry, impulse, height, room)
                if line.code == RETRY:
                    retried += 1
                    line = self._retried(line, impulse, retried)
                self._codes[identity, entry.number] = line.code
            lines.append(line)
            self._size += _LINE_BYTES
            if line.fault is not None:  # it is recorded, and a warning tells it
                self._size += 2 * (RECORD_BYTES + len(line.fault.text.encode()))
            if line.code == FATAL:
                dropped = resolved.entries[at + 1 :]
                self._size += _NUMBER_BYTES * len(dropped)
                return Handled(beat, height, impulse, lines, dropped=dropped)
        return Handled(beat, height, impulse, lines, resolved.cycle, resolved.over)

    def _run(
        self, entry: Entry, impulse: Impulse, height: int, room: int
    ) -> Generator[Need, None, tuple[Line, int]]:
        code, staged, fault = yield from self._runner.run(entry, impulse, height)
        size = 0 if staged is None else staged.size
        if size > room:
            text = f"what the enzymes of one impulse do has more than {OUTPUT_BYTES_MAX} bytes"
            code, staged, fault, size = FATAL, None, StepFault("kernel.output_size", text), 0
        self._size += size
        return Line(entry, code, True, staged, fault), room - size

    def _retried(self, line: Line, impulse: Impulse, count: int) -> Line:
        """A line that sends its impulse again, as one of so many; fatal where these are too many to write.

        Each of them says how often all of them did so.
        """
        own = RECORD_BYTES + len(impulse.signal or "") + len(impulse.target or "")
        size = count * (own + _RETRY_BYTES * (len(impulse.retries) + count))
        if size <= OUTPUT_BYTES_MAX:
            return line
        text = f"{count} enzymes send the same impulse again, and what these say has {size} bytes"
        return Line(line.entry, FATAL, True, None, StepFault("kernel.output_size", text))


def identity_of(impulse: Impulse) -> Identity:
    """By this impulses are the same: each entry runs once for it in a beat."""
    return impulse.signal, impulse.target, payload_digest(impulse.payload)


def retries_of(handled: Handled) -> dict[int, int]:
    """How often each entry has sent the impulse again, with those that do so now."""
    counts = {each[0]: each[1] for each in handled.impulse.retries}
    for line in handled.lines:
        if line.ran and line.code == RETRY:
            counts[line.entry.number] = counts.get(line.entry.number, 0) + 1
    return counts
