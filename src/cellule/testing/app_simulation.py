"""`simulate_app`: a user's own app through schedules, crashes, duplicates and clock jumps, by seed.

    simulate_app(app, [[Placed("o1", 30), Paid("o1", 30)], [Placed("o2", 5)]], check=never_overpaid)

Each inner list is one sender, whose order is kept; senders are interleaved at random over beats of random
size. Between beats the world is restored from the journal, loses a beat that was not durable yet, gets
events again that it has, and sees its clock run ahead or step back. Effects are answered late and in any
order, by `answers={charge: lambda params, chance: Charged(...)}` or with failures; receipts come twice,
get lost before they are durable, and what waits for approval is approved or denied. After every action the
author's `check(world)` must hold; at the end every event was admitted exactly once, no effect is left
without an answer, and the journal restores and verifies. What `simulate` does for engines and loops, this
does for apps: nothing here waits, so it needs no event loop.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from cellule.app import App
from cellule.effects.outcomes import Failed
from cellule.errors import InvariantBroken, ensure
from cellule.kernel.items import LATER, Admitted, Duplicate, RefusedItem
from cellule.testing.effects import Intent, kind_of
from cellule.testing.entropy import SeededEntropy
from cellule.testing.simulation import seeds_wanted
from cellule.testing.world import World

Check = Callable[[World], object]
Senders = Sequence[object] | Callable[[SeededEntropy], Sequence[object]]
"""Events of one sender, or a list of such lists; or a function that makes them by chance."""

Answer = Callable[[Any, SeededEntropy], Any]
Answers = Mapping[Any, Answer]
"""What answers an effect: a function of its params and of chance; it may raise `Failed`."""

ROUNDS_MAX: Final = 1_000
BATCH_MAX: Final = 8
TRACE_SHOWN: Final = 12
_MILLISECOND_NS: Final = 1_000_000
_JUMP_BITS: Final = 32  # up to 2^32 ms, about 50 days
_ACTIONS: Final = (
    ("send", 12), ("lose", 2), ("again", 3), ("beat", 4), ("settle", 3), ("crash", 4), ("snapshot", 2),
    ("wait", 3), ("step back", 1),
)  # fmt: skip
_ACTIONS_OUTSIDE: Final = (("answer", 8), ("lose answer", 2), ("answer again", 2), ("decide", 4))


@dataclass(frozen=True, slots=True)
class AppRun:
    """One seed that held; equal digests mean the identical journal."""

    seed: int
    digest: str
    actions: int
    events: int


def simulate_app(
    app: App, senders: Senders, *, check: Check | None = None, seeds: int | Iterable[int] | None = None,
    live: bool | None = None, answers: Answers | None = None,
) -> list[AppRun]:  # fmt: skip
    """Explore an app once a seed; raises at the first seed that fails, with a line that replays it.

    Without `seeds`, `CELLULE_SIM_SEED` names one seed and `CELLULE_SIM_SEEDS` how many to try.
    """
    wanted = seeds_wanted() if seeds is None else [seeds] if isinstance(seeds, int) else seeds
    runs = []
    given = {kind_of(effect): answer for effect, answer in (answers or {}).items()}
    for seed in wanted:
        exploration = _Exploration(app, senders, check, seed, live, given)
        try:
            runs.append(exploration.run())
        except Exception as error:
            again = _Exploration(app, senders, check, seed, live, given)
            raise _failed(
                app, exploration, error, again.fails_like(exploration), named=seeds is not None
            ) from error
    return runs


class _Exploration:
    """One seed."""

    def __init__(
        self, app: App, senders: Senders, check: Check | None, seed: int, live: bool | None,
        answers: Mapping[str, Answer],
    ) -> None:  # fmt: skip
        chance = SeededEntropy(seed, "app simulation")
        given = senders(chance.child("senders")) if callable(senders) else senders
        self.seed = seed
        self.trace: list[str] = []
        self._chance = chance
        self._check = check
        self._answers = answers
        self._answered: list[Intent] = []
        self._world = World(app, seed=seed, live=live)
        self._waiting = [
            deque((f"{name}/{at}", event) for at, event in enumerate(events))
            for name, events in enumerate(_by_sender(given))
        ]
        self._sent: dict[str, object] = {}
        modules = self._world.built.manifest.modules.values()
        asks = any(module.effects_emitted for module in modules)
        actions = (*_ACTIONS, *_ACTIONS_OUTSIDE) if asks else _ACTIONS
        self._deck = [action for action, weight in actions for _ in range(weight)]

    def run(self) -> AppRun:
        """Do everything; raises what goes wrong."""
        while any(self._waiting):
            self._act(self._chance.choice(self._deck))
            self._look()
        self._world.settle()
        self._answer_the_rest()
        self._look()
        self._check_once()
        self._world.assert_replays()
        return AppRun(self.seed, self.digest, len(self.trace), len(self._sent))

    @property
    def digest(self) -> str:
        """What happened, as one word."""
        found = blake2b("\n".join(self.trace).encode(), digest_size=16)
        for frame in self._world.host.frames:
            found.update(frame)
        return found.hexdigest()

    def fails_like(self, other: _Exploration) -> bool:
        """Run again, and tell whether the same happened."""
        try:
            self.run()
        except Exception:  # noqa: BLE001 - whatever it is, the traces are compared
            return self.digest == other.digest
        return False

    def _look(self) -> None:
        if self._check is not None:
            self._check(self._world)

    def _act(self, action: str) -> None:
        host, chance = self._world.host, self._chance
        match action:
            case "send":
                self._send(self._drawn(), action)
            case "lose":
                batch = self._drawn()
                self._note(action, batch)
                host.beat_lost([self._world.item(event, id=name) for name, event in batch])
                self._put_back(batch)
            case "again" if self._sent:
                names = list(self._sent)
                self._send([(name, self._sent[name]) for name in [chance.choice(names)]], action)
            case "beat":
                self._note(action)
                host.beat()
            case "settle":
                self._note(action)
                host.settle()
            case "crash":
                at = chance.below(host.snapshots_kept)
                self._note(f"crash, restored from snapshot {at}")
                host.restart(at)
            case "snapshot":
                self._note(action)
                host.snapshot()
            case "wait" | "step back":
                self._move_clock(action)
            case _:
                self._act_outside(action)

    # The outside

    def _act_outside(self, action: str) -> None:
        """Something about effects, if there is any to do it about."""
        wanted = "parked" if action == "decide" else "open"
        waiting = [intent for intent in self._world.intents if intent.status == wanted]
        if action == "answer again":
            if self._answered:
                self._repeat(self._chance.choice(self._answered))
        elif waiting:
            intent = self._chance.choice(waiting)
            if action == "decide":
                self._decide(intent)
            else:
                self._answer(intent, lose=action == "lose answer")

    def _answer(self, intent: Intent, *, lose: bool = False) -> None:
        status, value, text = self._drawn_answer(intent)
        self._note(f"{'lose ' if lose else ''}answer {intent.kind} {intent.height} {status} {value!r}")
        if lose:
            self._world.host.beat_lost()
            return
        exhausted = status != "ok" and self._chance.below(2) == 0
        self._world.give(intent, status, value, text=text, code="simulated", exhausted=exhausted)
        self._answered.append(intent)

    def _drawn_answer(self, intent: Intent) -> tuple[str, object, str]:
        answer = self._answers.get(intent.kind)
        if answer is None or self._chance.below(8) == 0:
            return self._chance.choice(["failed", "timeout"]), None, "simulated"
        try:
            return "ok", answer(intent.params, self._chance), ""
        except Failed as failed:
            return "failed", None, failed.text

    def _repeat(self, intent: Intent) -> None:
        self._note(f"answer {intent.kind} {intent.height} again")
        self._world.repeat(intent)

    def _decide(self, intent: Intent) -> None:
        approves = self._chance.below(3) > 0
        self._note(f"{'approve' if approves else 'deny'} {intent.kind} {intent.height}")
        (self._world.approve if approves else self._world.deny)(intent)

    def _answer_the_rest(self) -> None:
        """Nobody is left waiting for the outside; timers may be."""
        for _ in range(ROUNDS_MAX):
            waiting = [each for each in self._world.intents if each.status in ("open", "parked")]
            if not waiting:
                return
            for intent in waiting:
                if intent.status == "parked":
                    self._decide(intent)
                else:
                    self._answer(intent)
        raise InvariantBroken(
            "testing.never_rests", "after {count} rounds of answers the app still asks for effects",
            count=ROUNDS_MAX, hint="A cell probably asks again for whatever it is answered.",
        )  # fmt: skip

    def _move_clock(self, action: str) -> None:
        ns = (1 << self._chance.below(_JUMP_BITS)) * _MILLISECOND_NS
        self._note(f"{action} {ns // _MILLISECOND_NS} ms")
        if action == "wait":
            self._world.host.advance(ns)
        else:
            self._world.host.now_ns -= ns

    def _drawn(self) -> list[tuple[str, object]]:
        """The next events of some senders."""
        batch = []
        for _ in range(1 + self._chance.below(BATCH_MAX)):
            ready = [sender for sender in self._waiting if sender]
            if ready:
                batch.append(self._chance.choice(ready).popleft())
        return batch

    def _put_back(self, batch: Sequence[tuple[str, object]]) -> None:
        for name, event in reversed(batch):
            self._waiting[int(name.partition("/")[0])].appendleft((name, event))

    def _send(self, batch: list[tuple[str, object]], action: str) -> None:
        self._note(action, batch)
        items = [self._world.item(event, id=name) for name, event in batch]
        for (name, event), outcome in zip(batch, self._world.host.beat(items).outcomes, strict=True):
            if isinstance(outcome, RefusedItem):
                raise outcome.error
            if outcome is LATER:
                self._put_back([(name, event)])
                continue
            expected = Duplicate if name in self._sent else Admitted
            ensure(
                isinstance(outcome, expected), "testing.admitted_twice",
                "event {name} was answered {outcome}", name=name, outcome=outcome,
            )  # fmt: skip
            self._sent[name] = event

    def _check_once(self) -> None:
        found = Counter(row.id for row in self._world.chronicle.journal.sent() if row.id is not None)
        ensure(
            found == Counter(self._sent.keys()), "testing.not_once", "admitted {found}, sent {sent}",
            found=found, sent=list(self._sent),
        )  # fmt: skip

    def _note(self, action: str, batch: Sequence[tuple[str, object]] = ()) -> None:
        self.trace.append(f"{action} {', '.join(f'{name} {event!r}' for name, event in batch)}".strip())


def _by_sender(given: Sequence[object]) -> list[Sequence[object]]:
    """Lists of events, whether one sender was given or several."""
    if all(isinstance(each, list | tuple) and not hasattr(each, "_fields") for each in given):
        return [each for each in given if isinstance(each, Sequence)]
    return [given]


def _failed(app: App, failed: _Exploration, error: Exception, same: bool, *, named: bool) -> InvariantBroken:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    replay = f"simulate_app(app, ..., seeds={failed.seed})"
    if test and not named:
        replay = f"CELLULE_SIM_SEED={failed.seed} python -m pytest '{test}'"
    confirmed = (
        "it fails identically" if same else "NOT reproduced: the app depends on something outside its seed"
    )
    return InvariantBroken(
        "testing.app_failed",
        "{app} fails with seed {seed}, action {count}: {error!r}\n{actions}\n"
        "Replayed: {confirmed}.\nReplay: {replay}",
        app=app, seed=failed.seed, count=len(failed.trace), error=error, confirmed=confirmed, replay=replay,
        actions="\n".join(f"  {line}" for line in failed.trace[-TRACE_SHOWN:]),
    )  # fmt: skip
