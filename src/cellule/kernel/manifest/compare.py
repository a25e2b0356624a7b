"""What a deploy would change: the differences of two manifests, and whether cells survive them.

Cells outlive manifests. A change is compatible if every cell and every message on its way can go on: pinned
cells keep their era, following ones are read by the new code, keys still lead to the same cells, open intents
get receipts that fit. Limits, grants, rules and schedules apply to what comes next. All that is not
compatible needs a new version, an upcaster or a migration, and a deploy refuses it with these reasons.

A section is data: how its entries are found, what it means that one comes or goes, and how two are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cellule.errors import Rejected
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.model import EffectKind, Manifest, Module, Route, Upcaster
from cellule.kernel.manifest.problems import below
from cellule.values.schema import types as t
from cellule.values.schema.compatibility import Change
from cellule.values.schema.compatibility import compare as compare_schemas
from cellule.values.schema.types import Schema

_MODULE_FIELDS: Final = (
    "kind", "style", "context", "effects_emitted", "retention", "failure", "upgrade", "code", "cap_slots",
    "open_max", "writes", "erasable",
)  # fmt: skip
_EFFECT_LIMITS: Final = (
    "timeout_ns", "attempts", "priority", "needs_grant", "deadline_ns", "backoff_ns", "backoff_max_ns",
    "operation",
)  # fmt: skip
_SUBSCRIPTIONS: Final = "$.routing.subscriptions"


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """All differences between two manifests."""

    changes: tuple[Change, ...]
    removed: tuple[str, ...]  # base names of modules that are no longer there

    @property
    def compatible(self) -> bool:
        """Whether every change is compatible."""
        return all(change.compatible for change in self.changes)

    @property
    def identical(self) -> bool:
        """Whether there is no difference that matters to cells."""
        return not self.changes

    def check_compatible(self, world: str) -> None:
        """Raise `Rejected` with all reasons, if a change is not compatible with the cells of a world."""
        reasons = [str(change) for change in self.changes if not change.compatible]
        if reasons:
            raise Rejected(
                "manifest.incompatible", "the new manifest does not fit cells of world {world}: {reasons}",
                world=world, reasons="; ".join(reasons), changes=self.changes, removed=self.removed,
                hint="Was the file that declares it imported?" if self.removed else "",
            )  # fmt: skip


def compare_manifests(
    old: Manifest, new: Manifest, inhabited: Collection[str] = (), *, empty: Collection[str] = (),
    earlier: Iterable[Manifest] = (), spilled: Collection[str] = (),
) -> ManifestChange:  # fmt: skip
    """List every change from `old` to `new`.

    `inhabited` are the base names of modules that have cells, `empty` of those that are known to have none:
    their keys may change. `earlier` are manifests of eras before `old`, newest first: a subscription that
    comes back must find its cells by the key that made them. The maps of `spilled` modules are moved to cells
    by the same deploy.
    """
    both = _Both(old, new, frozenset(empty), tuple(earlier), frozenset(spilled))
    changes = [change for section in _SECTIONS for change in _section_changes(section, both, inhabited)]
    if old.policy != new.policy:
        changes.append(Change("$.policy", "policy changed", True, "other rules apply to the next intents"))
    if old.enzymes != new.enzymes:
        changes.append(Change("$.enzymes", "enzymes changed", True, "the next impulses find other entries"))
    return ManifestChange(tuple(changes), tuple(base for base in old.modules if base not in new.modules))


class _Both(NamedTuple):
    """The two manifests."""

    old: Manifest
    new: Manifest
    empty: Collection[str] = ()
    earlier: tuple[Manifest, ...] = ()
    spilled: Collection[str] = ()

    def is_one_cell(self, base: str) -> bool:
        """Whether a module has one cell in both: its key says to which entry of a map an event belongs."""
        return self.old.modules[base].cell_key is None and self.new.modules[base].cell_key is None

    def schema_changes(self, path: str, old: Schema, new: Schema) -> Iterator[Change]:
        """What changed between a schema of the old manifest and one of the new, below a path."""
        for change in compare_schemas(old, new, self.old.schemas, self.new.schemas).changes:
            where = path + change.path.removeprefix("$")
            yield Change(where, change.what, change.compatible, change.reason)


@dataclass(frozen=True, slots=True)
class _Section:
    """How the entries of a section are compared. `added` and `removed` say what it means, of a key's parts.

    `stays` says why an entry may not go; of a module, only while it has cells.
    """

    what: str
    path: str
    entries: Callable[[Manifest], Mapping[Any, Any]]
    added: str
    removed: str
    changed: Callable[[_Both, str, Any, Any, Any], Iterator[Change]]
    stays: str = ""
    is_named: bool = True  # a path names the entry; otherwise it names the section
    always: bool = False  # compared even where equal: what a module names may mean something else now


def _section_changes(section: _Section, both: _Both, inhabited: Collection[str]) -> Iterator[Change]:
    before, after = section.entries(both.old), section.entries(both.new)
    for key in [*before, *(key for key in after if key not in before)]:
        parts = key if isinstance(key, tuple) else (key,)
        entry = after.get(key, before.get(key))
        label = entry.name if isinstance(entry, Module) else parts[0]
        path = below(section.path, label) if section.is_named else section.path
        if key not in before:
            yield Change(path, f"{section.what} added", True, section.added.format(*parts))
        elif key not in after:
            stays = section.stays if section.what != "module" or key in inhabited else ""
            reason = section.removed.format(label, *parts[1:]) + stays
            yield Change(path, f"{section.what} removed", not stays, reason)
        elif section.always or before[key] != after[key]:
            yield from section.changed(both, path, key, before[key], after[key])
    if section.what == "subscription":
        yield from _returned(both)
        yield from _reordered(both)


def _applies(text: str) -> Callable[[_Both, str, Any, Any, Any], Iterator[Change]]:
    """How an entry changes that applies to what comes next, whatever it says."""

    def changed(_: _Both, path: str, key: str, _old: Any, _new: Any) -> Iterator[Change]:
        what, reason = text.format(key).split("|")
        yield Change(path, what, True, reason)

    return changed


def _schema(both: _Both, path: str, name: str, _old: Any, _new: Any) -> Iterator[Change]:
    yield from both.schema_changes(path, t.Ref(name), t.Ref(name))


def _module(both: _Both, path: str, base: str, old: Module, new: Module) -> Iterator[Change]:
    if old.name != new.name:
        yield Change(path, "version changed", True, f"{old.name} became {new.name}")
    if is_spill(both.old, both.new, base):
        yield _unless_empty(both, base, Change(f"{path}.cell_mode", "cell_mode changed", False, _SPILL))
    else:
        for change in _key(both, f"{path}.key", old.cell_key, new.cell_key):
            yield _unless_empty(both, base, change)
        yield from _state(both, f"{path}.state", old, new)
        if old.cell_mode != new.cell_mode and both.is_one_cell(base):
            reason = "its one cell holds a map: code gets the key of each event"
            yield Change(f"{path}.cell_mode", "cell_mode changed", True, reason)
    if old.log != new.log:
        reason = "a log state and an ordinary one are kept differently: make a new module"
        yield Change(f"{path}.log", "log changed", False, reason)
    yield from _events(both, f"{path}.event", old, new)
    for name in _MODULE_FIELDS:
        if getattr(old, name) != getattr(new, name):
            yield Change(f"{path}.{name}", f"{name} changed", True, f"{name} applies from the next step on")


def _key(both: _Both, path: str, old: Schema | None, new: Schema | None) -> Iterator[Change]:
    if old is None or new is None:
        if old is not new:
            reason = f"the module was {'un' if old is None else ''}keyed: this requires migration"
            yield Change(path, "key changed", False, reason)
        return
    for change in both.schema_changes(path, old, new):
        reason = f"{change.reason}; a key schema requires migration to change"
        yield Change(change.path, "key changed", False, reason)


_SPILL: Final = (
    "its map has to be moved to cells: preview it with `cellule world migrate-cells --dry-run`, "
    "then leave --dry-run out"
)


def is_spill(old: Manifest, new: Manifest, base: str) -> bool:
    """Tell whether a module that was one cell with a map becomes one with a cell for each key of it."""
    before, after = old.modules.get(base), new.modules.get(base)
    if before is None or after is None or before.cell_key is not None or after.cell_key is None:
        return False
    return upcasts.map_of(old, before.state) is not None


def _state(both: _Both, path: str, old: Module, new: Module) -> Iterator[Change]:
    if old.state != new.state:
        compatible, reason = _state_reason(both, old, new)
        yield Change(path, "state changed", compatible, reason)


def _state_reason(both: _Both, before: Module, new: Module) -> tuple[bool, str]:
    """Whether cells survive another state schema, and why."""
    if new.upgrade == "pin":
        return True, f"cells that are there keep {before.state} and their era; new ones have {new.state}"
    old, wanted, by_entry = upcasts.state_ends(both.old, both.new, new.base)
    if by_entry and old == wanted:
        return True, f"the entries of the map keep their schema {old}"
    try:
        chain = upcasts.path(both.new, old, wanted)
    except Rejected as error:
        return False, str(error)
    if chain is None:
        return False, f"cells follow, but no upcaster leads from {old} to {wanted}: add one"
    if new.log:
        return False, "a log state cannot be upcast"
    return True, f"cells are upcast at their next event: {' -> '.join([old, *(step.new for step in chain)])}"


def _events(both: _Both, path: str, old: Module, new: Module) -> Iterator[Change]:
    for schema in old.events:
        try:
            if upcasts.to_any(both.new, schema, new.events) is None:
                reason = f"{schema} is no longer taken: messages of it that still wait need a migration"
                yield Change(path, "event removed", True, reason)
        except Rejected as error:
            yield Change(path, "event ambiguous", False, str(error))
    for schema in new.events:
        if schema not in old.events:
            yield Change(path, "event added", True, f"{schema} is now taken")


def _subscriptions(manifest: Manifest) -> dict[tuple[str, str], Route]:
    return {(event, route.base): route for event, routes in manifest.routes.items() for route in routes}


def _subscription(both: _Both, path: str, key: tuple[str, str], _old: Route, _new: Route) -> Iterator[Change]:
    yield _key_moved(both, path, key, "comes from elsewhere")


def _returned(both: _Both) -> Iterator[Change]:
    """Subscriptions that were there before, in an earlier era, and found their cells by another key."""
    for key, route in _added_to_known(both.old, both.new):
        known = [found for each in both.earlier if (found := _subscriptions(each).get(key)) is not None]
        if known and known[0] != route:
            yield _key_moved(both, _SUBSCRIPTIONS, key, "came from elsewhere before")


def returning(old: Manifest, new: Manifest) -> bool:
    """Tell whether a subscription is new to a module that is not: whether earlier eras have to be asked."""
    return any(_added_to_known(old, new))


def _added_to_known(old: Manifest, new: Manifest) -> Iterator[tuple[tuple[str, str], Route]]:
    before, after = _subscriptions(old), _subscriptions(new)
    return ((key, after[key]) for key in after if key not in before and key[1] in old.modules)


def _key_moved(both: _Both, path: str, key: tuple[str, str], what: str) -> Change:
    if key[1] in both.new.modules and key[1] in both.old.modules and both.is_one_cell(key[1]):
        reason = f"{key[1]} is one cell: the key of {key[0]} names the entry of its map"
        return Change(path, "key field changed", True, reason)
    reason = f"the key of {key[0]} for {key[1]} {what}: this requires migration"
    return _unless_empty(both, key[1], Change(path, "key field changed", False, reason))


def _unless_empty(both: _Both, base: str, change: Change) -> Change:
    """A change of keys matters to cells only; a module that has none may change them."""
    if base in both.spilled and not change.compatible:
        return Change(change.path, change.what, True, f"the map of {base} is moved to cells")
    if base not in both.empty or change.compatible:
        return change
    return Change(change.path, change.what, True, f"{base} has no cells, so its keys may change")


def _reordered(both: _Both) -> Iterator[Change]:
    """The events whose modules, of those that stayed, are served in another order."""
    for event, routes in both.new.routes.items():
        new = [route.base for route in routes]
        old = [route.base for route in both.old.routes.get(event, ())]
        if [base for base in old if base in new] != [base for base in new if base in old]:
            reason = f"{event} now goes to its modules in another order"
            yield Change(_SUBSCRIPTIONS, "order changed", True, reason)


def _inbox(_: _Both, path: str, source: str, old: Route, new: Route) -> Iterator[Change]:
    if old.base != new.base:
        yield Change(path, "inbox changed", True, f"messages from {source} now go to {new.base}")
        return
    reason = f"the key of messages from {source} comes from elsewhere: this requires migration"
    yield Change(path, "key field changed", False, reason)


def _upcasters(manifest: Manifest) -> dict[tuple[str, str], Upcaster]:
    return {(step.old, step.new): step for group in manifest.upcasters.values() for step in group}


def _upcaster(_: _Both, path: str, ends: tuple[str, str], _old: Any, _new: Any) -> Iterator[Change]:
    reason = f"the upcaster from {ends[0]} to {ends[1]} has other code"
    yield Change(path, "upcaster changed", True, reason)


def _effect(both: _Both, path: str, _: str, old: EffectKind, new: EffectKind) -> Iterator[Change]:
    """Params and receipts outlive a manifest: an open intent gets its receipt under the new one."""
    for part in ("params", "receipt"):
        before, after = getattr(old, part), getattr(new, part)
        if before == after:  # under the same name it is compared with the schemas
            continue
        found = list(both.schema_changes(f"{path}.{part}", t.Ref(before), t.Ref(after)))
        if all(change.compatible for change in found):
            reason = f"{before} became {after}, which can be read as it"
            yield Change(f"{path}.{part}", f"{part} changed", True, reason)
        for change in found:
            if not change.compatible:
                reason = f"{change.reason}; intents may be open with {before}: keep it, or make a new kind"
                yield Change(change.path, f"{part} changed", False, reason)
    for name in _EFFECT_LIMITS:
        if getattr(old, name) != getattr(new, name):
            yield Change(f"{path}.{name}", f"{name} changed", True, f"{name} applies to the next intents")


_ONE_INBOX: Final = "messages from {0} find an inbox only in one of the two"
_SECTIONS: Final = (
    _Section(
        "schema", "$.schemas", lambda of: of.schema_ids, "{0} is new",
        "{0} is no longer there; older eras keep it", _schema,
    ),
    _Section(
        "module", "$.modules", lambda of: of.modules, "new cells may be born", "{0} is no longer there",
        _module, ": its cells would get no more events; keep it, or delete them first", always=True,
    ),
    _Section(
        "subscription", _SUBSCRIPTIONS, _subscriptions, "{0} now goes to {1}", "{0} no longer goes to {1}",
        _subscription, is_named=False,
    ),
    _Section("inbox", "$.routing.inboxes", lambda of: of.inboxes, _ONE_INBOX, _ONE_INBOX, _inbox),
    _Section(
        "upcaster", "$.upcasters", _upcasters, "the upcaster from {0} to {1} is new",
        "the upcaster from {0} to {1} was removed", _upcaster,
        ", which cells of older eras may need: keep it", is_named=False,
    ),
    _Section(
        "effect", "$.effects", lambda of: of.effects, "modules may ask for {0}",
        "{0} can no longer be asked for", _effect,
    ),
    _Section(
        "grant", "$.capabilities", lambda of: of.grants, "grant {0} is new", "grant {0} is no longer there",
        _applies("grant changed|grant {0} applies to the next intents"),
    ),
    _Section(
        "schedule", "$.schedules", lambda of: of.schedules, "schedule {0} is new",
        "schedule {0} is no longer there", _applies("schedule changed|schedule {0} is armed anew"),
    ),
    _Section(
        "section", "$", lambda of: of.extra, "{0} of the new manifest apply", "{0} no longer apply",
        _applies("{0} changed|{0} of the new manifest apply"),
    ),
)  # fmt: skip
