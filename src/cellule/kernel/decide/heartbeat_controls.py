"""Verbs of the heartbeat: registering, binding, writing the tree, pausing, and a beat on demand.

What a person does takes effect at once, so the agenda of the same beat sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.decide import agenda_records, operations, registry, writes
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.enzyme_actions import check_entry, check_writable
from cellule.kernel.heartbeat.entries import name_of, parse_entry
from cellule.kernel.heartbeat.paths import is_below, parse_path
from cellule.kernel.heartbeat.spacing import WINDOW_MAX, may_publish
from cellule.kernel.items import Admitted, ControlItem
from cellule.kernel.journal.codes import LOCAL, PROPAGATING, TOMBSTONE
from cellule.kernel.limits import BINDINGS_PER_NODE_MAX, PUBLISHED_BEATS_MAX
from cellule.kernel.need import Need
from cellule.kernel.state import tree

Record = Callable[[dict[str, Any]], Admitted]
_Perform = Callable[[BeatContext, ControlItem, Record], Generator[Need, None, Admitted]]


def perform(context: BeatContext, item: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    """Do one verb, or refuse it; `recorded` writes its Control record."""
    return (yield from _VERBS[item.verb](context, item, recorded))


def is_verb(verb: str) -> bool:
    """Tell whether this is a verb of the heartbeat."""
    return verb in _VERBS


def _pause(context: BeatContext, item: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    yield from ()
    admitted = recorded({})
    context.ledger.open_heartbeat().pause(is_paused=item.verb == "heartbeat.pause")
    return admitted


def _beat(context: BeatContext, _: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    yield from ()
    context.ledger.open_heartbeat()
    return recorded({})


def _register(context: BeatContext, item: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    entry = parse_entry(0, item.arguments.get("entry"))
    check_entry(context.eras.current, entry)
    registry.check_room(context)
    admitted = recorded({})
    yield from registry.add_entry(context, admitted.height, entry)
    return admitted


def _unregister(context: BeatContext, item: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    number = item.arguments.get("number")
    heartbeat = context.ledger.heartbeat
    entry = None
    if heartbeat is not None and type(number) is int and 0 <= number < heartbeat.numbers:
        entry = yield from heartbeat.entry(number)
    if entry is None:
        raise Rejected("heartbeat.enzyme_unknown", "there is no enzyme {number}", number=number)
    admitted = recorded({})
    registry.remove_entry(context, admitted.height, entry)
    return admitted


def _bind(context: BeatContext, item: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    arguments = item.arguments
    path = parse_path(arguments.get("path"))
    if is_below(path, operations.OPS_PATH):
        yield from operations.check_place(context.ledger, path)
    else:
        check_writable(path)
    name, propagate = name_of(arguments.get("name")), arguments.get("propagate", False)
    if not isinstance(propagate, bool):
        raise Rejected("kernel.argument", "`propagate` is true or false, not {given!r}", given=propagate)
    how = TOMBSTONE if item.verb == "enzyme.unbind" else PROPAGATING if propagate else LOCAL
    bound = yield from context.ledger.open_heartbeat().bound_at(path)
    if name not in bound and len(bound) >= BINDINGS_PER_NODE_MAX:
        raise Rejected(
            "heartbeat.bindings_full", "{path} has {count} bindings already", path=path, count=len(bound)
        )
    admitted = recorded({})
    yield from agenda_records.bind(context, admitted.height, path, name, how)
    return admitted


def _write(context: BeatContext, item: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    path = check_writable(parse_path(item.arguments.get("path")))
    admitted = recorded({})
    yield from writes.write_node(context, admitted.height, path, item.arguments.get("value"))
    return admitted


def _delete(context: BeatContext, item: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    path = check_writable(parse_path(item.arguments.get("path")))
    if not (yield from tree.check_delete(context.ledger, path)):
        raise Rejected("heartbeat.no_node", "there is no node {path}", path=path)
    admitted = recorded({})
    yield from writes.delete_node(context, admitted.height, path)
    return admitted


def _publish(context: BeatContext, item: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    """Tell the wall clock of a beat; the same again is fine, another time is refused."""
    beat, ns = _count(item, "beat"), _count(item, "ns")
    heartbeat = context.ledger.heartbeat
    known = None if heartbeat is None else (yield from heartbeat.wall_clock.find(beat))
    if not may_publish(known, ns):
        raise Rejected(
            "heartbeat.wall_clock", "beat {beat} was told to be at {known} ns, and cannot be at {ns} ns",
            beat=beat, known=known, ns=ns, hint="The first time stands.",
        )  # fmt: skip
    if known is None and heartbeat is not None and heartbeat.wall_clock.count >= PUBLISHED_BEATS_MAX:
        raise Rejected(
            "heartbeat.wall_clock_full", "the wall clock of {limit} beats was told already",
            limit=PUBLISHED_BEATS_MAX, hint="Beats that are not told have the time of their frame.",
        )  # fmt: skip
    admitted = recorded({})
    if known is None:
        context.ledger.open_heartbeat().wall_clock.publish(beat, ns)
    return admitted


def _window(context: BeatContext, item: ControlItem, recorded: Record) -> Generator[Need, None, Admitted]:
    """Say how many intervals between beats are kept."""
    yield from ()
    window = item.arguments.get("window")
    if type(window) is not int or not 0 < window <= WINDOW_MAX:
        raise Rejected(
            "heartbeat.window", "a window has 1 to {limit} intervals, not {window}",
            limit=WINDOW_MAX, window=repr(window)[:200],
        )  # fmt: skip
    admitted = recorded({})
    context.ledger.open_heartbeat().wall_clock.set_window(window)
    return admitted


def _count(item: ControlItem, field: str) -> int:
    value = item.arguments.get(field)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise Rejected("kernel.argument", "the control needs `{field}`, a number from 0", field=field)
    return value


_VERBS: Final[dict[str, _Perform]] = {
    "heartbeat.pause": _pause, "heartbeat.resume": _pause, "heartbeat.beat": _beat,
    "enzyme.register": _register, "enzyme.unregister": _unregister,
    "op.start": operations.perform, "op.state": operations.perform, "op.await": operations.perform,
    "op.close": operations.perform, "heartbeat.publish": _publish, "heartbeat.window": _window,
    "enzyme.bind": _bind, "enzyme.unbind": _bind, "tree.write": _write, "tree.delete": _delete,
}  # fmt: skip
