"""Operations, a sentence of the rules for each test."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.heartbeat import operations as ops
from cellule.kernel.heartbeat.operations import CloseRecord, Envelope, Fired, HistoryEntry, Operation, Watcher
from cellule.values.cid import cid_of
from cellule.values.link import Link

PAYLOAD = Link(cid_of(b"\x01"))


def begun(beat: int = 0, mode: str = "opm:direct") -> Operation:
    operation = ops.start(Envelope("op/vl", "/tmp/a", mode, 0, beat))
    assert operation is not None
    return operation


def after(operation: Operation | None) -> Operation:
    assert operation is not None
    return operation


def test_an_operation_starts_in_run_with_code_0_one_history_entry_and_no_watchers():
    operation = begun(beat=3)
    assert (operation.state, operation.code, operation.note) == ("ist:run", 0, None)
    assert operation.history == (HistoryEntry("ist:run", 3, 0, None),)
    assert operation.watchers == ()
    assert operation.close is None


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope("", "/a", "opm:direct", 0, 0),
        Envelope("op/vl", "", "opm:direct", 0, 0),
        Envelope("op/vl", "/a", "opm:odd", 0, 0),
        Envelope("op/vl", "/a", "", 0, 0),
        Envelope("op/vl", "/a", "opm:states", -1, 0),
    ],
)
def test_a_start_with_an_invalid_verb_mode_target_or_ttl_is_rejected(envelope):
    assert ops.start(envelope) is None


def test_state_and_code_are_always_overwritten_and_the_note_only_when_given():
    operation = after(ops.state_set(begun(), "ist:skel", 3, "first", 1))
    operation = after(ops.state_set(operation, "ist:scan", -7, None, 1))
    assert (operation.state, operation.code, operation.note) == ("ist:scan", -7, "first")
    assert operation.history[-1] == HistoryEntry("ist:scan", 1, -7, None)


def test_an_empty_note_is_a_note():
    operation = after(ops.state_set(begun(), "ist:skel", 0, "first", 1))
    assert after(ops.state_set(operation, "ist:scan", 0, "", 1)).note == ""


def test_the_same_state_in_the_same_beat_refreshes_code_and_note_and_nothing_else():
    operation = after(ops.state_set(begun(), "ist:skel", 1, "one", 4))
    again = after(ops.state_set(operation, "ist:skel", 2, "two", 4))
    assert (again.code, again.note) == (2, "two")
    assert again.history == operation.history


def test_the_same_state_in_a_later_beat_is_a_new_history_entry():
    operation = after(ops.state_set(begun(), "ist:run", 5, None, 1))
    assert operation.history == (HistoryEntry("ist:run", 0, 0), HistoryEntry("ist:run", 1, 5))


def test_a_repeated_state_arms_nobody_but_in_a_later_beat_it_does():
    """A watcher of the current state is armed when it is installed, so only a repetition could show this."""
    operation = after(ops.wait(begun(beat=2), "ist:ok", 0, "/c", None, 2))
    operation = after(ops.state_set(operation, "ist:run", 0, None, 2))
    assert [each.armed for each in operation.watchers] == [False]
    operation = after(ops.state_set(operation, "ist:ok", 0, None, 2))
    assert [each.armed for each in operation.watchers] == [True]


@pytest.mark.parametrize("status", ["sts:ok", "sts:fail", "sts:cnl"])
def test_a_state_with_the_name_of_a_status_arms_no_watcher_of_the_status(status):
    operation = after(ops.wait(begun(), status, 0, "/c", None, 0))
    operation = after(ops.state_set(operation, status, 0, None, 0))
    assert not operation.is_armed


def test_a_closed_operation_takes_no_state():
    operation = after(ops.close(begun(), "sts:ok", None, 0))
    assert ops.state_set(operation, "ist:run", 0, None, 0) is None


def test_an_empty_state_is_no_state():
    assert ops.state_set(begun(), "", 0, None, 0) is None


@pytest.mark.parametrize(("want", "cont"), [("", "/c"), ("ist:ok", ""), ("", "")])
def test_an_await_without_want_or_cont_is_false(want, cont):
    assert ops.wait(begun(), want, 0, cont, None, 0) is None


def test_an_await_with_a_negative_ttl_is_false():
    assert ops.wait(begun(), "ist:ok", -1, "/c", None, 0) is None


def test_an_await_of_the_current_state_is_stored_armed_without_a_deadline():
    operation = after(ops.wait(begun(), "ist:run", 5, "/c", PAYLOAD, 7))
    assert operation.watchers == (Watcher("ist:run", "/c", True, None, PAYLOAD),)


def test_an_await_of_a_past_state_is_not_satisfied_by_history():
    operation = after(ops.state_set(begun(), "ist:skel", 0, None, 0))
    operation = after(ops.wait(operation, "ist:run", 2, "/c", None, 4))
    assert operation.watchers == (Watcher("ist:run", "/c", False, 6),)


def test_ttl_0_waits_for_ever():
    operation = after(ops.wait(begun(), "ist:ok", 0, "/c", None, 4))
    assert operation.watchers[0].deadline is None
    assert ops.due(operation, 10**9) == (operation, [])


@pytest.mark.parametrize(("status", "state"), sorted(ops.FINAL.items()))
def test_a_status_compares_with_the_close_record_and_not_with_the_state(status, state):
    by_state = after(ops.state_set(begun(), state, 0, None, 0))
    assert not after(ops.wait(by_state, status, 1, "/c", None, 0)).is_armed
    closed = after(ops.close(begun(), status, None, 0))
    assert after(ops.wait(closed, status, 1, "/c", None, 0)).is_armed
    assert after(ops.wait(closed, state, 1, "/c", None, 0)).is_armed


def test_a_status_that_does_not_exist_compares_with_the_state():
    closed = after(ops.close(begun(), "sts:ok", None, 0))
    assert not after(ops.wait(closed, "sts:odd", 0, "/c", None, 0)).is_armed
    odd = after(ops.state_set(begun(), "sts:odd", 0, None, 0))
    assert after(ops.wait(odd, "sts:odd", 0, "/c", None, 0)).is_armed


def test_arming_is_sticky():
    operation = after(ops.wait(begun(), "ist:skel", 1, "/c", None, 0))
    operation = after(ops.state_set(operation, "ist:skel", 0, None, 0))
    operation = after(ops.state_set(operation, "ist:run", 0, None, 0))
    assert operation.watchers == (Watcher("ist:skel", "/c", True, 1),)
    assert ops.due(operation, 1)[1] == [Fired("/c", None, late=False)]


@pytest.mark.parametrize(("status", "state"), sorted(ops.FINAL.items()))
def test_a_close_sets_the_final_state_keeps_code_and_note_and_arms_both_kinds_of_watchers(status, state):
    operation = after(ops.state_set(begun(), "ist:skel", 9, "note", 0))
    for want in (state, status, "ist:run"):
        operation = after(ops.wait(operation, want, 0, "/c", None, 0))
    operation = after(ops.close(operation, status, "sum", 2))
    assert (operation.state, operation.code, operation.note) == (state, 9, "note")
    assert operation.history[-1] == HistoryEntry(state, 2, 0, None)
    assert operation.close == CloseRecord(status, 2, "sum")
    assert [each.armed for each in operation.watchers] == [True, True, False]


def test_a_close_adds_no_history_entry_if_the_tail_has_that_state_and_beat():
    operation = after(ops.state_set(begun(), "ist:fail", 4, "broke", 3))
    operation = after(ops.wait(operation, "sts:fail", 0, "/c", None, 3))
    closed = after(ops.close(operation, "sts:fail", None, 3))
    assert closed.history == operation.history
    assert closed.is_armed


def test_the_same_status_again_changes_nothing_and_another_is_false():
    closed = after(ops.close(begun(), "sts:ok", "one", 0))
    assert ops.close(closed, "sts:ok", "two", 5) is closed
    assert ops.close(closed, "sts:fail", None, 0) is None


@pytest.mark.parametrize("status", ["sts:odd", "", "ist:ok", "sts:OK"])
def test_an_unknown_status_is_false(status):
    assert ops.close(begun(), status, None, 0) is None
    assert ops.close(after(ops.close(begun(), "sts:ok", None, 0)), status, None, 0) is None


def test_armed_watchers_fire_before_late_ones_each_in_the_order_of_installation():
    operation = begun()
    for want, ttl, cont in (
        ("ist:x", 1, "/late1"), ("ist:ok", 1, "/armed1"), ("ist:y", 1, "/late2"), ("ist:ok", 0, "/armed2"),
        ("ist:z", 2, "/later"),
    ):  # fmt: skip
        operation = after(ops.wait(operation, want, ttl, cont, None, 0))
    operation = after(ops.state_set(operation, "ist:ok", 0, None, 1))
    operation, fired = ops.due(operation, 1)
    assert [(each.signal, each.late) for each in fired] == [
        ("/armed1", False), ("/armed2", False), ("/op/tmo", True), ("/op/tmo", True),
    ]  # fmt: skip
    assert [each.cont for each in operation.watchers] == ["/later"]


def test_a_watcher_that_came_after_its_deadline_still_times_out():
    operation = after(ops.wait(begun(), "ist:ok", 2, "/c", PAYLOAD, 0))
    assert ops.due(operation, 1) == (operation, [])
    rest, fired = ops.due(operation, 9)
    assert fired == [Fired("/op/tmo", PAYLOAD, late=True)]
    assert rest.watchers == ()


def test_an_event_in_the_beat_of_the_deadline_wins_over_the_timeout():
    operation = after(ops.wait(begun(), "ist:ok", 2, "/c", None, 0))
    operation = after(ops.state_set(operation, "ist:ok", 0, None, 2))
    assert ops.due(operation, 2)[1] == [Fired("/c", None, late=False)]


def test_a_fired_watcher_is_gone():
    operation = after(ops.wait(begun(), "ist:run", 0, "/c", None, 0))
    rest, _ = ops.due(operation, 0)
    assert ops.due(rest, 0) == (rest, [])


def test_the_deadlines_are_those_of_watchers_that_are_not_armed():
    operation = after(ops.wait(begun(), "ist:ok", 2, "/c", None, 0))
    operation = after(ops.wait(operation, "ist:x", 3, "/c", None, 0))
    assert operation.deadlines == {2, 3}
    assert after(ops.state_set(operation, "ist:ok", 0, None, 0)).deadlines == {3}


def test_an_operation_survives_its_bytes():
    operation = after(ops.start(Envelope("op/vl", "/a", "opm:states", 4, 1, PAYLOAD)))
    operation = after(ops.state_set(operation, "ist:skel", -1, "note", 1))
    operation = after(ops.wait(operation, "ist:ok", 0, "/c", PAYLOAD, 1))
    operation = after(ops.close(operation, "sts:cnl", "sum", 2))
    operation = after(ops.wait(operation, "ist:x", 5, "/c", None, 2))
    assert ops.decode(ops.encode(operation)) == operation
    assert ops.decode(ops.encode(begun())) == begun()


@pytest.mark.parametrize("data", [b"\xa0", b"\x80", b"\x01", b"\xa1\x68envelope\x01"])
def test_bytes_that_are_no_operation_are_damage(data):
    with pytest.raises(Corrupted) as damage:
        ops.decode(data)
    assert damage.value.code == "kernel.operation_damaged"


def test_ids_are_the_beat_and_the_number_and_order_like_creation():
    keys = [ops.key_of(text) for text in ("2-1", "2-2", "2-10", "10-1")]
    assert keys == sorted(key for key in keys if key is not None)
    assert [ops.id_of(key) for key in keys if key is not None] == ["2-1", "2-2", "2-10", "10-1"]


@pytest.mark.parametrize(
    "text", ["", "1", "1-", "-1", "a-1", "01-1", "1-01", "1-1-1", "1-٣", "1-1 ", f"{2**63}-1"]
)
def test_a_text_that_is_no_id_has_no_key(text):
    assert ops.key_of(text) is None
