"""One step, as the rules say it: which code runs on which value, and how the step ends.

The part of the executable specification that knows eras: pin and follow, upcasters, what parks and what
fails. It changes nothing; `kernel_model.py` does. See there for what is modelled and what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, NamedTuple

Address = tuple[str, bytes]
Step = Callable[[Any, str, Any, Any], Any]

KEY_ONLY = "*"  # a route that takes the sender's key

Emit = tuple[int, str, Any, list[Address]]


class Message(NamedTuple):
    """A message in a queue; `height` is that of its record."""

    height: int
    schema: str
    value: Any
    depth: int
    expected: tuple[int, int | None] | None  # a version, and an incarnation if that matters


@dataclass(frozen=True)
class ModelModule:
    """What a manifest says about a module, and its code."""

    name: str
    state: str
    events: frozenset[str]
    step: Step
    follow: bool = True
    skip: bool = False
    log: bool = False
    context: bool = False
    ttl_ns: int | None = None
    idle_ns: int | None = None


@dataclass(frozen=True)
class ModelEra:
    """A manifest: modules by base name, routes by schema as (base, field | KEY_ONLY | None = unkeyed)."""

    modules: Mapping[str, ModelModule]
    schemas: frozenset[str]
    routes: Mapping[str, Sequence[tuple[str, str | None]]]
    upcasters: Mapping[tuple[str, str], Callable[[Any], Any]]

    def targets(self, schema: str, value: Any, key: bytes | None) -> list[Address]:
        """The cells an event goes to, in the order of the manifest."""
        if schema not in self.schemas:
            raise Refusal("routing.schema_unknown")
        return [(base, _key(value, path, key)) for base, path in self.routes.get(schema, ())]

    def chain(self, old: str, accepted: frozenset[str]) -> list[tuple[str, str]] | None:
        """The upcasters from `old` to the first accepted schema; None where none leads there."""
        if old in accepted:
            return []
        for first, second in self.upcasters:
            rest = self.chain(second, accepted) if first == old else None
            if rest is not None:
                return [(first, second), *rest]
        return None


@dataclass
class ModelCell:
    """A cell; `state=None` where it has none. `stop` is (why, since) of a stopped one."""

    state: Any = None
    version: int = 0
    born: int = 0
    era: int = 0
    active_ns: int = 0
    last: int = 0
    stop: tuple[str, int] | None = None
    queue: list[Message] = field(default_factory=list)
    born_ns: int = 0


class Refusal(Exception):
    """An item or an emitted event that is not taken; a step that fails."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Park(Exception):
    """The cell cannot take the message in its era."""


@dataclass
class Decision:
    """How a step ends."""

    status: str
    era: int
    state: Any = None
    emits: Sequence[Emit] = ()
    reply: Any = None
    ann: Any = None
    upcasts: Sequence[tuple[str, str]] = ()
    code: str = ""
    log: bool = False


@dataclass(frozen=True)
class Moment:
    """The place in the journal at which a step is decided: all that it can depend on beside its cell."""

    world: bytes
    eras: Sequence[ModelEra]
    beat: int
    now_ns: int
    entropy: bytes
    height: int  # of the next record


def _is_expected(expected: tuple[int, int | None], cell: ModelCell) -> bool:
    version, born = expected
    return version == cell.version and born in (None, cell.born)


def decide(moment: Moment, address: Address, cell: ModelCell, message: Message) -> Decision:
    """How the step of `message` ends."""
    now = len(moment.eras) - 1
    stays = cell.era if cell.state is not None else now
    if message.expected is not None and not _is_expected(message.expected, cell):
        return Decision("conflict", stays, code="kernel.version_conflict")
    try:
        return _run(moment, address, cell, message)
    except Park:
        return Decision("parked", stays, code="kernel.needs_migration")
    except Refusal as refusal:
        newest = moment.eras[now].modules.get(address[0])
        return Decision("skipped" if newest and newest.skip else "halted", stays, code=refusal.code)


def _run(moment: Moment, address: Address, cell: ModelCell, message: Message) -> Decision:
    """Run the code of the right era on the state and the event as that era knows them."""
    base, key = address
    now = len(moment.eras) - 1
    number = cell.era if cell.state is not None else now
    module, newest = moment.eras[number].modules.get(base), moment.eras[now].modules.get(base)
    if newest is not None and (module is None or newest.follow):
        module, number = newest, now
    if module is None:
        raise Park
    state, upcasts = upcast_state(moment.eras, base, cell, number)
    era = moment.eras[number]
    taken = era.chain(message.schema, module.events)
    if taken is None:
        raise Park
    value = _upcast(era, taken, message.value)
    schema = taken[-1][1] if taken else message.schema
    height = moment.height + len(upcasts)
    context = _context(moment, module, key, number, height, cell.version) if module.context else None
    try:
        did = module.step(state, schema, value, context)
    except Exception as error:
        raise Refusal("testing.step_raised") from error
    if did.effects:
        raise Refusal("kernel.effect_pure")  # all modules of the town are; `kernel_bank.py` has others
    emits = [_routed(moment.eras[now], message.depth + 1, *emit) for emit in did.emit]
    status = "deleted" if did.state is None else "ok"
    log = module.log and status == "ok"
    return Decision(status, number, did.state, emits, did.reply, did.ann, upcasts, log=log)


def upcast_state(
    eras: Sequence[ModelEra], base: str, cell: ModelCell, number: int
) -> tuple[Any, list[tuple[str, str]]]:
    """A cell's state as era `number` knows it, and the upcasters that made it so."""
    if cell.state is None or cell.era == number:
        return cell.state, []
    chain = eras[number].chain(
        eras[cell.era].modules[base].state, frozenset([eras[number].modules[base].state])
    )
    if chain is None:
        raise Park
    return _upcast(eras[number], chain, cell.state), chain


def _upcast(era: ModelEra, chain: Sequence[tuple[str, str]], value: Any) -> Any:
    for edge in chain:
        try:
            value = era.upcasters[edge](value)
        except Exception as error:
            raise Refusal("testing.step_raised") from error
    return value


def _routed(era: ModelEra, depth: int, schema: str, value: Any, key: bytes | None = None) -> Emit:
    return depth, schema, value, era.targets(schema, value, key)


def _context(moment: Moment, module: ModelModule, key: bytes, era: int, height: int, version: int) -> Any:
    """All that a step may know beside state and event: each field follows from the journal."""
    return SimpleNamespace(
        world=moment.world, module=module.name, key=key, cell_mode=True, beat=moment.beat,
        journal_height=height, now_ns=moment.now_ns, era=era, version=version,
        entropy=sha256(moment.entropy + height.to_bytes(8, "big")).digest(),
    )  # fmt: skip


def _key(value: Any, path: str | None, given: bytes | None) -> bytes:
    if path is None:
        return b""
    if path != KEY_ONLY:
        return str(value[path]).encode()
    if given is None:
        raise Refusal("routing.key_required")
    return given
