"""From YAML to a `Contract`: fields, names and durations. Whether the graph makes sense is `graph.py`.

The contract may stand under `state_transitions`, beside nothing else, or be the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cellule.errors import CelluleError, Rejected
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.problems import near
from cellule.modules.fsm.contract import (
    ANY, Contract, DataField, EffectTemplate, Placed, Start, State, Timeout, Transition, Trigger,
)  # fmt: skip
from cellule.modules.fsm.document import Part, read_yaml
from cellule.modules.fsm.graph import check_graph
from cellule.modules.fsm.limits import FIELDS_MAX, REQUESTS_MAX, STATES_MAX, TRANSITIONS_MAX
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.codec import wire_codec
from cellule.values.schema.document import load

RESERVED: Final = ("state", "visit")
"""Fields of every state; data may not be called so."""

_WRAPPER: Final = "state_transitions"
_NS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_DURATION: Final = re.compile(r"(?:\d+(?:ns|us|ms|s|m|h|d))+")
_DURATION_PART: Final = re.compile(r"(\d+)(ns|us|ms|s|m|h|d)")
_KIND: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def _names(*plain: str, **aliases: str) -> dict[str, str]:
    return {**{name: name for name in plain}, **aliases}


_ROOT: Final = _names(
    "description", "version", "initial_state", "key", "data", "triggers", "start", "states", "transitions",
    "terminal_states", "announce", state_machine_name="state_machine_name", name="state_machine_name",
    events="triggers", initial="initial_state",
)  # fmt: skip
_STATE: Final = _names(
    "description", "entry", "exit", "timeout", state_name="state_name", name="state_name",
    entry_effects="entry", on_entry="entry", exit_effects="exit", on_exit="exit",
)  # fmt: skip
_TRANSITION: Final = _names(
    "from_state", "to_state", "trigger", "guard", "set", "effects", "description", assign="set",
    **{"from": "from_state", "to": "to_state", "when": "guard"},
)  # fmt: skip
_TRIGGER: Final = _names("event", "receipt", "fields", "key", "description", schema="event")
_REQUEST: Final = _names("effect", "params", "key", "slot", kind="effect")
_TIMEOUT: Final = _names("after", "at", "trigger")
_START: Final = _names("trigger", "set", assign="set")


def read_contract(data: bytes, file: str) -> Contract:
    """Read and check a contract; raises `Rejected` with all problems, each with line, field and reason."""
    root = read_yaml(data, file)
    contract = _Reader(root, data, file).contract()
    root.problems.check_none()
    check_graph(contract, root.problems)
    root.problems.check_none()
    return contract


class _Reader:
    """Reads one file."""

    def __init__(self, root: Part, source: bytes, file: str) -> None:
        self.problems = root.problems
        self.source, self.file = source, file
        self.root = root
        top = root.map() if root.is_map else {}
        if _WRAPPER in top:
            self.root = top[_WRAPPER]._replace(field="")
            root.map({_WRAPPER: _WRAPPER})
        self.fields = self.root.map(_ROOT)
        self.states: dict[str, State] = {}
        self.triggers: dict[str, Trigger] = {}
        self._state_names: dict[str, str] = {}
        self._trigger_names: dict[str, str] = {}

    def contract(self) -> Contract:
        """The contract; what is wrong is noted."""
        self._declare_states()
        data = self._data()
        self._declare_triggers()
        terminal = self._terminal()
        transitions = self._transitions(terminal)
        self._read_states()
        initial = self._initial()
        part = self.fields.get("announce")
        return Contract(
            self.file, self.source, self._text("state_machine_name") or "machine", initial,
            self._text("key") or "id", self.states, tuple(transitions), terminal, self.triggers, data,
            self._start(), part is not None and part.flag(),
        )  # fmt: skip

    def _text(self, name: str) -> str:
        part = self.fields.get(name)
        return "" if part is None else part.text()

    def _initial(self) -> str:
        part = self.fields.get("initial_state")
        if part is None:
            return next(iter(self.states), "")
        return self._state(part)

    # States

    def _declare_states(self) -> None:
        self._state_parts: dict[str, dict[str, Part]] = {}
        part = self.fields.get("states")
        if part is None:
            self.problems.add("field", self.root, "`states` is missing", "List the states of the machine.")
            return
        for each in part.items(STATES_MAX, "states"):
            body = each.map(_STATE) if each.is_map else {"state_name": each}
            if "state_name" not in body:
                self.problems.add("field", each, "`state_name` is missing")
                continue
            name = body["state_name"].text()
            if not _NAME.fullmatch(name):
                self.problems.add("field", body["state_name"], f"{name!r} is no name", "Use letters, digits, _ and -.")
            elif name.upper() in self._state_names:
                self.problems.add(
                    "field", body["state_name"], f"the state {name} is there already; case does not count"
                )
            else:
                self._state_names[name.upper()] = name
                self._state_parts[name] = body
                described = body.get("description")
                self.states[name] = State(name, each.line, "" if described is None else described.text())
        if not self.states and not self.problems.found:
            self.problems.add("field", part, "there is no state", "List at least one.")

    def _read_states(self) -> None:
        for name, body in self._state_parts.items():
            self.states[name] = State(
                name, self.states[name].line, self.states[name].description, self._requests(body.get("entry")),
                self._requests(body.get("exit")), self._timeout(body.get("timeout")),
            )  # fmt: skip

    def _state(self, part: Part) -> str:
        """The state that a text means, as it was declared."""
        name = part.text()
        found = self._state_names.get(name.upper())
        if found is None and name:
            hint = near(name.upper(), self._state_names) or f"There are: {', '.join(self.states)}."
            self.problems.add("state_unknown", part, f"there is no state {name}", hint)
        return found or ""

    def _terminal(self) -> frozenset[str]:
        part = self.fields.get("terminal_states")
        if part is None:
            return frozenset()
        return frozenset(self._state(each) for each in part.items(STATES_MAX, "states"))

    def _timeout(self, part: Part | None) -> Timeout | None:
        if part is None:
            return None
        body = part.map(_TIMEOUT)
        if "trigger" not in body or ("after" in body) == ("at" in body):
            self.problems.add("field", part, "a timeout has a `trigger`, and either `after` or `at`")
            return None
        after = self._duration(body["after"]) if "after" in body else None
        at = self._placed(body["at"]) if "at" in body else None
        return Timeout(self._trigger(body["trigger"], timer=True), part.line, part.field, after, at)

    def _duration(self, part: Part) -> int:
        text = part.text()
        if _DURATION.fullmatch(text):
            found = sum(int(count) * _NS[unit] for count, unit in _DURATION_PART.findall(text))
            if 0 < found < 2**62:
                return found
        self.problems.add("field", part, f"{text!r} is no time", "Write 30s, 10m, 24h, 7d or 1h30m.")
        return 1

    # Transitions

    def _transitions(self, terminal: frozenset[str]) -> list[Transition]:
        part = self.fields.get("transitions")
        if part is None:
            return []
        found: list[Transition] = []
        for number, each in enumerate(part.items(TRANSITIONS_MAX, "transitions")):
            body = each.map(_TRANSITION)
            missing = [name for name in ("from_state", "to_state", "trigger") if name not in body]
            if missing:
                self.problems.add("field", each, f"`{missing[0]}` is missing")
                continue
            target, trigger = self._state(body["to_state"]), self._trigger(body["trigger"])
            guard = self._placed(body["guard"]) if "guard" in body else None
            sets, effects = self._sets(body.get("set")), self._requests(body.get("effects"))
            for source in self._sources(body["from_state"], terminal):
                found.append(
                    Transition(source, target, trigger, number, each.line, each.field, guard, sets, effects)
                )
        if len(found) > TRANSITIONS_MAX:
            self.problems.add("field", part, f"it has {len(found)} transitions; at most {TRANSITIONS_MAX}")
        return found

    def _sources(self, part: Part, terminal: frozenset[str]) -> list[str]:
        if part.is_list:
            return [self._state(each) for each in part.items(STATES_MAX, "states")]
        if part.text() == ANY:
            return [name for name in self.states if name not in terminal]
        return [self._state(part)]

    def _sets(self, part: Part | None) -> dict[str, Placed]:
        if part is None:
            return {}
        found: dict[str, Placed] = {}
        for name, each in part.map().items():
            if name not in self._data_names:
                hint = near(name, self._data_names) or f"Declare it: data: {{{name}: int}}."
                self.problems.add("field", each, f"there is no data field {name}", hint)
            else:
                found[name] = self._placed(each)
        return found

    def _requests(self, part: Part | None) -> tuple[EffectTemplate, ...]:
        if part is None:
            return ()
        found = []
        for each in part.items(REQUESTS_MAX, "effects"):
            body = each.map(_REQUEST) if each.is_map else {"effect": each}
            if "effect" not in body:
                self.problems.add("field", each, "`effect` is missing")
                continue
            kind = body["effect"].text()
            if not _KIND.fullmatch(kind):
                hint = "A kind is dotted lower-case text: payments.charge."
                self.problems.add("field", body["effect"], f"{kind!r} is no kind of effect", hint)
            params, key = (self._placed(body[name]) if name in body else None for name in ("params", "key"))
            slot = body["slot"].text() if "slot" in body else None
            found.append(EffectTemplate(kind, each.line, each.field, params, key, slot))
        return tuple(found)

    def _placed(self, part: Part) -> Placed:
        return Placed(part.plain(), part.line, part.field)

    # Triggers

    def _declare_triggers(self) -> None:
        part = self.fields.get("triggers")
        for name, each in ({} if part is None else part.map()).items():
            if not _NAME.fullmatch(name):
                self.problems.add("field", each, f"{name!r} is no name", "Use letters, digits, _ and -.")
                continue
            if name.upper() in self._trigger_names:
                self.problems.add("field", each, f"the trigger {name} is there already; case does not count")
                continue
            self._trigger_names[name.upper()] = name
            self.triggers[name] = self._declared_trigger(name, each)

    def _declared_trigger(self, name: str, part: Part) -> Trigger:
        body = part.map(_TRIGGER) if part.is_map else {"event": part}
        chosen = [each for each in ("event", "receipt", "fields") if each in body]
        if len(chosen) > 1:
            self.problems.add("field", part, f"it has {' and '.join(chosen)}; one of them is enough")
        schema = body["event"].text() if "event" in body else None
        if schema is not None and "/" in schema:
            try:
                Name.parse(schema)
            except CelluleError as error:
                self.problems.add("field", body["event"], str(error))
        receipt = body["receipt"].text() if "receipt" in body else None
        if receipt == TIMER_SET:
            self.problems.add("field", body["receipt"], "timers of a machine are timeouts", "Use `timeout` at a state.")
        fields = self._schemas(body["fields"]) if "fields" in body else None
        key = body["key"].text() if "key" in body else None
        return Trigger(name, part.line, schema, receipt, fields, key)

    def _trigger(self, part: Part, *, timer: bool = False) -> str:
        name = part.text()
        if not _NAME.fullmatch(name):
            if name:
                self.problems.add("field", part, f"{name!r} is no name", "Use letters, digits, _ and -.")
            return name
        found = self._trigger_names.setdefault(name.upper(), name)
        known = self.triggers.get(found)
        if known is None:
            self.triggers[found] = Trigger(found, part.line, is_timer=timer)
        elif timer and known.line != part.line and not self._is_declared(found):
            self.triggers[found] = Trigger(found, known.line, is_timer=True)
        return found

    def _is_declared(self, name: str) -> bool:
        part = self.fields.get("triggers")
        return part is not None and any(each.upper() == name.upper() for each in part.map())

    def _start(self) -> Start | None:
        part = self.fields.get("start")
        if part is None:
            return None
        body = part.map(_START) if part.is_map else {"trigger": part}
        if "trigger" not in body:
            self.problems.add("field", part, "`trigger` is missing")
            return None
        return Start(self._trigger(body["trigger"]), part.line, self._sets(body.get("set")))

    # Data

    def _data(self) -> dict[str, DataField]:
        part = self.fields.get("data")
        found: dict[str, DataField] = {}
        for name, each in ({} if part is None else part.map()).items():
            if name in RESERVED:
                self.problems.add("field", each, f"a data field cannot be called {name}", "Every state has one.")
                continue
            body = each.map() if each.is_map else {}
            typed = body["type"] if "type" in body else each
            schema = self._schema(typed)
            default = body["default"].plain() if "type" in body and "default" in body else None
            if default is not None:
                default = self._fitting(body["default"], schema, default)
            found[name] = DataField(name, schema, default, each.line)
        if len(found) > FIELDS_MAX and part is not None:
            self.problems.add("field", part, f"it has {len(found)} fields; at most {FIELDS_MAX}")
        self._data_names = tuple(found)
        return found

    def _fitting(self, part: Part, schema: t.Schema, value: Any) -> Any:
        try:
            return wire_codec(schema).check(value)
        except CelluleError as error:
            self.problems.add("field", part, f"it does not fit its type: {error}")
            return None

    def _schemas(self, part: Part) -> Mapping[str, t.Schema]:
        fields = part.map()
        if len(fields) > FIELDS_MAX:
            self.problems.add("field", part, f"it has {len(fields)} fields; at most {FIELDS_MAX}")
        return {name: self._schema(each) for name, each in fields.items()}

    def _schema(self, part: Part) -> t.Schema:
        """A schema as documents write it; a word alone means that type: `int` is `{int: {}}`."""
        try:
            return load({part.text(): {}} if not part.is_map else part.plain())
        except Rejected as error:
            hint = "Write a type: text, int, bool, {list: {text: {}}}, {ref: shop/Line@1}."
            self.problems.add("field", part, str(error), hint)
            return t.Any()
