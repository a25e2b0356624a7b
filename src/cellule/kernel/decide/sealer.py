"""What a beat seals, and under which keys: values of cells whose module asks for erasure.

    an event from outside     all cells it goes to that can be erased
    an event that was emitted    those, and the cell that emitted it
    state, reply, note, reason of a failure, params, receipt      the cell

Where several keys take part, destroying any of them is enough. A nonce comes from the beat's entropy and the
count of values that it sealed before; where the same value has to be known again (an event with an id, params
with an idempotency key) it comes from the value itself, under the key.

Rejected: nonces from height and field. An event is sealed before it is known whether it is admitted, and at
which height.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from cellule.errors import Rejected
from cellule.kernel.decide.eras import Eras
from cellule.kernel.decide.steps import Result
from cellule.kernel.items import EventItem
from cellule.kernel.key_ring import KEY_MISSING, NO_ROW, UNREADABLE, key_id
from cellule.kernel.limits import SEAL_KEYS_MAX
from cellule.kernel.lineage import Lineage
from cellule.kernel.need import Need
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.dedupe import dedupe_key
from cellule.kernel.state.ledger import Ledger, Target
from cellule.values.cbor import encode
from cellule.values.sealed_value import KeyReference, key_ids_within, text_of

Keys = tuple[KeyReference, ...]


class StepKeys(NamedTuple):
    """The keys of what a step writes: the cell's own, and of each event that it emits."""

    own: Keys = ()
    emitted: Sequence[Keys] = ()
    failure: Keys = ()


NO_KEYS: Final = StepKeys()


class Sealer:
    """Seals the values of one beat."""

    def __init__(self, ledger: Ledger, eras: Eras, lineage: Lineage, entropy: bytes) -> None:
        self._ledger = ledger
        self._ring = ledger.keys
        self._eras = eras
        self._lineage = lineage
        self._entropy = entropy
        self._count = 0

    @property
    def in_use(self) -> bool:
        """Tell whether anything of this world may be sealed."""
        return self._ring.in_use

    def is_erasable(self, base: str) -> bool:
        """Tell whether the current manifest's module asks for erasure."""
        module = self._eras.current.manifest.modules.get(base)
        return module is not None and module.erasable

    def keys_of(self, targets: Iterable[Target]) -> Generator[Need, None, Keys]:
        """The keys for a value that concerns these cells; those of them that can be erased have one."""
        if not self.in_use:
            return ()
        cells = list(dict.fromkeys(each for each in targets if self.is_erasable(each[0])))
        if not cells:
            return ()
        if len(cells) > SEAL_KEYS_MAX:
            raise Rejected(
                "kernel.erasable_targets", "an event goes to {count} erasable cells; at most {most}",
                count=len(cells), most=SEAL_KEYS_MAX, hint="Send one for each of them.",
            )  # fmt: skip
        if self._lineage.ancestors:
            yield from self._ledger.slots(cells)
        own = [key_id(self._lineage.world.bytes, *each) for each in cells]
        older = [each for cell in cells for each in self._of_ancestors(*cell)]
        rows = yield from self._ring.find([*own, *older])
        keys = [self._ring.use(each) for each in own]
        for each in older:
            row = rows.get(each)
            if row is not None and row.key is not None:
                keys.append(KeyReference(each, row.mark))
        return tuple(sorted(keys))

    def _check_keys(self, cells: list[Target]) -> Generator[Need, None, None]:
        """Refuse what would make a new key in the place of one that a cell's state is sealed under."""
        ids = {self.ids_of(*each): each for each in cells if self.is_erasable(each[0])}
        rows = yield from self._ring.find(ids)
        lost = {each: cell for each, cell in ids.items() if rows.get(each) == NO_ROW}
        yield from self._ledger.slots(lost.values())
        for each, (base, key) in lost.items():
            slot = self._ledger.cells(base).slot(key)
            if slot.entry is None or slot.entry.state is None:
                continue
            if each in key_ids_within((yield from self._ledger.state_bytes(slot))):
                raise Rejected(
                    KEY_MISSING, "the key of cell {module} is missing, and nobody destroyed it", module=base,
                    hint="Rows are hidden by damage. Keep a copy, run `cellule check`, restore a backup.",
                )  # fmt: skip

    def ids_of(self, base: str, key: bytes) -> bytes:
        """The id of the key that this world makes for a cell."""
        return key_id(self._lineage.world.bytes, base, key)

    def _of_ancestors(self, base: str, key: bytes) -> list[bytes]:
        """The ids under which worlds that this one was forked from may have sealed what is in the cell."""
        if not self._lineage.ancestors:
            return []
        entry = self._ledger.cells(base).slot(key).entry
        if entry is None or entry.state is None:
            return []
        worlds = [each.world for each in self._lineage.ancestors if each.last >= entry.born]
        return [key_id(world.bytes, base, key) for world in worlds]

    def step_keys(self, slot: Slot, result: Result) -> Generator[Need, None, StepKeys]:
        """The keys for all that a step writes."""
        cell: Target = (slot.cells.base, slot.key)
        if result.code in UNREADABLE:  # there is nothing in it but that
            return NO_KEYS
        own = yield from self.keys_of([cell])
        emitted: list[Keys] = []
        for each in result.emissions:
            keys = yield from self.keys_of([cell, *each.targets])
            emitted.append(keys)
        return StepKeys(own, emitted, own)

    def value(self, keys: Keys, data: bytes) -> bytes:
        """A value, sealed where there are keys."""
        if not keys:
            return data
        self._count += 1
        return self._ring.seal(keys, self._entropy + self._count.to_bytes(8, "big"), data)

    def text(self, keys: Keys, text: str) -> str:
        """A text, sealed where there are keys."""
        return text_of(self.value(keys, encode(text))) if keys and text else text

    def known_again(self, keys: Keys, place: list[Any], data: bytes) -> bytes:
        """A value that gives the same bytes again, at the same place and under the same keys."""
        return self._ring.seal(keys, encode(place), data, again=True) if keys else data

    def event(
        self, item: EventItem, slots: list[Slot]
    ) -> Generator[Need, None, tuple[EventItem, list[Slot] | Rejected]]:
        """An event as its record and queues hold it, and these; or why it goes nowhere.

        With an id that is remembered, equal events stay equal.
        """
        cells = [(slot.cells.base, slot.key) for slot in slots]
        try:
            yield from self._check_keys(cells)
            keys = yield from self.keys_of(cells)
        except Rejected as error:
            return item, error
        if not keys:
            return item, slots
        assert isinstance(item.value, bytes)
        if item.explicit and item.id is not None:
            value = self.known_again(keys, ["event", dedupe_key(item.id)], item.value)
        else:
            value = self.value(keys, item.value)
        return replace(item, value=value), slots
