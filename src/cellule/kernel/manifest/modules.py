"""The section `modules`: each entry read into a `ModuleDraft`, whose wiring `wiring.py` then completes.

Here is checked what one entry can show by itself, and that the schemas it names exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest.effects import Kinds, check_kind_name
from cellule.kernel.manifest.fields import KIND_FIELD, Fields, name_of, named_of, text_of
from cellule.kernel.manifest.limits import OPEN_MAX_DEFAULT, OPEN_MAX_MAX
from cellule.kernel.manifest.model import Failure, Kind, Module, Retention, Style, Upgrade
from cellule.kernel.manifest.opaque import opaque_map
from cellule.kernel.manifest.problems import Problems, below, near
from cellule.kernel.manifest.schemas import check_kind, check_own_name
from cellule.kernel.manifest.system import CONTEXTS, LOG
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.document import load, to_document
from cellule.values.schema.fault import shown
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

_FIELDS: Final = (
    KIND_FIELD, "kind", "style", "state", "event", "key", "context", "effects_emitted", "retention",
    "failure", "upgrade", "log", "code", "abi", "cap_slots", "open_max",
)  # fmt: skip
_ALIASES: Final = {"module_kind": "kind", "key_schema": "key", "events": "event"}
_ABI_FIELDS: Final = ("state", "event", "context", "effects_emitted")
_KINDS: Final[tuple[Kind, ...]] = ("workflow", "pure")
_STYLES: Final[tuple[Style, ...]] = ("reducer", "workflow", "plan", "fsm", "aggregate", "enzyme")
_FAILURES: Final[tuple[Failure, ...]] = ("halt", "skip")
_UPGRADES: Final[tuple[Upgrade, ...]] = ("pin", "follow")
_PINNED_STYLES: Final = ("workflow", "plan")
_LOG_STATE: Final = "log"


@dataclass(slots=True)
class ModuleDraft:
    """A module as read, before its subscriptions are known."""

    path: str
    name: str
    base: str
    kind: Kind
    style: Style
    state: str
    declared: tuple[str, ...]  # the event schemas it names itself; none = whatever is subscribed to it
    key_path: str
    key: Schema | None
    unkeyed: bool  # `key` is given as null: it has no key whatever its subscriptions say
    context: bool
    effects_emitted: tuple[str, ...]
    retention: Retention
    failure: Failure
    upgrade: Upgrade
    log: bool
    code: Mapping[str, Any]
    cap_slots: Mapping[str, str] = field(default_factory=dict)
    open_max: int = OPEN_MAX_DEFAULT
    events: dict[str, str | None] = field(default_factory=dict)
    wrapped: str | None = None

    def module(self) -> Module:
        """The finished module."""
        return Module(
            self.name, self.base, self.kind, self.style, self.state, self.events, self.wrapped, self.key,
            self.context, self.effects_emitted, self.retention, self.failure, self.upgrade, self.log,
            self.code, self.cap_slots, self.open_max,
        )  # fmt: skip

    def normal(self) -> dict[str, Any]:
        """The entry of the normal form: choices are written out, what is empty or false is left out."""
        retention = {"ttl_ns": self.retention.ttl_ns, "idle_ns": self.retention.idle_ns}
        parts = {
            "key": None if self.key is None else to_document(self.key),
            "event": self.declared[0] if len(self.declared) == 1 else list(self.declared),
            "context": self.context,
            "effects_emitted": list(self.effects_emitted),
            "retention": {name: value for name, value in retention.items() if value is not None},
            "log": self.log,
            "code": self.code,
            "cap_slots": dict(self.cap_slots),
            "open_max": None if self.open_max == OPEN_MAX_DEFAULT else self.open_max,
        }
        return {
            "kind": self.kind, "style": self.style, "state": self.state, "failure": self.failure,
            "upgrade": self.upgrade, **{name: part for name, part in parts.items() if part},
        }  # fmt: skip


def load_modules(
    problems: Problems, path: str, section: object, schemas: Schemas, kinds: Kinds | None = None
) -> dict[str, ModuleDraft]:
    """Load all modules of the section, by base name; without `kinds` they may list any effect."""
    drafts: dict[str, ModuleDraft] = {}
    for name, place, body in named_of(problems, path, section):
        if not check_own_name(problems, place, name):
            continue
        base = str(Name.parse(name).base)
        if base in drafts:
            problems.add(
                place, "module_versions", f"{base} stands here as {drafts[base].name} and as {name}",
                "A manifest holds one version of a module; older ones run from the eras before it.",
            )  # fmt: skip
            continue
        drafts[base] = _ModuleReader(problems, place, body, schemas, kinds).draft(name, base)
    return drafts


class _ModuleReader:
    """Reads one entry."""

    def __init__(
        self, problems: Problems, path: str, body: object, schemas: Schemas, kinds: Kinds | None
    ) -> None:
        self.problems = problems
        self.schemas = schemas
        self.kinds = kinds
        self.fields = Fields(problems, path, body, _FIELDS, _ALIASES)
        check_kind(self.fields, "defmodule")
        if self.fields.get("abi") is not None:
            self._absorb_abi()

    def _absorb_abi(self) -> None:
        """Take the fields of `abi.reducer` as if they stood beside `abi`."""
        aliases = {"workflow": "reducer", "pure": "reducer"}
        abi = Fields(self.problems, self.fields.at("abi"), self.fields.get("abi"), ("reducer",), aliases)
        if abi.get("reducer") is not None:
            self.fields.absorb(
                Fields(self.problems, abi.at("reducer"), abi.get("reducer"), _ABI_FIELDS, {"events": "event"})
            )

    def draft(self, name: str, base: str) -> ModuleDraft:
        fields = self.fields
        kind = self._kind()
        style = fields.choice("style", _STYLES, "reducer")
        state, log = self._state()
        default: Upgrade = "pin" if style in _PINNED_STYLES else "follow"
        return ModuleDraft(
            path=fields.path, name=name, base=base, kind=kind, style=style, state=state,
            declared=self._declared(), key_path=fields.at("key"), key=self._key(),
            unkeyed=fields.has("key") and fields.get("key") is None,
            context=self._context(), effects_emitted=self._effects(kind), retention=self._retention(),
            failure=fields.choice("failure", _FAILURES, "halt"),
            upgrade=fields.choice("upgrade", _UPGRADES, default),
            log=log, code=opaque_map(self.problems, fields.at("code"), fields.get("code")),
            cap_slots=self._slots(),
            open_max=fields.whole("open_max", 1, OPEN_MAX_MAX, OPEN_MAX_DEFAULT),
        )  # fmt: skip

    def _kind(self) -> Kind:
        if self.fields.get("kind") == "reducer":
            return "workflow"
        return self.fields.choice("kind", _KINDS, "workflow")

    def _state(self) -> tuple[str, bool]:
        """The state's schema, and whether it is a log."""
        fields = self.fields
        log = fields.flag("log")
        if fields.get("state") is None:
            if fields.is_map:
                self.problems.add(fields.path, "state_missing", "the module has no `state`: name its schema")
            return "", log
        if fields.get("state") == _LOG_STATE:
            return LOG, True
        name = fields.name("state")
        if name is None or not self._known(fields.at("state"), name):
            return "", log
        if log and not isinstance(self.schemas.resolve(self.schemas[name]), t.List | t.Any):
            self.problems.add(
                fields.at("state"), "log_state", f"a log's state is a list of entries, but {name} is none",
                'Name a list, or write "state": "log" for a list of anything.',
            )  # fmt: skip
        return name, log

    def _known(self, path: str, name: str) -> bool:
        return is_known_schema(self.problems, path, name, self.schemas)

    def _declared(self) -> tuple[str, ...]:
        fields = self.fields
        value = fields.get("event")
        if not isinstance(value, list | tuple):
            name = fields.name("event")
            return (name,) if name is not None and self._known(fields.at("event"), name) else ()
        names: list[str] = []
        for path, item in fields.items("event"):
            name = name_of(self.problems, path, item)
            if name is None or not self._known(path, name):
                continue
            if name in names:
                self.problems.add(path, "duplicate", f"{name} is listed twice")
            names.append(name)
        return tuple(sorted(names))

    def _key(self) -> Schema | None:
        value, path = self.fields.get("key"), self.fields.at("key")
        if value is None:
            return None
        try:
            key = t.Ref(str(Name.parse(value))) if isinstance(value, str) else load(value, path)
            self.schemas.check(key, path)
        except Rejected as error:
            self.problems.add(path, "key_schema", str(error.fields.get("problem", error)))
            return None
        if isinstance(self.schemas.resolve(key), t.Option | t.Unit | t.Any):
            self.problems.add(path, "key_schema", "a key is there and has a type: no option, unit or any")
        return key

    def _context(self) -> bool:
        value = self.fields.get("context")
        if value is None or isinstance(value, bool):
            return value is True
        name = self.fields.name("context")
        if name is not None and name not in CONTEXTS:
            self.problems.add(
                self.fields.at("context"), "choice", f"{name} is none of {', '.join(CONTEXTS)}, true, false"
            )
        return name is not None

    def _effects(self, kind: Kind) -> tuple[str, ...]:
        kinds: list[str] = []
        for path, item in self.fields.items("effects_emitted"):
            text = text_of(self.problems, path, item)
            if text in kinds:
                self.problems.add(path, "duplicate", f"{text} is listed twice")
            elif text is not None and self._is_kind(path, text):
                kinds.append(text)
        if kinds and kind == "pure":
            self.problems.add(
                self.fields.at("effects_emitted"), "pure_effects", "a pure module emits no effects",
                "Leave the list out, or make the module a workflow.",
            )  # fmt: skip
        return tuple(sorted(kinds))

    def _is_kind(self, path: str, kind: str) -> bool:
        if self.kinds is None:
            return check_kind_name(self.problems, path, kind)
        if kind in self.kinds:
            return True
        hint = near(kind, self.kinds) or "Declare it in the section `effects`."
        self.problems.add(path, "effect_unknown", f"there is no effect {kind}", hint)
        return False

    def _slots(self) -> dict[str, str]:
        """The grants behind the module's slots; whether they exist is checked when all are known."""
        value, path = self.fields.get("cap_slots"), self.fields.at("cap_slots")
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problems.add(path, "type", f"a map of slots to grants is needed here, not {shown(value)}")
            return {}
        slots: dict[str, str] = {}
        for slot, grant in value.items():
            name = text_of(self.problems, path, slot)
            bound = None if name is None else text_of(self.problems, below(path, name), grant)
            if name is not None and bound is not None:
                slots[name] = bound
        return dict(sorted(slots.items()))

    def _retention(self) -> Retention:
        value = self.fields.get("retention")
        if value is None:
            return Retention()
        fields = Fields(self.problems, self.fields.at("retention"), value, ("ttl_ns", "idle_ns"))
        return Retention(fields.positive("ttl_ns"), fields.positive("idle_ns"))


def check_slots(problems: Problems, drafts: Mapping[str, ModuleDraft], grants: Collection[str]) -> None:
    """Every slot is bound to a grant that exists."""
    for draft in drafts.values():
        for slot, grant in draft.cap_slots.items():
            if grant not in grants:
                hint = near(grant, grants) or "Add it to the section `capabilities`."
                path = below(below(draft.path, "cap_slots"), slot)
                problems.add(path, "grant_unknown", f"there is no grant {shown(grant)}", hint)


def is_known_schema(problems: Problems, path: str, name: str, schemas: Schemas) -> bool:
    """Tell whether the manifest knows the schema; if not, note the problem."""
    if name in schemas:
        return True
    problems.add(path, "schema_unknown", f"there is no schema {name}", near(name, schemas))
    return False
