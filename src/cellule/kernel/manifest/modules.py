"""The section `modules`: each entry read into a `ModuleDraft`, whose wiring `fit.py` then completes.

Here is checked what one entry can show by itself, and that the schemas it names exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest import fields as f
from cellule.kernel.manifest.effects import KIND_ALIASES, check_kind_name
from cellule.kernel.manifest.limits import OPEN_MAX_DEFAULT, OPEN_MAX_MAX
from cellule.kernel.manifest.model import Failure, Kind, Module, Retention, Style, Upgrade, plain
from cellule.kernel.manifest.problems import Problems, below, near
from cellule.kernel.manifest.schemas import check_kind, check_own_name
from cellule.kernel.manifest.system import CONTEXTS, LOG
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.document import load, to_document
from cellule.values.schema.fault import shown
from cellule.values.schema.types import Schema

_ALIASES: Final = {"module_kind": "kind", "key_schema": "key", "events": "event"}
_ABI_FIELDS: Final = ("state", "event", "context", "effects_emitted")
_LOG_STATE: Final = "log"


@dataclass(slots=True)
class ModuleDraft:
    """A module as read, before its subscriptions are known; its fields are those of the table."""

    path: str
    name: str
    base: str
    key_path: str
    unkeyed: bool  # `key` is given as null: it has no key whatever its subscriptions say
    kind: Kind
    style: Style
    state: str
    event: tuple[str, ...]  # the schemas it names itself; none = whatever is subscribed to it
    key: Schema | None
    context: bool
    effects_emitted: tuple[str, ...]
    retention: Retention
    failure: Failure
    upgrade: Upgrade
    log: bool
    code: Mapping[str, Any]
    cap_slots: Mapping[str, str]
    open_max: int
    cell_mode: bool
    writes: tuple[str, ...] | None
    erasable: bool
    events: dict[str, str | None] = field(default_factory=dict)
    wrapped: str | None = None

    def module(self) -> Module:
        """The finished module."""
        return Module(
            self.name, self.base, self.kind, self.style, self.state, self.events, self.wrapped, self.key,
            self.context, self.effects_emitted, self.retention, self.failure, self.upgrade, self.log,
            self.code, self.cap_slots, self.open_max, self.writes, self.cell_mode,
            self.erasable,
        )  # fmt: skip

    def normal(self) -> dict[str, Any]:
        """The entry of the normal form: choices are written out, what is empty or false is left out."""
        parts = {name: getattr(self, name) for name in _MODULE}
        parts |= {
            "key": None if self.key is None else to_document(self.key),
            "event": self.event[0] if len(self.event) == 1 else list(self.event),
            "effects_emitted": list(self.effects_emitted),
            "retention": plain(self.retention),
            "open_max": None if self.open_max == OPEN_MAX_DEFAULT else self.open_max,
            "writes": None,
        }
        kept = {name: part for name, part in parts.items() if part and name != "cell_mode"}
        if self.writes is not None:
            kept["writes"] = list(self.writes)
        return kept if self.cell_mode else {**kept, "cell_mode": False}


def load_modules(scope: f.Scope, path: str, section: object) -> dict[str, ModuleDraft]:
    """Load all modules of the section, by base name."""
    problems, drafts = scope.problems, dict[str, ModuleDraft]()
    for name, place, body in f.named_of(problems, path, section):
        if not check_own_name(problems, place, name):
            continue
        base = str(Name.parse(name).base)
        if base in drafts:
            problems.add(
                place, "module_versions", f"{base} stands here as {drafts[base].name} and as {name}",
                "A manifest holds one version of a module; older ones run from the eras before it.",
            )  # fmt: skip
            continue
        fields = _fields(scope, place, body)
        found = {field: read(fields, field) for field, read in _MODULE.items()}
        found["log"] = found["log"] or found["state"] == LOG
        drafts[base] = ModuleDraft(
            path=place, name=name, base=base, key_path=fields.at("key"),
            unkeyed=fields.has("key") and fields.get("key") is None, **found,
        )  # fmt: skip
        _check_log(fields, drafts[base])
        _check_pure(fields, drafts[base])
        _check_whole(fields, drafts[base])
        _check_erasable(fields, drafts[base])
    return drafts


def _fields(scope: f.Scope, path: str, body: object) -> f.Fields:
    """The fields of an entry; those of `abi.reducer` are taken as if they stood beside `abi`."""
    fields = f.Fields(scope, path, body, (f.KIND_FIELD, "abi", *_MODULE), _ALIASES)
    check_kind(fields, "defmodule")
    if fields.get("abi") is None:
        return fields
    aliases = {"workflow": "reducer", "pure": "reducer"}
    abi = f.Fields(scope, fields.at("abi"), fields.get("abi"), ("reducer",), aliases)
    if abi.get("reducer") is not None:
        fields.absorb(
            f.Fields(scope, abi.at("reducer"), abi.get("reducer"), _ABI_FIELDS, {"events": "event"})
        )
    return fields


def _kind(fields: f.Fields, field: str) -> str:
    if fields.get(field) == "reducer":
        return "workflow"
    return str(f.choice("workflow", "pure")(fields, field))


def _state(fields: f.Fields, field: str) -> str:
    if fields.get(field) is None:
        if fields.is_map:
            problem = "the module has no `state`: name its schema"
            fields.problems.add(fields.path, "state_missing", problem)
        return ""
    return LOG if fields.get(field) == _LOG_STATE else f.schema(fields, field) or ""


def _check_log(fields: f.Fields, draft: ModuleDraft) -> None:
    schemas = fields.scope.schemas
    if draft.log and draft.state and not isinstance(schemas.resolve(schemas[draft.state]), t.List | t.Any):
        fields.note(
            "state", "log_state", f"a log's state is a list of entries, but {draft.state} is none",
            'Name a list, or write "state": "log" for a list of anything.',
        )  # fmt: skip


def _check_pure(fields: f.Fields, draft: ModuleDraft) -> None:
    if draft.effects_emitted and draft.kind == "pure":
        hint = "Leave the list out, or make the module a workflow."
        fields.note("effects_emitted", "pure_effects", "a pure module emits no effects", hint)


def _check_whole(fields: f.Fields, draft: ModuleDraft) -> None:
    """Refuse what has no meaning for one cell with the map of all keys."""
    if draft.cell_mode:
        return
    schemas = fields.scope.schemas
    problem = ""
    if draft.style != "reducer":
        problem = f"a module of style {draft.style} has a cell for each key, and no other way"
    elif draft.log:
        problem = "a log has no entries to keep apart by key"
    elif draft.retention != Retention():
        problem = "`retention` removes cells, and a whole map is one cell"
    elif draft.state and not isinstance(schemas.resolve(schemas[draft.state]), t.Map):
        problem = f"its state is the map of all keys, but {draft.state} is no map"
    if problem:
        fields.note("cell_mode", "cell_mode", problem, "Leave `cell_mode` out: then each key has a cell.")


def _check_erasable(fields: f.Fields, draft: ModuleDraft) -> None:
    """Refuse what has no cell of its own to erase."""
    problem = ""
    if draft.erasable and draft.style == "enzyme":
        problem = "an enzyme has no cells: what it writes stands in the tree"
    elif draft.erasable and not draft.cell_mode:
        problem = "one cell holds the map of all keys, and a cell is erased as a whole"
    if problem:
        fields.note("erasable", "erasable", problem, "Leave `erasable` out.")


def _events(fields: f.Fields, field: str) -> tuple[str, ...]:
    """The schemas that a module names as its events: one, or a list."""
    if isinstance(fields.get(field), list | tuple):
        return tuple(_listed_events(fields, field))
    found = f.schema(fields, field)
    return () if found is None else (found,)


def _known_event(fields: f.Fields, path: str, given: str) -> str | None:
    found = f.name_of(fields.problems, path, given)
    return found if found is not None and fields.scope.has_schema(path, found) else None


_listed_events: Final = f.distinct(_known_event)


def _key(fields: f.Fields, field: str) -> Schema | None:
    value, path, schemas = fields.get(field), fields.at(field), fields.scope.schemas
    if value is None:
        return None
    try:
        key = t.Ref(str(Name.parse(value))) if isinstance(value, str) else load(value, path)
        schemas.check(key, path)
    except Rejected as error:
        fields.note(field, "key_schema", str(error.fields.get("problem", error)))
        return None
    if isinstance(schemas.resolve(key), t.Option | t.Unit | t.Any):
        fields.note(field, "key_schema", "a key is there and has a type: no option, unit or any")
    return key


def _context(fields: f.Fields, field: str) -> bool:
    value = fields.get(field)
    if value is None or isinstance(value, bool):
        return value is True
    found = f.name(fields, field)
    if found is not None and found not in CONTEXTS:
        fields.note(field, "choice", f"{found} is none of {', '.join(CONTEXTS)}, true, false")
    return found is not None


def _emitted(fields: f.Fields, path: str, given: str) -> str | None:
    kind = KIND_ALIASES.get(given, given)
    kinds = fields.scope.kinds
    if kinds is None:
        return kind if check_kind_name(fields.problems, path, kind) else None
    if kind in kinds:
        return kind
    hint = near(kind, kinds) or "Declare it in the section `effects`."
    fields.problems.add(path, "effect_unknown", f"there is no effect {kind}", hint)
    return None


def _retention(fields: f.Fields, field: str) -> Retention:
    return Retention(**(f.entry(ttl_ns=f.positive, idle_ns=f.positive)(fields, field) or {}))


def _upgrade(fields: f.Fields, field: str) -> str:
    pinned = fields.get("style") in ("workflow", "plan")
    return str(f.choice("pin", "follow", default="pin" if pinned else "follow")(fields, field))


def _cell_mode(fields: f.Fields, field: str) -> bool:
    return fields.get(field) is None or f.flag(fields, field)


def _writes(fields: f.Fields, field: str) -> tuple[str, ...] | None:
    """The subtrees that an enzyme may write; none at all is another thing than no rule."""
    if fields.get(field) is None:
        return None
    if fields.get("style") != "enzyme":
        fields.note(field, "enzyme_only", "only an enzyme writes the tree", "Leave it out.")
    found: tuple[str, ...] = f.distinct(_subtree)(fields, field)
    return found


def _subtree(fields: f.Fields, path: str, given: str) -> str | None:
    if given == "/" or (given.startswith("/") and "" not in given[1:].split("/")):
        return given
    fields.problems.add(path, "tree_path", f"{shown(given)} is no path: it is /seg/seg/...")
    return None


def _slots(fields: f.Fields, field: str) -> dict[str, str]:
    """The grants behind the module's slots; whether they exist is checked when all are known."""
    problems, path, value = fields.problems, fields.at(field), fields.get(field)
    slots: dict[str, str] = {}
    for slot, grant in f.map_of(problems, path, value or {}, "a map of slots to grants").items():
        found = f.text_of(problems, path, slot)
        bound = None if found is None else f.text_of(problems, below(path, found), grant)
        if found is not None and bound is not None:
            slots[found] = bound
    return dict(sorted(slots.items()))


_STYLE: Final[f.Reader] = f.choice("reducer", "workflow", "plan", "fsm", "aggregate", "enzyme")
_MODULE: Final[f.Table] = {
    "kind": _kind, "style": _STYLE, "state": _state, "event": _events, "key": _key, "context": _context,
    "effects_emitted": f.distinct(_emitted), "retention": _retention, "failure": f.choice("halt", "skip"),
    "upgrade": _upgrade, "log": f.flag, "code": f.opaque_map, "cap_slots": _slots,
    "open_max": f.whole(1, OPEN_MAX_MAX, OPEN_MAX_DEFAULT), "writes": _writes, "cell_mode": _cell_mode,
    "erasable": f.flag,
}  # fmt: skip


def check_slots(problems: Problems, drafts: Mapping[str, ModuleDraft], grants: Collection[str]) -> None:
    """Every slot is bound to a grant that exists."""
    for draft in drafts.values():
        for slot, grant in draft.cap_slots.items():
            if grant not in grants:
                hint = near(grant, grants) or "Add it to the section `capabilities`."
                path = below(below(draft.path, "cap_slots"), slot)
                problems.add(path, "grant_unknown", f"there is no grant {shown(grant)}", hint)
