"""The apps of the `effects` benchmark: jobs that ask for an effect which does nothing, and for timers."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from cellule import App, Receipt, Step, TimerFired, rule, timer

TIMER_SPAN: Final = timedelta(days=1)
RULES: Final = (
    "effect.kind == 'http.request'",
    "effect.kind.startsWith('payments.') && effect.priority < 3",
    "module.name == 'bench/other@1'",
    "effect.params.number < 0",
    "cell.key.startsWith('secret')",
)


class Ask(msgspec.Struct, frozen=True):
    number: int
    text: str


class Answer(msgspec.Struct, frozen=True):
    number: int


class Wanted(msgspec.Struct, frozen=True):
    job: str
    number: int


class Later(msgspec.Struct, frozen=True):
    job: str


class Ping(msgspec.Struct, frozen=True):
    number: int


class Job(msgspec.Struct, frozen=True):
    asked: int = 0
    answered: int = 0
    fired: int = 0


class Pinged(msgspec.Struct, frozen=True):
    times: int = 0


app = App("bench")
for event, key in ((Wanted, "job"), (Later, "job"), (Ping, None)):
    app.event(key=key)(event)


@app.adapter("bench.nothing")
async def nothing(params: Ask) -> Answer:
    """Do nothing, and say so."""
    return Answer(params.number)


@app.reducer(effects=[nothing, timer])
def job(state: Job | None, event: Wanted | Later | Receipt[Answer] | TimerFired) -> Step[Job]:
    """Ask, or count what came."""
    now = state or Job()
    match event:
        case Wanted(job=name, number=number):
            return Step(Job(now.asked + 1, now.answered, now.fired), effects=[nothing(Ask(number, name))])
        case Later():
            return Step(now, effects=[timer(after=TIMER_SPAN)])
        case Receipt():
            return Step(Job(now.asked, now.answered + 1, now.fired))
        case TimerFired():
            return Step(Job(now.asked, now.answered, now.fired + 1))


@app.reducer(keyed=False)
def pinged(state: Pinged | None, event: Ping) -> Step[Pinged]:  # noqa: ARG001 - it is only counted
    """Count."""
    return Step(Pinged(1 if state is None else state.times + 1))


def governed_app() -> App:
    """The same jobs under a policy of five rules, none of which matches."""
    governed = App("bench")
    governed.event(key="job")(Wanted)
    ask = governed.effect("bench.nothing", params=Ask, receipt=Answer)
    governed.policy(*(rule(when=when, then="deny", name=f"rule {at}") for at, when in enumerate(RULES)))
    return _with_job(governed, ask)


def free_app() -> App:
    """The same jobs without a policy."""
    free = App("bench")
    free.event(key="job")(Wanted)
    return _with_job(free, free.effect("bench.nothing", params=Ask, receipt=Answer))


def _with_job(made: App, ask: object) -> App:
    def asking(state: Job | None, event: Wanted) -> Step[Job]:
        asked = 1 if state is None else state.asked + 1
        return Step(Job(asked), effects=[ask(Ask(event.number, event.job))])  # type: ignore[operator]

    made.reducer(effects=[ask], open_max=10_000_000, name="job")(asking)  # type: ignore[list-item]
    return made
