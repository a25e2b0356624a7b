"""The first beats of a fork: its Fork record, and what becomes of the effects that were open.

The record comes before anything else the world does. Then the open intents are dealt with in their order, as
many in a beat as its frame takes; a further Fork record says where the next beat goes on. What was never
dispatched stays as it is: timers go on, and what waits for a person waits. Of the rest, as the fork says:

    drop       settled as cancelled, and the cell is told
    keep       dispatched by the fork, too, if it is live, with the same idempotency key; else held
    recorded, scripted    settled by the answer it has, if there is one; else as for `keep`

Rejected: settling in the host, by controls. Whoever opened the fork would see effects that it never had.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from cellule.errors import Rejected
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import answers
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.decide.intents.gate import check_again
from cellule.kernel.decide.intents.operate import asked_before
from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.items import Admitted, ForkItem
from cellule.kernel.journal.codes import ALLOW, AT_ONCE, Settled
from cellule.kernel.journal.records import DecisionExtras, DecisionRecord, ForkExtras, ForkRecord
from cellule.kernel.limits import FORK_INTENTS_PER_BEAT
from cellule.kernel.manifest.model import BLOBS
from cellule.kernel.need import Need
from cellule.kernel.state import intent_changes as applying
from cellule.kernel.state.branch import DROP, EFFECTS, Branch, open_answers
from cellule.kernel.state.rows import DISPATCHED, HELD, OUTSIDE, OpenIntent
from cellule.values.link import Link

_CANCELLED = settling.Settlement("kernel.forked", "cancelled (fork)")


def begin(context: BeatContext, item: ForkItem) -> Generator[Need, None, Admitted]:
    """Write the Fork record, and deal with the first of what was open."""
    ledger = context.ledger
    if ledger.height != item.height or context.writer.next_height() != context.writer.first:
        raise Rejected(
            "kernel.fork_height", "the world is at height {height}, and was not forked there just now",
            height=ledger.height,
        )  # fmt: skip
    if item.effects not in EFFECTS:
        raise Rejected("kernel.argument", "effects of a fork are {known}", known=", ".join(EFFECTS))
    open_first = yield from ledger.book.open.scan(b"", None, 1)
    extras: ForkExtras = {"who": item.who, "why": item.why}
    if item.live:
        extras["live"] = True
    if open_first:
        extras["next"] = 1
    if item.answers is not None:
        extras["answers"], extras["count"] = Link(item.answers[0]), item.answers[1]
        context.writer.linked = True
    at = context.writer.add(ForkRecord(0, item.parent, item.height, item.effects, extras))
    given = open_answers(item.answers, ledger.nodes)
    following = extras.get("next", 0)
    applying.begin_fork(ledger, Branch(item.height, item.effects, at, following, given, live=item.live))
    if following:
        yield from advance(context)
    return Admitted(at)


def advance(context: BeatContext) -> Generator[Need, None, None]:
    """Deal with the next of what was open at the fork; a Fork record says how far that went."""
    ledger, branch = context.ledger, context.ledger.branch
    assert branch is not None
    begin, end, following = pair_key(branch.next, 0), pair_key(branch.height + 1, 0), 0
    page = yield from ledger.book.open.scan(begin, end, FORK_INTENTS_PER_BEAT)
    yield from ledger.slots((intent.module, intent.key) for _, intent in page)
    height = 0
    for height in [pair_of(key)[0] for key, _ in page]:
        if context.writer.is_full():
            following = height
            break
        intent = yield from ledger.book.find(height)  # it may have been settled with another
        if intent is not None and intent.status in DISPATCHED:
            yield from _deal(context, branch, height, intent)
    else:
        following = 0 if len(page) < FORK_INTENTS_PER_BEAT else height + 1
    extras: ForkExtras = {"next": following} if following else {}
    context.writer.add(ForkRecord(branch.record, b"", branch.height, branch.effects, extras))
    branch.go_on(following)


def go_live(context: BeatContext, record: Callable[[], Admitted]) -> Generator[Need, None, Admitted]:
    """Let the fork dispatch its external effects from now on; `record` writes the verb down."""
    yield from ()
    branch = context.ledger.branch
    if branch is None or branch.live:
        raise Rejected("kernel.is_live", "the world dispatches its effects already")
    admitted = record()
    branch.go_live()
    return admitted


def _deal(
    context: BeatContext, branch: Branch, height: int, intent: OpenIntent
) -> Generator[Need, None, None]:
    slot = yield from context.slot(intent.module, intent.key)
    params = intent.extras["params"]
    found = yield from answers.find(context, intent.module, intent.key, intent.kind, params)
    if found is not None:
        yield from answers.give(context, slot, height, intent, found, AT_ONCE, {"fork": True})
    elif branch.effects == DROP and not intent.kind.startswith(BLOBS):
        yield from settling.settle(
            context, slot, height, intent, Settled.CANCELLED, None, _CANCELLED, AT_ONCE, {"fork": True}
        )
    else:
        yield from _keep(context, branch, height, intent)


def _keep(
    context: BeatContext, branch: Branch, height: int, intent: OpenIntent
) -> Generator[Need, None, None]:
    """Dispatch an intent once more, or hold it; what nobody declares or grants any more is held, too."""
    extras: DecisionExtras = {"fork": True}
    kept, grants = intent.extras, context.eras.current.manifest.grants
    try:
        asked = yield from asked_before(context, intent.module, intent.key, intent.kind, kept)
        check_again(grants, kept.get("grant"), asked, context.ledger.now_ns)
    except Rejected:
        asked = None
    if asked is None or (context.holds(intent.kind) and not branch.live):
        # Held by the parent, too: nothing changes, so there is no record.
        if intent.status == HELD:
            return
        extras["held"] = True
    if intent.status == OUTSIDE and context.is_at_limit(intent.module):
        extras["over"] = True
    context.writer.add(DecisionRecord(height, ALLOW, extras))
    changed = yield from applying.forked(context.ledger, height, intent, extras)
    if asked is not None and "held" not in extras:
        params = yield from context.stored_value(intent.extras["params"])
        context.dispatch(height, changed, asked.effect, params)
