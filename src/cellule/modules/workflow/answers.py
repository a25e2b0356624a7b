"""Answers for a run: the next one, or all that its history has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from cellule.kernel.manifest.schemas import is_receipt
from cellule.kernel.manifest.system import CALL_FAILED, TIMER_FIRED
from cellule.kernel.program import Context
from cellule.modules.python.failure import Places, exception_text
from cellule.modules.python.watchdog import Watched
from cellule.modules.workflow import history
from cellule.modules.workflow.history import Ask
from cellule.modules.workflow.run import Run
from cellule.values.cbor import decode_trusted


class Input(NamedTuple):
    """What a step brings: the event, receipt or timer, and when and where in the journal."""

    schema: str
    value: bytes
    key: bytes
    context: Context


def give(run: Run, given: Input) -> None:
    """Give a run its next answer; what nobody waits for changes nothing."""
    now_ns, schema, entries = given.context.now_ns, given.schema, run.commands.sent.entries
    value: Any = decode_trusted(given.value)
    is_taken = True
    run.at(now_ns)
    if schema == run.order:
        is_taken = run.cancelled is None
        entries.append(history.entry(history.CANCEL, now_ns, value.get("why") or ""))
        run.cancel(value.get("why") or "")
    elif schema == TIMER_FIRED:
        entries.append(history.entry_with(given.value, history.TIMER, now_ns))
        is_taken = run.give_timer(value)
    elif schema == CALL_FAILED:
        entries.append(history.entry_with(given.value, history.CALL, now_ns))
        is_taken = run.give_failure(value)
    elif is_receipt(schema):
        entries.append(history.entry_with(given.value, history.RECEIPT, now_ns, schema))
        is_taken = run.give_receipt(schema, value)
    elif run.awaits(schema):
        entries.append(history.entry_with(given.value, history.EVENT, now_ns, schema))
        run.give_event(schema, value)
    if not is_taken:
        entries.clear()


def replay(run: Run, entries: list[list[Any]], watched: Watched, places: Places) -> None:
    """Give a new run all that its history has, and hold what it asks for against it."""
    commands = run.commands
    for given, behind in _by_input(entries):
        watched.token = watched.count = watched.count + 1  # the watchdog counts from here
        commands.expect([Ask(*each[1:]) for each in behind if each[0] == history.ASK])
        for each in behind:
            if each[0] == history.WAITS:
                commands.recorded_waits(each[1])
        if given[0] == history.START:
            run.begin()
        else:
            _give_again(run, given)
        is_over = run.settle()
        commands.check_asked()
        if is_over:
            error = run.error
            text = "the end of the run" if error is None else exception_text(error, places)
            raise commands.changed(None, None, text)


def _give_again(run: Run, given: list[Any]) -> None:
    """Give a run an answer from its history."""
    tag, now_ns, *parts = given
    run.at(now_ns)
    match tag:
        case history.EVENT:
            run.give_event(*parts)
        case history.RECEIPT:
            is_taken = run.give_receipt(*parts)
            _check_taken(run, "the effect", is_taken=is_taken)
        case history.CALL:
            is_taken = run.give_failure(*parts)
            _check_taken(run, "the call", is_taken=is_taken)
        case history.TIMER:
            is_taken = run.give_timer(*parts)
            _check_taken(run, "the timer", is_taken=is_taken)
        case _:
            run.cancel(parts[-1])


def _check_taken(run: Run, what: str, *, is_taken: bool) -> None:
    if not is_taken:
        raise run.commands.changed(None, None, f"no longer {what} that was answered there")


def _by_input(entries: list[list[Any]]) -> Iterator[tuple[list[Any], list[list[Any]]]]:
    """Each input of a history with the entries behind it."""
    begin = 0
    for at in range(1, len(entries) + 1):
        if at == len(entries) or entries[at][0] in history.INPUTS:
            yield entries[begin], entries[begin + 1 : at]
            begin = at
