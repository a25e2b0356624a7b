"""From YAML to a `Contract`: fields, names and durations. Whether the graph makes sense is `graph.py`.

The contract may stand under `state_transitions`, beside nothing else, or be the whole file.
"""

from __future__ import annotations

from typing import Final

from cellule.kernel.manifest.problems import near
from cellule.modules.fsm.contract import ANY, Contract, Placed, Start, State, Timeout, Transition, Trigger
from cellule.modules.fsm.document import Part, read_yaml
from cellule.modules.fsm.fields import NAME, data_fields, declared_trigger, duration, names, placed, requests
from cellule.modules.fsm.graph import check_graph
from cellule.modules.fsm.limits import STATES_MAX, TRANSITIONS_MAX

_WRAPPER: Final = "state_transitions"
_ROOT: Final = names(
    "description", "version", "initial_state", "key", "data", "triggers", "start", "states", "transitions",
    "terminal_states", "announce", state_machine_name="state_machine_name", name="state_machine_name",
    events="triggers", initial="initial_state",
)  # fmt: skip
_STATE: Final = names(
    "description", "entry", "exit", "timeout", state_name="state_name", name="state_name",
    entry_effects="entry", on_entry="entry", exit_effects="exit", on_exit="exit",
)  # fmt: skip
_TRANSITION: Final = names(
    "from_state", "to_state", "trigger", "guard", "set", "effects", "description", assign="set",
    **{"from": "from_state", "to": "to_state", "when": "guard"},
)  # fmt: skip
_TIMEOUT: Final = names("after", "at", "trigger")
_START: Final = names("trigger", "set", assign="set")


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
        self._declared: set[str] = set()
        self._data_names: tuple[str, ...] = ()

    def contract(self) -> Contract:
        """The contract; what is wrong is noted."""
        self._declare_states()
        data = data_fields(self.fields.get("data"))
        self._data_names = tuple(data)
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
            if not NAME.fullmatch(name):
                self.problems.add(
                    "field", body["state_name"], f"{name!r} is no name", "Use letters, digits, _ and -."
                )
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
                name, self.states[name].line, self.states[name].description, requests(body.get("entry")),
                requests(body.get("exit")), self._timeout(body.get("timeout")),
            )  # fmt: skip

    def _state(self, part: Part) -> str:
        """The state that a text means, as it was declared."""
        name = part.text()
        found = self._state_names.get(name.upper())
        if found is None and name:
            hint = (
                near(name, self.states)
                or near(name.upper(), self._state_names)
                or f"There are: {', '.join(self.states)}."
            )
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
        after = duration(body["after"]) if "after" in body else None
        at = placed(body["at"]) if "at" in body else None
        return Timeout(self._trigger(body["trigger"], timer=True), part.line, part.field, after, at)

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
            guard = placed(body["guard"]) if "guard" in body else None
            sets, effects = self._sets(body.get("set")), requests(body.get("effects"))
            found += [
                Transition(source, target, trigger, number, each.line, each.field, guard, sets, effects)
                for source in self._sources(body["from_state"], terminal)
            ]
            if len(found) > TRANSITIONS_MAX:
                self.problems.add("field", part, f"it has more than {TRANSITIONS_MAX} transitions")
                break
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
                found[name] = placed(each)
        return found

    # Triggers

    def _declare_triggers(self) -> None:
        part = self.fields.get("triggers")
        for name, each in ({} if part is None else part.map()).items():
            if not NAME.fullmatch(name):
                self.problems.add("field", each, f"{name!r} is no name", "Use letters, digits, _ and -.")
                continue
            if name.upper() in self._trigger_names:
                self.problems.add("field", each, f"the trigger {name} is there already; case does not count")
                continue
            self._trigger_names[name.upper()] = name
            self.triggers[name] = declared_trigger(name, each)
            self._declared.add(name)

    def _trigger(self, part: Part, *, timer: bool = False) -> str:
        name = part.text()
        if not NAME.fullmatch(name):
            if name:
                self.problems.add("field", part, f"{name!r} is no name", "Use letters, digits, _ and -.")
            return name
        found = self._trigger_names.setdefault(name.upper(), name)
        known = self.triggers.get(found)
        if known is None:
            self.triggers[found] = Trigger(found, part.line, is_timer=timer)
        elif timer and found not in self._declared:
            self.triggers[found] = Trigger(found, known.line, is_timer=True)
        return found

    def _start(self) -> Start | None:
        part = self.fields.get("start")
        if part is None:
            return None
        body = part.map(_START) if part.is_map else {"trigger": part}
        if "trigger" not in body:
            self.problems.add("field", part, "`trigger` is missing")
            return None
        return Start(self._trigger(body["trigger"]), part.line, self._sets(body.get("set")))
